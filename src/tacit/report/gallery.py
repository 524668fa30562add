"""Test images with their truth and what each method says of them."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from .compare import Comparison, Group
from .records import Examples, ReportError, RunRecord, Scores

IMAGES, METHODS, THRESHOLD = 12, 16, 0.5
SMALL = 80  # pixels: a side below this is enlarged without smoothing
LARGE = 90  # pixels: above this, JPEG instead of PNG keeps the page small
WIDEST = 400  # pixels of a picture on the page
Verdict = Literal["correct", "missed", "wrong", "unknown"]


@dataclass(frozen=True)
class Mark:
    """One class of one image: what was predicted, held against the truth."""

    name: str
    verdict: Verdict
    probability: float


@dataclass(frozen=True)
class Answer:
    """What one group's first run says of an image, decided at the run's own threshold."""

    group: int
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class Picture:
    """An image, its true classes, and the answers."""

    name: str
    uri: str
    small: bool
    truth: tuple[str, ...]
    answers: tuple[Answer, ...]


@dataclass(frozen=True)
class Gallery:
    """The pictures shown, of how many kept ones, and where each group's run cuts its probabilities."""

    pictures: tuple[Picture, ...] = ()
    kept: int = 0
    thresholds: Mapping[int, float] = field(default_factory=dict)

    @property
    def by_disagreement(self) -> bool:
        """Whether there were more pictures than are shown, and methods that could differ on them."""
        return self.kept > len(self.pictures) and len(self.thresholds) > 1

    @property
    def at_half(self) -> bool:
        """Whether every decision shown is at 0.5."""
        return set(self.thresholds.values()) <= {THRESHOLD}


def gallery(comparison: Comparison) -> Gallery:
    """Pictures that a run kept, with the answers of the groups that scored the same test rows."""
    shown = next(((run, found) for g in comparison.groups for run in g.runs if (found := run.examples())), None)
    base = None if shown is None else shown[0].scores("test")
    if shown is None or base is None:
        return Gallery()
    run, examples = shown
    index = examples.index
    if len(index) and (index.min() < 0 or index.max() >= len(base.images)):
        raise ReportError(f"{run.path / 'examples-test.npz'}: an index lies outside the {len(base.images)} test images")
    scored = same_rows(comparison.groups, run, base)[:METHODS]
    limits = {position: threshold_of(comparison.groups[position]) for position, _ in scored}
    pictures = [
        _picture(run.classes, base, scored, limits, examples, at) for at in most_disputed(scored, limits, index)
    ]
    return Gallery(tuple(pictures), len(index), limits)


def threshold_of(group: Group) -> float:
    """The one threshold that the run chose on validation; 0.5 where it chose none."""
    chosen = group.first.thresholds
    return THRESHOLD if chosen is None else chosen.one


def same_rows(groups: Sequence[Group], run: RunRecord, base: Scores) -> list[tuple[int, Scores]]:
    """Scores of the first run of each group that scored the same images on the same classes."""
    found = []
    for position, group in enumerate(groups):
        scores = group.first.scores("test") if group.first.classes == run.classes else None
        if scores is not None and np.array_equal(scores.images, base.images):
            found.append((position, scores))
    return found


def most_disputed(
    scored: Sequence[tuple[int, Scores]], limits: Mapping[int, float], index: NDArray[np.int64]
) -> list[int]:
    """Which of the kept images to show: those on which the methods' decisions differ in most classes, the earlier of
    equals first. A choice by predictions alone: the truth has no part in it."""
    decided = np.array([scores.scores[index] >= limits[position] for position, scores in scored])
    disputed = (decided.any(axis=0) & ~decided.all(axis=0)).sum(axis=1) if len(decided) else np.zeros(len(index))
    order: list[int] = np.argsort(-disputed, kind="stable")[:IMAGES].tolist()
    return order


def _picture(
    classes: Sequence[str],
    base: Scores,
    scored: Sequence[tuple[int, Scores]],
    limits: Mapping[int, float],
    examples: Examples,
    at: int,
) -> Picture:
    row, pixels = int(examples.index[at]), examples.pixels[at]
    truth = base.truth[row]
    answers = tuple(Answer(g, _marks(classes, truth, scores.scores[row], limits[g])) for g, scores in scored)
    names = tuple(classes[c] for c in np.flatnonzero(truth == 1).tolist())
    return Picture(str(base.images[row]), data_uri(pixels), max(pixels.shape[1:]) < SMALL, names, answers)


def _marks(
    classes: Sequence[str], truth: NDArray[np.int8], scores: NDArray[np.float32], threshold: float
) -> tuple[Mark, ...]:
    """Predicted classes by falling probability, then the missed ones."""
    predicted = scores >= threshold
    marks = []
    for c in np.argsort(-scores, kind="stable").tolist():
        if predicted[c] or truth[c] == 1:
            verdict: Verdict = "missed"
            if predicted[c]:
                verdict = "correct" if truth[c] == 1 else "unknown" if truth[c] == 0 else "wrong"
            marks.append(Mark(classes[c], verdict, float(scores[c])))
    return tuple(sorted(marks, key=lambda mark: mark.verdict == "missed"))


def data_uri(pixels: NDArray[np.uint8]) -> str:
    """[3, h, w] pixels as a data URI."""
    image = Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    large = max(image.size) > LARGE
    if large:
        image.thumbnail((WIDEST, WIDEST))
    out = io.BytesIO()
    image.save(out, "JPEG", quality=82) if large else image.save(out, "PNG", optimize=True)
    kind = "jpeg" if large else "png"
    return f"data:image/{kind};base64,{base64.b64encode(out.getvalue()).decode()}"
