"""Labels: three states, two storages that nobody can tell apart from outside."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tacit.labels import LabelError, Labels

MATRICES = hnp.arrays(
    np.int8, hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=7), elements=st.integers(-1, 1)
)


def _both(matrix: np.ndarray) -> tuple[Labels, Labels]:
    dense = Labels.from_dense(matrix, [f"c{i}" for i in range(matrix.shape[1])])
    return dense, dense.to_sparse()


@given(MATRICES)
def test_both_storages_agree(matrix: np.ndarray) -> None:
    dense, sparse = _both(matrix)
    assert not dense.is_sparse
    assert sparse.is_sparse
    assert dense == sparse
    assert hash(dense) == hash(sparse)
    assert dense.shape == sparse.shape == matrix.shape
    assert (dense.dense() == matrix).all()
    assert (sparse.dense() == matrix).all()
    for a, b in zip(dense.counts(), sparse.counts(), strict=True):
        assert (a == b).all()
    assert all((a == b).all() for a, b in zip(dense.cells(), sparse.cells(), strict=True))


@given(MATRICES.filter(len), st.data())
def test_rows_and_take_follow_any_index(matrix: np.ndarray, data: st.DataObject) -> None:
    index = np.array(data.draw(st.lists(st.integers(0, len(matrix) - 1), max_size=9)), np.int64)
    mask = np.isin(np.arange(len(matrix)), index)
    for labels in _both(matrix):
        assert (labels.rows(index) == matrix[index]).all()
        assert (labels.take(index).dense() == matrix[index]).all()
        assert (labels.rows(mask) == matrix[mask]).all()
        assert (labels.take(mask).dense() == matrix[mask]).all()
        assert (labels.rows(slice(1, None, 2)) == matrix[1::2]).all()
        assert labels.take(index).is_sparse == labels.is_sparse


@given(MATRICES.filter(lambda m: m.size > 0), st.data())
def test_the_fingerprint_sees_every_state_name_and_order(matrix: np.ndarray, data: st.DataObject) -> None:
    dense, sparse = _both(matrix)
    i = data.draw(st.integers(0, matrix.shape[0] - 1))
    j = data.draw(st.integers(0, matrix.shape[1] - 1))
    changed = matrix.copy()
    changed[i, j] = data.draw(st.sampled_from([s for s in (-1, 0, 1) if s != matrix[i, j]]))
    names = list(dense.classes)
    names[j] = "another"
    assert Labels.from_dense(changed, dense.classes).fingerprint() != sparse.fingerprint()
    assert Labels.from_dense(matrix, names) != dense
    if len(names) > 1:
        assert Labels.from_dense(matrix, dense.classes[::-1]) != dense


def test_class_names_cannot_imitate_each_other_in_the_fingerprint() -> None:
    nothing = np.zeros((1, 2), np.int8)
    assert Labels.from_dense(nothing, ["a\0b", "c"]) != Labels.from_dense(nothing, ["a", "b\0c"])


def test_the_fingerprint_is_a_recorded_number() -> None:
    """Runs store it: a change here orphans every stored run."""
    labels = Labels.from_dense([[1, 0, -1], [0, 0, 0]], ["cat", "dog", "Kühe"])
    assert labels.fingerprint() == "55fe01e7f937f0f11548075ede801041ecf28a34f1f3173cf8530bea72676ead"


def test_counts_by_hand() -> None:
    counts = Labels.from_dense([[1, 0, -1], [1, 0, 0]], ["a", "b", "c"]).counts()
    assert counts.present.tolist() == [2, 0, 0]
    assert counts.absent.tolist() == [0, 0, 1]
    assert counts.unknown.tolist() == [0, 2, 1]


def test_nothing_writes_into_labels() -> None:
    given_matrix = np.array([[1, 0]], np.int8)
    dense, sparse = _both(given_matrix)
    given_matrix[:] = -1
    assert dense.dense().tolist() == [[1, 0]]
    with pytest.raises(ValueError, match="read-only"):
        dense.dense()[0, 0] = 0
    with pytest.raises(ValueError, match="read-only"):
        sparse.cells()[2][0] = 0
    for labels in (dense, sparse):
        labels.rows([0])[:] = -1
        assert labels.dense().tolist() == [[1, 0]]


@pytest.mark.parametrize("matrix", [[[0.5, 1]], [[2, 1]], [[257, 1]], [[float("nan"), 1]]])
def test_soft_and_strange_values_are_refused(matrix: list[list[float]]) -> None:
    with pytest.raises(LabelError, match="found"):
        Labels.from_dense(matrix, ["a", "b"])


def test_from_cells_sorts_and_drops_repeats() -> None:
    labels = Labels.from_cells(3, ["a", "b"], [2, 0, 2, 2], [1, 1, 0, 1], [1, -1, 1, 1])
    assert labels.dense().tolist() == [[0, -1], [0, 0], [1, 1]]


def test_from_cells_refuses_contradiction_in_words() -> None:
    with pytest.raises(LabelError, match=r"image 4: class 'dog' is both present and absent \(1 such cells\)"):
        Labels.from_cells(5, ["cat", "dog"], [4, 0, 4], [1, 0, 1], [1, 1, -1])


@pytest.mark.parametrize(
    ("rows", "columns", "states", "message"),
    [
        ([0], [0, 1], [1], "do not pair up"),
        ([3], [0], [1], "lies outside 3 images x 2 classes"),
        ([0], [-1], [1], "lies outside"),
        ([0], [0], [0], "leave unknown cells out"),
        ([0], [0], [257], "known cells are 1"),
        ([0], [0], [float("nan")], "known cells are 1"),
    ],
)
def test_from_cells_refuses(rows: list[int], columns: list[int], states: list[float], message: str) -> None:
    with pytest.raises(LabelError, match=message):
        Labels.from_cells(3, ["a", "b"], rows, columns, states)


def test_classes_fit_and_are_unique() -> None:
    with pytest.raises(LabelError, match="does not fit 1 classes"):
        Labels.from_dense([[1, 0]], ["a"])
    with pytest.raises(LabelError, match="listed more than once: b"):
        Labels.from_dense([[1, 0, 0]], ["a", "b", "b"])


@pytest.mark.parametrize("index", [[3], [-1], np.ones(2, bool)])
def test_a_row_that_is_not_there_is_refused_by_both(index: object) -> None:
    for labels in _both(np.zeros((3, 2), np.int8)):
        for reader in (labels.rows, labels.take):
            with pytest.raises(IndexError, match="3 labelled images"):
                reader(index)


def test_large_vocabularies_stay_small() -> None:
    """The benchmark's claim, a hundredth of its size: 1 M x 9,605 with ten known labels each within 200 MB."""
    rng = np.random.default_rng(0)
    rows = np.repeat(np.arange(10_000), 10)
    columns = (rng.integers(0, 900, 10_000)[:, None] + np.arange(10) * 950).ravel()
    labels = Labels.from_cells(10_000, [str(i) for i in range(9605)], rows, columns, np.ones(100_000, np.int8))
    assert labels.nbytes < 2_000_000
    assert repr(labels) == "Labels(10000 images x 9605 classes, sparse: 100000 present, 0 absent)"
