"""Label tables as files: Parquet, CSV and TSV with what their writer declared about them.

Columns come out as they lie in the file (text, in a CSV); `table_forms` gives them a meaning. A Parquet file carries
its declaration in the schema's metadata, a CSV in a small JSON file beside it (docs/decisions/label-table.md).
"""

from __future__ import annotations

import csv
import difflib
import json
from collections import Counter
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from .errors import UserError
from .files import atomic_write

Silence = Literal["unknown", "absent"]
Form = Literal["lists", "wide", "long"]
METADATA_KEY = b"tacit"
DELIMITERS = {".csv": ",", ".tsv": "\t"}
CSV_BLOCK = 1 << 26  # one row must fit into a block; the default of 1 MB is too little for long lists


class LabelTableError(UserError, ValueError):
    """A label table that cannot be read or written; the message says which file, where in it, and what to do."""


@dataclass(frozen=True)
class Declaration:
    """What a file says about itself; None where it says nothing."""

    classes: tuple[str, ...] | None = None
    silence: Silence | None = None
    form: Form | None = None
    sparse: bool | None = None

    def to_json(self) -> str:
        return json.dumps({key: value for key, value in asdict(self).items() if value is not None}, ensure_ascii=False)


@dataclass(frozen=True)
class RawTable:
    path: Path
    columns: pa.Table
    declared: Declaration

    def row(self, number: int, image: str | None = None) -> str:
        """Where a row is, in words, counted from 1 without the header."""
        return f"{self.path}, row {number + 1}" + (f" (image '{image}')" if image else "")


def sidecar(path: Path) -> Path:
    """labels.csv -> labels.csv.json"""
    return path.with_name(path.name + ".json")


def read_raw(path: Path) -> RawTable:
    suffix = _suffix(path)
    if path.is_dir():
        raise LabelTableError(f"{path} is a folder; give the label table inside it")
    try:
        if path.stat().st_size == 0:
            raise LabelTableError(f"{path} is empty: a label table has at least a header and one image")
        raw = _read_parquet(path) if suffix == ".parquet" else _read_delimited(path, DELIMITERS[suffix])
    except FileNotFoundError as error:
        raise LabelTableError(f"there is no label table at {path}; check the path") from error
    except (pa.ArrowException, UnicodeDecodeError, csv.Error) as error:
        kind = "a Parquet file" if suffix == ".parquet" else "UTF-8 text with equally long rows"
        raise LabelTableError(f"{path} cannot be read as {kind}: {_first_line(error)}") from error
    except OSError as error:
        raise LabelTableError(f"{path} cannot be read: {_first_line(error)}") from error
    twice = [name for name, count in Counter(raw.columns.column_names).items() if count > 1]
    if twice:
        raise LabelTableError(f"{path}: the column '{twice[0]}' appears more than once; keep one of them")
    return raw


def write_raw(path: Path, columns: pa.Table, declared: Declaration) -> None:
    """Atomically; a CSV and its declaration are both wholly written before either is renamed."""
    suffix = _suffix(path)
    if suffix == ".parquet":
        with atomic_write(path) as part:
            pq.write_table(columns.replace_schema_metadata({METADATA_KEY: declared.to_json()}), part)
        return
    with atomic_write(sidecar(path)) as note, atomic_write(path) as part:
        note.write_text(declared.to_json() + "\n", encoding="utf-8")
        pa_csv.write_csv(columns, part, pa_csv.WriteOptions(delimiter=DELIMITERS[suffix]))


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix != ".parquet" and suffix not in DELIMITERS:
        raise LabelTableError(f"{path}: a label table ends in .parquet, .csv or .tsv, not in '{path.suffix}'")
    return suffix


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:300]


def _read_parquet(path: Path) -> RawTable:
    with pq.ParquetFile(path) as file:
        columns = file.read()
    metadata = columns.schema.metadata or {}
    text = metadata.get(METADATA_KEY)
    declared = Declaration() if text is None else _declaration(f"{path} (its metadata)", text)
    return RawTable(path, columns, declared)


def _read_delimited(path: Path, delimiter: str) -> RawTable:
    with path.open(encoding="utf-8-sig", newline="") as file:
        names = next(csv.reader(file, delimiter=delimiter), [])
    if len(names) == 1 and (other := next((mark for mark in ";,\t" if mark in names[0]), None)):
        shown = {"\t": "tabs"}.get(other, f"'{other}'")
        raise LabelTableError(f"{path}: its columns are separated by {shown}; save it with {delimiter!r} instead")
    keys = [str(i) for i in range(len(names))]  # header names may repeat; positions do not
    columns = pa_csv.read_csv(
        path,
        pa_csv.ReadOptions(column_names=keys, skip_rows_after_names=1, block_size=CSV_BLOCK, use_threads=False),
        pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        pa_csv.ConvertOptions(column_types=dict.fromkeys(keys, pa.string()), strings_can_be_null=False),
    ).rename_columns(names)
    note = sidecar(path)
    declared = _declaration(str(note), note.read_bytes()) if note.is_file() else Declaration()
    return RawTable(path, columns, declared)


def _declaration(place: str, text: bytes) -> Declaration:
    try:
        content: Any = json.loads(text)
    except ValueError as error:
        raise LabelTableError(f"{place} is not JSON: {_first_line(error)}") from error
    known = [field.name for field in fields(Declaration)]
    if not isinstance(content, dict):
        raise LabelTableError(f'{place}: expected an object such as {{"classes": ["cat"], "silence": "unknown"}}')
    for key in content:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else f"; there are {', '.join(known)}"
            raise LabelTableError(f"{place}: nothing is declared by '{key}'{hint}")
    classes = content.get("classes")
    if classes is not None:
        if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
            raise LabelTableError(f"{place}: 'classes' must be a list of names")
        classes = tuple(classes)
    for key, allowed in (("silence", get_args(Silence)), ("form", get_args(Form)), ("sparse", (True, False))):
        if content.get(key) is not None and content[key] not in allowed:
            choices = " or ".join(json.dumps(choice) for choice in allowed)
            raise LabelTableError(f"{place}: '{key}' is {json.dumps(content[key])}; it must be {choices}")
    return Declaration(classes, content.get("silence"), content.get("form"), content.get("sparse"))
