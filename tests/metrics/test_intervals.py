"""Bootstrap over images, and means over seeds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tacit.errors import UserError
from tacit.metrics import (
    bootstrap,
    decision_scores,
    mean_average_precision,
    over_seeds,
    paired_bootstrap,
    paired_over_seeds,
)
from tacit.metrics.intervals import student_t


def problem(images: int, classes: int, seed: int = 0, skill: float = 1.5) -> tuple[np.ndarray, np.ndarray]:
    """Tied scores, a rare class 0, unknown cells, one class without positives and one without any known cell."""
    generator = np.random.default_rng(seed)
    truth = generator.random((images, classes)) < np.linspace(2 / images, 0.4, classes)
    scores = (generator.normal(size=truth.shape) + skill * truth).round(1)
    states = np.where(truth, 1, -1).astype(np.int8)
    states[generator.random(truth.shape) < 0.2] = 0
    states[:, 1] = np.minimum(states[:, 1], -1)
    states[:, 2] = 0
    return scores, states


def plain_map(scores: np.ndarray, states: np.ndarray) -> float:
    return mean_average_precision(scores, states).value


@pytest.mark.parametrize("seed", range(4))
def test_the_fast_path_is_the_plain_one(seed: int) -> None:
    scores, states = problem(40, 6, seed)
    fast, plain = (bootstrap(scores, states, metric=m, resamples=70, seed=seed) for m in (None, plain_map))
    np.testing.assert_allclose(fast.draws, plain.draws, rtol=0, atol=1e-12)
    assert fast.value == plain.value == plain_map(scores, states)
    assert (fast.low, fast.high) == (pytest.approx(plain.low), pytest.approx(plain.high))
    assert fast.low < fast.value < fast.high


def test_the_interval_is_made_of_percentiles_and_narrows_with_images() -> None:
    small, large = (bootstrap(*problem(n, 6), resamples=200) for n in (100, 1600))
    assert small.low == pytest.approx(np.quantile(small.draws, 0.025))
    assert small.high == pytest.approx(np.quantile(small.draws, 0.975))
    assert 2 < (small.high - small.low) / (large.high - large.low) < 8  # about sqrt(16)
    narrow = bootstrap(*problem(100, 6), resamples=200, level=0.5)
    assert small.low < narrow.low < narrow.high < small.high


def test_the_seed_decides() -> None:
    scores, states = problem(60, 5)
    one, again, other = (bootstrap(scores, states, resamples=5, seed=s).draws for s in (3, 3, 4))
    np.testing.assert_array_equal(one, again)
    assert (one != other).all()
    longer = bootstrap(scores, states, resamples=130, seed=3).draws
    np.testing.assert_array_equal(longer[:5], one)


def test_any_metric_serves() -> None:
    scores, states = problem(80, 6)
    found = bootstrap(scores, states, metric=lambda s, l: decision_scores(s, l).OF1, resamples=40)
    assert found.value == decision_scores(scores, states).OF1
    assert found.low < found.value < found.high


def test_pairs_share_their_images() -> None:
    scores, states = problem(300, 6)
    better = scores + 0.5 * (states == 1)
    same = paired_bootstrap(scores, scores, states, resamples=30)
    assert (same.draws == 0).all() and same.value == 0
    gain = paired_bootstrap(better, scores, states, resamples=100)
    assert gain.value == pytest.approx(plain_map(better, states) - plain_map(scores, states))
    assert gain.low > 0
    apart = [bootstrap(s, states, resamples=100, seed=0).draws for s in (better, scores)]
    np.testing.assert_allclose(gain.draws, apart[0] - apart[1])


def test_nothing_to_score_gives_no_interval() -> None:
    found = bootstrap([[0.1], [0.2]], [[1], [0]], resamples=5)
    assert np.isnan([found.value, found.low, found.high]).all()


def test_over_seeds_by_hand() -> None:
    """Mean 2, sd 1; t(0.975, 2) = 4.30265."""
    found = over_seeds([1.0, 2.0, 3.0])
    assert (found.mean, found.sd, found.seeds) == (2, 1, 3)
    assert found.high - found.mean == pytest.approx(4.302652729911275 / np.sqrt(3))
    alone = over_seeds([0.7])
    assert alone.mean == 0.7 and np.isnan([alone.sd, alone.low, alone.high]).all()


def test_paired_over_seeds() -> None:
    found = paired_over_seeds([0.5, 0.7, 0.9], [0.4, 0.5, 0.6])
    assert (found.mean, found.sd) == (pytest.approx(0.2), pytest.approx(0.1))
    wanted = stats.ttest_rel([0.5, 0.7, 0.9], [0.4, 0.5, 0.6]).confidence_interval(0.95)
    assert (found.low, found.high) == (pytest.approx(wanted.low), pytest.approx(wanted.high))


@given(st.floats(0.5, 0.9995), st.integers(1, 60))
@settings(max_examples=150, deadline=None)
def test_student_t_equals_scipy(probability: float, freedom: int) -> None:
    assert student_t(probability, freedom) == pytest.approx(stats.t.ppf(probability, freedom), rel=1e-9, abs=1e-9)


def test_bad_plans_are_refused_in_words() -> None:
    scores, states = problem(10, 4)
    with pytest.raises(UserError, match="at least one resample"):
        bootstrap(scores, states, resamples=0)
    with pytest.raises(UserError, match="between 0 and 1"):
        bootstrap(scores, states, level=95)
    with pytest.raises(UserError, match="same seeds on both sides"):
        paired_over_seeds([1.0, 2.0], [1.0])
    with pytest.raises(UserError, match="one number per run"):
        over_seeds([])
    with pytest.raises(UserError, match=r"\(10, 3\)"):
        paired_bootstrap(scores, scores[:, :3], states)
