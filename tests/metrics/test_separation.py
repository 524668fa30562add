"""Wasserstein distance between positives and negatives: by hand, against SciPy, and what it must not depend on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance

from tacit.metrics.inputs import MetricError
from tacit.metrics.separation import Shares, compare_separation, densities, wasserstein


def column(*values: float) -> np.ndarray:
    return np.array(values)[:, None]


def test_by_hand() -> None:
    # 0.1 moves to 0.5 and 0.3 to 0.9: by 0.4 and 0.6, on average by 0.5
    assert wasserstein(column(0.9, 0.5, 0.1, 0.3), column(1, 1, -1, -1))[0] == pytest.approx(0.5)
    # one positive between two negatives: half of the mass moves by 0.25 up, half by 0.25 down
    assert wasserstein(column(0.5, 0.25, 0.75), column(1, -1, -1))[0] == pytest.approx(0.25)


def test_apart_by_the_whole_range_it_is_one_and_equal_it_is_nothing() -> None:
    scores = np.array([[1.0, 0.4], [1.0, 0.4], [0.0, 0.4]])
    np.testing.assert_array_equal(wasserstein(scores, [[1, 1], [1, -1], [-1, -1]]), [1.0, 0.0])


def test_which_side_is_higher_does_not_matter() -> None:
    assert wasserstein(column(0.1, 0.9), column(1, -1))[0] == pytest.approx(0.8)


def test_a_class_that_lacks_a_side_is_nan() -> None:
    scores = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    found = wasserstein(scores, [[1, -1, 0], [1, -1, 1]])
    assert np.isnan(found).all()
    assert np.isnan(wasserstein([[0.5]], [[1]])).all()


def test_unknown_cells_and_cells_that_do_not_count_are_as_if_they_were_not_there() -> None:
    rng = np.random.default_rng(0)
    scores, labels = rng.random((60, 5)), rng.integers(-1, 2, (60, 5)).astype(np.int8)
    cells = rng.random((60, 5)) < 0.5
    found = wasserstein(scores, labels, cells=cells)
    for c in range(5):
        kept = (labels[:, c] != 0) & cells[:, c]
        alone = wasserstein(scores[kept][:, [c]], labels[kept][:, [c]])
        assert found[c] == pytest.approx(alone[0], abs=1e-12)


def test_blocks_of_classes_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    scores, labels = rng.random((40, 7)).astype(np.float32), rng.choice([-1, 1], (40, 7))
    whole = wasserstein(scores, labels)
    monkeypatch.setattr("tacit.metrics.separation._CELLS_PER_BLOCK", 90)
    np.testing.assert_array_equal(wasserstein(scores, labels), whole)


TIED = st.integers(0, 8).map(lambda n: n / 8)  # many equal scores


@given(st.lists(st.tuples(TIED, st.booleans()), min_size=2, max_size=30), st.sampled_from([np.float32, np.float64]))
def test_as_scipy_has_it(cells: list[tuple[float, bool]], kind: type) -> None:
    scores, positive = np.array([c[0] for c in cells], kind), np.array([c[1] for c in cells])
    found = wasserstein(scores[:, None], np.where(positive, 1, -1)[:, None])[0]
    if positive.all() or not positive.any():
        assert np.isnan(found)
    else:
        assert found == pytest.approx(wasserstein_distance(scores[positive], scores[~positive]), abs=1e-12)


@given(st.permutations(range(12)), st.floats(0.01, 1))
def test_order_of_rows_is_nothing_and_scale_is_everything(order: list[int], scale: float) -> None:
    rng = np.random.default_rng(2)
    scores, labels = rng.random((12, 2)), np.where(np.arange(24).reshape(12, 2) % 3, -1, 1)
    expected = wasserstein(scores, labels)
    np.testing.assert_allclose(wasserstein(scores[order], labels[order]), expected, atol=1e-12)
    np.testing.assert_allclose(wasserstein(scores * scale, labels), expected * scale, atol=1e-12)


def test_shares_count_ties_apart_and_leave_out_what_neither_has() -> None:
    shares = compare_separation([0.5, 0.2, 0.3, np.nan, 0.1], [0.4, 0.3, 0.3, 0.1, np.nan])
    assert shares == Shares(larger=1, smaller=1, equal=1) and shares.classes == 3
    assert shares.larger_share == pytest.approx(1 / 3)
    assert np.isnan(compare_separation([np.nan], [0.2]).larger_share)


def test_densities_by_hand() -> None:
    scores = np.array([[0.0, 0.0], [0.24, 0.0], [0.25, 0.0], [1.0, 0.0], [0.5, 0.0]])
    labels = np.array([[-1, 1], [-1, 1], [1, 1], [1, 1], [0, 1]], np.int8)
    found = densities(scores, labels, 0, bins=4)
    assert found.positives.tolist() == [0, 1, 0, 1] and found.negatives.tolist() == [2, 0, 0, 0]
    assert found.shares[0].tolist() == [0, 0.5, 0, 0.5] and found.edges.tolist() == [0, 0.25, 0.5, 0.75, 1]
    some = densities(scores, labels, 0, bins=4, cells=np.arange(10).reshape(5, 2) > 3)
    assert some.positives.tolist() == [0, 1, 0, 1] and some.negatives.sum() == 0
    assert found.plus(some).positives.tolist() == [0, 2, 0, 2]


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("infinite", lambda: wasserstein(column(np.inf, 0.1), column(1, -1))),
        ("NaN", lambda: wasserstein(column(np.nan, 0.1), column(1, -1))),
        ("boolean matrix", lambda: wasserstein(column(0.1, 0.2), column(1, -1), cells=[True, False])),
        ("one length", lambda: compare_separation([0.1], [0.1, 0.2])),
        ("in \\[0, 1\\]", lambda: densities(column(2.0, 0.1), column(1, -1), 0)),
        ("no class 1", lambda: densities(column(0.2, 0.1), column(1, -1), 1)),
        ("at least one", lambda: densities(column(0.2, 0.1), column(1, -1), 0, bins=0)),
    ],
)
def test_what_has_no_answer_is_refused(message: str, call: object) -> None:
    with pytest.raises(MetricError, match=message):
        call()  # type: ignore[operator]
