"""Rankings within images, against scikit-learn and by hand."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import coverage_error, label_ranking_average_precision_score, label_ranking_loss

from tacit.errors import UserError
from tacit.metrics import (
    coverage,
    example_scores,
    examples,
    image_ranking,
    label_ranking_average_precision,
    one_error,
    ranking_loss,
    states_from_truth,
)

tied = hnp.arrays(np.float64, (9, 5), elements=st.sampled_from([-2.0, -0.0, 0.0, 0.3, 0.7, 1.0]))


@given(tied, hnp.arrays(np.int8, (9, 5), elements=st.integers(0, 1)))
@settings(max_examples=150, deadline=None)
def test_equal_to_sklearn_where_nothing_is_masked(scores: np.ndarray, truth: np.ndarray) -> None:
    found = example_scores(scores, states_from_truth(truth), empty="sklearn")
    assert found.coverage_depth == pytest.approx(coverage_error(truth, scores), abs=1e-12)
    assert found.coverage == pytest.approx((coverage_error(truth, scores) - 1) / 5, abs=1e-12)
    assert found.ranking_loss == pytest.approx(label_ranking_loss(truth, scores), abs=1e-12)
    assert pytest.approx(label_ranking_average_precision_score(truth, scores), abs=1e-12) == found.LRAP


@given(tied, hnp.arrays(np.int8, (9, 5), elements=st.sampled_from([-1, 0, 1])))
@settings(max_examples=100, deadline=None)
def test_a_mask_is_the_same_as_leaving_the_classes_out(scores: np.ndarray, states: np.ndarray) -> None:
    whole = image_ranking(scores, states)
    for i in range(len(scores)):
        known = states[i] != 0
        if not known.any():
            assert np.isnan([values[i] for values in whole[:4]]).all()
            continue
        alone = image_ranking(scores[i : i + 1, known], states[i : i + 1, known])
        np.testing.assert_array_equal([v[i] for v in whole], [v[0] for v in alone])


@given(tied, hnp.arrays(np.int8, (9, 5), elements=st.sampled_from([-1, 0, 1])), st.permutations(range(5)))
@settings(max_examples=60, deadline=None)
def test_classes_may_come_in_any_order(scores: np.ndarray, states: np.ndarray, order: list[int]) -> None:
    np.testing.assert_allclose(
        example_scores(scores, states), example_scores(scores[:, order], states[:, order]), atol=1e-14
    )


def test_by_hand() -> None:
    """Image 0 reads + - + -; image 1 reads - +, its third class unknown and on top."""
    scores = np.array([[0.9, 0.8, 0.7, 0.6], [0.5, 0.4, 0.99, 0.98]])
    states = np.array([[1, -1, 1, -1], [-1, 1, 0, 0]], np.int8)
    assert one_error(scores, states) == 1 / 2
    assert coverage(scores, states) == pytest.approx((2 / 4 + 1 / 2) / 2)
    assert ranking_loss(scores, states) == pytest.approx((1 / 4 + 1) / 2)
    assert label_ranking_average_precision(scores, states) == pytest.approx(((1 + 2 / 3) / 2 + 1 / 2) / 2)


def test_a_tied_top_counts_by_its_share_of_positives() -> None:
    assert one_error([[0.9, 0.9, 0.9, 0.1]], [[1, -1, -1, 1]]) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("metric", "skipped", "counted"),
    [
        (one_error, 0, 1 / 3),
        (coverage, (0 + 1 / 2) / 2, 0),
        (ranking_loss, 0, 0),
        (label_ranking_average_precision, 1, 1),
    ],
)
def test_images_without_positives_follow_the_named_rule(
    metric: Callable[..., float], skipped: float, counted: float
) -> None:
    """One image to score, one without a positive, one without a negative (which has a depth but no pairs)."""
    scores, states = [[0.9, 0.1], [0.9, 0.1], [0.9, 0.1]], [[1, -1], [-1, -1], [1, 1]]
    assert metric(scores, states) == pytest.approx(skipped)
    assert metric(scores, states, empty="sklearn") == pytest.approx(counted)
    assert example_scores(scores, states).unscored == 1


def test_blocks_of_images_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    scores, states = generator.normal(size=(50, 6)), generator.choice([-1, 0, 1], size=(50, 6)).astype(np.int8)
    whole = image_ranking(scores, states)
    monkeypatch.setattr(examples, "_CELLS_PER_BLOCK", 40)
    for one, other in zip(image_ranking(scores, states), whole, strict=True):
        np.testing.assert_array_equal(one, other)


def test_bad_rule_is_refused() -> None:
    with pytest.raises(UserError, match="skip, sklearn"):
        one_error([[0.5]], [[1]], empty="zero")  # type: ignore[arg-type]
