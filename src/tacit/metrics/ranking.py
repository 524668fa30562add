"""Average precision per class and its mean over classes, from raw scores and masked labels.

Three numbers called "AP" circulate in this field; each is a named variant here:

grouped       area under the precision-recall steps, equal scores forming one threshold: scikit-learn's
              `average_precision_score`, and the only one that does not depend on the order of rows. The default.
interpolated  precision replaced by the best precision at any recall at least as high (PASCAL VOC 2010-2012; the number
              HCP, SST and SARB select on and report). Never below "grouped". Equal scores form one threshold here;
              the published program separates them by row order.
asl           precision at each positive's rank, ties separated by order (a reversed ascending sort: the later row
              first), divided by (positives + 1e-8): published by ASL and copied by PU-MLC, DualCoOp, SPLC, CSL. Their
              sort is unstable, so beyond 16 rows their order inside a tie is not defined; ours is stable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..labels import ABSENT, PRESENT, UNKNOWN, States
from .inputs import Scores, checked, choice

Variant = Literal["grouped", "interpolated", "asl"]
Unscored = Literal["nan", "zero"]
Vector = NDArray[np.float64]
Ranks = NDArray[np.intp]
Array = NDArray[Any]

_CELLS_PER_BLOCK = 1 << 20  # classes are transposed and sorted in blocks of this many cells, to stay in the cache
_ROWS_PER_TILE = 512  # a transposition in tiles of this height reads and writes whole cache lines


class MeanAP(NamedTuple):
    """mAP as a fraction, AP per class [C], and the classes that lack a known positive or a known negative."""

    value: float
    per_class: Vector
    unscored: tuple[int, ...]


def scoreable(labels: States) -> NDArray[np.bool_]:
    """Classes [C] with at least one known positive and one known negative: only these have a ranking to score."""
    found: NDArray[np.bool_] = (labels == PRESENT).any(axis=0) & (labels == ABSENT).any(axis=0)
    return found


def average_precision(
    scores: ArrayLike, labels: ArrayLike, *, variant: Variant = "grouped", empty: Unscored = "nan"
) -> Vector:
    """AP per class, float64 [C], over the cells that are known.

    A class that is not `scoreable` is NaN under `empty="nan"`. Under `empty="zero"` it follows the published programs
    (and scikit-learn): 0 without a known positive, and the formula's own value (1, or 1 - 1e-8 / P for "asl") without
    a known negative.
    """
    choice("variant", variant, get_args(Variant))
    choice("empty", empty, get_args(Unscored))
    values, states = checked(scores, labels)
    out = np.full(values.shape[1], np.nan)
    classes, area = _VARIANTS[variant]
    for index, (column, found) in enumerate(classes(values, states)):
        if len(found) == 0:
            out[index] = 0.0 if empty == "zero" else np.nan
        elif len(found) < len(column) or empty == "zero":
            out[index] = area(column, found)
    return out


def mean_average_precision(
    scores: ArrayLike, labels: ArrayLike, *, variant: Variant = "grouped", empty: Unscored = "nan"
) -> MeanAP:
    """The mean of `average_precision` over classes, and which classes cannot be scored.

    Under `empty="nan"` these are left out of the mean (which is NaN when none remains); under `empty="zero"` they are
    counted with the published value and still listed.
    """
    per_class = average_precision(scores, labels, variant=variant, empty=empty)
    missing = np.isnan(per_class) if empty == "nan" else ~scoreable(np.asarray(labels))
    counted = per_class[~np.isnan(per_class)]
    value = float(counted.mean()) if len(counted) else float("nan")
    return MeanAP(value, per_class, tuple(np.flatnonzero(missing).tolist()))


def _columns(scores: Scores, states: States) -> Iterator[tuple[Array, Array]]:
    """Per class: its known scores and the scores of its positives, in buffers the receiver may sort in place."""
    images, classes = scores.shape
    found, bounds = _positives(scores, states)
    width = min(classes, max(1, _CELLS_PER_BLOCK // images))
    values, known = np.empty((width, images), scores.dtype), np.empty((width, images), np.bool_)
    complete = bool(states.all())  # UNKNOWN is 0
    for first in range(0, classes, width):
        block = slice(first, min(first + width, classes))
        size = block.stop - block.start
        for row in range(0, images, _ROWS_PER_TILE):
            tile = slice(row, row + _ROWS_PER_TILE)
            values[:size, tile] = scores[tile, block].T
            if not complete:
                np.not_equal(states[tile, block].T, UNKNOWN, out=known[:size, tile])
        for offset in range(size):
            column = values[offset] if complete else values[offset].compress(known[offset])
            yield column, found[bounds[first + offset] : bounds[first + offset + 1]]


def _positives(scores: Scores, states: States) -> tuple[Array, list[int]]:
    """Scores of all positives, class after class, and where each class begins (C + 1 bounds)."""
    classes = scores.shape[1]
    cells = np.flatnonzero(states == PRESENT)
    owner = cells % classes
    order = np.argsort(owner.astype(np.min_scalar_type(classes)), kind="stable")  # up to 16 bits: a radix sort
    ends = np.bincount(owner, minlength=classes).cumsum()
    return scores.ravel()[cells[order]], [0, *ends.tolist()]


def _thresholds(column: Array, found: Array) -> tuple[Ranks, Ranks, Ranks]:
    """Per distinct score of a positive, ascending: positives at it, positives at or above, everything at or above.

    One sort of the column and a binary search per threshold; no argsort, so the sort runs on bare numbers (SIMD).
    """
    found.sort()
    column.sort()
    new = np.empty(len(found), np.bool_)
    new[0] = True
    np.not_equal(found[1:], found[:-1], out=new[1:])
    starts = new.nonzero()[0]
    hits = len(found) - starts
    here = hits.copy()
    here[:-1] -= hits[1:]
    return here, hits, len(column) - column.searchsorted(found[starts])


def _grouped(column: Array, found: Array) -> float:
    here, hits, flagged = _thresholds(column, found)
    return float((here * hits / flagged).sum() / len(found))


def _interpolated(column: Array, found: Array) -> float:
    here, hits, flagged = _thresholds(column, found)
    return float((here * np.maximum.accumulate(hits / flagged)).sum() / len(found))


def _columns_by_order(scores: Scores, states: States) -> Iterator[tuple[Array, Array]]:
    """Per class: its known scores, falling with ties in reversed row order, and the ranks (from 1) of its positives."""
    for values, labels in zip(scores.T, states.T, strict=True):
        column, positive = values[labels != UNKNOWN], labels[labels != UNKNOWN] == PRESENT
        order = np.argsort(column, kind="stable")[::-1]
        yield column[order], np.flatnonzero(positive[order]) + 1


def _by_order(column: Array, ranks: Array) -> float:
    return float((np.arange(1, len(ranks) + 1) / ranks).sum() / (len(ranks) + 1e-8))


_VARIANTS: dict[
    str, tuple[Callable[[Scores, States], Iterator[tuple[Array, Array]]], Callable[[Array, Array], float]]
] = {
    "grouped": (_columns, _grouped),
    "interpolated": (_columns, _interpolated),
    "asl": (_columns_by_order, _by_order),
}
