"""Your own images with a label table (CSV or Parquet): each row names the classes of one image."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from .checks import SUFFIXES, Check, Missing, first_rows, need_root, on_disk, read_lines, settle
from .source import Problem, Source, SourceError, Split

if TYPE_CHECKING:
    from ..label_table import LabelTable

LAYOUT = """\
Expected: a table and a folder of images.
  labels.csv or labels.parquet with columns: image (path relative to the image folder), present and/or absent
  (class names, joined by | in CSV), optional split (train, val, test); or one column per class holding 1, 0 or nothing
  images in the table's own folder, unless --images says another
What a class means that is named in neither column is declared in the table or by --silence unknown|absent."""

_SPLITS = ("train", "val", "test")


def load(
    root: Path | None,
    variant: str,
    *,
    images: Path | None = None,
    classes: Path | None = None,
    silence: Literal["unknown", "absent"] | None = None,
    test_share: float = 0.2,
    split_seed: int = 0,
    missing: Missing = "drop",
    check: Check = "quick",
) -> Source:
    """Read a label table and find its images.

    Args:
        root: the table.
        variant: none exists.
        images: the folder image names are relative to; the table's folder unless given.
        classes: text file with the class list, one per line, where the table does not carry it.
        silence: what a class means that a row does not mention, where the table does not declare it.
        test_share: share of the images drawn as the test split where the table has none.
        split_seed: seed of that draw.
        missing: what to do about images in the table that do not exist.
        check: look into the image files first: "quick" reads both ends of each, "full" decodes them all.
    """
    from ..label_table import read_label_table

    path = need_root(root, "table", LAYOUT)
    if variant or not path.is_file():
        raise SourceError(f"{path} is no label table: give the path of a .csv or .parquet file.\n{LAYOUT}")
    class_list = read_lines(classes, LAYOUT) if classes else None
    table = read_label_table(path, classes=class_list, silence=silence)
    folder = images if images is not None else path.parent
    files = [Path(os.path.normpath(folder / name)) for name in table.images]
    problems = _check_folder(path, folder, table.images, files, missing)
    unique, again = first_rows([str(file) for file in files], path.name)
    every = Split(table.images, table.labels, tuple(files)).take(unique)
    found = Source(path.stem, table.labels.classes, {path.name: every}, tuple(problems + again))
    settled = settle(found, missing=missing, check=check)
    usable = settled.splits[path.name]
    rows, notes = _split_rows(path, table, usable.images, test_share, split_seed)
    splits = {name: usable.take(index) for name, index in rows.items()}
    return replace(settled, splits=splits, notes=notes)


def _check_folder(
    path: Path, folder: Path, names: Sequence[str], files: Sequence[Path], missing: Missing
) -> list[Problem]:
    """Stop where the folder cannot be the right one; otherwise name the images in it that no row mentions."""
    if missing == "keep":
        return []
    if not folder.is_dir():
        raise SourceError(f"image folder {folder} does not exist; --images says where the images of {path.name} lie.")
    if not on_disk(files).any():
        raise SourceError(_explain(path, folder, names[0], files))
    mentioned = set(files)
    found = {picture for place in {file.parent for file in files} | {folder} for picture in _pictures(place)}
    extra = sorted(os.path.relpath(picture, folder) for picture in found - mentioned)
    return [Problem(f"images without a row in {path.name}, not used", tuple(extra))] if extra else []


def _pictures(folder: Path) -> list[Path]:
    """Image files of one folder, known by their suffix."""
    if not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        names = [e.name for e in entries if e.name.lower().endswith(SUFFIXES) and Path(e.path).is_file()]
    return [Path(os.path.normpath(folder / name)) for name in names]


def _explain(path: Path, folder: Path, name: str, files: Sequence[Path]) -> str:
    """Why none of a table's images is where the table says: the usual mistakes, looked for in the folder."""
    start = f"none of the {len(files)} images of {path.name} exists; the first should be {files[0]}."
    wanted = Path(name).name
    first: Path | None = None
    for place, _, inside in os.walk(folder):
        for other in sorted(inside):
            if not other.lower().endswith(SUFFIXES):
                continue
            first = first or Path(place, other)
            if other == wanted:
                return (
                    f"{start} There is {Path(place, other)}: names are paths relative to the folder given by --images."
                )
            if Path(other).stem == wanted:
                return f"{start} There is {Path(place, other)}: write names with their suffix, as in {other}."
    if first is None:
        return f"no images in {folder}; --images says where the images of {path.name} lie."
    return f"{start} {folder} has other images, as {first}; --images says where those of the table lie."


def _split_rows(
    path: Path, table: LabelTable, usable: Sequence[str], test_share: float, seed: int
) -> tuple[dict[str, NDArray[np.int64]], dict[str, str]]:
    """Which of the usable images belong to each split: as the table says, a test split drawn where it names none."""
    found = {"train": np.arange(len(usable))} if table.split is None else _declared(path, table, usable)
    if "test" in found:
        return found, {"splits": "column 'split'"}
    train = found["train"]
    chosen = _draw([usable[i] for i in train.tolist()], test_share, seed)
    found |= {"train": train[~chosen], "test": train[chosen]}
    note = f"drawn: {int(chosen.sum())} of {len(train)} images (share {test_share:g}, seed {seed})"
    return found, {"splits": "column 'split'" if table.split else "drawn", "test split": note}


def _declared(path: Path, table: LabelTable, usable: Sequence[str]) -> dict[str, NDArray[np.int64]]:
    """Splits as the column says; one that names images of which none can be used stops the run, it is never redrawn."""
    said = {image: name.strip().lower() for image, name in zip(table.images, table.split or (), strict=True)}
    strange = [image for image, name in said.items() if name not in _SPLITS]
    if strange:
        raise SourceError(
            f"{path}: {len(strange)} rows belong to no known split; the first is '{strange[0]}' with "
            f"'{said[strange[0]]}'. Use train, val or test in every row, or leave the column out."
        )
    if "train" not in said.values():
        raise SourceError(f"{path}: no row belongs to split 'train', so there is nothing to learn from.")
    of_usable = np.array([said[image] for image in usable])
    found = {name: np.flatnonzero(of_usable == name) for name in _SPLITS if name in said.values()}
    for name, rows in found.items():
        if not len(rows):
            raise SourceError(f"{path}: no image of split '{name}' exists and can be read.")
    return found


def _draw(names: Sequence[str], share: float, seed: int) -> NDArray[np.bool_]:
    """A share of the names, chosen by the hash of seed and name: it depends on no row order, and few images change
    sides when a collection grows."""
    if not 0 < share < 1:
        raise SourceError(f"--test-share {share:g}: give a share between 0 and 1, as 0.2.")
    if len(names) < 2:
        raise SourceError("a table of one image cannot be split into training and test images.")
    count = min(max(round(share * len(names)), 1), len(names) - 1)
    digests = [hashlib.sha256(f"{seed}\0{name}".encode()).digest() for name in names]
    chosen = np.zeros(len(names), bool)
    chosen[sorted(range(len(names)), key=digests.__getitem__)[:count]] = True
    return chosen
