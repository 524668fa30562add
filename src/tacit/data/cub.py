"""CUB-200-2011: bird photos with 312 binary attributes (bill shape, wing colour, …)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..labels import ABSENT, PRESENT, UNKNOWN, Labels
from .checks import Check, Missing, first_rows, need_file, need_folder, need_root, numbered, settle, without_positive
from .source import Problem, Source, SourceError, Split

LAYOUT = """\
Expected (the folder given may be CUB_200_2011 or one or two levels above it):
  CUB_200_2011/images.txt, train_test_split.txt, images/<species>/*.jpg
  CUB_200_2011/attributes/image_attribute_labels.txt
  attributes.txt beside CUB_200_2011 (as published), in it, or in its attributes/"""

ATTRIBUTES = 312
_NOT_VISIBLE = 1  # certainty code; 2 guessing, 3 probably, 4 definitely


def load(
    root: Path | None,
    variant: str,
    *,
    not_visible: Literal["as-written", "unknown"] = "as-written",
    missing: Missing = "drop",
    check: Check = "none",
) -> Source:
    """Read the published training and test images in the order of `images.txt`, with their attributes as classes.

    Args:
        root: CUB_200_2011 or a folder above it.
        variant: none exists.
        not_visible: labels whose annotator called the attribute not visible (certainty 1): the published programs take
            them as written (certainty ignored); "unknown" leaves these cells out.
        missing: what to do about listed images that do not exist.
        check: look into the image files before training.
    """
    base = need_root(root, "cub", LAYOUT)
    if variant:
        raise SourceError(f"cub{variant}: this source has no variants; say cub:{base}.")
    folder = _inner_folder(base)
    classes = _attribute_names(folder)
    images = numbered(folder / "images.txt", LAYOUT)
    in_train = _training_rows(folder, images)
    states, problems = _read_states(folder, np.array(list(images)), not_visible == "unknown")
    names = list(images.values())
    if first_rows(names, "images.txt")[1]:
        raise SourceError(f"{folder / 'images.txt'} gives two numbers to one image; restore the published file.")
    files = tuple(folder / "images" / name for name in names)
    every = Split(tuple(names), Labels.from_dense(states, classes), files)
    splits = {"train": every.take(np.flatnonzero(in_train)), "test": every.take(np.flatnonzero(~in_train))}
    for name, split in splits.items():
        if not len(split):
            raise SourceError(f"{folder / 'train_test_split.txt'} puts no image into '{name}'.")
        problems += without_positive(name, split.images, split.labels.dense())
    notes = {"certainty": "ignored" if not_visible == "as-written" else "not visible = unknown"}
    return settle(Source("cub", classes, splits, tuple(problems), notes), missing=missing, check=check)


def _inner_folder(base: Path) -> Path:
    levels = (base, base / "CUB_200_2011", base / "CUB_200_2011" / "CUB_200_2011")
    for folder in levels:
        if (folder / "images.txt").is_file():
            return folder
    raise SourceError(f"no images.txt in {base} or its CUB_200_2011.\n{LAYOUT}")


def _attribute_names(folder: Path) -> tuple[str, ...]:
    places = (folder.parent / "attributes.txt", folder / "attributes.txt", folder / "attributes" / "attributes.txt")
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise SourceError(f"no attributes.txt; looked for {', '.join(map(str, places))}.\n{LAYOUT}")
    names = numbered(path, LAYOUT)
    if sorted(names) != list(range(1, ATTRIBUTES + 1)):
        raise SourceError(f"{path}: expected attributes 1 to {ATTRIBUTES}, found {len(names)} of them.")
    return tuple(names[number] for number in range(1, ATTRIBUTES + 1))


def _training_rows(folder: Path, images: dict[int, str]) -> NDArray[np.bool_]:
    path = folder / "train_test_split.txt"
    flags = numbered(path, LAYOUT)
    if flags.keys() != images.keys():
        odd = sorted(flags.keys() ^ images.keys())
        raise SourceError(f"{path} and images.txt differ in {len(odd)} images, as number {odd[0]}.")
    if not set(flags.values()) <= {"0", "1"}:
        raise SourceError(f"{path}: expected '<image> <1 or 0>', found {sorted(set(flags.values()) - {'0', '1'})[:3]}.")
    return np.array([flags[number] == "1" for number in images])


def _read_states(
    folder: Path, numbers: NDArray[np.int64], leave_out_invisible: bool
) -> tuple[NDArray[np.int8], list[Problem]]:
    """States [images, attributes], and what was wrong with the lines they come from."""
    image, attribute, present, certainty = _read_table(folder).T
    row, listed = _rows_of(image, numbers)
    cell = row[listed] * ATTRIBUTES + attribute[listed] - 1
    state = np.where(present == 1, np.int8(PRESENT), np.int8(ABSENT))[listed]
    states = np.full(len(numbers) * ATTRIBUTES, UNKNOWN, np.int8)
    states[cell] = state
    clash = np.unique(cell[states[cell] != state])
    states[clash] = UNKNOWN
    if leave_out_invisible:
        states[cell[certainty[listed] == _NOT_VISIBLE]] = UNKNOWN
    problems = _cell_problems(numbers, np.bincount(cell, minlength=states.size), clash)
    if not listed.all():
        strangers = tuple(f"image {number}" for number in np.unique(image[~listed]))
        problems.append(Problem("attribute labels of images that images.txt does not list, ignored", strangers))
    return states.reshape(len(numbers), ATTRIBUTES), problems


def _read_table(folder: Path) -> NDArray[np.int32]:
    """Lines 'image attribute present certainty seconds', without the seconds.

    Some lines of the published file carry surplus fields, so the first four are taken by position.
    """
    need_folder([folder / "attributes"], "image_attribute_labels.txt", LAYOUT)
    path = need_file(folder / "attributes" / "image_attribute_labels.txt", LAYOUT)
    if not path.stat().st_size:
        raise SourceError(f"{path} is empty; unpack the archive again.")
    try:
        table = np.loadtxt(path, dtype=np.int32, comments=None, usecols=(0, 1, 2, 3), ndmin=2)
    except ValueError as error:
        raise SourceError(f"{path}: expected '<image> <attribute> <present> <certainty> …' ({error}).") from error
    limits = ((1, "attribute", 1, ATTRIBUTES), (2, "presence", 0, 1))
    for column, what, low, high in limits:
        odd = np.flatnonzero((table[:, column] < low) | (table[:, column] > high))
        if len(odd):
            raise SourceError(
                f"{path}, entry {odd[0] + 1}: {what} {table[odd[0], column]}, expected {low} to {high} "
                f"({len(odd)} such entries)."
            )
    return table


def _rows_of(image: NDArray[np.int32], numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Row of each image number in the order of `numbers`, and whether it is listed there at all."""
    order = np.argsort(numbers)
    place = np.searchsorted(numbers, image, sorter=order).clip(max=len(numbers) - 1)
    row = order[place]
    return row, numbers[row] == image


def _cell_problems(numbers: NDArray[np.int64], times: NDArray[np.int64], clash: NDArray[np.int64]) -> list[Problem]:
    """Cells that were never labelled, labelled twice, or labelled both ways."""

    def where(cells: NDArray[np.int64]) -> tuple[str, ...]:
        return tuple(f"image {numbers[c // ATTRIBUTES]} attribute {c % ATTRIBUTES + 1}" for c in cells.tolist())

    kinds = (
        ("cells without a label, unknown", np.flatnonzero(times == 0)),
        ("cells labelled more than once", np.flatnonzero(times > 1)),
        ("cells labelled both present and absent, unknown", clash),
    )
    return [Problem(what, where(cells)) for what, cells in kinds if len(cells)]
