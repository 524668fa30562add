"""Groups of classes by how often they are annotated, as results on Open Images are printed (G1 the rarest … G5)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .inputs import MetricError


class ClassGroup(NamedTuple):
    """Some classes, how often the rarest and the most frequent of them are annotated, and their mean AP."""

    name: str
    classes: NDArray[np.int64]
    fewest: int
    most: int
    scored: int  # classes that have an AP
    mAP: float  # over these; NaN where there are none


def frequency_groups(annotations: ArrayLike, groups: int = 5) -> tuple[NDArray[np.int64], ...]:
    """Classes sorted by increasing number of training annotations (equals in class order), cut into `groups` of equal
    size; where that does not come out even, the first ones have a class more."""
    often = np.asarray(annotations)
    if not 1 <= groups <= len(often):
        raise MetricError(f"{len(often)} classes cannot be put into {groups} groups; use 1 to {len(often)}")
    return tuple(np.array_split(np.argsort(often, kind="stable").astype(np.int64), groups))


def grouped_map(per_class: ArrayLike, annotations: ArrayLike, groups: int = 5) -> list[ClassGroup]:
    """mAP of each group, from AP per class (NaN: cannot be scored, left out) and training annotations per class."""
    area, often = np.asarray(per_class, np.float64), np.asarray(annotations, np.int64)
    if area.shape != often.shape:
        raise MetricError(f"AP of {len(area)} classes and annotations of {len(often)} do not pair up")
    found = []
    for number, classes in enumerate(frequency_groups(often, groups), 1):
        scored = area[classes][~np.isnan(area[classes])]
        mean = float(scored.mean()) if len(scored) else float("nan")
        fewest, most = int(often[classes].min()), int(often[classes].max())
        found.append(ClassGroup(f"G{number}", classes, fewest, most, len(scored), mean))
    return found
