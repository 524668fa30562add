"""A recipe as text: header with the published figure and ours, settings that differ from the defaults, remarks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tacit.cli.console import duration
from tacit.run import RunConfig, to_toml
from tacit.tables.results import CellResult
from tacit.tables.spec import UNPRINTED, Cell, Table

DATA = {
    "voc2012": ("Pascal VOC 2012", "VOCdevkit"),
    "coco2014": ("COCO 2014", "coco"),
    "nuswide": ("NUS-WIDE", "nuswide"),
    "cub": ("CUB-200-2011 attributes", "cub"),
    "voc2007": ("Pascal VOC 2007", "VOCdevkit"),
    "vg200": ("Visual Genome, 200 categories", "vg"),
    "openimages": ("Open Images V3", "openimages"),
}
# Expected number of positives per image: the mean over the true labels, an oracle (the published program's constants).
EXPECTED_POSITIVES = {"voc2012": 1.5, "coco2014": 2.9, "nuswide": 1.9, "cub": 31.4}
# torchvision's first ImageNet weights, which the published programs load.
BACKBONE, IMAGE_SIZE = "resnet50.tv_in1k", 448


@dataclass(frozen=True)
class Recipe:
    """The settings of a cell, and what a reader should know of them."""

    config: RunConfig
    notes: Mapping[str, str] = field(default_factory=dict)  # setting -> said behind it
    remarks: tuple[str, ...] = ()  # said in the header


def text(cells: Sequence[Cell], table: Table, recipe: Recipe, results: list[CellResult]) -> str:
    """The recipe of a cell, or of all cells that a row has along the table's axis."""
    header = _header(cells[0], table, recipe, results) if table.axis is None else _row(cells, table, recipe, results)
    return header + _body(recipe)


def _body(recipe: Recipe) -> str:
    """Only what differs from the defaults, what is unusual explained."""
    usual = set(to_toml(RunConfig(source="")).splitlines())
    lines = [line for line in to_toml(recipe.config).splitlines() if line not in usual or not line]
    method = f'method = "{recipe.config.method}"'
    if method not in lines:
        lines.insert(1, method)  # said even where it is the default: it is the row
    if recipe.config.protocol == "linear":
        lines.insert(2, 'protocol = "linear"')
    return "\n".join(_explained(line, recipe.notes) for line in lines).strip() + "\n"


def _explained(line: str, notes: Mapping[str, str]) -> str:
    note = notes.get(line.partition(" = ")[0])
    return f"{line}  # {note}" if note else line


def _header(cell: Cell, table: Table, recipe: Recipe, results: list[CellResult]) -> str:
    name, folder = DATA[cell.source]
    lines = [
        f"{cell.row.label} ({cell.row.labels}), protocol {cell.protocol}, {name}: one cell of",
        f"{table.title}.",
        "",
        f"  tacit train --config recipes/{cell.recipe}.toml --data {folder} --out runs/{cell.recipe}",
        "",
        *(_figures(cell, results) if table.in_print else ["A search of ours; the paper has no such table."]),
        *recipe.remarks,
    ]
    return _commented(lines)


def _commented(lines: Iterable[str]) -> str:
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)


def _row(cells: Sequence[Cell], table: Table, recipe: Recipe, results: list[CellResult]) -> str:
    """Of a recipe that serves all values of an axis."""
    cell, axis = cells[0], table.axis
    assert axis is not None
    name, folder = DATA[cell.source]
    first, *_, last = axis.values.values()
    upto = f"{first}..{last.rpartition(':')[2]}"
    one, along = f"--{axis.setting} {first}", f"--vary {axis.setting}={upto}"
    if axis.setting == "observe":
        along = f"--observe {upto}"
    return _commented([
        f"{cell.row.base_label} ({cell.row.labels}), protocol {cell.protocol}, {name}: a row of",
        f"{table.title}.",
        "",
        f"  tacit train --config recipes/{cell.file}.toml --data {folder} {one} --out runs/{cell.file}",
        f"  tacit sweep --config recipes/{cell.file}.toml --data {folder} {along} --out runs/sweeps/{cell.file}",
        "",
        *_along(cells, results),
        *recipe.remarks,
    ])  # fmt: skip


def _along(cells: Sequence[Cell], results: list[CellResult]) -> list[str]:
    """Published and ours at each value of the axis, and how long ours took."""
    told = [f"{cell.printed} ({cell.row.at})" for cell in cells if cell.printed != UNPRINTED]
    published = [f"Published test mAP: {', '.join(told)}." if told else "Published: nothing for this data set."]
    if not results:
        return [*published, "Ours: none yet; docs/results/ledger.md says why."]
    ours = [
        f"  {cell.row.at}: {result.text(result.select)} ({result.seeds_text()})"
        for cell in cells
        for result in results
        if result.recipe == cell.recipe
    ]
    departures = dict.fromkeys(text for result in results for text in result.departures)
    differs = ["not the same experiment:", *(f"  {text}" for text in departures)] if departures else []
    return [*published, "Ours:", *ours, *differs, _time(results)]


def _figures(cell: Cell, results: list[CellResult]) -> list[str]:
    """The published one, ours, and how long ours took."""
    shown = cell.printed != UNPRINTED
    published = f"Published: {cell.printed} test mAP." if shown else f"Published: nothing for protocol {cell.protocol}."
    ours = [line for result in results for line in _ours(result)]
    return [published, *(ours or ["Ours: none yet; docs/results/ledger.md says why."]), _time(results)]


def _ours(result: CellResult) -> list[str]:
    said = f"Ours: {result.text(result.select)} ({result.seeds_text()})"
    return [f"{said}, as published." if not result.departures else f"{said}, not the same experiment:"] + [
        f"  {departure}" for departure in result.departures
    ]


def _time(results: list[CellResult]) -> str:
    if not results:
        return "Time: not measured here."
    told = [f"{duration(result.seconds)} per run on {result.device} with the settings of ours" for result in results]
    return f"Time: {'; '.join(dict.fromkeys(told))}."
