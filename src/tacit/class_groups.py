"""mAP of a run's classes in groups, from the rarest to the most annotated in its training labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .metrics.groups import ClassGroup, grouped_map
from .metrics.inputs import MetricError
from .run import RunDirectory


def groups_of_run(run: Path, classes: Sequence[str], per_class: Sequence[float], groups: int) -> list[ClassGroup]:
    """AP per class of any split, grouped by how many labels, present or absent, the run was given of each class."""
    result = RunDirectory(run).result()
    known = result["counts"].get("train", {})
    if "observed_present" not in known:
        raise MetricError(f"{run} does not say how many training labels each class has; groups need that. Train again.")
    often = np.add(known["observed_present"], known["observed_absent"])
    column = {name: at for at, name in enumerate(result["classes"])}
    return grouped_map(per_class, often[[column[name] for name in classes]], groups)
