"""`tacit predict RUN IMAGES…`: probabilities and tags for images that have no labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from ..errors import UserError
from . import console
from .options import parse
from .recipe import OptionError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..model import Model
    from ..predictions import Predictions, Wanted

ABOUT = """Score images with a run's model, prepared as in training. IMAGES are files, folders (searched at any depth),
patterns such as 'photos/*.jpg', or label tables (their column `image`)."""
SHOWN = 3  # best classes of each image in the terminal
LISTED = 20  # unreadable files named before they are only counted


@dataclass(frozen=True)
class Predict:
    run: tyro.conf.Positional[Path]  # the run's directory
    images: tyro.conf.Positional[tuple[str, ...]] = ()  # files, folders, patterns or label tables
    out: Path | None = None  # write .csv, .json or .parquet instead of a table in the terminal
    top: int | None = None  # only the k highest classes of each image, by name; unset: a column for every class
    threshold: float | None = None  # a class is tagged from this score on; unset: as --thresholds says
    thresholds: Literal["half", "one", "per-class"] = "half"  # 0.5; one chosen on validation; each class's own
    features: Path | None = None  # features of these images, for a model on features that were brought in
    folder: Path | None = None  # what image names in a label table are relative to; unset: the table's folder
    weights: str | None = None  # the backbone's weights, where a model on features cannot find them again
    batch_size: int = 64  # images at a time
    device: str = "auto"  # auto, cpu, cuda, cuda:1


def run(argv: Sequence[str]) -> int:
    config = parse("predict", Predict, argv, about=ABOUT, recipes=False).config
    _check(config)
    from ..predictions import collect

    wanted = collect(config.images, config.folder)
    from ..model import Model

    model = Model.load(config.run, device=config.device, weights=config.weights, thresholds=config.thresholds)
    if config.top is not None and config.top > len(model.classes):
        raise OptionError(f"--top {config.top}: the model knows {len(model.classes)} classes")
    failures: list[str] = []
    with console.on_demand("predicting") as progress:
        found = _predictions(model, wanted, config, progress, failures)
        rows = _write(found, model, config) if config.out else _show(found, model, config.top or SHOWN)
    if not rows:
        raise UserError(f"none of the {len(failures):,} images can be read:{_lines(failures)}")
    if config.out:
        print(f"Written: {config.out} ({rows:,} images)")
    if failures:
        total = len(failures) + rows
        console.warn(f"{len(failures):,} of {total:,} images cannot be read and were left out:{_lines(failures)}")
    return 0


def _check(config: Predict) -> None:
    from ..predictions import SUFFIXES

    if not config.images and config.features is None:
        raise OptionError("tacit predict needs IMAGES: files, folders, patterns or label tables")
    if config.batch_size < 1:
        raise OptionError(f"--batch-size {config.batch_size}: must be at least 1")
    if config.top is not None and config.top < 1:
        raise OptionError(f"--top {config.top}: must be at least 1")
    if config.threshold is not None and not 0 <= config.threshold <= 1:
        raise OptionError(f"--threshold {config.threshold:g}: scores are probabilities, give a number from 0 to 1")
    if config.threshold is not None and config.thresholds != "half":
        raise OptionError("--threshold and --thresholds exclude each other: one is given, the others were chosen")
    if config.out is not None and config.out.is_dir():
        raise OptionError(
            f"--out {config.out}: this is a folder; name the file to write, such as {config.out}/tags.csv"
        )
    if config.out is not None and config.out.suffix.lower() not in SUFFIXES:
        raise OptionError(f"--out {config.out}: predictions are written as {', '.join(SUFFIXES)}")


def _predictions(
    model: Model, wanted: Wanted, config: Predict, progress: console.Report, failures: list[str]
) -> Iterator[Predictions]:
    """Chunk by chunk; lines about files that cannot be read collect in `failures`."""
    from ..metrics.decisions import decide
    from ..predictions import Predictions

    limit = model.thresholds if config.threshold is None else config.threshold
    names: Sequence[str] = wanted.names
    images: Sequence[Path] | NDArray[np.float16] = wanted.files
    if config.features is not None:
        names, images = _features(config.features, wanted)
    for chunk in model.stream(images, batch_size=config.batch_size, progress=progress):
        failures += chunk.failures
        yield Predictions(tuple(names[row] for row in chunk.rows), chunk.scores, decide(chunk.scores, limit))


def _features(path: Path, wanted: Wanted) -> tuple[Sequence[str], NDArray[np.float16]]:
    """Features of the images asked for; without any, of all that the file has."""
    from ..assemble import brought_features

    found = brought_features(str(path))
    names = wanted.names or found.images
    return names, found.for_images(names)


def _write(found: Iterable[Predictions], model: Model, config: Predict) -> int:
    from ..predictions import writing

    assert config.out is not None
    try:
        with writing(config.out, model.classes, config.top) as writer:
            for chunk in found:
                writer.write(chunk)
            if not writer.rows:
                raise _Nothing  # leaves no file behind
    except _Nothing:
        return 0
    return writer.rows


class _Nothing(Exception):
    """There is nothing to write."""


def _show(found: Iterable[Predictions], model: Model, top: int) -> int:
    rows = []
    for chunk in found:
        best = chunk.best(top)
        for at, (image, tags) in enumerate(zip(chunk.images, chunk.tags(model.classes), strict=True)):
            scores = "  ".join(f"{model.classes[c]} {chunk.scores[at, c]:.2f}" for c in best[at])
            rows.append((image, ", ".join(tags) or "–", scores))
    if rows:
        console.table(("image", "tags", "highest scores"), rows)
    return len(rows)


def _lines(failures: Sequence[str]) -> str:
    more = f"\n  … and {len(failures) - LISTED:,} more" if len(failures) > LISTED else ""
    return "".join(f"\n  {line}" for line in failures[:LISTED]) + more
