"""A feature set on disk: a folder with `features.npy` [N, D] float16, `images.json` (names in row order), `meta.json`.

It is kept under a key, the sha256 of everything that decides its values, so that a stale one is never taken for a new
one. Rows are appended to a partial file; a run that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import io
import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..files import FileError, atomic_write, is_disk_full

FORMAT = 1
Match = Literal["exact", "stem"]
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif")
SYNC_SECONDS = 5.0  # of work lost at most when the machine stops
PARTIAL, PROGRESS, META, LOCK = "features.partial.npy", "progress.json", "meta.json", ".lock"


class FeatureError(UserError):
    """Features that cannot be computed, read, or matched to images."""


@dataclass(frozen=True, eq=False)
class FeatureSet:
    """`match` says how names find each other: "exact", or by "stem" (without folder and image suffix)."""

    images: tuple[str, ...]
    features: NDArray[np.float16]  # [N, D], mapped from disk
    key: str
    match: Match
    meta: Mapping[str, Any]

    def __len__(self) -> int:
        return len(self.images)

    @property
    def width(self) -> int:
        return int(self.features.shape[1])

    def rows_for(self, images: Sequence[str], match: Match | None = None) -> NDArray[np.int64]:
        """The row of each image, in the order asked for; an error lists the images that have no features."""
        match = match or self.match
        name = stem if match == "stem" else str
        row_of = {name(image): row for row, image in enumerate(self.images)}
        if len(row_of) < len(self.images):
            raise FeatureError(
                f"features cannot be matched by stem: {some(repeated(map(name, self.images)))} each name more than "
                "one row of them. Match exact names."
            )
        wanted = [name(image) for image in images]
        if len(set(wanted)) < len(set(images)):
            raise FeatureError(
                f"images cannot be matched by stem: {some(repeated(wanted))} each name more than one of them. "
                "Match exact names."
            )
        missing = [image for image, key in zip(images, wanted, strict=True) if key not in row_of]
        if missing:
            raise FeatureError(self._missing(missing, len(images), match))
        return np.fromiter((row_of[key] for key in wanted), np.int64, len(wanted))

    def for_images(self, images: Sequence[str], match: Match | None = None) -> NDArray[np.float16]:
        """Features [len(images), D] in the order asked for, in memory."""
        return np.asarray(self.features[self.rows_for(images, match)])

    def _missing(self, missing: list[str], total: int, match: Match) -> str:
        text = f"{len(missing)} of {total} images have no features: {some(missing)}. The features name images like "
        text += f"{some(self.images[:2])}. "
        stems = {stem(image) for image in self.images}
        by_stem = sum(stem(image) in stems for image in missing)
        if match == "exact" and by_stem:
            return text + f"{by_stem} of them would be found by stem (without folder and suffix): match='stem'."
        return text + "Extract or import features of these images, or take the images out of the label table."


def stem(name: str) -> str:
    """'train/2008_000008.jpg' -> '2008_000008'; only suffixes of images are dropped."""
    last = name.replace("\\", "/").rpartition("/")[2]
    base, dot, suffix = last.rpartition(".")
    return base if f"{dot}{suffix}".lower() in SUFFIXES else last


def open_features(folder: str | os.PathLike[str]) -> FeatureSet:
    """A finished feature set; the table stays on disk and is read as it is used."""
    folder = Path(folder)
    if folder.is_file():
        raise FeatureError(f"{folder} is a file, not a feature set of ours: import it (`tacit features import FILE`).")
    if not (folder / META).is_file():
        hint = "its extraction was interrupted: run the same command again" if _begun(folder) else "extract them first"
        raise FeatureError(f"no features in {folder}: {hint}.")
    try:
        meta = json.loads((folder / META).read_text(encoding="utf-8"))
        images = tuple(json.loads((folder / "images.json").read_text(encoding="utf-8")))
        features = np.load(folder / "features.npy", mmap_mode="r", allow_pickle=False)
        key, match, version = meta["key"], meta["match"], meta["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FeatureError(f"{folder}: damaged feature set ({error}). Remove the folder and extract again.") from error
    if version != FORMAT:
        raise FeatureError(f"{folder}: format {version}, this version of Tacit reads {FORMAT}. Extract again.")
    if features.ndim != 2 or len(features) != len(images) or features.dtype != np.float16:
        raise FeatureError(
            f"{folder}: {len(images)} image names, but a table of {features.shape} {features.dtype}. "
            "Remove the folder and extract again."
        )
    return FeatureSet(images, features, key, match, meta)


class TableWriter:
    """Writes the rows of a feature set in order and remembers on disk how far it came; `done` rows are there already.

    Plain writes, not a memory map: on a full disk a map ends the process with SIGBUS, a write raises an error.
    """

    def __init__(self, folder: Path, shape: tuple[int, int], key: str) -> None:
        self.folder, self.shape, self.key, self.done = folder, shape, key, 0
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(header, {"descr": "<f2", "fortran_order": False, "shape": shape})
        self._header = header.getvalue()
        self._synced = time.monotonic()

    def __enter__(self) -> TableWriter:
        partial = self.folder / PARTIAL
        self.done = self._rows_there(partial)
        with self._disk():
            self._file: BinaryIO = partial.open("r+b" if self.done else "w+b")
            self._file.write(self._header)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._file:
            if not isinstance(error, FileError):
                self._sync()

    def write(self, start: int, rows: NDArray[np.float16]) -> None:
        with self._disk():
            self._file.seek(len(self._header) + start * self.shape[1] * 2)
            self._file.write(np.ascontiguousarray(rows, "<f2").data)
            self._file.flush()
        self.done = start + len(rows)
        if time.monotonic() - self._synced > SYNC_SECONDS:
            self._sync()

    def publish(self, images: Sequence[str], meta: Mapping[str, Any]) -> None:
        """The finished table gets its name, and last the file that says it is finished."""
        (self.folder / PARTIAL).replace(self.folder / "features.npy")
        with atomic_write(self.folder / "images.json") as temporary:
            temporary.write_text(json.dumps(list(images), ensure_ascii=False), encoding="utf-8")
        with atomic_write(self.folder / META) as temporary:
            temporary.write_text(json.dumps(meta, indent=1, ensure_ascii=False), encoding="utf-8")
        (self.folder / PROGRESS).unlink(missing_ok=True)

    def _rows_there(self, partial: Path) -> int:
        """Rows of an earlier attempt at the very same table."""
        try:
            progress = json.loads((self.folder / PROGRESS).read_text(encoding="utf-8"))
            done = int(progress["done"]) if progress["key"] == self.key else 0
            whole = partial.stat().st_size >= len(self._header) + done * self.shape[1] * 2
        except (OSError, ValueError, KeyError, TypeError):
            return 0
        return done if whole else 0

    def _sync(self) -> None:
        with self._disk():
            self._file.flush()
            os.fsync(self._file.fileno())
        with atomic_write(self.folder / PROGRESS) as temporary:
            temporary.write_text(json.dumps({"key": self.key, "done": self.done}))
        self._synced = time.monotonic()

    @contextmanager
    def _disk(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not is_disk_full(error):
                raise FileError(f"cannot write features in {self.folder}: {error.strerror}.") from error
            raise FileError(
                f"no space left on the disk of {self.folder}; what was done is kept "
                f"(about {self.done} of {self.shape[0]} images). Free some space and run the same command again, "
                "or set TACIT_CACHE to another disk."
            ) from error


@contextmanager
def one_writer(folder: Path) -> Iterator[None]:
    """Makes the folder, and waits while another process writes in it (runs side by side want the same features)."""
    theirs = folder.is_dir() and not (_begun(folder) or (folder / META).exists() or (folder / LOCK).exists())
    if folder.is_file() or (theirs and any(folder.iterdir())):
        raise FeatureError(f"{folder} holds something else than features. Choose another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / LOCK).open("w")
    except OSError as error:
        raise FileError(f"cannot write in {folder}: {error.strerror}. Choose another place.") from error
    with lock:
        with suppress(ImportError):  # no fcntl on Windows: two writers then write the same bytes twice
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def repeated(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f", … ({len(names) - 5} more)" if len(names) > 5 else "")


def _begun(folder: Path) -> bool:
    return (folder / PROGRESS).exists() or (folder / PARTIAL).exists()
