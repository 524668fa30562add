"""Where the nets of finished runs look: class maps over images, for `tacit maps`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .assemble import assemble
from .data.decode import ImageError, read_image
from .errors import UserError
from .label_table import read_label_table
from .model import Model
from .predictions import TABLES, Wanted, collect
from .report.heat import fitted
from .report.map_grid import Pictured, Seen, pictured
from .run import RunDirectory
from .scoring import aligned

SIDE = 320  # pixels of a picture's longer side on the page
CLASSES = 8  # of an image, unless they are named


class MapsError(UserError):
    """Runs, images or classes that no class maps can be shown of."""


@dataclass(frozen=True, eq=False)
class Subject:
    """One image: a file, or pixels [3, h, w]; `truth` [C] in the models' order of classes, 0 where not known."""

    name: str
    image: Path | NDArray[np.uint8]
    truth: NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Looker:
    """A run's model and what it is called beside others."""

    label: str
    model: Model


def load_lookers(runs: Sequence[Path], device: str) -> list[Looker]:
    """The models of runs whose nets have class maps, over one list of classes."""
    models = [Model.load(run, device=device) for run in runs]
    for model in models:
        model.check_maps()
        if model.classes != models[0].classes:
            raise MapsError(f"{model.path} and {models[0].path} have different class lists: show them one at a time.")
    return [Looker(label, model) for label, model in zip(_labels(runs), models, strict=True)]


def _labels(runs: Sequence[Path]) -> list[str]:
    """Names of the folders; where two are alike, the whole paths."""
    names = [run.resolve().name for run in runs]
    return names if len(set(names)) == len(names) else [str(run) for run in runs]


def columns_of(names: Sequence[str], classes: Sequence[str]) -> list[int]:
    """Positions of named classes, each once; an unknown name is refused, with what it may have meant."""
    lower = {name.lower(): name for name in classes}
    for name in names:
        if name not in classes:
            near = [lower[found] for found in get_close_matches(name.lower(), lower, n=3, cutoff=0.5)]
            known = f"{', '.join(classes[:8])}{', …' * (len(classes) > 8)}"
            hint = f"Did you mean {' or '.join(near)}?" if near else f"They are {known}."
            raise MapsError(f"no class '{name}' among the {len(classes)} classes of these runs. {hint}")
    return list(dict.fromkeys(classes.index(name) for name in names))


# --- which images -----------------------------------------------------------------------------------------------------


def subjects_of(words: Sequence[str], folder: Path | None, classes: Sequence[str]) -> list[Subject]:
    """Files, folders, patterns and label tables, as `tacit predict` takes them; what a table says is the truth."""
    wanted = collect(words, folder)
    truth = _told(words, classes)
    unknown = np.zeros(len(classes), np.int8)
    return [Subject(name, file, truth.get(name, unknown)) for name, file in _pairs(wanted)]


def _pairs(wanted: Wanted) -> Iterator[tuple[str, Path]]:
    return zip(wanted.names, wanted.files, strict=True)


def _told(words: Sequence[str], classes: Sequence[str]) -> dict[str, NDArray[np.int8]]:
    """What label tables among the words say of their images; what silence means decides nothing here."""
    found: dict[str, NDArray[np.int8]] = {}
    for word in words:
        if Path(word).suffix.lower() in TABLES and Path(word).is_file():
            table = read_label_table(word, silence="unknown")
            found |= dict(zip(table.images, aligned(table.labels, classes, word, []), strict=True))
    return found


def own_subjects(run: Path, data: str | None, count: int) -> list[Subject]:
    """Images spread evenly over the test split of the run's own source."""
    directory = RunDirectory(run)
    if not directory.config_file.is_file():
        raise MapsError(f"{run} has a model, and no config.toml that says what it was trained on: name IMAGES.")
    config = directory.config()
    test = assemble(config if data is None else replace(config, data=data)).splits["test"]
    some = test.take(np.linspace(0, len(test) - 1, min(count, len(test))).round().astype(np.int64))
    truth = some.labels.dense()
    if some.pixels is None and some.files is None:
        raise MapsError(f"the source of {run} has no images here. Name IMAGES, or its folder with --data.")
    images: Sequence[Path | NDArray[np.uint8]] = some.files if some.pixels is None else list(some.pixels)  # type: ignore[assignment]
    return [Subject(name, image, row) for name, image, row in zip(some.images, images, truth, strict=True)]


# --- what is seen in them ---------------------------------------------------------------------------------------------


def look(
    lookers: Sequence[Looker],
    subjects: Sequence[Subject],
    *,
    columns: Sequence[int] | None = None,
    threshold: float | None = None,
    failures: list[str] | None = None,
) -> Iterator[Pictured | None]:
    """A grid per image, in order; None for a file that cannot be read, and a line about it in `failures`."""
    for subject in subjects:
        try:
            pixels = subject.image if isinstance(subject.image, np.ndarray) else read_image(subject.image, None).numpy()
        except ImageError as error:
            if failures is None:
                raise
            failures.append(str(error))
            yield None
            continue
        seen = [_seen(looker, pixels, threshold) for looker in lookers]
        classes = lookers[0].model.classes
        shown = fitted(pixels, SIDE)
        yield pictured(subject.name, shown, subject.truth, classes, seen, columns=columns, most=CLASSES)


def _seen(looker: Looker, pixels: NDArray[np.uint8], threshold: float | None) -> Seen:
    model, image = looker.model, pixels[None]
    limits = model.thresholds if threshold is None else np.full(len(model.classes), threshold, np.float32)
    maps = model.maps(image)[0]
    return Seen(looker.label, model.predict(image)[0], dict(enumerate(maps)), model.pooling[1], limits)
