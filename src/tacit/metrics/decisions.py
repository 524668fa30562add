"""Metrics of yes/no decisions: OP, OR, OF1, CP, CR, CF1, micro-F1, macro-F1, Hamming loss; unknown cells are masked.

Per class, over known cells: N_p predicted, N_g actual, N_c correct positives. O* divides sums over classes, C* averages
ratios over classes. Two traps, kept apart by name: CF1 is the harmonic mean of CP and CR, macro_F1 the mean of the
classes' own F1; OF1 equals micro_F1 except under the rule "hcp".
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..labels import PRESENT, UNKNOWN, States
from .at_k import top_mask
from .inputs import MetricError, Scores, checked, choice
from .ranking import scoreable

EmptyClass = Literal["skip", "zero", "hcp"]
Decisions = NDArray[np.bool_]
Counts = NDArray[np.int64]


class DecisionCounts(NamedTuple):
    """Per class [C], over known cells: predicted, actual and correct positives, cells, and whether it is scoreable."""

    predicted: Counts
    actual: Counts
    correct: Counts
    known: Counts
    scoreable: NDArray[np.bool_]


class DecisionScores(NamedTuple):
    """Fractions; `unscored` lists classes without a known positive or a known negative."""

    OP: float
    OR: float
    OF1: float
    CP: float
    CR: float
    CF1: float
    micro_F1: float
    macro_F1: float
    hamming_loss: float
    unscored: tuple[int, ...]


def decision_scores(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    threshold: ArrayLike = 0.5,
    top: int | None = None,
    empty: EmptyClass = "skip",
) -> DecisionScores:
    """All decision metrics of `scores >= threshold` (one number or one per class), see `scores_of_counts` for `empty`.

    With `top`, only the `top` highest classes of an image may be positive, and still have to reach the threshold
    (HCP's "top-3" with `threshold=0` on logits).
    """
    values, states = checked(scores, labels)
    decided = decide(values, threshold)
    if top is not None:
        decided &= top_mask(values, top)
    return scores_of_counts(count_decisions(decided, states), empty=empty)


def decide(scores: Scores, threshold: ArrayLike = 0.5) -> Decisions:
    """`scores >= threshold`, the threshold rounded to the scores' own precision (0.7 means float32's 0.7 there)."""
    limit = np.asarray(threshold, scores.dtype)
    if limit.shape not in ((), (scores.shape[1],)):
        raise MetricError(
            f"thresholds of shape {limit.shape}: give one number, or one for each of {scores.shape[1]} classes"
        )
    if np.isnan(limit).any():
        raise MetricError("a threshold is NaN, so nothing could ever reach it")
    decided: Decisions = scores >= limit
    return decided


def count_decisions(decided: Decisions, labels: States) -> DecisionCounts:
    """What every decision metric needs, counted over known cells only."""
    known, actual = labels != UNKNOWN, labels == PRESENT
    return DecisionCounts(
        (decided & known).sum(axis=0),
        actual.sum(axis=0),
        (decided & actual).sum(axis=0),
        known.sum(axis=0),
        scoreable(labels),
    )


def scores_of_counts(counts: DecisionCounts, *, empty: EmptyClass = "skip") -> DecisionScores:
    """Decision metrics of counted decisions, under an explicit rule for classes without positives.

    skip  class averages run over classes with a known positive and a known negative, the same ones as mAP. A class that
          could be found but was never predicted has precision 0: silence is not rewarded.
    zero  class averages run over all classes, 0/0 = 0 (ASL, DualCoOp).
    hcp   as published by HCP-MLR-PL and PU-MLC: a class never predicted gets N_p = 1 *before* the overall sums, which
          lowers OP too; a class without positives makes CR and CF1 NaN.

    Sums over classes include every class under every rule. Nothing predicted at all: precision 0. No known positive at
    all: OR, OF1 and micro_F1 are NaN under "skip" and "hcp", 0 under "zero". No known cell: OP is NaN under "skip".
    """
    choice("empty", empty, get_args(EmptyClass))
    predicted, actual, correct = counts.predicted, counts.actual, counts.correct
    undefined = 0.0 if empty == "zero" else np.nan
    f1 = _ratio(2 * correct, predicted + actual, 0.0)
    micro = float(_ratio(2 * correct.sum(), predicted.sum() + actual.sum(), 0.0)) if actual.any() else undefined
    wrong = (predicted + actual - 2 * correct).sum()
    if empty == "hcp":
        predicted = np.maximum(predicted, 1)
    precision, recall = _ratio(correct, predicted, 0.0), _ratio(correct, actual, undefined)
    counted = counts.scoreable if empty == "skip" else np.ones_like(counts.scoreable)
    overall_precision = float(_ratio(correct.sum(), predicted.sum(), 0.0 if counts.known.any() else undefined))
    overall_recall = float(_ratio(correct.sum(), actual.sum(), undefined))
    class_precision, class_recall = _mean(precision[counted]), _mean(recall[counted])
    return DecisionScores(
        OP=overall_precision,
        OR=overall_recall,
        OF1=_harmonic(overall_precision, overall_recall),
        CP=class_precision,
        CR=class_recall,
        CF1=_harmonic(class_precision, class_recall),
        micro_F1=micro,
        macro_F1=_mean(f1[counted]),
        hamming_loss=float(_ratio(wrong, counts.known.sum(), np.nan)),
        unscored=tuple(np.flatnonzero(~counts.scoreable).tolist()),
    )


def _ratio(above: ArrayLike, below: ArrayLike, undefined: float) -> NDArray[np.float64]:
    """above / below, and `undefined` for x / 0."""
    bottom = np.asarray(below, np.float64)
    out: NDArray[np.float64] = np.divide(above, bottom, out=np.full(bottom.shape, undefined), where=bottom != 0)
    return out


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _harmonic(precision: float, recall: float) -> float:
    """Their harmonic mean; 0 where both are 0, NaN where either is."""
    return 0.0 if precision + recall == 0 else 2 * precision * recall / (precision + recall)
