"""The threshold that labels like best: one for all classes, or one per class.

Candidates are the midpoints between neighbouring distinct scores of known cells (and between 0 and the lowest, where
everything is called present): between them no decision changes. Whatever scores equally well, the candidate nearest to
0.5 wins, then the lower one. A sort and cumulative sums give the value at every candidate at once.

A threshold chosen on the labels it is then judged by is an oracle: choose on validation, judge on test. The published
search of 99 thresholds is such an oracle (`grid_threshold`), here for comparison only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..labels import PRESENT, UNKNOWN, States
from .calibration import checked_probabilities, known_column
from .decisions import DecisionCounts, EmptyClass, scores_of_counts
from .inputs import MetricError, Scores, choice
from .ranking import scoreable

Metric = Literal["OF1", "CF1"]
Vector = NDArray[np.float64]
GRID = np.arange(1, 100) / 100  # thresholds that PU-MLC tries
_EQUAL = 1e-9  # values of CF1 closer than this are equal: running sums of fractions round


class Threshold(NamedTuple):
    """A threshold for all classes, and the metric's value on the labels it was chosen on."""

    threshold: float
    value: float


class ClassThresholds(NamedTuple):
    """Thresholds [C] and the F1 [C] of each on the labels it was chosen on; NaN for the classes in `fallback`."""

    thresholds: Vector
    f1: Vector
    fallback: tuple[int, ...]


class _Cuts(NamedTuple):
    """Decisions "score >= level" for every distinct score, the highest first: cells predicted, and correctly so."""

    levels: NDArray[Any]
    predicted: NDArray[np.int64]
    correct: NDArray[np.int64]


def best_threshold(probabilities: ArrayLike, labels: ArrayLike, *, metric: Metric) -> Threshold:
    """The one threshold with the highest OF1 (F1 over all known cells) or CF1 (harmonic mean of CP and CR, over classes
    with a known positive and a known negative), as `decision_scores` computes them.

    Decisions are `score >= threshold` in the scores' own precision. O(N C log(N C)).
    """
    choice("metric", metric, get_args(Metric))
    scores, states = checked_probabilities(probabilities, labels)
    if not ((states == PRESENT).any() and (states < UNKNOWN).any()):
        raise MetricError("no threshold can be chosen: these labels have no known positive, or no known negative")
    if metric == "OF1":
        known = states != UNKNOWN
        cuts = _cuts(scores[known], states[known] == PRESENT)
        return _best(cuts.levels, _f1(cuts))
    if not scoreable(states).any():
        raise MetricError("no threshold can be chosen for CF1: no class has a known positive and a known negative")
    return _best(*_class_f1(scores, states), equal=_EQUAL)


def grid_threshold(scores: ArrayLike, labels: ArrayLike, *, metric: Metric, empty: EmptyClass = "skip") -> Threshold:
    """The threshold of 0.01, 0.02 … 0.99 with the highest OF1 or CF1; the lowest of equals. `empty`: `decision_scores`.

    Searched on the test labels themselves by PU-MLC (spec: partial labels, section 2).
    """
    choice("metric", metric, get_args(Metric))
    probabilities, states = checked_probabilities(scores, labels)
    values = np.array([getattr(scores_of_counts(counts, empty=empty), metric) for counts in _on(probabilities, states)])
    if np.isnan(values).all():
        raise MetricError(f"no threshold can be searched: {metric} is not defined on these labels")
    at = int(np.nanargmax(values))
    return Threshold(float(GRID[at]), float(values[at]))


def _on(scores: Scores, states: States) -> Iterator[DecisionCounts]:
    """Counted decisions at every threshold of the grid: one sort per class, and binary searches in it."""
    limits = GRID.astype(scores.dtype)
    counts = np.empty((len(GRID), 2, scores.shape[1]), np.int64)
    for c in range(scores.shape[1]):
        values, positive = known_column(scores, states, c)
        for at, some in enumerate((values, values[positive])):
            counts[:, at, c] = len(some) - np.sort(some).searchsorted(limits)
    actual, known, able = (states == PRESENT).sum(axis=0), (states != UNKNOWN).sum(axis=0), scoreable(states)
    for predicted, correct in counts:
        yield DecisionCounts(predicted, actual, correct, known, able)


def best_thresholds(probabilities: ArrayLike, labels: ArrayLike, *, fallback: float) -> ClassThresholds:
    """For each class the threshold with its highest F1; `fallback` for a class without a known positive or negative.

    O(N log N) per class.
    """
    scores, states = checked_probabilities(probabilities, labels)
    able = scoreable(states)
    thresholds, f1 = np.full(len(able), fallback, np.float64), np.full(len(able), np.nan)
    for c in np.flatnonzero(able).tolist():
        cuts = _cuts(*known_column(scores, states, c))
        thresholds[c], f1[c] = _best(cuts.levels, _f1(cuts))
    return ClassThresholds(thresholds, f1, tuple(np.flatnonzero(~able).tolist()))


def _cuts(values: NDArray[Any], positive: NDArray[np.bool_]) -> _Cuts:
    order = np.argsort(values)[::-1]
    ranked = values[order]
    ends = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), len(ranked) - 1)
    return _Cuts(ranked[ends], ends + 1, np.cumsum(positive[order])[ends])


def _f1(cuts: _Cuts) -> Vector:
    """2 x correct / (predicted + actual): the lowest cut predicts everything, so its correct ones are all there are."""
    found: Vector = 2 * cuts.correct / (cuts.predicted + cuts.correct[-1])
    return found


def _class_f1(scores: Scores, states: States) -> tuple[NDArray[Any], Vector]:
    """Every distinct score of the classes that count, the highest first, and CF1 of deciding from it on.

    Going down, a class's precision and recall change only at its own scores: the changes of all classes, brought into
    one order, add up to the sums over classes.
    """
    parts = []
    for c in np.flatnonzero(scoreable(states)).tolist():
        cuts = _cuts(*known_column(scores, states, c))
        rates = np.stack([cuts.correct / cuts.predicted, cuts.correct / cuts.correct[-1]])
        parts.append((cuts.levels, np.diff(rates, prepend=0)))
    levels = np.concatenate([part[0] for part in parts])
    order = np.argsort(levels)[::-1]
    levels = levels[order]
    ends = np.append(np.flatnonzero(levels[1:] != levels[:-1]), len(levels) - 1)
    precision, recall = np.concatenate([part[1] for part in parts], axis=1)[:, order].cumsum(axis=1)[:, ends]
    total = np.maximum(precision + recall, np.finfo(np.float64).tiny)
    return levels[ends], 2 * precision * recall / total / len(parts)


def _best(levels: NDArray[Any], values: Vector, *, equal: float = 0.0) -> Threshold:
    """The best candidate; the midpoint to the next lower level, in the precision of the scores."""
    lower = np.append(levels[1:], levels.dtype.type(0))
    middle = lower + (levels - lower) / 2
    candidates = np.where(middle > lower, middle, levels)  # neighbours in float32 have nothing in between
    best = np.flatnonzero(values >= values.max() - equal)
    order = np.lexsort((candidates[best], np.abs(candidates[best].astype(np.float64) - 0.5)))
    at = best[order[0]]
    return Threshold(float(candidates[at]), float(values[at]))
