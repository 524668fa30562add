"""MS-COCO 2014 and 2017, or any data set with COCO instance annotations (JSON): 80 object classes in COCO itself."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..labels import ABSENT, PRESENT, Labels
from .checks import Check, Missing, first_rows, need_file, need_root, settle
from .source import Problem, Source, SourceError, Split

LAYOUT = """\
Expected (2017 likewise; the image folders may also lie in images/):
  annotations/instances_train2014.json, annotations/instances_val2014.json
  train2014/*.jpg, val2014/*.jpg
Anything else in COCO's format: coco:PATH --train-json A --test-json B [--train-images X --test-images Y],
each relative to PATH."""

_YEARS = ("2014", "2017")
# Outlines are nine tenths of an instances file and say nothing about which classes an image shows. A quote inside a
# JSON string is always escaped, so this pattern can only match a key.
_OUTLINE = re.compile(rb'"segmentation":\s*(?:\[[\[\]\d.,\seE+-]*\]|\{[^{}]*\})')


@dataclass(frozen=True)
class _Where:
    """The annotation file of a split and the folders its images may lie in."""

    annotations: Path
    images: tuple[Path, ...]


@dataclass(frozen=True)
class _Instances:
    """What an instances file says of its images: cells (row, column) with an object, and the object's area."""

    file: Path
    ids: list[Hashable]
    names: list[str]
    classes: tuple[str, ...]
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    areas: NDArray[np.float32]
    problems: list[Problem]


def load(
    root: Path | None,
    variant: str,
    *,
    rows: Literal["annotated", "all"] = "annotated",
    columns: Literal["listed", "id"] = "listed",
    train_json: Path | None = None,
    test_json: Path | None = None,
    train_images: Path | None = None,
    test_images: Path | None = None,
    missing: Missing = "drop",
    check: Check = "none",
) -> Source:
    """Read train (the pool) and val (the test split) of COCO, or of files in its format; crowds count as objects.

    Args:
        root: the folder with `annotations/` and the image folders.
        variant: "2014", "2017", or "" for the only year found, or for the files named below.
        rows: "annotated" keeps images with at least one annotation, ordered by their id written as a decimal string
            (100012 before 9): the order of the published label files. "all" keeps every image, in the file's order;
            with columns "id" these are the 82,783 and 40,504 rows that work on partial labels draws its masks on.
        columns: classes in the order of the `categories` list, or of their ids.
        train_json: annotations of the pool.
        test_json: annotations of the test split.
        train_images: folder of the pool's images.
        test_images: folder of the test split's images.
        missing: what to do about listed images that do not exist.
        check: look into the image files before training.
    """
    base = need_root(root, "coco", LAYOUT)
    places = _places(base, variant, (train_json, test_json), (train_images, test_images))
    splits: dict[str, Split] = {}
    problems: list[Problem] = []
    classes: tuple[str, ...] | None = None
    for split, where in places.items():
        read = _read_instances(where.annotations, columns)
        classes = classes or read.classes
        problems += read.problems
        splits[split] = _split(read, classes, where.images, rows, problems)
    assert classes is not None
    notes = {"rows": rows, "columns": columns, "crowds": "counted"}
    return settle(Source(f"coco{variant}", classes, splits, tuple(problems), notes), missing=missing, check=check)


def _places(
    base: Path, variant: str, files: tuple[Path | None, Path | None], folders: tuple[Path | None, Path | None]
) -> dict[str, _Where]:
    if (files[0] is None) != (files[1] is None):
        raise SourceError("give both --train-json and --test-json, or neither.")
    if files[0] is None and variant not in _YEARS:
        variant = _only_year(base, variant)
    places = {}
    for split, part, file, folder in zip(("train", "test"), ("train", "val"), files, folders, strict=True):
        annotations = base / (file or f"annotations/instances_{part}{variant}.json")
        if folder is not None:
            images: tuple[Path, ...] = (base / folder,)
        elif file is not None:
            images = (base, base / "images", annotations.parent)
        else:
            images = (base / f"{part}{variant}", base / "images" / f"{part}{variant}")
        places[split] = _Where(need_file(annotations, LAYOUT), images)
    return places


def _only_year(base: Path, variant: str) -> str:
    found = [year for year in _YEARS if (base / f"annotations/instances_train{year}.json").is_file()]
    if variant or len(found) != 1:
        raise SourceError(
            f"coco{variant}: say coco2014 or coco2017, or name the files with --train-json and --test-json; "
            f"{base} has the annotations of {' and '.join(found) or 'neither year'}.\n{LAYOUT}"
        )
    return found[0]


def _parse(path: Path) -> dict[str, Any]:
    try:
        raw = path.read_bytes()
        try:
            parsed = json.loads(_OUTLINE.sub(b'"segmentation":0', raw))
        except ValueError:
            parsed = json.loads(raw)  # so that the error gives a line and column of the file itself
    except (OSError, ValueError) as error:
        raise SourceError(
            f"{path} cannot be read as JSON ({error}). Was it downloaded or unpacked completely?"
        ) from error
    if not isinstance(parsed, dict) or not all(
        isinstance(parsed.get(key), list) for key in ("images", "annotations", "categories")
    ):
        raise SourceError(
            f"{path} is no COCO instances file: it needs the lists 'images', 'annotations' and 'categories' "
            "(caption files have no categories; take instances_*.json)."
        )
    return parsed


def _read_instances(path: Path, order: Literal["listed", "id"]) -> _Instances:
    content = _parse(path)
    try:
        ids: list[Hashable] = [image["id"] for image in content["images"]]
        names = [str(image["file_name"]) for image in content["images"]]
        categories = [(category["id"], str(category["name"])) for category in content["categories"]]
        of_image = [note["image_id"] for note in content["annotations"]]
        of_class = [note["category_id"] for note in content["annotations"]]
        areas = [_area(note) for note in content["annotations"]]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise SourceError(
            f"{path}: an entry lacks what COCO's format asks for ({type(error).__name__}: {error}). Images need id and "
            "file_name, annotations image_id and category_id, categories id and name."
        ) from error
    if not names or not categories:
        raise SourceError(f"{path} lists no {'categories' if names else 'images'}.")
    if order == "id":
        categories.sort(key=lambda category: category[0])
    _need_unique(path, "image id", ids)
    _need_unique(path, "image file", names)
    _need_unique(path, "category id", [number for number, _ in categories])
    rows = _positions(ids, of_image)
    columns = _positions([number for number, _ in categories], of_class)
    problems = _strays(path, of_image, rows, "image") + _strays(path, of_class, columns, "category")
    good = (rows >= 0) & (columns >= 0)
    classes = tuple(name for _, name in categories)
    area = np.array(areas, np.float32)[good]
    return _Instances(path, ids, names, classes, rows[good], columns[good], area, problems)


def _area(note: dict[str, Any]) -> float:
    """Area in square pixels: of the outline where the file has it, else of the box; 0 where it has neither."""
    if "area" in note:
        return float(note["area"])
    box = note.get("bbox") or (0, 0, 0, 0)
    return float(box[2]) * float(box[3])


def _need_unique(path: Path, what: str, values: Sequence[Hashable]) -> None:
    _, again = first_rows([str(value) for value in values], path.name)
    if again:
        raise SourceError(f"{path}: the same {what} more than once ({again[0]}). Give each its own.")


def _positions(keys: Sequence[Hashable], wanted: Sequence[Hashable]) -> NDArray[np.int64]:
    """Place of each wanted key in `keys`, -1 where it is not there."""
    place = {key: i for i, key in enumerate(keys)}
    return np.fromiter((place.get(key, -1) for key in wanted), np.int64, len(wanted))


def _strays(path: Path, wanted: Sequence[Hashable], found: NDArray[np.int64], what: str) -> list[Problem]:
    lost = dict.fromkeys(f"{what} {wanted[i]}" for i in np.flatnonzero(found < 0).tolist())
    return [Problem(f"{path.name}: annotations of an unlisted {what}, ignored", tuple(lost))] if lost else []


def _split(
    read: _Instances, classes: tuple[str, ...], folders: tuple[Path, ...], rows: str, problems: list[Problem]
) -> Split:
    columns = _match_classes(read, classes)[read.columns]
    states = np.full((len(read.ids), len(classes)), ABSENT, np.int8)
    states[read.rows, columns] = PRESENT
    areas = np.zeros(states.shape, np.float32)
    np.maximum.at(areas, (read.rows, columns), read.areas)
    folder = _image_folder(folders, read.names)
    split = Split(
        tuple(read.names), Labels.from_dense(states, classes), tuple(folder / n for n in read.names), areas=areas
    )
    empty = [read.names[i] for i in np.flatnonzero(~(states == PRESENT).any(1)).tolist()]
    if empty:
        done = "kept" if rows == "all" else "left out as published (--rows all keeps them)"
        problems.append(Problem(f"{read.file.name}: images without annotations, {done}", tuple(empty)))
    if rows == "all":
        return split
    annotated = sorted(np.unique(read.rows).tolist(), key=lambda row: str(read.ids[row]))
    if not annotated:
        raise SourceError(f"{read.file} has no annotation of a listed image: there is nothing to learn from.")
    return split.take(np.array(annotated))


def _match_classes(read: _Instances, classes: tuple[str, ...]) -> NDArray[np.int64]:
    """Where each of the file's classes stands in the training file's class list."""
    if set(read.classes) != set(classes):
        odd = sorted(set(read.classes) ^ set(classes))
        raise SourceError(
            f"{read.file} has other classes than the training file; {len(odd)} stand in only one of them: "
            f"{', '.join(odd[:5])}. Both files need the same categories."
        )
    return _positions(classes, read.classes)


def _image_folder(candidates: tuple[Path, ...], names: list[str]) -> Path:
    """The candidate that has one of the first images, else the first one: the error then names it."""
    if len(candidates) == 1:
        return candidates[0]
    tries = chain.from_iterable(((folder, folder / name) for name in names[:20]) for folder in candidates)
    return next((folder for folder, file in tries if file.is_file()), candidates[0])
