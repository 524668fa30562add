"""Open Images, any version: millions of photos, each with verified labels (present and absent) of a few classes."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..labels import Labels
from .checks import Check, Missing, need_file, need_root, read_lines, settle
from .label_rows import LabelRows, read_label_rows
from .source import FilesIn, Problem, Source, SourceError, Split

LAYOUT = """\
Expected, for PART in train, validation, test (a release's prefix as in oidv6-… may stay; validation may be missing):
  PART-annotations-human-imagelabels.csv, or PART/annotations-human.csv as in V3 (also below 2017_11/)
      ImageID,Source,LabelName,Confidence    Confidence 1: present, 0: absent, as people verified; nothing else is known
  classes-trainable.txt                      one class (/m/…) per line (--classes names another list)
  class-descriptions.csv                     optional: /m/…,name of the class
  PART/<ImageID>.jpg or images/PART/<ImageID>.jpg
Its labels are partial as they are: train with --observe full."""

_PARTS = {"train": ("train",), "val": ("validation", "val"), "test": ("test",)}
_PLACES = (".", "2017_11", "annotations", "metadata", "labels")
Paths = list[Path]


def load(
    root: Path | None,
    variant: str,
    *,
    classes: Path | None = None,
    class_names: Literal["described", "mid"] = "described",
    images: Path | None = None,
    missing: Missing = "drop",
    check: Check = "none",
) -> Source:
    """Read the verified labels of train, validation and test, sparse: what nobody looked at is unknown. Labels made by
    a machine are not read. Rows are the images with a label of a listed class, in the order of the file.

    Args:
        root: the folder with the CSV files.
        variant: none exists; the release is what the files are of.
        classes: text file with the classes to learn, one /m/… per line; classes-trainable.txt unless given.
        class_names: call classes as class-descriptions.csv does, or by their /m/….
        images: folder that holds the folders train, validation, test of photos, where it is another one.
        missing: what to do about images that do not exist: each folder is listed once, no file is asked for; "keep"
            trusts the list and looks at nothing.
        check: look into the image files before training.
    """
    base = need_root(root, "openimages", LAYOUT)
    if variant:
        raise SourceError(f"openimages{variant}: give the folder of one release; there are no variants.")
    mids = _class_list(base, classes)
    names, problems = _names(base, mids, class_names)
    splits: dict[str, Split] = {}
    for split, parts in _PARTS.items():
        path = _find(base, [f"*{part}-annotations-human-imagelabels.csv" for part in parts], parts)
        if path is None and split == "val":
            continue
        rows = read_label_rows(need_file(path or base / f"{parts[0]}-annotations-human-imagelabels.csv", LAYOUT), mids)
        splits[split] = _split(rows, names, _photos(base if images is None else images, base, parts))
        problems += _problems(split, rows, names)
    notes = {"labels": "verified by people, Confidence 1 or 0", "classes": f"{len(names):,} listed"}
    if "val" not in splits:
        notes["validation"] = "no file of it: held out of train"
    return settle(Source("openimages", names, splits, tuple(problems), notes), missing=missing, check=check)


def _find(base: Path, patterns: Sequence[str], parts: Sequence[str] = ()) -> Path | None:
    """The one file of these names at the usual places; of one release, so two are refused."""
    folders = [base / place for place in _PLACES] + [base / place / part for place in _PLACES for part in parts]
    found: Paths = []
    for folder in folders:
        found += [path for pattern in patterns for path in sorted(folder.glob(pattern))]
        if parts and folder.name in parts and (folder / "annotations-human.csv").is_file():
            found.append(folder / "annotations-human.csv")
    if len(found) > 1:
        raise SourceError(f"{found[0]} and {found[1]} both could be meant; keep the files of one release in {base}.")
    return found[0] if found else None


def _class_list(base: Path, given: Path | None) -> tuple[str, ...]:
    if given is not None and not given.is_file():
        given = base / given
    path = given or _find(base, ["*classes-trainable.txt"]) or base / "classes-trainable.txt"
    mids = tuple(read_lines(path, LAYOUT))
    if not mids or len(set(mids)) != len(mids):
        twice = [mid for mid, times in Counter(mids).items() if times > 1]
        raise SourceError(f"{path} lists {f'{twice[0]} twice' if twice else 'no class'}; restore the published file.")
    return mids


def _names(base: Path, mids: tuple[str, ...], how: str) -> tuple[tuple[str, ...], list[Problem]]:
    """A name per class, different from all others: where two are described alike, both carry their /m/… as well."""
    path = _find(base, ["*class-descriptions.csv"])
    if how == "mid" or path is None:
        return mids, []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            described = {line[0].strip(): line[1].strip() for line in csv.reader(file) if len(line) >= 2 and line[1]}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SourceError(f"cannot read {path} as CSV ({error}).") from error
    told = [described.get(mid, mid) for mid in mids]
    times = Counter(told)
    names = tuple(f"{name} ({mid})" if times[name] > 1 else name for name, mid in zip(told, mids, strict=True))
    bare = tuple(mid for mid in mids if mid not in described)
    return names, [Problem(f"{path.name}: classes without a description, called by their number", bare)] if bare else []


def _photos(images: Path, base: Path, parts: Sequence[str]) -> Path:
    """The folder of a split's photos; the first possible one where there is none, which the error about it names."""
    roots = [images, base / images, base / images / "images"]
    folders = [root / part for root in roots for part in parts if root.is_dir()] or [base / images / parts[0]]
    with_photos = (folder for folder in folders if folder.is_dir() and any(folder.glob("*.jpg")))
    return next(with_photos, folders[0])


def _split(rows: LabelRows, names: tuple[str, ...], folder: Path) -> Split:
    import pyarrow as pa
    import pyarrow.compute as pc

    suffix, nothing = (pa.scalar(text, rows.images.type) for text in (".jpg", ""))
    images = tuple(pc.binary_join_element_wise(rows.images, suffix, nothing).to_pylist())
    labels = Labels.from_sorted(names, rows.starts, rows.columns, rows.states)
    return Split(images, labels, FilesIn(folder, images))


def _problems(split: str, rows: LabelRows, names: tuple[str, ...]) -> list[Problem]:
    def of_rows(chosen: NDArray[np.int64]) -> tuple[str, ...]:
        return tuple(rows.images.take(chosen).to_pylist())

    clash = zip(of_rows(rows.clash_rows), rows.clash_columns.tolist(), strict=True)
    found = [
        Problem("cells labelled both present and absent, unknown", tuple(f"{i} {names[c]}" for i, c in clash)),
        Problem("images with a cell labelled more than once, alike", of_rows(rows.repeated_rows)),
        Problem("images without a verified label of a listed class, left out", tuple(rows.left_out.to_pylist())),
        Problem("classes that are not listed, their labels left out", _counted(rows.other_classes)),
        Problem("labels not verified by people, left out", _counted(rows.other_sources)),
    ]
    return [Problem(f"{split}: {problem.what}", problem.where) for problem in found if problem.where]


def _counted(found: Counter[str]) -> tuple[str, ...]:
    return tuple(f"{name} ({times:,} labels)" for name, times in found.most_common())
