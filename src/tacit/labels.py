"""What is known of N images and C classes: present, absent, or never written down.

Two storages behind one interface: a dense int8 matrix, and sparse rows (known cells only) for large vocabularies.
Rows always come out dense. A Labels is frozen: nothing in the house ever writes into one.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import UserError

PRESENT, UNKNOWN, ABSENT = 1, 0, -1
MOST_DENSE = 2**34  # cells of sparse labels that are ever laid out at once: 17 GB
States = NDArray[np.int8]


class LabelError(UserError, ValueError):
    """Labels that contradict themselves or their class list; the message says what, where and what to do."""


class Counts(NamedTuple):
    """Known and unknown cells per class, each of shape [C]."""

    present: NDArray[np.int64]
    absent: NDArray[np.int64]
    unknown: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Dense:
    states: States

    @property
    def shape(self) -> tuple[int, int]:
        return self.states.shape[0], self.states.shape[1]

    @property
    def nbytes(self) -> int:
        return self.states.nbytes

    def rows(self, index: NDArray[np.int64]) -> States:
        return self.states[index]

    def cells(self) -> tuple[NDArray[np.int64], NDArray[np.int64], States]:
        rows, columns = np.nonzero(self.states)
        return rows, columns, self.states[rows, columns]

    def take(self, index: NDArray[np.int64]) -> _Dense:
        return _Dense(_frozen(self.states[index]))


@dataclass(frozen=True, eq=False)
class _Sparse:
    """Known cells in row-major order: row i owns starts[i]:starts[i+1]; columns ascend inside a row."""

    starts: NDArray[np.int64]
    columns: NDArray[Any]
    states: States
    classes: int

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.starts) - 1, self.classes

    @property
    def nbytes(self) -> int:
        return self.starts.nbytes + self.columns.nbytes + self.states.nbytes

    def _spans(self, index: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For the chosen rows: the position of each of their known cells, and which chosen row owns it."""
        first, counts = self.starts[index], self.starts[index + 1] - self.starts[index]
        owner = np.repeat(np.arange(len(index)), counts)
        before = np.cumsum(counts) - counts
        return np.arange(len(owner)) - before[owner] + first[owner], owner

    def rows(self, index: NDArray[np.int64]) -> States:
        at, owner = self._spans(index)
        out = np.zeros((len(index), self.classes), np.int8)
        out[owner, self.columns[at]] = self.states[at]
        return out

    def cells(self) -> tuple[NDArray[np.int64], NDArray[np.int64], States]:
        rows = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        return rows, self.columns.astype(np.int64), self.states

    def take(self, index: NDArray[np.int64]) -> _Sparse:
        at, owner = self._spans(index)
        starts = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(index)))]).astype(np.int64)
        return _Sparse(_frozen(starts), _frozen(self.columns[at]), _frozen(self.states[at]), self.classes)


@dataclass(frozen=True, eq=False)
class Labels:
    """States of N images x C named classes. Build with `from_dense` or `from_cells`."""

    classes: tuple[str, ...]
    _store: _Dense | _Sparse

    @classmethod
    def from_dense(cls, states: ArrayLike, classes: Sequence[str]) -> Labels:
        """A matrix of 1 (present), 0 (unknown), -1 (absent); anything else is refused."""
        matrix = np.asarray(states)
        names = _class_names(classes)
        if matrix.ndim != 2 or matrix.shape[1] != len(names):
            raise LabelError(f"a label matrix of shape {matrix.shape} does not fit {len(names)} classes")
        allowed = (matrix == PRESENT) | (matrix == UNKNOWN) | (matrix == ABSENT)
        if not allowed.all():
            strange = ", ".join(str(x) for x in np.unique(matrix[~allowed])[:5])
            raise LabelError(
                f"labels are 1 (present), 0 (unknown) or -1 (absent); found {strange}. "
                "Soft targets belong into a method's buffers, never into Labels."
            )
        return cls(names, _Dense(_frozen(np.array(matrix, np.int8))))

    @classmethod
    def from_cells(
        cls, length: int, classes: Sequence[str], rows: ArrayLike, columns: ArrayLike, states: ArrayLike
    ) -> Labels:
        """Known cells as triples; repeating a cell is fine, contradicting it is refused."""
        names = _class_names(classes)
        row, column, given = np.asarray(rows, np.int64), np.asarray(columns, np.int64), np.asarray(states)
        if not (len(row) == len(column) == len(given)):
            raise LabelError(f"{len(row)} rows, {len(column)} columns and {len(given)} states do not pair up")
        if len(row) and (row.min() < 0 or row.max() >= length or column.min() < 0 or column.max() >= len(names)):
            raise LabelError(f"a known cell lies outside {length} images x {len(names)} classes")
        if not ((given == PRESENT) | (given == ABSENT)).all():
            raise LabelError("known cells are 1 (present) or -1 (absent); leave unknown cells out")
        row, column, state = _row_major(names, row, column, given.astype(np.int8))
        starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=length))]).astype(np.int64)
        narrow = np.min_scalar_type(max(len(names) - 1, 0))
        return cls(names, _Sparse(_frozen(starts), _frozen(column.astype(narrow)), _frozen(state.copy()), len(names)))

    @classmethod
    def from_sorted(cls, classes: Sequence[str], starts: ArrayLike, columns: ArrayLike, states: ArrayLike) -> Labels:
        """Known cells that lie in order already: row i owns starts[i]:starts[i + 1], its columns ascend. For files of
        tens of millions of labels: nothing is copied but the states, and nothing widened."""
        names = _class_names(classes)
        start, column, given = np.asarray(starts, np.int64), np.asarray(columns), np.asarray(states)
        if start.ndim != 1 or not len(start) or start[0] or not len(column) == len(given) == start[-1]:
            raise LabelError(f"{len(column)} columns and {len(given)} states do not fill the rows they are given for")
        if (np.diff(start) < 0).any() or (len(column) and not 0 <= column.min() <= column.max() < len(names)):
            raise LabelError(f"a known cell lies outside {len(start) - 1} images x {len(names)} classes")
        opens = np.zeros(len(column) + 1, bool)
        opens[start] = True
        if not ((column[1:] > column[:-1]) | opens[1:-1]).all():
            raise LabelError("the columns of a row must ascend, and none come twice; from_cells puts them in order")
        if not ((given == PRESENT) | (given == ABSENT)).all():
            raise LabelError("known cells are 1 (present) or -1 (absent); leave unknown cells out")
        narrow = column.astype(np.min_scalar_type(max(len(names) - 1, 0)), copy=False)
        return cls(names, _Sparse(_frozen(start.copy()), _frozen(narrow), _frozen(given.astype(np.int8)), len(names)))

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def shape(self) -> tuple[int, int]:
        return self._store.shape

    @property
    def is_sparse(self) -> bool:
        return isinstance(self._store, _Sparse)

    @property
    def nbytes(self) -> int:
        """Memory of the stored states (class names aside)."""
        return self._store.nbytes

    def rows(self, index: ArrayLike | slice) -> States:
        """Dense states [B, C] of the chosen rows; a copy, safe to change."""
        if isinstance(index, slice):
            index = np.arange(*index.indices(len(self)))
        return self._store.rows(self._positions(index))

    def dense(self) -> States:
        """All states [N, C]; read-only where they are stored dense. Refused where they would fill the memory."""
        length, width = self.shape
        if self.is_sparse and length * width > MOST_DENSE:
            raise LabelError(
                f"{length:,} images x {width:,} classes would take {length * width / 1e9:.0f} GB with a byte for each "
                "cell. What keeps something of every cell, as methods with a memory of the labels do, cannot be used "
                "on so many: choose a method without one, or fewer images or classes."
            )
        return self._store.states if isinstance(self._store, _Dense) else self.rows(slice(None))

    def cells(self) -> tuple[NDArray[np.int64], NDArray[np.int64], States]:
        """Known cells as (row, column, state), in row-major order."""
        return self._store.cells()

    def take(self, index: ArrayLike) -> Labels:
        """The chosen rows, in that order, in the same storage."""
        return Labels(self.classes, self._store.take(self._positions(index)))

    def _positions(self, index: ArrayLike) -> NDArray[np.int64]:
        """Row numbers of an index or a mask; nothing counts from the end."""
        chosen = np.asarray(index)
        if chosen.dtype == bool:
            if chosen.shape != (len(self),):
                raise IndexError(f"a mask of shape {chosen.shape} for {len(self)} labelled images")
            chosen = np.flatnonzero(chosen)
        chosen = chosen.astype(np.int64)
        if len(chosen) and (chosen.min() < 0 or chosen.max() >= len(self)):
            raise IndexError(f"row {chosen.min() if chosen.min() < 0 else chosen.max()} of {len(self)} labelled images")
        return chosen

    @classmethod
    def stack(cls, parts: Sequence[Labels]) -> Labels:
        """The rows of several Labels of one class list, one after the other."""
        classes = parts[0].classes
        if any(part.classes != classes for part in parts):
            raise LabelError("labels with different class lists cannot be put together")
        if not any(part.is_sparse for part in parts):
            return cls.from_dense(np.concatenate([part.dense() for part in parts]), classes)
        starts = np.cumsum([0, *(len(part) for part in parts)])
        cells = [part.cells() for part in parts]
        rows = np.concatenate([rows + start for (rows, _, _), start in zip(cells, starts, strict=False)])
        columns, states = (np.concatenate([cell[i] for cell in cells]) for i in (1, 2))
        return cls.from_cells(int(starts[-1]), classes, rows, columns, states)

    def to_sparse(self) -> Labels:
        return self if self.is_sparse else Labels.from_cells(len(self), self.classes, *self.cells())

    def counts(self) -> Counts:
        _, columns, states = self.cells()
        present = np.bincount(columns[states == PRESENT], minlength=len(self.classes))
        absent = np.bincount(columns[states == ABSENT], minlength=len(self.classes))
        return Counts(present, absent, len(self) - present - absent)

    def fingerprint(self) -> str:
        """sha256 over the class names, their order, and every known state; the same for both storages."""
        digest = hashlib.sha256()
        digest.update(json.dumps(self.classes).encode())
        rows, columns, states = self.cells()
        digest.update(np.array(self.shape, "<i8").tobytes())
        digest.update((rows * max(len(self.classes), 1) + columns).astype("<i8").tobytes())
        digest.update(states.tobytes())
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Labels):
            return NotImplemented
        return self.shape == other.shape and self.fingerprint() == other.fingerprint()

    def __hash__(self) -> int:
        return hash(self.fingerprint())

    def __repr__(self) -> str:
        n, c = self.shape
        _, _, states = self.cells()
        positive = int((states == PRESENT).sum())
        kind = "sparse" if self.is_sparse else "dense"
        return f"Labels({n} images x {c} classes, {kind}: {positive} present, {len(states) - positive} absent)"


def _class_names(classes: Sequence[str]) -> tuple[str, ...]:
    names = tuple(str(name) for name in classes)
    if len(set(names)) != len(names):
        twice = [name for name, count in Counter(names).items() if count > 1][:5]
        raise LabelError(f"class names must be unique; listed more than once: {', '.join(twice)}")
    return names


def _row_major(
    names: tuple[str, ...], row: NDArray[np.int64], column: NDArray[np.int64], state: States
) -> tuple[NDArray[np.int64], NDArray[np.int64], States]:
    """Cells in order, each once; a cell that is both present and absent is refused."""
    key = row * len(names) + column
    if not (np.diff(key) <= 0).any():
        return row, column, state
    order = np.argsort(key, kind="stable")
    key, row, column, state = key[order], row[order], column[order], state[order]
    again = np.diff(key, prepend=-1) == 0
    clash = again & (np.diff(state, prepend=state[:1]) != 0)
    if clash.any():
        at = int(np.flatnonzero(clash)[0])
        raise LabelError(
            f"image {row[at]}: class '{names[column[at]]}' is both present and absent "
            f"({int(clash.sum())} such cells); keep one of the two"
        )
    return row[~again], column[~again], state[~again]


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array
