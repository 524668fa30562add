"""`tacit landscape RUNS… [--loss NAME]`: the training loss around the solutions of runs, kept in their directories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from ..errors import UserError
from . import console
from .method_words import read_method
from .options import parse
from .recipe import OptionError

if TYPE_CHECKING:
    from ..landscape import Place, Plane

ABOUT = """Compute the training loss around each run's solution, on the plane of two random directions whose filters
have the norms of the solution's. The surface is kept in the run's directory, and tacit compare --report draws it; the
same command finishes a surface that was interrupted."""


@dataclass(frozen=True)
class LandscapeCommand:
    runs: tyro.conf.Positional[tuple[Path, ...]] = ()  # directories of finished runs
    grid: int = 21  # points along each direction; odd, so that the solution is one of them
    span: float = 1.0  # of each direction, to both sides; 1 moves every filter by its own norm
    images: int = 512  # training images that the loss is the mean of
    seed: int = 0  # draws the images
    direction_seed: int = 0  # draws the directions; runs are compared along the same ones
    loss: str | None = None  # a method's, instead of the run's own: an, or with options em:alpha=0.2
    data: str | None = None  # where the source's files are now
    features: str | None = None  # where the features are now
    device: str = "auto"  # auto, cpu, cuda, cuda:1
    again: bool = False  # forget surfaces computed earlier


def run(argv: Sequence[str]) -> int:
    config = parse("landscape", LandscapeCommand, argv, about=ABOUT, recipes=False).config
    if not config.runs:
        raise OptionError("tacit landscape needs RUNS: the directories of one or more finished runs")
    name, options = read_method(config.loss) if config.loss else (None, {})
    from ..landscape import Place, Plane

    plane = Plane(config.grid, config.span, config.images, config.seed, config.direction_seed, name, options)
    place = Place(config.data, config.features, config.device)
    rows, failures = [], list[str]()
    for path in config.runs:
        try:
            rows.append(_one(path, plane, place, again=config.again))
        except UserError as error:
            if error.exit_code != 2 or len(config.runs) == 1:
                raise
            failures.append(str(error))
    numbers = ("points", "images", "at the solution", "lowest", "highest", "mean rise within 0.5")
    if rows:
        console.table(("run", "loss", *numbers), rows, right=numbers)
    for failure in failures:
        console.warn(failure)
    return 2 if failures else 0


def _one(path: Path, plane: Plane, place: Place, *, again: bool) -> list[object]:
    from ..landscape import landscape
    from ..report.landscapes import Surface

    with console.progress(f"{path.name or path}", plane.grid**2, "points") as bar:
        done = landscape(path, plane, place, again=again, progress=lambda done, of: bar.to(done, of))
    surface = Surface(done.steps, done.loss, done.story)
    values = (surface.solution, done.loss.min(), done.loss.max(), surface.mean_rise())
    return [path, done.story["loss"], plane.grid**2, done.story["images"], *(f"{value:.4g}" for value in values)]
