"""Visual Genome photos with their 200 (or 500) most frequent object categories: VG-200, VG-500."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..labels import ABSENT, PRESENT, Labels
from .checks import Check, Missing, first_rows, need_file, need_root, on_disk, read_lines, settle, without_positive
from .source import Problem, Source, SourceError, Split

LAYOUT = """\
Expected for vg200 (for vg500 its own label file; the three files may also lie in a folder vg/ or data/vg/):
  train_list_500.txt, test_list_500.txt      one image name per line, as 2338452.jpg; both sets share these lists
  vg_category_200_labels_index.json          {"2338452.jpg": [3, 17], …}: the categories an image shows, from 0 on
  VG_100K/*.jpg and VG_100K_2/*.jpg          the two archives as they come, or merged in one of them or in images/
The categories have no published names: they are called category 000, 001, … unless --class-names gives a file."""

_LISTS = {"train": "train_list_500.txt", "test": "test_list_500.txt"}
_PUBLISHED = "82,904 train, 10,000 test images in the published lists (papers say 98,249 train)"
_PLACES = (".", "vg", "VG", "data/vg", "data/VG")
_FOLDERS = ("VG_100K", "VG_100K_2", "images", "images/VG_100K", "images/VG_100K_2", ".")


def load(
    root: Path | None,
    variant: str,
    *,
    class_names: Path | None = None,
    images: Path | None = None,
    missing: Missing = "drop",
    check: Check = "none",
) -> Source:
    """Read the training pool and the test split in the order of their lists; a category that an image's entry does not
    name is absent.

    A published mask of known labels depends on the number of rows: it is the lists' own only where no image is missing.

    Args:
        root: the folder with the lists, the label file and the photos.
        variant: "200" or "500" categories.
        class_names: a text file with a name per category, in the order of their numbers.
        images: folder of the photos.
        missing: what to do about listed images that do not exist.
        check: look into the image files before training.
    """
    base = need_root(root, "vg", LAYOUT)
    if variant not in ("200", "500"):
        raise SourceError(f"vg{variant}: say how many categories, vg200 or vg500.")
    lists = _folder_of_lists(base)
    classes = _names(class_names, int(variant))
    categories = _read_categories(lists / f"vg_category_{variant}_labels_index.json", len(classes))
    folders = _photo_folders(base, images)
    splits: dict[str, Split] = {}
    problems: list[Problem] = []
    for split, file in _LISTS.items():
        names = _listed(lists / file, categories, problems)
        states = _states(names, categories, len(classes))
        problems += without_positive(split, names, states)
        splits[split] = Split(tuple(names), Labels.from_dense(states, classes), _where(names, folders))
    notes = {"rows": "as listed", "sizes": _PUBLISHED, "found": ", ".join(f"{len(s):,} {n}" for n, s in splits.items())}
    return settle(Source(f"vg{variant}", classes, splits, tuple(problems), notes), missing=missing, check=check)


def _folder_of_lists(base: Path) -> Path:
    for place in _PLACES:
        if (base / place / _LISTS["train"]).is_file():
            return base / place
    raise SourceError(f"no {_LISTS['train']} in {base}.\n{LAYOUT}")


def _names(path: Path | None, number: int) -> tuple[str, ...]:
    if path is None:
        return tuple(f"category {i:03d}" for i in range(number))
    names = tuple(read_lines(path, LAYOUT))
    if len(names) != number or len(set(names)) != number:
        raise SourceError(f"{path}: {len(names)} names, {len(set(names))} of them different; expected {number}.")
    return names


def _read_categories(path: Path, number: int) -> dict[str, list[int]]:
    """Which categories each image shows, all of them from 0 to `number` - 1."""
    try:
        content: Any = json.loads(need_file(path, LAYOUT).read_bytes())
    except (OSError, ValueError) as error:
        raise SourceError(f"{path} cannot be read as JSON ({error}). Was it copied completely?") from error
    if not isinstance(content, dict) or not content:
        raise SourceError(f"{path}: expected an object of image names and lists of category numbers.")
    for image, shown in content.items():
        if not isinstance(shown, list) or not all(type(c) is int and 0 <= c < number for c in shown):
            raise SourceError(
                f"{path}: image {image} has {str(shown)[:80]}; expected a list of numbers from 0 to {number - 1}."
            )
    return content


def _listed(path: Path, categories: dict[str, list[int]], problems: list[Problem]) -> list[str]:
    """Images of a list that have an entry in the label file, each once, in the list's order."""
    lines = [line.replace("\\", "/").rsplit("/", 1)[-1] for line in read_lines(path, LAYOUT)]
    unique, again = first_rows(lines, path.name)
    names = [lines[row] for row in unique]
    bare = tuple(name for name in names if name not in categories)
    if len(bare) == len(names):
        raise SourceError(
            f"{path}: none of its {len(names)} images has an entry in the label file"
            f"{f', as {bare[0]}' if bare else ''}; the two do not belong together."
        )
    problems += again
    if bare:
        problems.append(Problem(f"{path.name}: images without an entry in the label file, rows left out", bare))
    return [name for name in names if name in categories]


def _states(names: Sequence[str], categories: dict[str, list[int]], number: int) -> NDArray[np.int8]:
    states = np.full((len(names), number), ABSENT, np.int8)
    for row, name in enumerate(names):
        states[row, categories[name]] = PRESENT
    return states


def _photo_folders(base: Path, images: Path | None) -> list[Path]:
    if images is None:
        return [base / folder for folder in _FOLDERS]
    given = images if images.is_dir() else base / images
    if not given.is_dir():
        raise SourceError(f"there is no folder {images}; --images says where the photos lie.\n{LAYOUT}")
    return [given, given / "VG_100K", given / "VG_100K_2"]


def _where(names: Sequence[str], folders: Sequence[Path]) -> tuple[Path, ...]:
    """Each image in the first folder that has it; one that no folder has, in the first."""
    files = [folders[0] / name for name in names]
    lost = np.arange(len(names))
    for folder in folders:
        there = on_disk([folder / names[row] for row in lost.tolist()])
        for row in lost[there].tolist():
            files[row] = folder / names[row]
        lost = lost[~there]
    return tuple(files)
