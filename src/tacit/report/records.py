"""What a report knows of a run: typed records, read from its directory by `report.read`."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..files import why_unreadable
from ..labels import UNKNOWN

MEND = "Restore it from a copy, run again, or delete it: the report then leaves out what it would show."


class ReportError(UserError):
    """A run directory that cannot be reported on; the message says which file and what to do."""


@dataclass(frozen=True)
class RunInfo:
    """What was run, as result.json names it."""

    source: str
    method: str
    observe: str
    protocol: str
    seed: int
    observe_seed: int
    split_seed: int
    select: str
    backbone: str
    recipe: str | None
    unknown: str = ""  # what an unknown label is to the method; empty in runs that did not say


@dataclass(frozen=True)
class EpochRecord:
    """One line of metrics.jsonl."""

    stage: str
    epoch: int
    terms: Mapping[str, float]
    val: Mapping[str, float]
    train: Mapping[str, float]
    estimates: Mapping[str, float]
    selection: float  # NaN where the epoch was not looked at
    seconds: float


@dataclass(frozen=True)
class SplitCounts:
    """Images of a split and, per class, its true and its observed labels (empty where not recorded)."""

    images: int
    present: tuple[int, ...]
    observed_present: tuple[int, ...]
    observed_absent: tuple[int, ...]


@dataclass(frozen=True)
class Selected:
    """The epoch that was kept, and by which rule."""

    epoch: int
    stage: str
    value: float
    metric: str
    labels: str
    unknown: str


@dataclass(frozen=True)
class Published:
    """A number printed elsewhere, in percent as printed there."""

    value: float
    metric: str
    split: str
    where: str


@dataclass(frozen=True)
class Thresholds:
    """Where validation would cut the probabilities: once for all classes, and class by class."""

    labels: str  # of validation: observed or clean
    unknown: str  # what an unknown one of them counted as: masked or negative
    one: float
    per_class: tuple[float, ...]
    fallback: tuple[str, ...]  # classes that validation says nothing of: they have the one


@dataclass(frozen=True, eq=False)
class Scores:
    """Probabilities and labels of one split; states are 1, 0 (unknown), -1."""

    images: NDArray[np.str_]
    scores: NDArray[np.float32]
    truth: NDArray[np.int8]
    observed: NDArray[np.int8] | None = None  # what the method was told; of the training images only

    @property
    def finite(self) -> Scores:
        """A score that is no number is like a label that is not known: of no cell that counts."""
        fine = np.isfinite(self.scores)
        if fine.all():
            return self
        truth = np.where(fine, self.truth, UNKNOWN).astype(np.int8)
        return replace(self, scores=np.where(fine, self.scores, 0), truth=truth)


@dataclass(frozen=True, eq=False)
class Examples:
    """Thumbnails of some test images and the rows of `Scores` they belong to."""

    index: NDArray[np.int64]
    pixels: NDArray[np.uint8]  # [n, 3, h, w]


@dataclass(frozen=True, eq=False)
class Maps:
    """Class maps of some test images: of each pair the row of `Scores` and the class. alpha and k are those of the
    logits a + alpha s: a is the mean of a map, s that of its k strongest places."""

    row: NDArray[np.int64]
    column: NDArray[np.int64]
    maps: NDArray[np.float16]  # [m, h, w]
    alpha: float
    k: int

    def of(self, row: int) -> dict[int, NDArray[np.float64]]:
        """The maps of one image by class."""
        found = np.flatnonzero(self.row == row)
        return {int(self.column[at]): self.maps[at].astype(np.float64) for at in found}


@dataclass(frozen=True, eq=False)
class RunRecord:
    """Everything a report needs of one finished run; scores, thumbnails and maps are read when asked for."""

    path: Path
    run: RunInfo
    options: Mapping[str, Mapping[str, Any]]
    fingerprint: str
    fingerprints: Mapping[str, str]
    protocol: Mapping[str, Any]  # what the fingerprint was taken of, where the run says so
    classes: tuple[str, ...]
    counts: Mapping[str, SplitCounts]
    selected: Selected
    metrics: Mapping[str, Mapping[str, float]]
    per_class_ap: Mapping[str, NDArray[np.float64]]
    unscored: Mapping[str, tuple[str, ...]]
    thresholds: Thresholds | None
    decisions: Mapping[str, Mapping[str, float]]  # on test, under which thresholds: half, one, per_class
    calibration: Mapping[str, float]  # of the test probabilities
    estimates: Mapping[str, float]
    also: Mapping[str, Mapping[str, Mapping[str, float]]]  # selection rule -> split -> metrics
    oracles: tuple[str, ...]
    choices: tuple[str, ...]
    published: Published | None
    search: tuple[Mapping[str, Any], ...]
    seconds: float
    peak_memory_mb: float
    device: str
    threads: int
    tacit: str
    epochs: tuple[EpochRecord, ...]
    config: Mapping[str, Any]
    config_text: str

    def scores(self, split: str) -> Scores | None:
        """Scores of a split, or None where the run kept none."""
        path = self.path / f"scores-{split}.npz"
        if not path.is_file():
            return None
        images, scores, truth, observed = _arrays(path, "images", "scores", "truth", optional=["observed"])
        fitting = scores.ndim == 2 and scores.shape == truth.shape == (len(images), len(self.classes))
        if not fitting or (observed is not None and observed.shape != scores.shape):
            raise ReportError(
                f"{path}: scores {scores.shape}, truth {truth.shape} and {len(images)} images do not fit the "
                f"{len(self.classes)} classes of result.json. {MEND}"
            )
        return Scores(images, scores, truth, observed)

    def examples(self) -> Examples | None:
        """Thumbnails of test images, or None where the run never saw images."""
        path = self.path / "examples-test.npz"
        if not path.is_file():
            return None
        index, pixels = _arrays(path, "index", "pixels")
        if pixels.ndim != 4 or pixels.shape[1] != 3 or len(pixels) != len(index) or pixels.dtype != np.uint8:
            raise ReportError(f"{path}: expected uint8 pixels [n, 3, h, w] and n indices, found {pixels.shape}")
        return Examples(index.astype(np.int64), pixels)

    def maps(self) -> Maps | None:
        """Class maps of test images, or None where the run's net makes none."""
        path = self.path / "maps-test.npz"
        if not path.is_file():
            return None
        row, column, maps, alpha, k = _arrays(path, "row", "column", "maps", "alpha", "k")
        fitting = maps.ndim == 3 and row.shape == column.shape == maps.shape[:1] and alpha.ndim == k.ndim == 0
        if not fitting or (len(column) and not 0 <= column.min() <= column.max() < len(self.classes)):
            raise ReportError(
                f"{path}: maps {maps.shape} of {row.shape} rows and {column.shape} classes do not fit each other or "
                f"the {len(self.classes)} classes of result.json. {MEND}"
            )
        return Maps(row.astype(np.int64), column.astype(np.int64), maps, float(alpha), int(k))


def _arrays(path: Path, *names: str, optional: Sequence[str] = ()) -> list[Any]:
    """Arrays of an .npz by name, and those of `optional`, None where it has none."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return [file[name] for name in names] + [file.get(name) for name in optional]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ReportError(f"{path} cannot be read ({why_unreadable(error)}). {MEND}") from None
