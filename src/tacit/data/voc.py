"""Pascal VOC 2007 and 2012: 20 object classes, from the devkit's image lists or its XML annotations."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..labels import ABSENT, PRESENT, UNKNOWN, Labels
from .checks import Check, Missing, first_rows, need_file, need_folder, need_root, read_lines, settle, without_positive
from .source import Problem, Source, SourceError, Split

CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog",
    "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip

LAYOUT = """\
Expected (the folder given may be VOCdevkit, its parent, or VOC2012 itself; 2007 likewise):
  VOCdevkit/VOC2012/JPEGImages/*.jpg
  VOCdevkit/VOC2012/ImageSets/Main/{train,val}.txt, <class>_{train,val}.txt   (2007: trainval and test)
  VOCdevkit/VOC2012/Annotations/*.xml                                         (with --lists xml)"""

_LISTS = {"2007": {"train": "trainval", "test": "test"}, "2012": {"train": "train", "test": "val"}}
_DIFFICULT = {"negative": ABSENT, "positive": PRESENT, "unknown": UNKNOWN}
_FLAGS = {"1": 1, "0": 0, "-1": -1}

Difficult = Literal["negative", "positive", "unknown"]


@dataclass(frozen=True)
class _Read:
    """A split as the devkit has it; `areas` only where boxes were read."""

    names: list[str]
    states: NDArray[np.int8]
    areas: NDArray[np.float32] | None
    problems: list[Problem]


def load(
    root: Path | None,
    variant: str,
    *,
    difficult: Difficult = "negative",
    lists: Literal["main", "xml"] = "main",
    rows: Literal["published", "all"] = "published",
    missing: Missing = "drop",
    check: Check = "none",
) -> Source:
    """Read the training pool and the test split of VOC 2007 (trainval, test) or 2012 (train, val).

    2007 keeps every listed image in the list's order (5,011 and 4,952), as work on partial labels draws its masks on.

    Args:
        root: VOCdevkit, its parent, or the folder of the year.
        variant: "2007" or "2012".
        difficult: what a class is called of which an image shows only objects marked difficult; published programs say
            "negative" although the challenge itself ignores such cells ("unknown").
        lists: read labels from ImageSets/Main/<class>_<split>.txt, or from the XML annotations, which also give the
            area of the largest object of each class.
        rows: "published" leaves out the images of 2012 without any positive label; "all" keeps every listed image.
        missing: what to do about listed images that do not exist.
        check: look into the image files before training.
    """
    if variant not in _LISTS:
        raise SourceError(f"voc{variant}: say which year, voc2007 or voc2012.")
    folder = _year_folder(need_root(root, "voc", LAYOUT), variant)
    splits: dict[str, Split] = {}
    problems: list[Problem] = []
    for split, listed in _LISTS[variant].items():
        names = _listed_names(folder, listed, variant, problems)
        if lists == "main":
            read = _read_lists(folder, listed, names, _DIFFICULT[difficult])
        else:
            read = _read_annotations(folder, listed, names, _DIFFICULT[difficult])
        splits[split] = _split(read, folder / "JPEGImages", drop_empty=variant == "2012" and rows == "published")
        problems += read.problems + _empty_rows(split, read, rows, variant)
    notes = {"difficult": difficult, "labels from": lists, "rows": rows}
    return settle(Source(f"voc{variant}", CLASSES, splits, tuple(problems), notes), missing=missing, check=check)


def _year_folder(root: Path, year: str) -> Path:
    inside = f"VOC{year}"
    for folder in (root / inside, root / "VOCdevkit" / inside):
        if folder.is_dir():
            return folder
    other = root.name.startswith("VOC20") and root.name != inside
    if (root / "ImageSets" / "Main").is_dir() and not other:
        return root
    raise SourceError(f"no {inside} in {root}.\n{LAYOUT}")


def _listed_names(folder: Path, listed: str, year: str, problems: list[Problem]) -> list[str]:
    """Image ids of a split: sorted by name for 2012, in the order of the list for 2007, as published."""
    path = folder / "ImageSets" / "Main" / f"{listed}.txt"
    names = [line.split()[0] for line in read_lines(path, LAYOUT)]
    if not names:
        raise SourceError(f"{path} lists no image; the devkit is incomplete.")
    first, again = first_rows(names, path.name)
    problems += again
    unique = [names[i] for i in first]
    return sorted(unique) if year == "2012" else unique


def _read_lists(folder: Path, listed: str, names: list[str], difficult: int) -> _Read:
    row_of = {name: row for row, name in enumerate(names)}
    flags = np.full((len(names), len(CLASSES)), UNKNOWN, np.int8)
    listed_flag = np.zeros(flags.shape, bool)
    strangers: dict[str, None] = {}
    for column, label in enumerate(CLASSES):
        path = folder / "ImageSets" / "Main" / f"{label}_{listed}.txt"
        for name, flag in _flags(path):
            row = row_of.get(name)
            if row is None:
                strangers[name] = None
                continue
            if listed_flag[row, column] and flags[row, column] != flag:
                raise SourceError(f"{path}: image {name} is listed twice with different flags; keep one of the lines.")
            flags[row, column], listed_flag[row, column] = flag, True
        _need_every_image(path, names, listed_flag[:, column])
    states = np.where(flags == 0, np.int8(difficult), flags)
    odd = Problem(f"images in class lists but not in {listed}.txt, ignored", tuple(strangers))
    return _Read(names, states, None, [odd] if strangers else [])


def _flags(path: Path) -> Iterator[tuple[str, int]]:
    for number, line in enumerate(read_lines(path, LAYOUT), 1):
        fields = line.split()
        if len(fields) != 2 or fields[1] not in _FLAGS:
            raise SourceError(f"{path}, entry {number}: expected '<image> <1, 0 or -1>', found '{line[:80]}'.")
        yield fields[0], _FLAGS[fields[1]]


def _need_every_image(path: Path, names: Sequence[str], listed: NDArray[np.bool_]) -> None:
    if listed.all():
        return
    lost = [names[i] for i in np.flatnonzero(~listed).tolist()]
    raise SourceError(
        f"{path} says nothing of {len(lost)} of the {len(names)} images of its split ({', '.join(lost[:5])}, …): "
        "they would become negatives in silence. Restore the published list."
    )


def _read_annotations(folder: Path, listed: str, names: list[str], difficult: int) -> _Read:
    annotations = need_folder(
        [folder / "Annotations"], "XML annotations (they are not needed with --lists main)", LAYOUT
    )
    column_of = {label: column for column, label in enumerate(CLASSES)}
    known = {file.name for file in annotations.iterdir()}
    with_xml = [name for name in names if f"{name}.xml" in known]
    if not with_xml:
        raise SourceError(f"{annotations} has none of the {len(names)} annotations of {listed}.txt.\n{LAYOUT}")
    sure = np.zeros((len(with_xml), len(CLASSES)), np.float32)
    hard = np.zeros_like(sure)
    strange: list[str] = []
    for row, name in enumerate(with_xml):
        for label, is_difficult, area in _objects(annotations / f"{name}.xml"):
            column = column_of.get(label)
            if column is None:
                strange.append(f"'{label}' in {name}.xml")
                continue
            largest = hard if is_difficult else sure
            largest[row, column] = max(largest[row, column], area)
    states = np.where(sure > 0, np.int8(PRESENT), np.where(hard > 0, np.int8(difficult), np.int8(ABSENT)))
    areas = np.where(states == PRESENT, np.maximum(sure, hard) if difficult == PRESENT else sure, 0).astype(np.float32)
    lost = tuple(name for name in names if f"{name}.xml" not in known)
    problems = [Problem(f"{listed}.txt: images without an annotation, rows left out", lost)] if lost else []
    problems += [Problem("objects of an unknown class, ignored", tuple(strange))] if strange else []
    return _Read(with_xml, states, areas, problems)


def _objects(path: Path) -> Iterator[tuple[str, bool, float]]:
    """(class, marked difficult, area of the box in square pixels) of each object; box edges are inclusive."""
    try:
        tree = ElementTree.parse(need_file(path, LAYOUT))
        for item in tree.getroot().findall("object"):
            box = item.find("bndbox")
            if box is None:
                raise ValueError("an object has no <bndbox>")
            x0, y0, x1, y1 = (float(box.findtext(side, "")) for side in ("xmin", "ymin", "xmax", "ymax"))
            if x1 < x0 or y1 < y0:
                raise ValueError(f"a box ends before it starts: {x0:g}, {y0:g}, {x1:g}, {y1:g}")
            is_difficult = item.findtext("difficult", "0").strip() == "1"
            yield item.findtext("name", "").strip(), is_difficult, (x1 - x0 + 1) * (y1 - y0 + 1)
    except (ElementTree.ParseError, ValueError) as error:
        raise SourceError(f"{path} is not a VOC annotation ({error}). Restore the published file.") from error


def _split(read: _Read, pictures: Path, *, drop_empty: bool) -> Split:
    images = tuple(f"{name}.jpg" for name in read.names)
    files = tuple(pictures / image for image in images)
    split = Split(images, Labels.from_dense(read.states, CLASSES), files, areas=read.areas)
    return split.take(np.flatnonzero((read.states == PRESENT).any(1))) if drop_empty else split


def _empty_rows(split: str, read: _Read, rows: str, year: str) -> list[Problem]:
    done = "left out as published" if year == "2012" and rows == "published" else "kept"
    return [Problem(f"{p.what}, {done}", p.where) for p in without_positive(split, read.names, read.states)]
