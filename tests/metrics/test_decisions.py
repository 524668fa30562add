"""Decisions: published vectors, scikit-learn, masks, and the rules for empty classes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import f1_score, hamming_loss, precision_score, recall_score

from tacit.errors import UserError
from tacit.metrics import decide, decision_scores, states_from_truth

SIX = ("OP", "OR", "OF1", "CP", "CR", "CF1")


@pytest.mark.parametrize(("key", "top"), [("OP_OR_OF1_CP_CR_CF1", None), ("topk2_OP_OR_OF1_CP_CR_CF1", 2)])
def test_golden_hcp(golden_partial_labels: dict[str, Any], key: str, top: int | None) -> None:
    vector = golden_partial_labels["metrics_small"]
    states = states_from_truth(vector["inputs"]["gt01"])
    found = decision_scores(np.array(vector["inputs"]["scores"]), states, threshold=0, top=top, empty="hcp")
    np.testing.assert_allclose([getattr(found, name) for name in SIX], vector["expected"][key], atol=1e-9)
    honest = decision_scores(np.array(vector["inputs"]["scores"]), states, threshold=0, top=top, empty="zero")
    assert honest.OP > found.OP  # the quirk adds one wrong prediction for the class never predicted
    assert honest.CP == found.CP


truths = hnp.arrays(np.int8, (12, 4), elements=st.integers(0, 1))


@given(truths, hnp.arrays(np.float64, (12, 4), elements=st.sampled_from([0.1, 0.4, 0.5, 0.9])))
@settings(max_examples=40, deadline=None)
def test_equal_to_sklearn_where_nothing_is_masked(truth: np.ndarray, scores: np.ndarray) -> None:
    guess = (scores >= 0.5).astype(int)
    found = decision_scores(scores, states_from_truth(truth), empty="zero")
    for name, score, average in (
        ("OP", precision_score, "micro"),
        ("OR", recall_score, "micro"),
        ("micro_F1", f1_score, "micro"),
        ("CP", precision_score, "macro"),
        ("CR", recall_score, "macro"),
        ("macro_F1", f1_score, "macro"),
    ):
        assert getattr(found, name) == pytest.approx(score(truth, guess, average=average, zero_division=0), abs=1e-12)
    assert found.hamming_loss == pytest.approx(hamming_loss(truth, guess), abs=1e-12)
    assert pytest.approx(found.micro_F1, abs=1e-12) == found.OF1


def test_by_hand_with_a_mask() -> None:
    """Class 0 reads TP, FP, masked and class 1 FN, TP, TN: N_p = 2, 1; N_g = 1, 2; N_c = 1, 1; 2 of 5 cells wrong."""
    scores = np.array([[0.9, 0.2], [0.8, 0.7], [0.9, 0.1]])
    states = np.array([[1, 1], [-1, 1], [0, -1]], np.int8)
    found = decision_scores(scores, states)
    assert (pytest.approx(2 / 3), pytest.approx(2 / 3)) == (found.OP, found.OR)
    assert (pytest.approx((1 / 2 + 1) / 2), pytest.approx((1 + 1 / 2) / 2)) == (found.CP, found.CR)
    assert found.hamming_loss == pytest.approx(2 / 5)
    assert found.macro_F1 == pytest.approx((2 / 3 + 2 / 3) / 2)
    assert pytest.approx(3 / 4) == found.CF1  # not the mean of class F1
    assert found.unscored == ()


def test_empty_classes_follow_the_named_rule() -> None:
    """Class 0 is found, class 1 could be found but is never predicted, class 2 has no positive and one false alarm."""
    scores = np.array([[0.9, 0.1, 0.9], [0.1, 0.1, 0.1]])
    states = np.array([[1, 1, -1], [-1, -1, -1]], np.int8)
    skip, zero, hcp = (decision_scores(scores, states, empty=rule) for rule in ("skip", "zero", "hcp"))
    assert skip.unscored == zero.unscored == hcp.unscored == (2,)
    assert (skip.CP, skip.CR) == (1 / 2, 1 / 2)
    assert (pytest.approx(1 / 3), pytest.approx(1 / 3)) == (zero.CP, zero.CR)
    assert (1 / 2, 1 / 2, pytest.approx(1 / 3)) == (skip.OP, zero.OP, hcp.OP)
    assert pytest.approx(1 / 3) == hcp.CP
    assert np.isnan(hcp.CR) and np.isnan(hcp.CF1) and hcp.OR == 1 / 2
    assert skip.macro_F1 == 1 / 2


def test_nothing_predicted_and_nothing_to_find() -> None:
    silent = decision_scores([[0.1], [0.2]], [[1], [-1]])
    assert (silent.OP, silent.OR, silent.OF1, silent.CF1, silent.micro_F1) == (0, 0, 0, 0, 0)
    hollow = decision_scores([[0.9], [0.2]], [[-1], [-1]])
    assert hollow.OP == 0 and np.isnan(hollow.OR) and np.isnan(hollow.CP) and np.isnan(hollow.micro_F1)
    assert decision_scores([[0.9], [0.2]], [[-1], [-1]], empty="zero").OR == 0
    masked = decision_scores([[0.9]], [[0]])
    assert np.isnan(masked.hamming_loss) and np.isnan(masked.OP)


def test_thresholds_include_their_edge_in_the_precision_of_the_scores() -> None:
    assert decide(np.array([[0.5]])).all()
    single = np.array([[0.7, 0.2]], np.float32)  # as a double, 0.7f is below 0.7
    np.testing.assert_array_equal(decide(single, 0.7), [[True, False]])
    np.testing.assert_array_equal(decide(single, np.array([0.7, 0.2])), [[True, True]])


def test_top_needs_both_the_rank_and_the_threshold() -> None:
    scores = np.array([[3.0, 2.0, 1.0], [3.0, -2.0, -1.0]])
    found = decision_scores(scores, np.ones((2, 3), np.int8), threshold=0, top=2)
    assert found.OR == 3 / 6


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threshold": [0.5, 0.5]}, "one number, or one for each of 3 classes"),
        ({"threshold": float("nan")}, "threshold is NaN"),
        ({"top": 0}, "at least 1, not 0"),
        ({"empty": "nan"}, "skip, zero, hcp"),
    ],
)
def test_bad_options_are_refused_in_words(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        decision_scores(np.zeros((2, 3)), np.ones((2, 3), np.int8), **options)
