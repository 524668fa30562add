"""The best threshold: by hand, and equal to trying every candidate."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import f1_score, precision_recall_curve

from tacit.errors import UserError
from tacit.metrics import best_threshold, best_thresholds, decision_scores, scoreable

COARSE = st.integers(0, 8).map(lambda n: n / 8)
FINE = st.floats(0, 1, width=32)
STATES = arrays(np.int8, (6, 3), elements=st.sampled_from([-1, 0, 1]))


def test_one_threshold_by_hand() -> None:
    scores = np.array([[0.9, 0.8], [0.7, 0.3], [0.4, 0.1]])
    labels = np.array([[1, 1], [-1, 1], [-1, -1]], np.int8)
    # from the top: 1/1, 2/2, 2/3, 2/4, 3/5 right of predicted, of 3 actual: the F1 are 1/2, 4/5, 2/3, 4/7, 3/4
    found = best_threshold(scores, labels, metric="OF1")
    assert found == (pytest.approx(0.75), pytest.approx(0.8))
    # CP and CR at 0.25: (1/3 + 1) / 2 and 1, so 0.8; at 0.75: 1 and 3/4, so 6/7
    assert best_threshold(scores, labels, metric="CF1") == (pytest.approx(0.75), pytest.approx(6 / 7))


def test_each_class_has_its_own() -> None:
    scores = np.array([[0.9, 0.3, 0.5], [0.8, 0.2, 0.5], [0.1, 0.0, 0.5]], np.float32)
    labels = np.array([[1, 1, 1], [-1, 1, 1], [-1, -1, 0]], np.int8)
    found = best_thresholds(scores, labels, fallback=0.6)
    np.testing.assert_allclose(found.thresholds, [0.85, 0.1, 0.6], rtol=1e-6)
    np.testing.assert_allclose(found.f1, [1, 1, np.nan])
    assert found.fallback == (2,)


def test_of_equals_the_nearest_to_a_half_and_then_the_lower() -> None:
    twice = [[0.95], [0.85], [0.55], [0.15]]
    # F1 is 2/3 from 0.95 on, and again from 0.15 on
    found = best_threshold(twice, [[1], [-1], [-1], [1]], metric="OF1")
    assert found == (pytest.approx(0.9), pytest.approx(2 / 3))
    level = best_threshold([[0.875], [0.625], [0.625], [0.375], [0.125]], [[1], [-1], [-1], [1], [-1]], metric="OF1")
    assert level == (0.25, pytest.approx(2 / 3))  # as at 0.75


def test_everything_present_is_a_candidate() -> None:
    found = best_threshold([[0.2], [0.4]], [[1], [-1]], metric="OF1")
    assert found == (pytest.approx(0.1), pytest.approx(2 / 3))
    assert best_threshold([[0.0], [0.0]], [[1], [-1]], metric="CF1").threshold == 0


def test_scores_with_nothing_between_them_are_still_told_apart() -> None:
    low = np.float32(0.7)
    scores = np.array([[np.nextafter(low, np.float32(1))], [low]], np.float32)
    found = best_threshold(scores, np.array([[1], [-1]]), metric="OF1")
    assert decision_scores(scores, [[1], [-1]], threshold=found.threshold).OF1 == found.value == 1


def test_a_threshold_survives_json() -> None:
    import json

    draw = np.random.default_rng(0)
    scores, labels = draw.random((300, 4)).astype(np.float32), np.where(draw.random((300, 4)) < 0.3, 1, -1)
    for metric in ("OF1", "CF1"):
        found = best_threshold(scores, labels, metric=metric)  # type: ignore[arg-type]
        kept = json.loads(json.dumps(found.threshold))
        assert getattr(decision_scores(scores, labels, threshold=kept), metric) == pytest.approx(found.value)


def candidates(column: np.ndarray) -> np.ndarray:
    """Between neighbours, and below the lowest; a neighbour in float32 is its own."""
    levels = np.unique(np.append(column, np.float32(0))).astype(np.float32)
    between = [low + (high - low) / np.float32(2) for low, high in pairwise(levels)]
    fine = [high if middle <= low else middle for middle, (low, high) in zip(between, pairwise(levels), strict=True)]
    return np.array(([np.float32(0)] if (column == 0).any() else []) + fine, np.float32)


def nearest(tried: np.ndarray, values: list[float]) -> tuple[float, float]:
    best = max(values)
    even = [t for t, value in zip(tried.tolist(), values, strict=True) if value >= best - 1e-9]
    return min(even, key=lambda t: (abs(t - 0.5), t)), best


@settings(max_examples=150, deadline=None)
@given(st.one_of(arrays(np.float32, (6, 3), elements=COARSE), arrays(np.float32, (6, 3), elements=FINE)), STATES)
def test_no_candidate_is_better_than_the_one_chosen(scores: np.ndarray, labels: np.ndarray) -> None:
    assume((labels == 1).any() and (labels == -1).any())
    known, able = labels != 0, scoreable(labels)
    cells = {"OF1": scores[known]} | ({"CF1": scores[:, able][known[:, able]]} if able.any() else {})
    for metric, column in cells.items():
        tried = candidates(column)
        values = [getattr(decision_scores(scores, labels, threshold=t), metric) for t in tried]
        threshold, value = best_threshold(scores, labels, metric=metric)  # type: ignore[arg-type]
        assert (threshold, value) == (nearest(tried, values)[0], pytest.approx(nearest(tried, values)[1]))
    each = best_thresholds(scores, labels, fallback=0.5)
    assert each.fallback == tuple(np.flatnonzero(~able))
    for c in np.flatnonzero(able):
        tried = candidates(scores[known[:, c], c])
        actual = labels[known[:, c], c] == 1
        values = [f1_score(actual, scores[known[:, c], c] >= t, zero_division=0) for t in tried]
        assert (each.thresholds[c], each.f1[c]) == (nearest(tried, values)[0], pytest.approx(max(values)))


def test_scikit_learn_finds_the_same_best_f1() -> None:
    draw = np.random.default_rng(5)
    scores = draw.random((500, 1)).astype(np.float32)
    labels = np.where(draw.random((500, 1)) < scores**3, 1, -1)
    precision, recall, _ = precision_recall_curve(labels[:, 0] == 1, scores[:, 0])
    wanted = np.max(2 * precision * recall / np.maximum(precision + recall, 1e-12))
    for metric in ("OF1", "CF1"):
        assert best_threshold(scores, labels, metric=metric).value == pytest.approx(wanted)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("scores", "labels", "metric", "words"),
    [
        ([[0.5], [0.2]], [[1], [0]], "OF1", "no known positive, or no known negative"),
        ([[0.5, 0.5]], [[1, -1]], "CF1", "no class has a known positive and a known negative"),
        ([[3.0], [0.2]], [[1], [-1]], "OF1", "not probabilities"),
        ([[0.5], [0.2]], [[1], [-1]], "mAP", "OF1, CF1"),
    ],
)
def test_labels_that_cannot_choose_are_refused_in_words(scores: Any, labels: Any, metric: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        best_threshold(scores, labels, metric=metric)
