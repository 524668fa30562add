"""Average precision: scikit-learn's number, the published variants, and what cannot be scored."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import average_precision_score

from tacit.errors import UserError
from tacit.metrics import average_precision, mean_average_precision, ranking, states_from_truth, unknown_as_absent


@st.composite
def problems(draw: st.DrawFn, dtype: type = np.float64) -> tuple[np.ndarray, np.ndarray]:
    """Scores from a handful of values (heavy ties, infinities, both zeros) or any floats, and states with unknowns."""
    shape = (draw(st.integers(1, 40)), draw(st.integers(1, 5)))
    width = 32 if dtype is np.float32 else 64
    few = st.sampled_from([-np.inf, -1.5, -0.0, 0.0, 0.25, 0.5, 1.0, np.inf])
    anything = st.floats(-1e6, 1e6, width=width)
    scores = draw(hnp.arrays(dtype, shape, elements=draw(st.sampled_from([few, anything]))))
    states = draw(hnp.arrays(np.int8, shape, elements=st.sampled_from([-1, 0, 1])))
    return scores, states


def by_sklearn(scores: np.ndarray, states: np.ndarray) -> np.ndarray:
    """One class at a time on its known rows; infinities, which scikit-learn refuses, replaced in order."""
    finite = np.nan_to_num(scores.astype(np.float64), posinf=1e7, neginf=-1e7)
    out = np.full(scores.shape[1], np.nan)
    for c in range(scores.shape[1]):
        known = states[:, c] != 0
        truth = states[known, c] == 1
        if truth.any() and not truth.all():
            out[c] = average_precision_score(truth, finite[known, c])
    return out


@given(problems())
@settings(max_examples=150, deadline=None)
def test_grouped_equals_sklearn(problem: tuple[np.ndarray, np.ndarray]) -> None:
    scores, states = problem
    np.testing.assert_allclose(average_precision(scores, states), by_sklearn(scores, states), rtol=0, atol=1e-12)


@given(problems(np.float32), st.integers(1, 64), st.integers(1, 9))
@settings(max_examples=100, deadline=None)
def test_the_block_sizes_do_not_show(problem: tuple[np.ndarray, np.ndarray], cells: int, tile: int) -> None:
    scores, states = problem
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "_CELLS_PER_BLOCK", cells)
        patch.setattr(ranking, "_ROWS_PER_TILE", tile)
        np.testing.assert_allclose(average_precision(scores, states), by_sklearn(scores, states), rtol=0, atol=1e-12)


@given(problems(), st.sampled_from(["grouped", "interpolated"]), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_rows_may_come_in_any_order(problem: Any, variant: Any, random: Any) -> None:
    scores, states = problem
    order = random.sample(range(len(scores)), len(scores))
    one = average_precision(scores, states, variant=variant)
    np.testing.assert_array_equal(one, average_precision(scores[order], states[order], variant=variant))


@given(problems())
@settings(max_examples=60, deadline=None)
def test_interpolation_never_lowers_and_bounds_hold(problem: tuple[np.ndarray, np.ndarray]) -> None:
    plain, raised = (average_precision(*problem, variant=v) for v in ("grouped", "interpolated"))
    scored = ~np.isnan(plain)
    assert (raised[scored] >= plain[scored] - 1e-15).all()
    assert ((plain[scored] > 0) & (raised[scored] <= 1)).all()


def test_unknown_cells_do_not_matter() -> None:
    generator = np.random.default_rng(0)
    scores = generator.normal(size=(200, 3))
    states = generator.choice([-1, 0, 1], size=scores.shape).astype(np.int8)
    disturbed = np.where(states == 0, generator.normal(size=scores.shape) * 100, scores)
    for variant in ("grouped", "interpolated", "asl"):
        one, other = (average_precision(s, states, variant=variant) for s in (scores, disturbed))
        np.testing.assert_array_equal(one, other)


def test_large_and_tied_like_a_test_split() -> None:
    generator = np.random.default_rng(1)
    truth = generator.random((5000, 20)) < 0.04
    scores = (1 / (1 + np.exp(2 - 2 * truth - generator.normal(size=truth.shape)))).round(2).astype(np.float32)
    ours = average_precision(scores, states_from_truth(truth))
    wanted = [average_precision_score(truth[:, c], scores[:, c]) for c in range(20)]
    np.testing.assert_allclose(ours, wanted, rtol=0, atol=1e-12)


def test_by_hand() -> None:
    """Falling: 0.9 (+), 0.5 (+ and -), 0.2 (+). Precision 1, 2/3, 3/4, each reached by one of three positives."""
    scores = np.array([[0.5], [0.9], [0.2], [0.5]])
    states = np.array([[1], [1], [1], [-1]], np.int8)
    assert average_precision(scores, states)[0] == pytest.approx((1 + 2 / 3 + 3 / 4) / 3, abs=1e-15)
    assert average_precision(scores, states, variant="interpolated")[0] == pytest.approx((1 + 3 / 4 + 3 / 4) / 3)
    # by order, the later of the tied rows (a negative) comes first: + - + +
    assert average_precision(scores, states, variant="asl")[0] == pytest.approx((1 + 2 / 3 + 3 / 4) / (3 + 1e-8))


def test_golden_single_positive(golden_single_positive: dict[str, Any]) -> None:
    vector = golden_single_positive["metrics"]
    states = states_from_truth(vector["targets"])
    ap = average_precision(vector["scores"], states, empty="zero")
    np.testing.assert_allclose(ap, vector["ap_per_class"], atol=1e-9)
    result = mean_average_precision(vector["scores"], states, empty="zero")
    assert 100 * result.value == pytest.approx(vector["official_compute_metrics"]["map"], abs=1e-7)


def test_golden_variants(golden_partial_labels: dict[str, Any]) -> None:
    vector = golden_partial_labels["metrics_small"]
    scores, states = vector["inputs"]["scores"], states_from_truth(vector["inputs"]["gt01"])
    expected = vector["expected"]
    ap = average_precision(scores, states, variant="asl")
    np.testing.assert_allclose(ap, expected["AP_asl_style_per_class"], atol=1e-9)
    assert 100 * ap.mean() == pytest.approx(expected["mAP_asl_style_percent"], abs=1e-6)
    value = mean_average_precision(scores, states, variant="interpolated").value
    assert value == pytest.approx(expected["mAP_VOC2012_interpolated"], abs=1e-9)
    np.testing.assert_allclose(average_precision(scores, states), expected["AP_meter_per_class"], atol=1e-7)


def test_golden_ties(golden_partial_labels: dict[str, Any]) -> None:
    vector = golden_partial_labels["ap_ties_pos_first"]
    scores = np.array(vector["inputs"]["scores"])[:, None]
    states = states_from_truth(np.array(vector["inputs"]["gt01"])[:, None])
    expected = vector["expected"]
    assert average_precision(scores, states, variant="asl")[0] == pytest.approx(
        expected["official_argsort_reversed"], abs=1e-9
    )
    assert average_precision(scores, states)[0] == pytest.approx(expected["sklearn_grouped"], abs=1e-9)
    # with the rows turned round, a reversed sort reads the tie in the other order
    turned = average_precision(scores[::-1], states[::-1], variant="asl")[0]
    assert turned == pytest.approx(expected["stable_descending"], abs=1e-8)


def test_what_cannot_be_scored_is_named_not_zero() -> None:
    scores = np.array([[0.9, 0.9, 0.9, 0.9], [0.1, 0.1, 0.1, 0.1]])
    states = np.array([[1, 1, -1, 0], [-1, 1, -1, 0]], np.int8)
    result = mean_average_precision(scores, states)
    assert result.value == 1.0
    assert result.unscored == (1, 2, 3)
    np.testing.assert_array_equal(result.per_class, [1, np.nan, np.nan, np.nan])
    published = mean_average_precision(scores, states, empty="zero")
    np.testing.assert_array_equal(published.per_class, [1, 1, 0, 0])
    assert published.value == 0.5
    assert published.unscored == (1, 2, 3)
    nothing = mean_average_precision(scores, np.zeros_like(states))
    assert np.isnan(nothing.value)
    assert nothing.unscored == (0, 1, 2, 3)


def test_the_rule_unknown_counts_as_negative_is_a_step_of_its_own() -> None:
    states = np.array([[1], [0], [-1]], np.int8)
    scores = np.array([[0.5], [0.9], [0.1]])
    assert average_precision(scores, states)[0] == 1.0
    assert average_precision(scores, unknown_as_absent(states))[0] == 0.5
    assert (states == [[1], [0], [-1]]).all()


def test_inputs_are_left_alone_and_any_layout_serves() -> None:
    generator = np.random.default_rng(2)
    scores, states = generator.normal(size=(50, 9)), generator.choice([-1, 0, 1], size=(50, 9)).astype(np.int8)
    before = scores.copy(), states.copy()
    wanted = average_precision(scores, states)
    assert (scores == before[0]).all() and (states == before[1]).all()
    np.testing.assert_array_equal(average_precision(np.asfortranarray(scores), np.asfortranarray(states)), wanted)
    np.testing.assert_array_equal(average_precision(scores[:, ::-1], states[:, ::-1]), wanted[::-1])
    whole = average_precision((scores * 10).astype(int), states)
    np.testing.assert_array_equal(whole, average_precision((scores * 10).astype(int).astype(float), states))


@pytest.mark.parametrize(
    ("scores", "states", "words"),
    [
        ([[0.1, np.nan], [0.2, np.nan]], [[1, 1], [-1, -1]], ["2 scores of 4 are NaN", "class 1: 2"]),
        ([[0.1]], [[2]], ["1 (present)", "from 2 to 2"]),
        ([[0.1]], [[0.5]], ["none of these"]),
        ([[0.1]], [[np.nan]], ["none of these"]),
        ([[0.1]], [[True]], ["states_from_truth"]),
        ([[0.1]], [["1"]], ["not <U1"]),
        ([[0.1, 0.2]], [[1]], ["(1, 2)", "(1, 1)"]),
        ([0.1], [1], ["[images, classes]"]),
        (np.zeros((0, 3)), np.zeros((0, 3), np.int8), ["0 images x 3 classes"]),
        ([[1j]], [[1]], ["real numbers"]),
    ],
)
def test_bad_input_is_refused_in_words(scores: Any, states: Any, words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        average_precision(scores, np.array(states))
    assert all(word in str(caught.value) for word in words)


def test_unknown_rules_are_refused() -> None:
    with pytest.raises(UserError, match=r"variant='voc'.*grouped, interpolated, asl"):
        average_precision([[0.1]], [[1]], variant="voc")  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"empty='skip'.*nan, zero"):
        average_precision([[0.1]], [[1]], empty="skip")  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"found \[-1\.0\]"):
        states_from_truth([[1, -1]])
