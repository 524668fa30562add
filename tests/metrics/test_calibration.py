"""Calibration: by hand, by its bounds, and against scikit-learn where it has the same quantity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

from tacit.errors import UserError
from tacit.metrics import calibration, reliability

SCORES = np.array([[0.1, 0.9], [0.3, 0.9], [0.2, 0.4], [0.6, 0.5]])
LABELS = np.array([[-1, 1], [1, -1], [0, 0], [1, 0]], np.int8)


def drawn(rows: int = 400, classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    scores = draw.random((rows, classes)).astype(np.float32) ** 3
    return scores, np.where(draw.random((rows, classes)) < scores**2, 1, -1).astype(np.int8)


def test_a_reliability_curve_by_hand() -> None:
    found = reliability(SCORES, LABELS, bins=2)
    np.testing.assert_allclose(found.edges, [0, 0.5, 1])
    np.testing.assert_array_equal(found.cells, [2, 3])
    np.testing.assert_allclose(found.confidence, [0.2, 0.8])
    np.testing.assert_allclose(found.observed, [1 / 2, 2 / 3])


def test_calibration_by_hand() -> None:
    found = calibration(SCORES, LABELS, bins=2)
    brier = (0.01 + 0.49 + 0.16 + 0.01 + 0.81) / 5
    np.testing.assert_allclose(found[:3], [2 / 5 * 0.3 + 3 / 5 * (0.8 - 2 / 3), 0.3, brier])
    np.testing.assert_allclose(found.per_class_ECE, [2 / 3 * 0.3 + 1 / 3 * 0.4, 0.4])
    np.testing.assert_allclose(found.per_class_MCE, [0.4, 0.4])
    np.testing.assert_allclose(found.per_class_brier, [0.66 / 3, 0.41])
    assert found.class_ECE == pytest.approx((1 / 3 + 0.4) / 2) and found.class_MCE == pytest.approx(0.4)


def test_an_empty_bin_is_no_number_and_no_error() -> None:
    found = reliability([[0.05], [0.95]], [[-1], [1]], bins=3)
    assert np.isnan([found.confidence[1], found.observed[1]]).all() and found.cells[1] == 0
    np.testing.assert_allclose(calibration([[0.05], [0.95]], [[-1], [1]], bins=3)[:2], 0.05)


def test_a_class_without_a_known_cell_has_no_value_and_one_without_positives_has() -> None:
    found = calibration([[0.2, 0.7, 0.5], [0.4, 0.1, 0.5]], [[-1, 1, 0], [-1, -1, 0]], bins=1)
    np.testing.assert_allclose(found.per_class_ECE, [0.3, 0.1, np.nan], atol=1e-12)
    assert found.unknown == (2,) and found.class_ECE == pytest.approx(0.2)
    hollow = calibration([[0.5]], [[0]])
    assert np.isnan([hollow.ECE, hollow.MCE, hollow.brier, hollow.class_ECE, hollow.class_brier]).all()
    assert reliability([[0.5]], [[0]], binning="mass").cells.sum() == 0


def test_equal_scores_share_a_bin_of_equal_mass() -> None:
    scores = np.array([[0.1], [0.1], [0.1], [0.2], [0.3], [0.4]])
    found = reliability(scores, np.ones((6, 1), np.int8), bins=3, binning="mass")
    np.testing.assert_allclose(found.edges, [0.1, 0.1, 0.2 + 0.1 / 3, 0.4])
    np.testing.assert_array_equal(found.cells, [3, 1, 2])


@pytest.mark.parametrize(("binning", "strategy"), [("width", "uniform"), ("mass", "quantile")])
def test_scikit_learn_draws_the_same_curve(binning: Any, strategy: str) -> None:
    scores, labels = drawn()
    labels[::7, 1] = 0
    known = labels != 0
    share, mean = calibration_curve(labels[known] == 1, scores[known].astype(float), n_bins=10, strategy=strategy)
    found = reliability(scores, labels, bins=10, binning=binning)
    filled = found.cells > 0
    np.testing.assert_allclose(found.observed[filled], share, atol=1e-12)
    np.testing.assert_allclose(found.confidence[filled], mean, rtol=1e-9)


def test_scikit_learn_has_the_same_brier_score() -> None:
    scores, labels = drawn(seed=1)
    found = calibration(scores, labels)
    each = [brier_score_loss(labels[:, c] == 1, scores[:, c].astype(float)) for c in range(3)]
    np.testing.assert_allclose(found.per_class_brier, each)
    assert found.class_brier == pytest.approx(np.mean(each)) and found.brier == pytest.approx(np.mean(each))


def test_honest_probabilities_are_calibrated_and_confident_ones_are_not() -> None:
    draw = np.random.default_rng(2)
    honest = draw.random((20_000, 2))
    labels = np.where(draw.random(honest.shape) < honest, 1, -1).astype(np.int8)
    assert calibration(honest, labels).ECE < 0.01
    sure = 1 / (1 + (1 / honest - 1) ** 4)
    assert calibration(sure, labels).ECE > 0.1 and calibration(sure, labels, binning="mass").ECE > 0.1


@settings(max_examples=60, deadline=None)
@given(
    arrays(np.float32, (7, 2), elements=st.floats(0, 1, width=32)),
    arrays(np.int8, (7, 2), elements=st.sampled_from([-1, 0, 1])),
    st.integers(1, 6),
    st.sampled_from(["width", "mass"]),
)
def test_bounds_and_sums(scores: np.ndarray, labels: np.ndarray, bins: int, binning: Any) -> None:
    found, curve = calibration(scores, labels, bins=bins, binning=binning), reliability(scores, labels, bins=bins)
    assert curve.cells.sum() == (labels != 0).sum()
    assert np.nansum(curve.observed * curve.cells) == pytest.approx((labels == 1).sum())
    if curve.cells.sum():
        assert 0 <= found.ECE <= found.MCE + 1e-12 <= 1 + 1e-9
        assert calibration(scores, labels, bins=1).ECE <= found.ECE + 1e-6  # finer bins only find more
        masked = np.where(labels == 0, 1 - scores, scores)
        assert calibration(masked, labels, bins=bins, binning=binning).ECE == found.ECE


@pytest.mark.parametrize(
    ("scores", "options", "words"),
    [
        ([[1.5]], {}, "not probabilities"),
        ([[-0.5]], {}, "through a sigmoid first"),
        ([[0.5]], {"bins": 0}, "at least one bin"),
        ([[0.5]], {"binning": "equal"}, "width, mass"),
        ([[float("nan")]], {}, "NaN"),
    ],
)
def test_what_cannot_be_calibrated_is_refused_in_words(scores: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        calibration(scores, [[1]], **options)
