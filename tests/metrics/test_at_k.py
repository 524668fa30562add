"""Precision, recall and hits at k."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tacit.errors import UserError
from tacit.metrics import at_k, states_from_truth
from tacit.metrics.at_k import top_mask


def test_golden(golden_single_positive: dict[str, Any]) -> None:
    vector = golden_single_positive["metrics"]
    found = at_k(vector["scores"], states_from_truth(vector["targets"]), (1, 3, 5), empty="zero")
    for k, ours in found.items():
        for mine, theirs in (("precision", "prec"), ("recall", "rec"), ("top", "top")):
            wanted = vector["official_compute_metrics"][f"{theirs}_{'at_' if theirs != 'top' else ''}{k}"]
            assert getattr(ours, mine) == pytest.approx(wanted, abs=1e-9)  # ten digits were recorded


def test_images_without_positives_follow_the_named_rule() -> None:
    scores, states = [[0.9, 0.1], [0.9, 0.1]], [[1, -1], [-1, -1]]
    assert at_k(scores, states, (1,))[1] == (1, 1, 1)
    assert at_k(scores, states, (1,), empty="zero")[1] == (0.5, 0.5, 0.5)
    assert np.isnan(at_k(scores, [[0, 0], [-1, -1]], (1,))[1]).all()


def test_unknown_classes_take_no_place_in_the_ranking() -> None:
    """Image 0: the highest class is unknown, so the next is read. Image 1: one known class for k = 2."""
    found = at_k([[0.9, 0.8, 0.1], [0.9, 0.8, 0.1]], [[0, 1, -1], [0, 0, 1]], (1, 2))
    assert found[1] == (1, 1, 1)
    assert found[2] == (0.5, 1, 1)


def test_a_known_class_of_score_minus_infinity_ranks_above_unknown_ones() -> None:
    assert at_k([[-np.inf, 5.0]], [[1, 0]], (1,))[1] == (1, 1, 1)


@given(
    hnp.arrays(np.float32, (6, 7), elements=st.sampled_from([-np.inf, -1, 0, 1, 2])),
    st.integers(1, 9),
)
@settings(max_examples=100, deadline=None)
def test_the_mask_is_the_published_order(scores: np.ndarray, k: int) -> None:
    wanted = np.zeros(scores.shape, bool)
    for row, values in zip(wanted, scores, strict=True):
        row[np.argsort(values, kind="stable")[::-1][:k]] = True
    np.testing.assert_array_equal(top_mask(scores, k), wanted)


def test_bad_k_and_rule() -> None:
    with pytest.raises(UserError, match="at least 1, not 0"):
        at_k([[0.5]], [[1]], (0,))
    with pytest.raises(UserError, match="skip, zero"):
        at_k([[0.5]], [[1]], empty="nan")  # type: ignore[arg-type]
