"""A published table as written in `recipes/tables/NAME.toml`: its cells, and the recipe that each of them is."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import UserError

HOME = "recipes"  # in the working directory, else in the checkout this package is imported from
# As papers print a figure: 89.09 ± 0.17, ~78.5 (read off a drawing), < 78.2 (outside one), - (none).
PRINTED = re.compile(r"(?P<about>~?)(?P<value>\d+(\.\d+)?)( ± (?P<sd>\d+(\.\d+)?))?|< \d+(\.\d+)?|-")


class TableError(UserError):
    """A published table, one of its cells or a result of it that does not exist or cannot be read."""


UNPRINTED = "–"


@dataclass(frozen=True)
class Row:
    name: str
    label: str  # as the paper prints it
    labels: str  # what the row is told of the labels, in the paper's words


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

    @property
    def recipe(self) -> str:
        return "/".join(filter(None, (self.source, self.folder, f"{self.row.name}_{self.protocol}")))


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
        return tuple(dict.fromkeys(cell.row.name for cell in self.cells))

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
            and (not rows or cell.row.name in rows)
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


def read_table(path: Path) -> Table:
    try:
        content = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise TableError(f"{path} cannot be read as a table: {error}") from error
    try:
        words = ("title", "where", "paper", "note", "metric", "split", "runs", "baseline", "reference")
        return Table(
            name=path.stem,
            **{key: str(content[key]) for key in words},
            images=content["images"],
            cells=(*_published(path, content), *_unpublished(path, content)),
        )
    except KeyError as error:
        raise TableError(f"{path}: there is no {error}.") from error


def _published(path: Path, content: Mapping[str, Any]) -> Iterable[Cell]:
    """In the order of the paper: protocol by protocol, data set by data set, row by row."""
    sources = content["sources"]
    for protocol, published in content.get("published", {}).items():
        for name, values in published.items():
            if len(values) != len(sources) or not all(isinstance(value, int | float | str) for value in values):
                raise TableError(
                    f"{path}, [published.{protocol}] {name}: one number per source ({', '.join(sources)})."
                )
        for at, source in enumerate(sources):
            for name, values in published.items():
                number, sd, printed = _figure(path, f"[published.{protocol}] {name}", values[at])
                row = _row(content, name)
                yield Cell(path.stem, source, row, protocol, number, sd, printed, content.get("recipes", ""))


def _unpublished(path: Path, content: Mapping[str, Any]) -> Iterable[Cell]:
    """Rows of ours that have a recipe and no published number: protocol -> source -> names of rows."""
    for protocol, by_source in content.get("unpublished", {}).items():
        for source, names in by_source.items():
            for name in names:
                folder = content.get("recipes", "")
                yield Cell(path.stem, source, _row(content, name), protocol, published=None, folder=folder)


def _row(content: Mapping[str, Any], name: str) -> Row:
    return Row(name, content["rows"][name]["label"], content["rows"][name]["labels"])


def _figure(path: Path, where: str, value: float | str) -> tuple[float | None, float | None, str]:
    """Number, spread and how it is shown, from a number or from the words of PRINTED."""
    if not isinstance(value, str):
        return float(value), None, f"{value:.1f}"
    match = PRINTED.fullmatch(value)
    if match is None:
        raise TableError(
            f'{path}, {where}: \'{value}\' is not a published figure. Write a number, "89.09 ± 0.17", "~78.5" (read '
            'off a drawing), "< 78.2" (outside one) or "-" (none).'
        )
    number, sd = match["value"], match["sd"]
    printed = UNPRINTED if value == "-" else value
    return float(number) if number else None, float(sd) if sd else None, printed
