"""What every source asks of its files: are they there, listed once, in one split only, and images at all?

A reader builds its splits as the lists have them and ends with `settle`, which applies the same rules to all sources:
rows whose image is missing or unreadable leave the split, by name and with a count, never in silence.
"""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..labels import ABSENT, PRESENT
from .source import FilesIn, Problem, Source, SourceError, Split

Missing = Literal["drop", "keep", "error"]
"""Images a list names but no folder has: drop their rows, keep them (their features lie elsewhere), or stop."""
Check = Literal["none", "quick", "full"]
"""Look into the image files before training: not at all, at both ends of each file, or decode every one."""
Progress = Callable[[int, int], None]
"""Called with (images done, images in all)."""

MAX_PIXELS = 100_000_000
"""Largest image accepted: 100 megapixels are 300 MB once decoded, and far above any camera's photo."""
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".jfif")
"""File names that promise an image; used only to find images no table mentions."""

_TOO_LARGE = "images larger than 100 megapixels"
_NO_IMAGE = "files that are not an image"
_BROKEN = "truncated or damaged images"
_CLOSED = "image files that cannot be opened"
# How a complete file ends. Cameras may append data of their own to a JPEG: such a file is decoded to be sure.
_ENDINGS = {"JPEG": b"\xff\xd9", "PNG": b"\x00\x00\x00\x00IEND\xaeB`\x82"}


def need_root(root: Path | None, name: str, layout: str) -> Path:
    """The folder a source was pointed at."""
    if root is None:
        raise SourceError(f"source '{name}' needs the folder its files lie in, as in `{name}:path/to/data`.\n{layout}")
    if not root.exists():
        raise SourceError(f"source '{name}': there is no {root}. Give the folder its files lie in.\n{layout}")
    return root


def need_file(path: Path, layout: str) -> Path:
    if not path.is_file():
        raise SourceError(f"missing file {path}.\n{layout}")
    return path


def need_folder(candidates: Sequence[Path], what: str, layout: str) -> Path:
    """The first of several places where a folder may lie."""
    for folder in candidates:
        if folder.is_dir():
            return folder
    raise SourceError(f"no folder with {what}; looked for {', '.join(map(str, candidates))}.\n{layout}")


def read_lines(path: Path, layout: str) -> list[str]:
    """Lines of a text file without surrounding blanks; empty lines are left out."""
    try:
        text = need_file(path, layout).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"cannot read {path} as text ({error}).") from error
    return [line for raw in text.splitlines() if (line := raw.strip())]


def numbered(path: Path, layout: str) -> dict[int, str]:
    """Lines '<number> <text>' as a mapping, in the order of the file."""
    found: dict[int, str] = {}
    for line in read_lines(path, layout):
        number, _, text = line.partition(" ")
        if not number.isdecimal() or not text.strip():
            raise SourceError(f"{path}: expected '<number> <text>', found '{line[:80]}'.")
        if int(number) in found:
            raise SourceError(f"{path}: number {number} is listed twice; the file is damaged or was edited.")
        found[int(number)] = text.strip()
    return found


def first_rows(images: Sequence[str], where: str) -> tuple[NDArray[np.int64], list[Problem]]:
    """Rows that name an image for the first time, and the names that come again."""
    seen: dict[str, int] = {}
    again = []
    for row, image in enumerate(images):
        if seen.setdefault(image, row) != row:
            again.append(image)
    problems = [Problem(f"{where}: images listed more than once (first row kept)", tuple(again))] if again else []
    return np.fromiter(seen.values(), np.int64, len(seen)), problems


def two_states(truth: ArrayLike) -> NDArray[np.int8]:
    """0/1 truth, in which a zero means absent, as the states of Labels."""
    return np.where(np.asarray(truth).astype(bool), np.int8(PRESENT), np.int8(ABSENT))


def without_positive(split: str, images: Sequence[str], states: NDArray[np.int8]) -> list[Problem]:
    """Rows that show none of the classes: a single positive cannot be observed there."""
    empty = tuple(images[i] for i in np.flatnonzero(~(states == PRESENT).any(1)).tolist())
    if not empty:
        return []
    return [Problem(f"{split}: images without any positive label, {len(empty) / len(images):.1%} of all", empty)]


def on_disk(files: Sequence[Path]) -> NDArray[np.bool_]:
    """Which files exist, found by listing each folder once (asking for every file costs seconds on a network disk)."""
    if isinstance(files, FilesIn):
        listed = _names_in(str(files.folder))
        return np.fromiter((name in listed for name in files.names), bool, len(files))
    listings: dict[str, frozenset[str]] = {}
    present = np.zeros(len(files), bool)
    for row, file in enumerate(files):
        folder, name = os.path.split(file)
        if folder not in listings:
            listings[folder] = _names_in(folder)
        present[row] = name in listings[folder]
    return present


def _names_in(folder: str) -> frozenset[str]:
    try:
        with os.scandir(folder or ".") as entries:
            return frozenset(entry.name for entry in entries if not _is_folder_or_loop(entry))
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except OSError as error:
        raise SourceError(f"cannot list folder {folder}: {error.strerror}. Check its permissions.") from error


def _is_folder_or_loop(entry: os.DirEntry[str]) -> bool:
    """A symbolic link that leads back to itself is as good as a missing file."""
    try:
        return entry.is_dir()
    except OSError as error:
        if error.errno == errno.ELOOP:
            return True
        raise


def settle(
    source: Source, *, missing: Missing = "drop", check: Check = "none", progress: Progress | None = None
) -> Source:
    """The source with the rows that can be used; what was left out becomes Problems."""
    problems = list(source.problems)
    splits = {}
    for name, split in source.splits.items():
        kept = split if missing == "keep" else _drop_missing(source.name, name, split, missing, problems)
        if check != "none":
            kept = _drop_unreadable(source.name, name, kept, check == "full", progress, problems)
        splits[name] = kept
    problems += _shared_between(splits)
    return replace(source, splits=splits, problems=tuple(problems))


def _drop_missing(source: str, name: str, split: Split, missing: Missing, problems: list[Problem]) -> Split:
    if split.files is None:
        return split
    present = on_disk(split.files)
    lost = tuple(split.images[i] for i in np.flatnonzero(~present))
    if not lost:
        return split
    problem = Problem(f"{name}: images listed but missing, rows left out", lost)
    if len(lost) == len(split):
        raise SourceError(
            f"source '{source}': none of the {len(split)} images of split '{name}' exists; the first should be "
            f"{split.files[0]}. Point to the folder that holds the images; if only their labels are wanted (features "
            "computed elsewhere), say --missing keep."
        )
    if missing == "error":
        raise SourceError(f"source '{source}': {problem}. Add the files, or say --missing drop to go on without them.")
    problems.append(problem)
    return split.take(np.flatnonzero(present))


def _drop_unreadable(
    source: str, name: str, split: Split, full: bool, progress: Progress | None, problems: list[Problem]
) -> Split:
    there = split if split.files is None else split.take(np.flatnonzero(on_disk(split.files)))  # --missing keep
    found = check_images(there, full=full, progress=progress)
    bad = {image for problem in found for image in problem.where}
    if not bad:
        return split
    if len(bad) == len(split):
        raise SourceError(f"source '{source}': no image of split '{name}' can be read. {found[0]}.")
    problems += [Problem(f"{name}: {problem.what}, rows left out", problem.where) for problem in found]
    return split.take(np.array([i for i, image in enumerate(split.images) if image not in bad]))


def _shared_between(splits: dict[str, Split]) -> Iterable[Problem]:
    """Files that two splits share: training on test images flatters every figure."""
    names = list(splits)
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            both = _images_of_both(splits[one], splits[other])
            if both:
                yield Problem(f"images in both {one} and {other}", both)


def _images_of_both(one: Split, other: Split) -> tuple[str, ...]:
    """Images of `other` whose file is one of `one`'s as well."""
    if isinstance(one.files, FilesIn) and isinstance(other.files, FilesIn) and one.files.folder != other.files.folder:
        return ()
    files = set(other.files or ())  # the test split: the smaller one
    shared = files.intersection(one.files or ())
    return tuple(n for n, f in zip(other.images, other.files or (), strict=False) if f in shared) if shared else ()


def check_images(split: Split, *, full: bool = False, progress: Progress | None = None) -> list[Problem]:
    """Image files that cannot be used, sorted by what is wrong with them.

    The quick check reads both ends of each file: it finds what is no image, larger than 100 megapixels (known from the
    header, nothing is decoded) or cut short. `full` also decodes every image, JPEG at an eighth of its size, and finds
    damage in the middle; expect a few milliseconds per photo.
    """
    if split.files is None:
        return []
    wrong: dict[str, list[str]] = {}
    with warnings.catch_warnings(), ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        warnings.simplefilter("ignore")  # of large images and odd metadata: the verdict says it better
        faults = pool.map(lambda file: _fault(file, full), split.files)
        for done, (image, fault) in enumerate(zip(split.images, faults, strict=True), 1):
            if fault:
                wrong.setdefault(fault, []).append(image)
            if progress:
                progress(done, len(split))
    return [Problem(what, tuple(images)) for what, images in wrong.items()]


def _fault(path: Path, full: bool) -> str | None:
    """What is wrong with an image file, if anything."""
    from PIL import Image, UnidentifiedImageError

    try:
        file = path.open("rb")
    except OSError:
        return _CLOSED
    with file:
        try:
            with Image.open(file) as image:
                if image.width * image.height > MAX_PIXELS:
                    return _TOO_LARGE
                ending = _ENDINGS.get(image.format or "")
                if full or ending is None or not _ends_with(path, ending):
                    image.draft(None, (1, 1))
                    image.load()
        except Image.DecompressionBombError:
            return _TOO_LARGE
        except UnidentifiedImageError:
            return _NO_IMAGE
        except Exception:  # decoders of damaged files raise OSError, SyntaxError, ValueError, struct.error, EOFError, …
            return _BROKEN
    return None


def _ends_with(path: Path, ending: bytes) -> bool:
    """Whether the file ends as its format demands; zero bytes after the end are common and harmless."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 256))
        return file.read().rstrip(b"\0").endswith(ending)
