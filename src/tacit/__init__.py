"""Tacit: multi-label image classifiers when most labels were never written down.

Public names are imported lazily, so that `import tacit` and `tacit --help` do not load torch.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Labels": "labels",
    "LabelError": "labels",
    "PRESENT": "labels",
    "UNKNOWN": "labels",
    "ABSENT": "labels",
    "UserError": "errors",
    "Source": "data.source",
    "Split": "data.source",
    "load_source": "data.source",
    "Method": "methods.base",
    "Batch": "methods.base",
    "Clock": "methods.base",
    "Stage": "methods.base",
    "Part": "methods.base",
    "Model": "model",
    "ModelError": "model",
}

__all__ = sorted([*_HOME, "__version__"])


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"tacit.{_HOME[name]}"), name)
    raise AttributeError(f"module 'tacit' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
