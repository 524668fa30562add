"""The three forms of a label table, between columns and known cells.

* lists: a row per image; `present` and `absent` hold class names, in a CSV joined by `|`. Inside a joined name `|` is
  written `%7C`; a `%` is written `%25` only where it would otherwise read as one of these two.
* wide: a row per image, a column per class; 1 present, 0 absent, blank unknown.
* long: a row per known cell: `image`, `class`, `state`; an image without any has one row with both left blank.

All work is on whole columns; nothing here loops over images.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from .labels import ABSENT, PRESENT, UNKNOWN, Labels
from .table_files import Form, LabelTableError, RawTable

Ints = NDArray[np.int64]
States = NDArray[np.int8]
WORDS = {"1": PRESENT, "1.0": PRESENT, "true": PRESENT, "present": PRESENT}
WORDS |= {"0": ABSENT, "0.0": ABSENT, "false": ABSENT, "absent": ABSENT, "": UNKNOWN, "unknown": UNKNOWN}
CODES = np.array([*WORDS.values()], np.int8)
MINUS_ONE = " (-1 means absent in some programs and unknown in others)"


@dataclass(frozen=True)
class Known:
    """What a table says: cells as (image position, index into `names`, state), and where each was written."""

    images: tuple[str, ...]
    split: tuple[str, ...] | None
    names: tuple[str, ...]  # class names that occur; in column order for a wide table
    rows: Ints
    codes: Ints
    states: States
    where: Ints  # row of the file
    says_absent: bool  # the table has a way to write that a class is absent
    ordered: bool = False  # the order of `names` is the writer's own


# ------------------------------------------------------------------------------------------------ reading


def read_form(raw: RawTable) -> Known:
    form = raw.declared.form or _guess_form(raw)
    allowed = {"lists": ("image", "split", "present", "absent"), "long": ("image", "split", "class", "state")}.get(form)
    names = raw.columns.column_names
    if "image" not in names:
        near = next((name for name in names if name.strip().lower() in ("image", "images", "file", "filename")), None)
        hint = f"; rename '{near}' to 'image'" if near else f"; found {', '.join(map(repr, names[:8]))}"
        raise LabelTableError(f"{raw.path} has no column 'image' with the images' names{hint}")
    if allowed and (strange := [name for name in names if name not in allowed]):
        hint = " (written by pandas? use index=False)" if strange[0] in ("", "__index_level_0__") else ""
        raise LabelTableError(
            f"{raw.path}: unknown column '{strange[0]}'{hint}; this table has {', '.join(allowed)}. Remove the column, "
            "or give every class a column of its own instead of lists."
        )
    if not len(raw.columns):
        raise LabelTableError(f"{raw.path} is a table without images: it has a header and no rows")
    return {"lists": _read_lists, "wide": _read_wide, "long": _read_long}[form](raw)


def _guess_form(raw: RawTable) -> Form:
    names = set(raw.columns.column_names)
    if names & {"present", "absent"}:
        return "lists"
    return "long" if "class" in names else "wide"


def _read_lists(raw: RawTable) -> Known:
    images, split = _images(raw), _split(raw)
    parts = [
        (state, *_list_cells(raw, images, column))
        for column, state in (("present", PRESENT), ("absent", ABSENT))
        if column in raw.columns.column_names
    ]
    merged = pa.concat_arrays([names for _, _, names in parts]).dictionary_encode()
    rows = np.concatenate([rows for _, rows, _ in parts])
    states = np.concatenate([np.full(len(rows), state, np.int8) for state, rows, _ in parts])
    names, codes = _unescaped(merged) if _is_joined(raw) else _encoded(merged)
    if "" in names:
        at = int(rows[np.flatnonzero(codes == names.index(""))[0]])
        raise LabelTableError(
            f"{raw.row(at, images[at])}: an empty class name in a list; remove it (two '|' in a row?)"
        )
    return Known(images, split, names, rows, codes, states, rows, "absent" in raw.columns.column_names)


def _is_joined(raw: RawTable) -> bool:
    return any(
        _is_text(raw.columns.schema.field(n).type) for n in raw.columns.column_names if n in ("present", "absent")
    )


def _list_cells(raw: RawTable, images: Sequence[str], name: str) -> tuple[Ints, pa.Array]:
    """Image position and class name (null: none) of everything listed in one column."""
    column = raw.columns.column(name)
    if _is_text(column.type):
        text = pc.fill_null(column.cast(pa.large_string()), "").combine_chunks()
        lists = pc.split_pattern(text, "|")
        lists = pc.if_else(pc.equal(text, ""), pa.scalar([], lists.type), lists)
    elif pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        if not (_is_text(column.type.value_type) or pa.types.is_null(column.type.value_type)):
            raise LabelTableError(f"{raw.path}: '{name}' lists {column.type.value_type}, not class names")
        lists = column.cast(pa.large_list(pa.large_string())).combine_chunks()
    elif pa.types.is_null(column.type):
        return np.zeros(0, np.int64), pa.array([], pa.large_string())
    else:
        raise LabelTableError(f"{raw.path}: '{name}' must hold lists of class names, not {column.type}")
    rows = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    return rows, pc.fill_null(pc.list_flatten(lists), "").cast(pa.large_string())


def _read_wide(raw: RawTable) -> Known:
    images, split = _images(raw), _split(raw)
    names = tuple(name for name in raw.columns.column_names if name not in ("image", "split"))
    if not names and raw.declared.classes is None:
        raise LabelTableError(f"{raw.path} has images and no labels; add a column per class, or a column 'present'")
    rows, codes, states = [], [], []
    for code, name in enumerate(names):
        column = _states(raw, name, images)
        known = np.flatnonzero(column)
        rows.append(known)
        codes.append(np.full(len(known), code, np.int64))
        states.append(column[known])
    none = [np.zeros(0, np.int64)]
    where = np.concatenate(rows or none)
    cells = np.concatenate(states or none).astype(np.int8)
    return Known(images, split, names, where, np.concatenate(codes or none), cells, where, True, ordered=True)


def _read_long(raw: RawTable) -> Known:
    written = _text(raw, "image").dictionary_encode()
    images, rows = _encoded(written)
    _refuse_nameless(raw, images, rows)
    classes = pc.fill_null(_text(raw, "class"), "").dictionary_encode()
    names, codes = _encoded(classes)
    has_state = "state" in raw.columns.column_names
    blank = codes == names.index("") if "" in names else np.zeros(len(codes), bool)
    states = _states(raw, "state", [images[i] for i in rows]) if has_state else np.where(blank, 0, 1).astype(np.int8)
    if (blank & (states != UNKNOWN)).any():
        at = int(np.flatnonzero(blank & (states != UNKNOWN))[0])
        raise LabelTableError(f"{raw.row(at, images[rows[at]])}: a state without a class; name the class, or remove it")
    known = np.flatnonzero(states)
    kept = [i for i, name in enumerate(names) if name]
    renumber = np.full(len(names), -1, np.int64)
    renumber[kept] = np.arange(len(kept))
    split = _split(raw)
    return Known(
        images,
        None if split is None else _split_per_image(raw, images, rows, split),
        tuple(names[i] for i in kept),
        rows[known],
        renumber[codes[known]],
        states[known],
        known,
        has_state,
    )


def _split_per_image(raw: RawTable, images: tuple[str, ...], rows: Ints, split: tuple[str, ...]) -> tuple[str, ...]:
    """Long form repeats an image's split on each of its rows; they must agree."""
    values = np.array(split, object)
    first = np.full(len(images), -1, np.int64)
    first[rows[::-1]] = np.arange(len(rows))[::-1]
    differs = np.flatnonzero(values != values[first[rows]])
    if len(differs):
        at = int(differs[0])
        was = values[first[rows[at]]]
        raise LabelTableError(f"{raw.row(at, images[rows[at]])}: split '{values[at]}', but '{was}' earlier; keep one")
    return tuple(values[first])


def _states(raw: RawTable, name: str, images: Sequence[str]) -> States:
    """A column of labels as 1, 0, -1; says which cell is none."""
    column = raw.columns.column(name)
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int8)
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
    text = _as_text(raw, name, column)
    word = pc.index_in(pc.utf8_lower(pc.utf8_trim_whitespace(text)), value_set=pa.array(list(WORDS), pa.large_string()))
    codes = pc.fill_null(word, -1).combine_chunks().to_numpy(zero_copy_only=False)
    if (codes < 0).any():
        at = int(np.flatnonzero(codes < 0)[0])
        value = text[at].as_py()
        extra = MINUS_ONE if value.strip() in ("-1", "-1.0") else ""
        raise LabelTableError(
            f"{raw.row(at, images[at])}, column '{name}': '{value}' is no label{extra}. Write 1 for present, 0 for "
            "absent, and leave unknown blank; a column that is no class has to go."
        )
    states: States = CODES[codes]
    return states


def _images(raw: RawTable) -> tuple[str, ...]:
    """One name per row, none twice."""
    distinct, rows = _encoded(_text(raw, "image").dictionary_encode())
    _refuse_nameless(raw, distinct, rows)
    if len(distinct) < len(rows):
        first = np.zeros(len(rows), bool)
        first[np.unique(rows, return_index=True)[1]] = True
        again = int(np.flatnonzero(~first)[0])
        before = int(np.flatnonzero(rows == rows[again])[0])
        raise LabelTableError(
            f"{raw.row(again, distinct[rows[again]])}: this image is already in row {before + 1}; "
            f"{int((~first).sum())} rows repeat an image. Merge them into one row each."
        )
    return distinct


def _refuse_nameless(raw: RawTable, distinct: tuple[str, ...], rows: Ints) -> None:
    if "" in distinct:
        at = int(np.flatnonzero(rows == distinct.index(""))[0])
        raise LabelTableError(f"{raw.row(at)}: no image is named; fill in its name, or remove the row")


def _split(raw: RawTable) -> tuple[str, ...] | None:
    return tuple(_text(raw, "split").to_pylist()) if "split" in raw.columns.column_names else None


def _text(raw: RawTable, name: str) -> pa.Array:
    return _as_text(raw, name, raw.columns.column(name)).combine_chunks()


def _as_text(raw: RawTable, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Numbers and truth values in their usual spelling; blank where there is nothing."""
    try:
        return pc.fill_null(column.cast(pa.large_string()), "")
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise LabelTableError(f"{raw.path}: '{name}' must hold text or numbers, not {column.type}") from error


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _encoded(array: pa.DictionaryArray) -> tuple[tuple[str, ...], Ints]:
    return tuple(array.dictionary.to_pylist()), array.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _unescaped(array: pa.DictionaryArray) -> tuple[tuple[str, ...], Ints]:
    """Names as their owners know them; two spellings of one name become one."""
    written, codes = _encoded(array)
    position: dict[str, int] = {}
    table = np.array([position.setdefault(unescape(name), len(position)) for name in written], np.int64)
    return tuple(position), table[codes] if len(codes) else codes


# ------------------------------------------------------------------------------------------------ writing


def write_form(images: Sequence[str], split: Sequence[str] | None, labels: Labels, form: Form, text: bool) -> pa.Table:
    """Columns of a table. Where no cell is unknown, lists and long form hold the present ones only."""
    rows, columns, states = labels.cells()
    if form != "wide" and len(rows) == labels.shape[0] * labels.shape[1]:
        kept = states == PRESENT
        rows, columns, states = rows[kept], columns[kept], states[kept]
    head = {"image": pa.array(images, pa.string())}
    if split is not None:
        head["split"] = pa.array(split, pa.string())
    if form == "wide":
        return _write_wide(head, labels)
    if form == "long":
        return _write_long(head, labels, rows, columns, states)
    body = {}
    for name, state in (("present", PRESENT), ("absent", ABSENT)):
        here = states == state
        body[name] = _joined(labels, rows[here], columns[here]) if text else _listed(labels, rows[here], columns[here])
    return pa.table(head | body)


def _listed(labels: Labels, rows: Ints, columns: Ints, escaped: bool = False) -> pa.Array:
    names = pa.array([escape(name) if escaped else name for name in labels.classes], pa.string())
    ends = np.cumsum(np.bincount(rows, minlength=len(labels)))
    offsets = pa.array(np.concatenate([[0], ends]), pa.int64())
    return pa.LargeListArray.from_arrays(offsets, names.take(pa.array(columns)))


def _joined(labels: Labels, rows: Ints, columns: Ints) -> pa.Array:
    return pc.binary_join(_listed(labels, rows, columns, escaped=True), "|")


def _write_wide(head: dict[str, Any], labels: Labels) -> pa.Table:
    taken = [name for name in labels.classes if name in ("image", "split")]
    if taken:
        raise LabelTableError(f"the class '{taken[0]}' cannot be a column of a wide table; write it with form 'lists'")
    states = np.asfortranarray(labels.dense())
    arrays = [
        pa.array((states[:, i] == PRESENT).astype(np.int8), mask=states[:, i] == UNKNOWN)
        for i in range(states.shape[1])
    ]
    return pa.table([*head.values(), *arrays], names=[*head, *labels.classes])


def _write_long(head: dict[str, Any], labels: Labels, rows: Ints, columns: Ints, states: States) -> pa.Table:
    silent = np.flatnonzero(np.bincount(rows, minlength=len(labels)) == 0)
    order = np.argsort(np.concatenate([rows, silent]), kind="stable")
    image = pa.array(np.concatenate([rows, silent])[order])
    blank = np.concatenate([np.zeros(len(rows), bool), np.ones(len(silent), bool)])[order]
    column = pa.array(np.concatenate([columns, np.zeros(len(silent), np.int64)])[order], mask=blank)
    word = pa.array(np.concatenate([states == ABSENT, np.zeros(len(silent), bool)])[order].astype(np.int64), mask=blank)
    body = {
        "class": pa.array(labels.classes, pa.string()).take(column),
        "state": pa.array(["present", "absent"]).take(word),
    }
    return pa.table({name: array.take(image) for name, array in head.items()} | body)


def escape(name: str) -> str:
    """A class name without `|`, from which `unescape` gets the name back."""
    return re.sub(r"%(?=7C|25)", "%25", name).replace("|", "%7C")


def unescape(name: str) -> str:
    return re.sub(r"%7C|%25", lambda found: "|" if found[0] == "%7C" else "%", name)
