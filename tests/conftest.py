"""Shared fixtures: golden numbers, and the real data that lies beside the project where it is present."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# A busy machine is no failure: what an example costs is never asserted.
settings.register_profile("house", deadline=None)
settings.load_profile("house")

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="session")
def golden_single_positive() -> dict[str, Any]:
    return json.loads((GOLDEN / "single_positive.json").read_text())


@pytest.fixture(scope="session")
def golden_partial_labels() -> dict[str, Any]:
    """Vectors by name."""
    vectors = json.loads((GOLDEN / "partial_labels.json").read_text())["vectors"]
    return vectors if isinstance(vectors, dict) else {v["name"]: v for v in vectors}


@pytest.fixture(scope="session")
def golden_semi_supervised() -> dict[str, Any]:
    return json.loads((GOLDEN / "semi_supervised.json").read_text())["vectors"]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with real images and labels; a test that needs it skips where it is absent."""
    root = Path(os.environ.get("TACIT_SHARED_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
    if not root.is_dir():
        pytest.skip(f"no shared data at {root}")
    return root
