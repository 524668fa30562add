"""The label table: images, what is known of them, and their splits, as a Parquet or CSV file.

Reading needs to know two things that rows cannot say: the class list with its order, and what silence means. Tables
written here declare both; for a person's own table they come as arguments, which win over a declaration.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .labels import ABSENT, UNKNOWN, Labels
from .table_files import Declaration, Form, LabelTableError, RawTable, Silence, read_raw, write_raw
from .table_forms import Ints, Known, States, read_form, write_form

__all__ = ["Form", "LabelTable", "LabelTableError", "Silence", "read_label_table", "write_label_table"]

DENSE_BYTES = 1 << 26  # up to 64 MB a matrix is simply dense …
SPARSE_SHARE = 1 / 8  # … above, it is sparse where at most this share of the cells is known


@dataclass(frozen=True)
class LabelTable:
    """Images by name, their labels row by row, and the split of each where the table has one."""

    images: tuple[str, ...]
    labels: Labels
    split: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not self.images:
            raise LabelTableError("a label table needs at least one image")
        if len(self.images) != len(self.labels) or (self.split is not None and len(self.split) != len(self.images)):
            splits = "" if self.split is None else f" and {len(self.split)} splits"
            raise LabelTableError(
                f"{len(self.images)} images, {len(self.labels)} rows of labels{splits} do not pair up"
            )
        if len(set(self.images)) != len(self.images) or "" in self.images:
            raise LabelTableError("the images of a label table have names, and no two the same")
        if "" in self.labels.classes:
            raise LabelTableError("the classes of a label table have names; one is empty")

    def __len__(self) -> int:
        return len(self.images)


def read_label_table(
    path: str | os.PathLike[str], *, classes: Sequence[str] | None = None, silence: Silence | None = None
) -> LabelTable:
    """Reads any of the three forms (see `table_forms`), told apart by their columns.

    `classes` and `silence` win over what the file declares. Without either, classes are the names that occur (a wide
    table's columns in order, else sorted). A table that can only say "present" must be told what silence means;
    one that writes absent labels too means "unknown" by it.
    """
    raw = read_raw(Path(path))
    known = read_form(raw)
    order = _class_list(raw, known, classes)
    if not order and classes is None and raw.declared.classes is None:
        raise LabelTableError(f"{raw.path} names no class in any row; write some labels, or give the class list")
    meaning = _silence(raw, known, silence)
    return LabelTable(known.images, _labels(raw, known, order, meaning), known.split)


def write_label_table(path: str | os.PathLike[str], table: LabelTable, *, form: Form = "lists") -> None:
    """Writes atomically, and so that `read_label_table` gives an equal table back: classes without a label, images
    without one, orders and sparse storage included. A CSV gets `<name>.json` beside it for its declaration."""
    path, labels = Path(path), table.labels
    text = path.suffix.lower() != ".parquet"
    try:
        columns = write_form(table.images, table.split, labels, form, text)
    except UnicodeEncodeError as error:
        raise LabelTableError(f"{path}: the name {error.object!r} is not valid Unicode; rename it") from error
    complete = form != "wide" and not labels.counts().unknown.any()
    silence: Silence = "absent" if complete else "unknown"
    write_raw(path, columns, Declaration(labels.classes, silence, form, labels.is_sparse))


def _class_list(raw: RawTable, known: Known, given: Sequence[str] | None) -> tuple[str, ...]:
    listed = tuple(given) if given is not None else raw.declared.classes
    if listed is None:
        _refuse_near_twins(raw, known.names)
        return known.names if known.ordered else tuple(sorted(known.names))
    allowed = set(listed)
    for code, name in enumerate(known.names):
        if name not in allowed:
            cells = np.flatnonzero(known.codes == code)
            image = known.images[known.rows[cells[0]]] if len(cells) else None
            place = raw.row(int(known.where[cells[0]]), image) if len(cells) else f"{raw.path}, its header"
            near = difflib.get_close_matches(name, listed, n=1) or [n for n in listed if n.lower() == name.lower()]
            hint = f"did you mean '{near[0]}'?" if near else "correct it, or add it to the list."
            raise LabelTableError(f"{place}: the class '{name}' is not in the list of {len(listed)} classes; {hint}")
    return listed


def _refuse_near_twins(raw: RawTable, names: Sequence[str]) -> None:
    """Without a class list nobody can tell ' dog' from 'dog': a blank around a name is then taken for a slip."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.strip(), name)
        if other != name:
            raise LabelTableError(
                f"{raw.path}: the classes '{other}' and '{name}' differ only in blanks around them; "
                "correct one, or give the class list if both are meant"
            )


def _silence(raw: RawTable, known: Known, given: Silence | None) -> Silence:
    if given not in (None, "unknown", "absent"):
        raise LabelTableError(f"silence is 'unknown' or 'absent', not '{given}'")
    meaning = given or raw.declared.silence or ("unknown" if known.says_absent else None)
    if meaning is None:
        raise LabelTableError(
            f"{raw.path} says which classes are present, and not what it means that one is left out. Declare it: "
            "--silence unknown (nobody looked) or --silence absent (everything present is listed); or, for a CSV, "
            f'write {{"silence": "unknown"}} into {raw.path.name}.json beside it.'
        )
    return meaning


def _cells(raw: RawTable, known: Known, classes: tuple[str, ...]) -> tuple[Ints, Ints, States]:
    """Known cells as (row, column, state) in row-major order, none of them both present and absent."""
    position = {name: i for i, name in enumerate(classes)}
    columns = np.array([position[name] for name in known.names], np.int64)[known.codes]
    keys = known.rows * len(classes) + columns
    order = np.argsort(keys, kind="stable")
    keys, states = keys[order], known.states[order]
    clash = np.flatnonzero((np.diff(keys) == 0) & (np.diff(states) != 0))
    if len(clash):
        at = int(order[clash[0] + 1])
        count = len(np.unique(keys[clash]))
        raise LabelTableError(
            f"{raw.row(int(known.where[at]), known.images[known.rows[at]])}: '{known.names[known.codes[at]]}' is both "
            f"present and absent ({count} such label{'s' if count > 1 else ''} in all); keep one of the two"
        )
    return known.rows[order], columns[order], states


def _labels(raw: RawTable, known: Known, classes: tuple[str, ...], silence: Silence) -> Labels:
    rows, columns, states = _cells(raw, known, classes)
    size = len(known.images) * len(classes)
    sparse = raw.declared.sparse
    if sparse is None:
        sparse = size > DENSE_BYTES and silence == "unknown" and len(columns) <= size * SPARSE_SHARE
    if sparse and silence == "unknown":
        return Labels.from_cells(len(known.images), classes, rows, columns, states)
    try:
        matrix = np.full((len(known.images), len(classes)), ABSENT if silence == "absent" else UNKNOWN, np.int8)
    except MemoryError as error:
        raise LabelTableError(
            f"{raw.path}: {len(known.images)} images x {len(classes)} classes need {size / 2**30:.0f} GiB where "
            "silence means absent; declare it 'unknown', or split the table"
        ) from error
    matrix[rows, columns] = states
    labels = Labels.from_dense(matrix, classes)
    return labels.to_sparse() if sparse else labels
