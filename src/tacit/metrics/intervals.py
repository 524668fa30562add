"""How far a number may be trusted: bootstrap over images, and means over seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..labels import PRESENT, UNKNOWN, States
from .inputs import MetricError, Scores, checked
from .ranking import mean_average_precision

Metric = Callable[[Scores, States], float]
Vector = NDArray[np.float64]
Counts = NDArray[np.int32]

_RESAMPLES_PER_BLOCK = 64  # resamples weighed together: a block of counts [images, 64] is read once per class


@dataclass(frozen=True, eq=False)
class Interval:
    """A value on all images, and the percentile interval of its resamples (`draws`)."""

    value: float
    low: float
    high: float
    level: float
    draws: Vector


@dataclass(frozen=True)
class SeedSummary:
    """Mean and sample standard deviation over seeds with Student's t interval of the mean; NaN sd from one seed."""

    mean: float
    sd: float
    low: float
    high: float
    level: float
    seeds: int


def bootstrap(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    metric: Metric | None = None,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """Percentile interval of a metric over images drawn with replacement; mAP (the default) has a fast path.

    In a resample mAP is the mean over the classes that can be scored *there*: a class with few positives is missing
    from some resamples. A metric that is NaN in a resample is left out of the percentiles.
    """
    values, states = checked(scores, labels)
    _check_level(level)
    draws = _draws(values, states, metric, resamples, seed)
    return _interval((metric or _map)(values, states), draws, level)


def paired_bootstrap(
    scores_a: ArrayLike,
    scores_b: ArrayLike,
    labels: ArrayLike,
    *,
    metric: Metric | None = None,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """Interval of metric(a) - metric(b), both scored on the same resampled images; zero outside it: a real difference.

    It covers the choice of test images only, not the training seed: see `paired_over_seeds` for that.
    """
    first, states = checked(scores_a, labels)
    second, _ = checked(scores_b, labels)
    _check_level(level)
    function = metric or _map
    draws = _draws(first, states, metric, resamples, seed) - _draws(second, states, metric, resamples, seed)
    return _interval(function(first, states) - function(second, states), draws, level)


def over_seeds(values: Sequence[float] | Vector, *, level: float = 0.95) -> SeedSummary:
    """Mean, sd (n - 1) and t interval of runs that differ in their seed."""
    runs = np.asarray(values, np.float64)
    _check_level(level)
    if runs.ndim != 1 or len(runs) == 0:
        raise MetricError(f"a mean over seeds needs a list of one number per run, not shape {runs.shape}")
    mean, n = float(runs.mean()), len(runs)
    if n == 1:
        return SeedSummary(mean, math.nan, math.nan, math.nan, level, n)
    sd = float(runs.std(ddof=1))
    reach = student_t(0.5 + level / 2, n - 1) * sd / math.sqrt(n)
    return SeedSummary(mean, sd, mean - reach, mean + reach, level, n)


def paired_over_seeds(a: Sequence[float] | Vector, b: Sequence[float] | Vector, *, level: float = 0.95) -> SeedSummary:
    """`over_seeds` of a - b, run by run: both lists in the same order of seeds."""
    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if first.shape != second.shape:
        raise MetricError(
            f"{first.size} runs against {second.size}: a paired difference needs the same seeds on both sides"
        )
    return over_seeds(first - second, level=level)


def student_t(probability: float, freedom: int) -> float:
    """Quantile of Student's t for an integer number of degrees of freedom and a probability in [0.5, 1).

    Bisection of the finite series of Abramowitz & Stegun 26.7.3-4 over the angle atan(t / sqrt(freedom)).
    """
    if freedom < 1 or not 0.5 <= probability < 1:
        raise MetricError(f"no t quantile for probability {probability} and {freedom} degrees of freedom")
    low, high = 0.0, math.pi / 2
    for _ in range(100):
        middle = (low + high) / 2
        if (1 + _central_mass(middle, freedom)) / 2 < probability:
            low = middle
        else:
            high = middle
    return math.tan((low + high) / 2) * math.sqrt(freedom)


def _central_mass(angle: float, freedom: int) -> float:
    """P(|T| <= tan(angle) * sqrt(freedom))."""
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = term if freedom > 1 else 0.0
    for j in range(1 + odd, freedom - 2, 2):
        term *= cosine * cosine * j / (j + 1)
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


def _map(scores: Scores, states: States) -> float:
    return mean_average_precision(scores, states).value


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise MetricError(f"an interval's level lies between 0 and 1 (0.95 is usual), not {level}")


def _interval(value: float, draws: Vector, level: float) -> Interval:
    defined = draws[~np.isnan(draws)]
    if len(defined) == 0:
        return Interval(value, math.nan, math.nan, level, draws)
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high), level, draws)


def _draws(scores: Scores, states: States, metric: Metric | None, resamples: int, seed: int) -> Vector:
    """The metric in every resample; one seed draws the same images whatever the metric, so that pairs can be formed."""
    if resamples < 1:
        raise MetricError(f"a bootstrap needs at least one resample (1000 is usual), not {resamples}")
    blocks = _image_counts(len(scores), resamples, seed)
    if metric is None:
        classes = [_WeighedClass.of(scores[:, c], states[:, c]) for c in range(scores.shape[1])]
        ranked = [c for c in classes if c is not None]
        return np.concatenate([_weighed_map(ranked, counts) for counts in blocks])
    rows = np.arange(len(scores))
    drawn = (np.repeat(rows, counts[:, r]) for counts in blocks for r in range(counts.shape[1]))
    return np.array([metric(scores[index], states[index]) for index in drawn], np.float64)


def _image_counts(images: int, resamples: int, seed: int) -> Iterator[Counts]:
    """Blocks [images, <= 64]: how often each image was drawn in each resample."""
    generator = np.random.default_rng(seed)
    for first in range(0, resamples, _RESAMPLES_PER_BLOCK):
        size = min(_RESAMPLES_PER_BLOCK, resamples - first)
        counts = np.empty((images, size), np.int32)
        for r in range(size):
            counts[:, r] = np.bincount(generator.integers(images, size=images), minlength=images)
        yield counts


@dataclass(frozen=True)
class _WeighedClass:
    """One class, sorted once: its known images by falling score, cut below each distinct score of a positive.

    Piece g, `rows[starts[g] : starts[g + 1]]`, holds the images that flagging at the g-th such score adds to those
    flagged at the one before; images below all positives, if any, are the last piece. `positive_rows` and
    `positive_starts` are the same cuts of the positives alone.
    """

    rows: NDArray[np.intp]
    starts: NDArray[np.intp]
    positive_rows: NDArray[np.intp]
    positive_starts: NDArray[np.intp]

    @classmethod
    def of(cls, scores: Scores, states: States) -> _WeighedClass | None:
        """None for a class without a known positive: no resample can score it."""
        known = np.flatnonzero(states != UNKNOWN)
        values, positive = -scores[known], states[known] == PRESENT
        if not positive.any():
            return None
        order = np.argsort(values)
        falling, found = values[order], positive[order]
        limits, positive_starts = np.unique(falling[found], return_index=True)
        ends = np.searchsorted(falling, limits, side="right")
        starts = np.concatenate([[0], ends[ends < len(known)]])
        rows = known[order]
        return cls(rows, starts, rows[found], positive_starts)

    def average_precision(self, counts: Counts) -> Vector:
        """AP [R] with each image counted `counts[image, r]` times; NaN where no positive or no negative was drawn."""
        drawn = np.add.reduceat(counts[self.rows], self.starts, axis=0, dtype=np.int32).cumsum(axis=0, dtype=np.int32)
        here = np.add.reduceat(counts[self.positive_rows], self.positive_starts, axis=0, dtype=np.int32)
        hits = here.cumsum(axis=0, dtype=np.int32)
        positives = hits[-1]
        area = (here * (hits / np.maximum(drawn[: len(hits)], 1))).sum(axis=0)
        scored = (positives > 0) & (drawn[-1] > positives)
        out: Vector = np.divide(area, positives, out=np.full(len(area), np.nan), where=scored)
        return out


def _weighed_map(classes: Sequence[_WeighedClass], counts: Counts) -> Vector:
    """mAP [R] over the classes that each resample can score."""
    total, scored = np.zeros(counts.shape[1]), np.zeros(counts.shape[1])
    for one in classes:
        precision = one.average_precision(counts)
        defined = ~np.isnan(precision)
        total[defined] += precision[defined]
        scored += defined
    out: Vector = np.divide(total, scored, out=np.full(len(total), np.nan), where=scored > 0)
    return out
