"""How far apart the scores of a class's positives and negatives lie, whatever the threshold.

The distance is Wasserstein-1 between the two empirical distributions, W1 = integral of |F_pos - F_neg|: how far the
scores of one would have to move, on average, to become those of the other. Of probabilities it lies in [0, 1]; 1 means
all positives at one end and all negatives at the other. It is the measure of distinguishability of "Acknowledging the
Unknown" (Zhou et al., ECCV 2022). Unlike AP it depends on the scale: halving every score halves it and leaves every
ranking as it is.

Unknown cells are masked. To look at some cells only, give `cells`, a boolean matrix of those that count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..labels import ABSENT, PRESENT, UNKNOWN, States
from .inputs import MetricError, Scores, checked
from .ranking import scoreable

Vector = NDArray[np.float64]
Cells = NDArray[np.bool_]
_CELLS_PER_BLOCK = 1 << 20  # classes are sorted in blocks of this many cells, so that nothing of the size N x C is made


class Shares(NamedTuple):
    """Of the `classes` in which both runs have a distance: counts of where the first is larger, smaller, equal."""

    larger: int
    smaller: int
    equal: int

    @property
    def classes(self) -> int:
        return self.larger + self.smaller + self.equal

    @property
    def larger_share(self) -> float:
        """NaN where there is no class to compare."""
        return self.larger / self.classes if self.classes else float("nan")


class Densities(NamedTuple):
    """Cells per bin [B] of the positives and of the negatives of one class; bins are equal intervals of [0, 1]."""

    positives: NDArray[np.int64]
    negatives: NDArray[np.int64]

    @property
    def edges(self) -> Vector:
        return np.linspace(0, 1, len(self.positives) + 1)

    @property
    def shares(self) -> tuple[Vector, Vector]:
        """Each side's cells as shares of its sum (zeros where it has none); density is share x bins."""
        both = (self.positives, self.negatives)
        found = [side / max(1, int(side.sum())) for side in both]
        return found[0], found[1]

    def plus(self, other: Densities) -> Densities:
        """Both counted together, as over seeds."""
        return Densities(self.positives + other.positives, self.negatives + other.negatives)


def wasserstein(scores: ArrayLike, labels: ArrayLike, *, cells: ArrayLike | None = None) -> Vector:
    """W1 per class [C], float64; NaN for a class without a counted positive or without a counted negative."""
    values, states = _given(scores, labels, cells)
    if not np.isfinite(values).all():
        raise MetricError("a distance between infinite scores is not a number; give probabilities, or finite logits")
    apart = np.concatenate([_distances(rows, signs) for rows, signs in _blocks(values, states)])
    apart[~scoreable(states)] = np.nan
    return apart


def compare_separation(first: ArrayLike, second: ArrayLike) -> Shares:
    """In how many classes one run separates better than another; ties are counted apart, NaN on either side not."""
    one, other = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if one.shape != other.shape or one.ndim != 1:
        raise MetricError(f"distances of {one.shape} and {other.shape} classes: give two vectors of one length")
    both = ~(np.isnan(one) | np.isnan(other))
    gap = one[both] - other[both]
    return Shares(int((gap > 0).sum()), int((gap < 0).sum()), int((gap == 0).sum()))


def densities(
    scores: ArrayLike, labels: ArrayLike, column: int, *, bins: int = 40, cells: ArrayLike | None = None
) -> Densities:
    """Where the probabilities of one class's positives and negatives lie; 1 belongs to the last bin."""
    if bins < 1:
        raise MetricError(f"bins={bins}: a histogram needs at least one")
    values, states = np.asarray(scores), np.asarray(labels)
    if not 0 <= column < values.shape[-1]:
        raise MetricError(f"there is no class {column} in scores of {values.shape[-1]} classes")
    one = slice(column, column + 1)
    mask = None if cells is None else np.asarray(cells)[:, one]
    probabilities, known = _given(values[:, one], states[:, one], mask)
    if probabilities.min() < 0 or probabilities.max() > 1:
        raise MetricError(
            f"probabilities lie in [0, 1]; class {column} has scores from {probabilities.min():g} to "
            f"{probabilities.max():g}"
        )
    places = np.minimum((probabilities * bins).astype(np.int64), bins - 1)
    return Densities(*(np.bincount(places[known == state], minlength=bins) for state in (PRESENT, ABSENT)))


def _given(scores: ArrayLike, labels: ArrayLike, cells: ArrayLike | None) -> tuple[Scores, States]:
    """Checked scores and states; cells that do not count have become unknown."""
    values, states = checked(scores, labels)
    if cells is None:
        return values, states
    mask = np.asarray(cells)
    if mask.shape != states.shape or mask.dtype != np.bool_:
        raise MetricError(f"cells {mask.dtype}{list(mask.shape)}: give a boolean matrix like the labels {states.shape}")
    return values, np.where(mask, states, UNKNOWN).astype(np.int8)


def _blocks(values: Scores, states: States) -> Iterator[tuple[Scores, States]]:
    """Some classes at a time, [classes, images], contiguous."""
    images, classes = values.shape
    width = max(1, _CELLS_PER_BLOCK // images)
    for first in range(0, classes, width):
        block = slice(first, first + width)
        yield np.ascontiguousarray(values[:, block].T), np.ascontiguousarray(states[:, block].T)


def _distances(values: Scores, states: States) -> Vector:
    """W1 of each row: along its sorted scores, |F_pos - F_neg| times the distance to the next one.

    An unknown cell is a step of no height, and equal scores are steps of no width: neither adds anything.
    """
    order = np.argsort(values, axis=1)
    along = np.take_along_axis(values, order, axis=1).astype(np.float64)
    signs = np.take_along_axis(states, order, axis=1)
    gap = _distribution(signs == PRESENT) - _distribution(signs == ABSENT)
    area: Vector = (np.abs(gap[:, :-1]) * np.diff(along, axis=1)).sum(axis=1)
    return area


def _distribution(members: Cells) -> Vector:
    """The empirical distribution function of each row's members at each place."""
    total = members.sum(axis=1, keepdims=True)
    share: Vector = np.cumsum(members, axis=1) / np.maximum(total, 1)
    return share
