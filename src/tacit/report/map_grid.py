"""Where the network looks: heat maps of classes over pictures, several runs one under the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .compare import Comparison
from .gallery import data_uri, most_disputed, same_rows, threshold_of
from .heat import Pixels, blended, enlarged, fitted, heat_of
from .records import Maps

IMAGES, METHODS, CLASSES = 6, 6, 6  # shown in a report
LEAST = 112  # pixels of a picture's longer side
Truth = Literal["present", "absent", "unknown"]
_TRUTH: Mapping[int, Truth] = {1: "present", -1: "absent", 0: "unknown"}
_ORDER: Mapping[Truth, int] = {"present": 0, "unknown": 1, "absent": 1}


@dataclass(frozen=True, eq=False)
class Seen:
    """What one run makes of one image: probabilities [C], the maps it has by class, and the k of its pooling."""

    label: str
    scores: NDArray[np.float32]
    maps: Mapping[int, NDArray[np.floating]]
    k: int
    thresholds: NDArray[np.float32]  # [C]
    group: int | None = None  # position in the comparison, where there is one

    def predicts(self, column: int) -> bool:
        return bool(self.scores[column] >= self.thresholds[column])


@dataclass(frozen=True, eq=False)
class Tile:
    """The heat of one class over the picture, and the numbers that a heat map does not tell: it is scaled to its own
    largest value."""

    pixels: Pixels
    probability: float
    predicted: bool
    mean: float  # a: of the whole map
    strongest: float  # s: of its k strongest places
    blank: bool  # nowhere positive

    @property
    def uri(self) -> str:
        return data_uri(self.pixels)


@dataclass(frozen=True, eq=False)
class Line:
    """One run's tiles, a place per class; None where the run has no map of it."""

    label: str
    tiles: tuple[Tile | None, ...]
    group: int | None


@dataclass(frozen=True, eq=False)
class Pictured:
    """An image, the classes that are looked for, and a line per run."""

    name: str
    pixels: Pixels
    classes: tuple[str, ...]
    truth: tuple[Truth, ...]
    lines: tuple[Line, ...]
    left_out: int = 0  # classes that were predicted or present, and had no room

    @property
    def uri(self) -> str:
        return data_uri(self.pixels)


def pictured(
    name: str,
    pixels: Pixels,
    truth: NDArray[np.int8],
    classes: Sequence[str],
    seen: Sequence[Seen],
    *,
    columns: Sequence[int] | None = None,
    most: int = CLASSES,
) -> Pictured:
    """The grid of one image [3, h, w]. `truth` [C]: 1, -1, 0 unknown. `columns`: the classes wanted; unset: what is
    present, then what is predicted, at most so many."""
    wanted = relevant(truth, seen) if columns is None else list(columns)
    shown = wanted[:most] if columns is None else wanted
    large = enlarged(pixels, LEAST)
    lines = (Line(one.label, tuple(_tile(large, one, column) for column in shown), one.group) for one in seen)
    told = tuple(_TRUTH[int(truth[column])] for column in shown)
    names = tuple(classes[column] for column in shown)
    return Pictured(name, large, names, told, tuple(lines), len(wanted) - len(shown))


def relevant(truth: NDArray[np.int8], seen: Sequence[Seen]) -> list[int]:
    """Classes that are present, then those that any run predicts, each by falling probability; where there are none,
    the most probable class of the first run. A class that no run has a map of is nothing to look at."""
    highest = np.max([one.scores for one in seen], axis=0)
    mapped = {column for one in seen for column in one.maps}
    found = {column for column in mapped if truth[column] == 1 or any(one.predicts(column) for one in seen)}
    found = found or {int(seen[0].scores.argmax())}
    return sorted(found, key=lambda column: (_ORDER[_TRUTH[int(truth[column])]], -float(highest[column])))


def _tile(pixels: Pixels, seen: Seen, column: int) -> Tile | None:
    values = seen.maps.get(column)
    if values is None:
        return None
    heat = heat_of(values)
    strongest = np.sort(values.ravel())[-min(seen.k, values.size) :]
    return Tile(
        blended(pixels, heat),
        float(seen.scores[column]),
        seen.predicts(column),
        float(values.mean()),
        float(strongest.mean()),
        not heat.any(),
    )


@dataclass(frozen=True, eq=False)
class MapSection:
    """What the report shows: pictures, of how many that runs kept maps of; methods whose maps had no room."""

    pictures: tuple[Pictured, ...] = ()
    kept: int = 0
    without_room: tuple[str, ...] = ()


def map_section(comparison: Comparison) -> MapSection:
    """Maps that the groups' first runs kept of the same test images; empty where none kept any."""
    found = {at: maps for at, group in enumerate(comparison.groups) if (maps := group.first.maps()) is not None}
    if not found:
        return MapSection()
    run = comparison.groups[next(iter(found))].first
    examples, base = run.examples(), run.scores("test")
    if examples is None or base is None:
        return MapSection()
    scored = [(at, scores) for at, scores in same_rows(comparison.groups, run, base) if at in found]
    limits = {at: threshold_of(comparison.groups[at]) for at, _ in scored}
    pictures = list[Pictured]()
    for place in most_disputed(scored, limits, examples.index):
        row = int(examples.index[place])
        seen = [
            _seen(comparison, at, found[at], row, scores.scores[row], limits[at]) for at, scores in scored[:METHODS]
        ]
        if any(one.maps for one in seen) and len(pictures) < IMAGES:
            pixels = fitted(examples.pixels[place], 2 * LEAST)
            pictures.append(pictured(str(base.images[row]), pixels, base.truth[row], run.classes, seen))
    without_room = tuple(comparison.groups[at].label for at, _ in scored[METHODS:])
    return MapSection(tuple(pictures), len(examples.index), without_room)


def _seen(comparison: Comparison, at: int, maps: Maps, row: int, scores: NDArray[np.float32], threshold: float) -> Seen:
    limits = np.full(len(scores), threshold, np.float32)
    return Seen(comparison.groups[at].label, scores, maps.of(row), maps.k, limits, at)
