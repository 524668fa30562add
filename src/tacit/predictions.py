"""Predictions for images without labels: which images are meant, and files that hold what a model says of them.

A file has a row per image: `image`, `tags` (the classes that reach their threshold, joined by `|` in CSV), then a
column of scores per class, or with `top` the k highest classes by name and score.
"""

from __future__ import annotations

import csv
import glob
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from .data.checks import SUFFIXES as IMAGE_SUFFIXES
from .errors import UserError
from .files import atomic_write
from .table_files import DELIMITERS, read_raw

SUFFIXES = (".csv", ".json", ".parquet")
TABLES = (*DELIMITERS, ".parquet")
ROW_GROUP = 4096  # rows of a Parquet file that are written together
Scores = NDArray[np.float32]


class PredictionError(UserError):
    """Images that are not there, or a file that cannot hold predictions."""


# --- which images -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wanted:
    """Images by name (as typed, or as a table has them) and where each should lie."""

    names: tuple[str, ...]
    files: tuple[Path, ...]

    def __len__(self) -> int:
        return len(self.names)


def collect(words: Sequence[str], folder: Path | None = None) -> Wanted:
    """Files, folders (at any depth, sorted), patterns and label tables; each file once, in the order of the words.

    `folder` is what the names in a label table are relative to; without it, the table's own folder.
    """
    found: dict[str, tuple[str, Path]] = {}
    for word in words:
        for name, file in _expand(word, folder):
            found.setdefault(os.path.realpath(file), (name, file))
    return Wanted(tuple(_printable(name) for name, _ in found.values()), tuple(file for _, file in found.values()))


def _printable(name: str) -> str:
    """A file name that is not UTF-8 with its strange bytes spelled out, as no table could hold it otherwise."""
    return name.encode("utf-8", "backslashreplace").decode()


def _expand(word: str, folder: Path | None) -> list[tuple[str, Path]]:
    path = Path(word)
    if path.is_dir():
        inside = _images_under(path)
        if not inside:
            raise PredictionError(f"no images in {path}, at any depth. Images end in {', '.join(IMAGE_SUFFIXES)}.")
        return [(str(file), file) for file in inside]
    if path.suffix.lower() in TABLES:
        return _of_table(path, folder)
    if path.exists():
        return [(word, path)]
    matching = sorted(glob.glob(word, recursive=True)) if glob.has_magic(word) else []  # noqa: PTH207 (keeps the word's form)
    files = [pair for match in matching for pair in _expand(match, folder) if Path(match).is_dir() or _is_image(match)]
    if files:
        return files
    reason = "no image matches this pattern" if glob.has_magic(word) else "there is no such file or folder"
    raise PredictionError(f"{word}: {reason}")


def _images_under(folder: Path) -> list[Path]:
    places = ((Path(place), names) for place, folders, names in _walk(folder))
    return [place / name for place, names in places for name in sorted(names) if _is_image(name)]


def _walk(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield place, folders, [name for name in names if not name.startswith(".")]


def _is_image(name: str) -> bool:
    return name.lower().endswith(IMAGE_SUFFIXES)


def _of_table(path: Path, folder: Path | None) -> list[tuple[str, Path]]:
    """The column `image` of a label table; what else it says is not asked for."""
    columns = read_raw(path).columns
    if "image" not in columns.column_names:
        raise PredictionError(f"{path} has no column 'image'; it has {', '.join(columns.column_names[:8])}")
    names = list(dict.fromkeys(map(str, columns["image"].to_pylist())))
    base = path.parent if folder is None else folder
    return [(name, base / name) for name in names]


# --- what is said of them ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Predictions:
    """Scores [b, C] of some images, and which classes reach their thresholds."""

    images: tuple[str, ...]
    scores: Scores
    present: NDArray[np.bool_]

    def tags(self, classes: Sequence[str]) -> list[list[str]]:
        return [[classes[c] for c in np.flatnonzero(row).tolist()] for row in self.present]

    def best(self, k: int) -> NDArray[np.intp]:
        """The k highest classes of each image [b, k]; equals in the order of classes."""
        return np.argsort(-self.scores, axis=1, kind="stable")[:, :k]


class Writer(Protocol):
    rows: int

    def write(self, found: Predictions) -> None: ...


@contextmanager
def writing(path: Path, classes: Sequence[str], top: int | None) -> Iterator[Writer]:
    """A file of predictions, by its suffix; it appears when the block ends well, whole or not at all."""
    suffix = path.suffix.lower()
    with atomic_write(path) as temporary:
        if suffix == ".parquet":
            rows = _ParquetRows(temporary, classes, top)
            yield rows
            rows.close()
            return
        with temporary.open("w", newline="", encoding="utf-8") as file:
            text: _CsvRows | _JsonRows = (_CsvRows if suffix == ".csv" else _JsonRows)(file, classes, top)
            yield text
            text.close()


def _columns(classes: Sequence[str], top: int | None) -> list[str]:
    """Names of the columns of scores; a class called like one of ours gets a name of its own."""
    if top is not None:
        return [f"{what}_{rank}" for rank in range(1, top + 1) for what in ("class", "score")]
    return [f"{name} (class)" if name in ("image", "tags") else name for name in classes]


class _CsvRows:
    def __init__(self, file: TextIO, classes: Sequence[str], top: int | None) -> None:
        self.rows, self.classes, self.top = 0, classes, top
        self._out = csv.writer(file)
        self._out.writerow(["image", "tags", *_columns(classes, top)])

    def write(self, found: Predictions) -> None:
        best = None if self.top is None else found.best(self.top)
        for at, (image, tags) in enumerate(zip(found.images, found.tags(self.classes), strict=True)):
            row = found.scores[at]
            if best is None:
                cells: list[str] = [_short(score) for score in row]
            else:
                cells = [cell for c in best[at] for cell in (self.classes[c], _short(row[c]))]
            self._out.writerow([image, "|".join(tag.replace("|", "%7C") for tag in tags), *cells])
        self.rows += len(found.images)

    def close(self) -> None:
        pass


class _JsonRows:
    """A list of objects, one per line."""

    def __init__(self, file: TextIO, classes: Sequence[str], top: int | None) -> None:
        self.rows, self.classes, self.top = 0, classes, top
        self._file = file

    def write(self, found: Predictions) -> None:
        best = None if self.top is None else found.best(self.top)
        for at, (image, tags) in enumerate(zip(found.images, found.tags(self.classes), strict=True)):
            chosen = range(len(self.classes)) if best is None else best[at]
            scores = {self.classes[c]: float(_short(found.scores[at, c])) for c in chosen}
            self._file.write(",\n" if self.rows else "[\n")
            self._file.write(json.dumps({"image": image, "tags": tags, "scores": scores}, ensure_ascii=False))
            self.rows += 1

    def close(self) -> None:
        self._file.write("\n]\n" if self.rows else "[]\n")


class _ParquetRows:
    """Scores as float32, nothing rounded; tags as a list of strings."""

    def __init__(self, path: Path, classes: Sequence[str], top: int | None) -> None:
        self.rows, self.classes, self.top = 0, classes, top
        kinds = [pa.float32() if top is None or at % 2 else pa.string() for at in range(len(_columns(classes, top)))]
        columns = zip(_columns(classes, top), kinds, strict=True)
        self._schema = pa.schema([("image", pa.string()), ("tags", pa.list_(pa.string())), *columns])
        self._out = pq.ParquetWriter(path, self._schema)
        self._waiting: list[Any] = []

    def write(self, found: Predictions) -> None:
        arrays: list[Any] = [list(found.images), found.tags(self.classes)]
        if self.top is None:
            arrays += list(np.ascontiguousarray(found.scores.T))
        else:
            best = found.best(self.top)
            for rank in range(self.top):
                chosen = best[:, rank]
                arrays += [[self.classes[c] for c in chosen], found.scores[np.arange(len(chosen)), chosen]]
        columns = [pa.array(a, field.type) for a, field in zip(arrays, self._schema, strict=True)]
        self._waiting.append(pa.Table.from_arrays(columns, schema=self._schema))
        self.rows += len(found.images)
        if sum(map(len, self._waiting)) >= ROW_GROUP:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._out.write_table(pa.concat_tables(self._waiting))
        self._waiting = []

    def close(self) -> None:
        self._flush()
        self._out.close()


def _short(score: np.floating[Any]) -> str:
    return f"{score:.6g}"
