"""Scores of a split, and the rules by which an epoch is preferred."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tacit.data.batches import FeatureInputs
from tacit.evaluate import Judge, counts, figures, scores, unknown_rule
from tacit.labels import Labels
from tacit.methods.wan import WeakAssumeNegative
from tacit.metrics.ranking import mean_average_precision
from tacit.runtime import Runtime

CLASSES = ["a", "b"]
TRUTH = Labels.from_dense([[1, -1], [-1, 1], [1, 1], [-1, -1]], CLASSES)
ONE_POSITIVE = Labels.from_dense([[1, 0], [0, 1], [0, 1], [0, 0]], CLASSES)
SOME_NEGATIVES = Labels.from_dense([[1, 0], [0, 1], [0, 0], [-1, -1]], CLASSES)


def judge(val: Labels | None = TRUTH, observed: Labels | None = ONE_POSITIVE) -> Judge:
    return Judge(train=TRUTH, test=TRUTH, val=val, val_observed=observed, train_observed=ONE_POSITIVE)


class TestSelection:
    told = np.array([[0.4, 0.1], [0.1, 0.8], [0.9, 0.7], [0.2, 0.75]], np.float32)

    def test_clean_looks_at_the_truth(self) -> None:
        # a: ranks 0.9+ 0.4+ 0.2 0.1 -> 1; b: 0.8+ 0.75- 0.7+ -> (1 + 2/3) / 2
        assert judge().selection("clean", self.told) == pytest.approx((1 + 5 / 6) / 2)

    def test_without_a_known_negative_unknown_cells_are_negative(self) -> None:
        # a: 0.9- 0.4+ -> 1/2; b: 0.8+ 0.75- 0.7+ -> 5/6
        assert unknown_rule(ONE_POSITIVE) == "negative"
        assert judge().selection("observed", self.told) == pytest.approx((1 / 2 + 5 / 6) / 2)

    def test_with_a_known_negative_unknown_cells_are_masked(self) -> None:
        # a: 0.4+ 0.2- -> 1; b: 0.8+ 0.75- -> 1
        assert unknown_rule(SOME_NEGATIVES) == "masked"
        assert judge(observed=SOME_NEGATIVES).selection("observed", self.told) == 1

    def test_last_has_no_opinion(self) -> None:
        assert judge().selection("last", self.told) is None
        assert judge(val=None, observed=None).selection("observed", None) is None

    def test_nothing_to_score_is_no_opinion_either(self) -> None:
        every = Labels.from_dense(np.ones((4, 2), np.int8), CLASSES)
        assert judge(val=every).selection("clean", self.told) is None


def test_made_up_labels_are_counted_and_the_wrong_ones_among_them() -> None:
    unsure = Labels.from_dense([[1, -1], [-1, 0], [1, 1], [-1, -1]], CLASSES)  # the truth is unknown in one cell
    made = torch.tensor([[-1, -1], [0, -1], [0, 0], [-1, 1]], dtype=torch.int8)
    found = Judge(unsure, TRUTH, None, None, ONE_POSITIVE).pseudo_labels(made)
    # absent: (0, a) is present, (0, b) and (3, a) are absent, of (1, b) nothing is known; present: (3, b) is absent
    assert found == {"present": 1, "present_wrong": 1.0, "absent": 4, "absent_wrong": pytest.approx(1 / 3)}
    assert judge().pseudo_labels(torch.zeros(4, 2, dtype=torch.int8)) == {"present": 0, "absent": 0}
    assert judge().pseudo_labels(None) is None


class TestEstimates:
    def test_only_cells_that_were_hidden_count_for_precision_and_recall(self) -> None:
        guess = torch.tensor([[0.9, 0.8], [0.1, 0.9], [0.6, 0.9], [0.1, 0.2]])
        found = judge().estimates(guess)
        assert found is not None
        # hidden: (0, b) absent guessed present, (1, a) absent, (2, a) present guessed present, row 3 absent
        assert (found["precision"], found["recall"]) == (0.5, 1.0)
        assert found["mAP"] == mean_average_precision(guess.numpy(), TRUTH.dense()).value
        assert found["k"] == pytest.approx(1.125)

    def test_no_guess(self) -> None:
        assert judge().estimates(None) is None

    def test_what_cannot_be_computed_is_left_out(self) -> None:
        assert "precision" not in (judge().estimates(torch.zeros(4, 2)) or {"precision": 0})


def test_figures_name_what_cannot_be_scored() -> None:
    truth = Labels.from_dense([[1, 1], [-1, 1], [0, 1]], CLASSES)
    found = figures(np.array([[0.9, 0.1], [0.2, 0.5], [0.95, 0.3]], np.float32), truth)
    assert found["AP"] == [1.0, None] and found["unscored"] == ["b"] and found["metrics"]["mAP"] == 1.0
    assert all(np.isfinite(value) for value in found["metrics"].values())


def test_counts() -> None:
    found = counts(TRUTH, SOME_NEGATIVES)
    assert found == {"images": 4, "present": [2, 2], "observed_present": [1, 1], "observed_absent": [1, 1]}
    assert counts(TRUTH) == {"images": 4, "present": [2, 2]}


def test_scores_are_predictions_in_row_order_whatever_the_chunk() -> None:
    torch.set_num_threads(1)
    net = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5))
    method, runtime = WeakAssumeNegative(net, TRUTH), Runtime("cpu")
    inputs = FeatureInputs(np.random.RandomState(0).randn(11, 3).astype(np.float16), torch.device("cpu"))
    method.train()
    whole = scores(method, inputs, runtime)
    inputs.chunk = 4
    np.testing.assert_allclose(scores(method, inputs, runtime), whole, rtol=0, atol=1e-7)
    expected = torch.sigmoid(net[0](inputs.table.float())).detach().numpy()
    np.testing.assert_allclose(whole, expected, rtol=0, atol=1e-7)
    assert whole.dtype == np.float32 and not method.training
