"""Test images with their truth and what each method says of them."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from .compare import Comparison, Group
from .records import Examples, ReportError, RunRecord, Scores

IMAGES, METHODS, THRESHOLD = 12, 10, 0.5
SMALL = 160  # pixels: a side below this is enlarged without smoothing
LARGE = 200  # pixels: above this, JPEG instead of PNG keeps the page small
Verdict = Literal["correct", "missed", "wrong", "unknown"]


@dataclass(frozen=True)
class Mark:
    """One class of one image: what was predicted, held against the truth."""

    name: str
    verdict: Verdict
    probability: float


@dataclass(frozen=True)
class Answer:
    """What one group says of an image: its first run, decisions at `THRESHOLD`."""

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


def gallery(comparison: Comparison) -> list[Picture]:
    """The first pictures that a run kept, with the answers of the groups that scored the same test rows."""
    shown = next(((run, found) for g in comparison.groups for run in g.runs if (found := run.examples())), None)
    if shown is None:
        return []
    run, examples = shown
    base = run.scores("test")
    if base is None:
        return []
    if len(examples.index) and (examples.index.min() < 0 or examples.index.max() >= len(base.images)):
        raise ReportError(f"{run.path / 'examples-test.npz'}: an index lies outside the {len(base.images)} test images")
    scored = list(_same_rows(comparison.groups, run, base))[:METHODS]
    return [_picture(run.classes, base, scored, examples, at) for at in range(min(IMAGES, len(examples.index)))]


def _same_rows(groups: Sequence[Group], run: RunRecord, base: Scores) -> list[tuple[int, Scores]]:
    """Scores of the first run of each group that scored the same images on the same classes."""
    found = []
    for position, group in enumerate(groups):
        scores = group.first.scores("test") if group.first.classes == run.classes else None
        if scores is not None and np.array_equal(scores.images, base.images):
            found.append((position, scores))
    return found


def _picture(
    classes: Sequence[str], base: Scores, scored: Sequence[tuple[int, Scores]], examples: Examples, at: int
) -> Picture:
    row, pixels = int(examples.index[at]), examples.pixels[at]
    truth = base.truth[row]
    answers = tuple(Answer(group, _marks(classes, truth, scores.scores[row])) for group, scores in scored)
    names = tuple(classes[c] for c in np.flatnonzero(truth == 1).tolist())
    return Picture(str(base.images[row]), data_uri(pixels), max(pixels.shape[1:]) < SMALL, names, answers)


def _marks(classes: Sequence[str], truth: NDArray[np.int8], scores: NDArray[np.float32]) -> tuple[Mark, ...]:
    """Predicted classes by falling probability, then the missed ones."""
    predicted = scores >= THRESHOLD
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
        image.thumbnail((2 * LARGE, 2 * LARGE))
    out = io.BytesIO()
    image.save(out, "JPEG", quality=82) if large else image.save(out, "PNG", optimize=True)
    kind = "jpeg" if large else "png"
    return f"data:image/{kind};base64,{base64.b64encode(out.getvalue()).decode()}"
