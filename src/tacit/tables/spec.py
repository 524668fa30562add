"""A published table as written in `recipes/tables/NAME.toml`: its cells, and the recipe that each of them is."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import UserError

HOME = "recipes"  # in the working directory, else in the checkout this package is imported from
# As papers print a figure: 89.09 ± 0.17, ~78.5 (read off a drawing), < 78.2 (outside one), - (none).
PRINTED = re.compile(r"(?P<about>~?)(?P<value>\d+(\.\d+)?)( ± (?P<sd>\d+(\.\d+)?))?|< \d+(\.\d+)?|-")


class TableError(UserError):
    """A published table, one of its cells or a result of it that does not exist or cannot be read."""


UNPRINTED = "–"
Figure = tuple[float | None, float | None, str]  # percent, its spread, as printed
NOTHING: Figure = (None, None, UNPRINTED)
AVERAGE = "average"
# What a table that is `like` another one does not say again; figures and titles are its own.
INHERITED = (
    "where", "paper", "note", "split", "recipes", "runs", "baseline", "reference", "sources", "images", "rows", "axis",
    "unpublished",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    name: str
    label: str  # as the paper prints it
    labels: str  # what the row is told of the labels, in the paper's words
    family: str = ""  # in a table with an axis: the row that this is one value of, or the average of
    at: str = ""  # that value, in words

    @property
    def base(self) -> str:
        return self.family or self.name

    @property
    def base_label(self) -> str:
        return self.label.removesuffix(f", {self.at}")


@dataclass(frozen=True)
class Axis:
    """A setting that every row of a table goes through: a cell is a row at one of its values, or their average."""

    setting: str
    label: str  # {} stands for the value: "{} %"
    values: Mapping[str, str]  # as the table has it -> as `tacit train` takes it

    def at(self, row: Row, value: str) -> Row:
        at = AVERAGE if value == AVERAGE else self.label.format(value)
        return Row(f"{row.name}_{value}", f"{row.label}, {at}", row.labels, row.name, at)


@dataclass(frozen=True)
class Cell:
    """One published number, or a row of ours under a protocol that the paper has not."""

    table: str
    source: str
    row: Row
    protocol: str
    published: float | None  # percent; None: the paper has no number here
    sd: float | None = None  # over its runs, where the paper prints one
    printed: str = UNPRINTED  # the number as a reader should see it, with its spread or its doubt
    folder: str = ""  # of the recipe, below the source's
    settings: tuple[str, ...] = ()  # what the recipe is told beside: the value on the table's axis
    members: tuple[Cell, ...] = ()  # of an average: the cells it is over. It has no runs of its own

    @property
    def recipe(self) -> str:
        """The cell's name, and its runs' folder; the recipe itself where there is no axis."""
        return self._path(self.row.name)

    @property
    def file(self) -> str:
        """The recipe, without its suffix: one for all values of an axis."""
        return self._path(self.row.base)

    def _path(self, row: str) -> str:
        return "/".join(filter(None, (self.source, self.folder, f"{row}_{self.protocol}")))


@dataclass(frozen=True)
class Other:
    """A published figure of a method that is not part of this repository: printed beside ours, never run."""

    source: str
    protocol: str
    label: str
    printed: str


@dataclass(frozen=True)
class Table:
    name: str
    title: str
    where: str
    paper: str
    note: str
    metric: str
    split: str  # whose metric it is: test, or train for label recovery
    runs: str  # folder of the runs; tables that read different figures of the same runs share it
    baseline: str  # the row that differences are counted from; "" where there is none
    reference: str  # the row with full labels; "" where the table has none
    images: Mapping[str, Mapping[str, int]]  # source -> split -> images of the published experiment
    cells: tuple[Cell, ...]
    axis: Axis | None = None
    others: tuple[Other, ...] = ()  # beside the cells

    @property
    def in_print(self) -> bool:
        """Whether there is a published number at all; a search of ours is run like a table, and is none."""
        return any(cell.printed != UNPRINTED for cell in self.cells)

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cell.source for cell in self.cells))

    @property
    def protocols(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cell.protocol for cell in self.cells))

    @property
    def rows(self) -> tuple[str, ...]:
        """Names of rows; where there is an axis, a row's own name stands for all its values."""
        return tuple(dict.fromkeys(name for cell in self.cells for name in (cell.row.base, cell.row.name)))

    def choose(
        self, sources: Sequence[str] = (), protocols: Sequence[str] = (), rows: Sequence[str] = ()
    ) -> tuple[Cell, ...]:
        """The cells of these sources, protocols and rows; nothing named means all."""
        for kind, asked, known in (
            ("source", sources, self.sources),
            ("protocol", protocols, self.protocols),
            ("row", rows, self.rows),
        ):
            if wrong := [word for word in asked if word not in known]:
                raise TableError(f"{self.name} has no {kind} '{wrong[0]}'. It has {', '.join(known)}.")
        chosen = tuple(
            cell
            for cell in self.cells
            if (not sources or cell.source in sources)
            and (not protocols or cell.protocol in protocols)
            and (not rows or cell.row.name in rows or cell.row.base in rows)
        )
        if not chosen:
            raise TableError(f"{self.name} has no cell with this source, protocol and row at once.")
        return chosen


def recipes_folder(given: Path | None = None) -> Path:
    """Where the recipes lie: as told, in the working directory, or in the checkout of this package."""
    if given is not None:
        if not (given / "tables").is_dir():
            raise TableError(f"--recipes {given}: there is no folder {given / 'tables'}.")
        return given
    places = (Path(HOME), Path(__file__).resolve().parents[3] / HOME)
    for place in places:
        if (place / "tables").is_dir():
            return place
    raise TableError(
        "no folder recipes/tables here. Recipes come with the source code, not with the installed package: run this "
        "in a clone of the repository, or name its recipes with --recipes DIR."
    )


def table_names(recipes: Path) -> list[str]:
    return sorted(path.stem for path in (recipes / "tables").glob("*.toml"))


def find_table(name: str, recipes: Path) -> Table:
    path = recipes / "tables" / f"{name}.toml"
    if not path.is_file():
        raise TableError(f"no table named '{name}'. Tables in {recipes / 'tables'}: {', '.join(table_names(recipes))}.")
    return read_table(path)


def runs_of(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """The cells that have runs: averages stand for those they are over, and none comes twice."""
    runs = (run for cell in cells for run in (cell.members or (cell,)))
    return tuple({run.recipe: run for run in runs}.values())


def read_table(path: Path) -> Table:
    content = _content(path)
    try:
        words = ("title", "where", "paper", "note", "metric", "split", "runs", "baseline", "reference")
        axis = Axis(**content["axis"]) if "axis" in content else None
        reader = _Reader(path, content, axis)
        return Table(
            name=path.stem,
            **{key: str(content[key]) for key in words},
            images=content["images"],
            cells=tuple(reader.cells()),
            axis=axis,
            others=tuple(reader.others()),
        )
    except KeyError as error:
        raise TableError(f"{path}: there is no {error}.") from error
    except TypeError as error:
        raise TableError(f"{path}, [axis]: it has setting, label and values, and nothing else ({error}).") from error


def _content(path: Path) -> dict[str, Any]:
    """What the file says, and what it takes over from the table it is `like`."""
    content = _toml(path)
    if "like" not in content:
        return content
    other = _toml(path.with_name(f"{content['like']}.toml"))
    if "like" in other:
        raise TableError(f"{path}: '{content['like']}' is itself like '{other['like']}': name that one.")
    return {**{key: other[key] for key in INHERITED if key in other}, **content}


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise TableError(f"{path} cannot be read as a table: {error}") from error


@dataclass(frozen=True)
class _Reader:
    """From the sections of a table's file to its cells."""

    path: Path
    content: Mapping[str, Any]
    axis: Axis | None

    def cells(self) -> list[Cell]:
        published, ours = list(self._published()), list(self._unpublished())
        return [*published, *self._averages({cell.recipe: cell for cell in published + ours}), *ours]

    def others(self) -> Iterable[Other]:
        """[others.PROTOCOL] "name of the method" = one figure per source."""
        for where, protocol, source, label, value in self._by_source("others"):
            if (printed := _figure(self.path, where, value)[2]) != UNPRINTED:
                yield Other(source, protocol, label, printed)

    def _published(self) -> Iterable[Cell]:
        """In the order of the paper: protocol by protocol, data set by data set, row by row, value by value."""
        for where, protocol, source, name, value in self._by_source("published"):
            row = self._row(name)
            if self.axis is None:
                yield self._cell(source, row, protocol, _figure(self.path, where, value))
                continue
            if not isinstance(value, list) or len(value) != len(self.axis.values):
                raise TableError(f"{self.path}, {where}: one number per value of the axis ({self._values}) and source.")
            for at, figure in zip(self.axis.values, value, strict=True):
                yield self._cell(source, row, protocol, _figure(self.path, where, figure), at)

    def _unpublished(self) -> Iterable[Cell]:
        """Rows of ours that have a recipe and no published number: protocol -> source -> names of rows."""
        for protocol, by_source in self.content.get("unpublished", {}).items():
            for source, names in by_source.items():
                for name in names:
                    row = self._row(name)
                    for at in self.axis.values if self.axis else ("",):
                        yield self._cell(source, row, protocol, NOTHING, at)

    def _averages(self, runs: Mapping[str, Cell]) -> Iterable[Cell]:
        """[averages.PROTOCOL] row = one figure per source: the mean over the axis, each metric by itself."""
        for where, protocol, source, name, value in self._by_source("averages"):
            if self.axis is None:
                raise TableError(f"{self.path}, {where}: an average needs an [axis] that it is over.")
            row = self._row(name)
            blank = [self._cell(source, row, protocol, NOTHING, at) for at in self.axis.values]
            members = tuple(runs.get(cell.recipe, cell) for cell in blank)
            average = self._cell(source, row, protocol, _figure(self.path, where, value), AVERAGE)
            yield replace(average, settings=(), members=members)

    def _cell(self, source: str, row: Row, protocol: str, figure: Figure, at: str = "") -> Cell:
        if self.axis is not None and at:
            row = self.axis.at(row, at)
        settings = (f"{self.axis.setting}={self.axis.values[at]}",) if self.axis and at in self.axis.values else ()
        number, sd, printed = figure
        folder = self.content.get("recipes", "")
        return Cell(self.path.stem, source, row, protocol, number, sd, printed, folder, settings)

    def _by_source(self, section: str) -> Iterable[tuple[str, str, str, str, Any]]:
        """Where a value stands, for messages, its protocol, source and row, and itself."""
        sources = self.content["sources"]
        for protocol, rows in self.content.get(section, {}).items():
            for name, values in rows.items():
                if not isinstance(values, list) or len(values) != len(sources):
                    raise TableError(
                        f"{self.path}, [{section}.{protocol}] {name}: one number per source ({', '.join(sources)})."
                    )
            for at, source in enumerate(sources):
                for name, values in rows.items():
                    yield f"[{section}.{protocol}] {name}", protocol, source, name, values[at]

    @property
    def _values(self) -> str:
        return ", ".join(self.axis.values) if self.axis else ""

    def _row(self, name: str) -> Row:
        return Row(name, self.content["rows"][name]["label"], self.content["rows"][name]["labels"])


def _figure(path: Path, where: str, value: Any) -> Figure:
    """Number, spread and how it is shown, from a number or from the words of PRINTED."""
    if isinstance(value, int | float):
        return float(value), None, f"{value:.1f}"
    match = PRINTED.fullmatch(str(value))
    if match is None:
        raise TableError(
            f'{path}, {where}: \'{value}\' is not a published figure. Write a number, "89.09 ± 0.17", "~78.5" (read '
            'off a drawing), "< 78.2" (outside one) or "-" (none).'
        )
    number, sd = match["value"], match["sd"]
    printed = UNPRINTED if value == "-" else value
    return float(number) if number else None, float(sd) if sd else None, printed
