"""Whether probabilities mean what they say: reliability curves, calibration errors and the Brier score.

Only known cells count; a class without a single known cell has no value (NaN) and is left out of means over classes. A
class whose known cells are all positive or all negative does count: a probability can be right or wrong about it.

ECE   sum over bins of (share of cells) x |mean probability - share of positives| (Naeini et al. 2015, Guo et al. 2017)
MCE   the largest such gap of a bin that has cells
Brier mean of (probability - label)^2, the label being 0 or 1

Two kinds of bins. "width": equal intervals of [0, 1], right-closed as in scikit-learn; where most cells are negative
nearly all of them fall into the lowest bin, so that ECE says little of the positives. "mass": the quantiles of the
scores, so that every bin has about as many cells (equal scores stay together).
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..labels import PRESENT, UNKNOWN, States
from .inputs import MetricError, Scores, checked, choice

Binning = Literal["width", "mass"]
Vector = NDArray[np.float64]
BINS = 15  # as in Guo et al. 2017


class Reliability(NamedTuple):
    """Per bin [B]: its edges [B + 1], mean probability, share of positives (both NaN in an empty bin), known cells."""

    edges: Vector
    confidence: Vector
    observed: Vector
    cells: NDArray[np.int64]


class Calibration(NamedTuple):
    """Fractions. `ECE`, `MCE` and `brier` pool all known cells; `class_*` are means of the `per_class_*` [C]."""

    ECE: float
    MCE: float
    brier: float
    class_ECE: float
    class_MCE: float
    class_brier: float
    per_class_ECE: Vector
    per_class_MCE: Vector
    per_class_brier: Vector
    unknown: tuple[int, ...]  # classes without a known cell


class _Tally(NamedTuple):
    """Sums of the known cells in each bin [B]."""

    probability: Vector
    positive: NDArray[np.int64]
    cells: NDArray[np.int64]


def reliability(
    probabilities: ArrayLike, labels: ArrayLike, *, bins: int = BINS, binning: Binning = "width"
) -> Reliability:
    """The reliability curve of all known cells together."""
    scores, states = _probabilities(probabilities, labels, bins, binning)
    edges = _edges(scores[states != UNKNOWN], bins, binning)
    tally = _pooled(scores, states, edges)
    return Reliability(edges, *_means(tally), tally.cells)


def calibration(
    probabilities: ArrayLike, labels: ArrayLike, *, bins: int = BINS, binning: Binning = "width"
) -> Calibration:
    """Calibration errors and Brier score, pooled and per class. Bins of equal mass are drawn anew for each class."""
    scores, states = _probabilities(probabilities, labels, bins, binning)
    each = [_of_cells(*known_column(scores, states, c), bins, binning) for c in range(scores.shape[1])]
    found, cells = np.array([errors for errors, _ in each]), np.array([count for _, count in each])
    has = cells > 0
    means = found[has].mean(axis=0) if has.any() else np.full(3, np.nan)
    brier = np.average(found[has, 2], weights=cells[has]) if has.any() else np.nan
    ece, mce = _errors(_pooled(scores, states, _edges(scores[states != UNKNOWN], bins, binning)))
    return Calibration(
        ECE=ece,
        MCE=mce,
        brier=float(brier),
        class_ECE=float(means[0]),
        class_MCE=float(means[1]),
        class_brier=float(means[2]),
        per_class_ECE=found[:, 0],
        per_class_MCE=found[:, 1],
        per_class_brier=found[:, 2],
        unknown=tuple(np.flatnonzero(~has).tolist()),
    )


def _of_cells(
    values: NDArray[Any], positive: NDArray[np.bool_], bins: int, binning: Binning
) -> tuple[tuple[float, float, float], int]:
    """((ECE, MCE, Brier), number of cells); NaN without a cell."""
    if not len(values):
        return (float("nan"), float("nan"), float("nan")), 0
    brier = float(np.square(values.astype(np.float64) - positive).mean())
    return (*_errors(_tally(values, positive, _edges(values, bins, binning))), brier), len(values)


def known_column(scores: Scores, states: States, column: int) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The scores of one class's known cells, and which of them are positive."""
    labels = states[:, column]
    known = labels != UNKNOWN
    return scores[known, column], labels[known] == PRESENT


def _probabilities(probabilities: ArrayLike, labels: ArrayLike, bins: int, binning: str) -> tuple[Scores, States]:
    choice("binning", binning, get_args(Binning))
    if bins < 1:
        raise MetricError(f"bins={bins}: a reliability curve needs at least one bin")
    return checked_probabilities(probabilities, labels)


def checked_probabilities(probabilities: ArrayLike, labels: ArrayLike) -> tuple[Scores, States]:
    """As `checked`, and every score in [0, 1]."""
    scores, states = checked(probabilities, labels)
    low, high = scores.min(), scores.max()
    if low < 0 or high > 1:
        raise MetricError(
            f"scores from {low:g} to {high:g} are not probabilities, and only those can be calibrated or given a "
            "threshold between 0 and 1; put logits through a sigmoid first"
        )
    return scores, states


def _edges(known: NDArray[Any], bins: int, binning: Binning) -> Vector:
    """B + 1 edges; those of equal mass are quantiles of the known scores, and coincide where many scores are equal."""
    shares = np.linspace(0, 1, bins + 1)
    if binning == "width" or not len(known):
        return shares
    found: Vector = np.quantile(known.astype(np.float64), shares)
    return found


def _pooled(scores: Scores, states: States, edges: Vector) -> _Tally:
    """Class after class, so that nothing larger than a column is copied."""
    tallies = [_tally(*known_column(scores, states, c), edges) for c in range(scores.shape[1])]
    return _Tally(
        np.sum([tally.probability for tally in tallies], axis=0),
        np.sum([tally.positive for tally in tallies], axis=0),
        np.sum([tally.cells for tally in tallies], axis=0),
    )


def _tally(values: NDArray[Any], positive: NDArray[np.bool_], edges: Vector) -> _Tally:
    exact, bins = values.astype(np.float64), len(edges) - 1
    place = np.searchsorted(edges[1:-1], exact)
    probability: Vector = np.bincount(place, exact, bins).astype(np.float64)
    return _Tally(probability, np.bincount(place[positive], minlength=bins), np.bincount(place, minlength=bins))


def _means(tally: _Tally) -> tuple[Vector, Vector]:
    """Mean probability and share of positives per bin."""
    undefined = np.full(len(tally.cells), np.nan)
    filled = tally.cells > 0
    return (
        np.divide(tally.probability, tally.cells, out=undefined.copy(), where=filled),
        np.divide(tally.positive, tally.cells, out=undefined, where=filled),
    )


def _errors(tally: _Tally) -> tuple[float, float]:
    """(ECE, MCE); NaN without a cell."""
    filled = tally.cells > 0
    if not filled.any():
        return float("nan"), float("nan")
    confidence, observed = _means(tally)
    gaps, share = np.abs(confidence - observed)[filled], tally.cells[filled] / tally.cells.sum()
    return float((gaps * share).sum()), float(gaps.max())
