"""The tables of a comparison as Markdown, CSV and in a terminal."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..files import atomic_write
from .calibration import calibration_numbers, calibration_table
from .class_figures import third_mean
from .compare import Comparison, Group
from .positives import HALF, KINDS, Counted, count_positives, positives_table
from .separation import Apart, measure, separation_table
from .tables import DASH, Table, headline, tables_of

if TYPE_CHECKING:
    from rich.console import Console

_CSV = (
    "label",
    "source",
    "method",
    "observe",
    "protocol",
    "backbone",
    "unknown",
    "split",
    "metric",
    "class",
    "mean",
    "sd",
    "seeds",
)


def write_markdown(comparison: Comparison, out: str | Path) -> None:
    """All tables as Markdown, for a results page."""
    sections = [_protocol_markdown(comparison)]
    tables = [*tables_of(comparison), separation_table(comparison, measure(comparison)), calibration_table(comparison)]
    tables.append(positives_table(comparison, count_positives(comparison)))
    sections += [f"## {_plain(t.title)}\n\n{_markdown(t)}\n\n{_plain(t.caption)}" for t in tables if t is not None]
    with atomic_write(out) as temporary:
        temporary.write_text("\n\n".join(sections) + "\n", encoding="utf-8")


def _protocol_markdown(comparison: Comparison) -> str:
    """Notices, differences of protocol, oracles and choices as one list."""
    lines = [f"**Notice**: {_plain(notice)}" for notice in comparison.notices]
    for part in comparison.parts:
        values = "; ".join(f"{value} ({', '.join(labels)})" for value, labels in part.values)
        lines.append(f"**{part.severity.capitalize()}**: rows differ in {_plain(part.name)}: {_plain(values)}")
    for group in comparison.groups:
        lines += [f"{_plain(group.label)}, oracle: {_plain(oracle)}" for oracle in group.oracles]
        lines += [f"{_plain(group.label)}, not the default: {_plain(choice)}" for choice in group.choices]
    return "# Comparison" + ("\n\n" if lines else "") + "\n".join(f"- {line}" for line in lines)


def _markdown(table: Table) -> str:
    lines = [f"| {_plain(table.head)} | " + " | ".join(_plain(column.name) for column in table.columns) + " |"]
    lines.append("| --- |" + " ---: |" * len(table.columns))
    for row in table.rows:
        cells = [_ranked(_plain(c.text), c.mark) + (f" ({_plain(c.below)})" if c.below else "") for c in row.cells]
        head = _plain(row.head) + (f" (unknown: {_plain(row.unknown)})" if row.unknown else "")
        lines.append(f"| {head} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _ranked(text: str, mark: str) -> str:
    return {"best": f"**{text}**", "second": f"<u>{text}</u>"}.get(mark, text)


def _plain(text: str) -> str:
    """Text that Markdown shows as it is: nothing in a class name or path can become markup."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return " ".join(re.sub(r"([\\`*_\[\]|#])", r"\\\1", text).split())


def write_csv(comparison: Comparison, out: str | Path) -> None:
    """Every number in tidy form: a line per group, split, metric (and class), as fractions, with sd and seeds."""
    with atomic_write(out) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(_CSV)
        for apart, counted in zip(measure(comparison), count_positives(comparison), strict=True):
            group = apart.group
            run = group.first.run
            head = [group.label, run.source, run.method, run.observe, run.protocol, run.backbone, group.unknown]
            lines = (*_csv_lines(comparison, group), *_distance_lines(apart), *_positive_lines(counted))
            writer.writerows([*map(_safe, head), *line] for line in lines)


def _csv_lines(comparison: Comparison, group: Group) -> Iterator[list[str]]:
    for split in dict.fromkeys(split for run in group.runs for split in run.metrics):
        for metric in dict.fromkeys(m for run in group.runs for m in run.metrics.get(split, {})):
            spread = group.spread(metric, split)
            yield [split, metric, "", _number(spread.mean), _number(spread.sd), str(spread.n)]
    for third in comparison.thirds() if group in comparison.same_classes else ():
        yield [
            "test",
            f"AP of {third.name} classes",
            "",
            _number(third_mean(group, third.columns)),
            "",
            str(len(group.runs)),
        ]
    for split in dict.fromkeys(split for run in group.runs for split in run.per_class_ap):
        for name, value in zip(group.first.classes, group.per_class_ap(split), strict=True):
            yield [split, "AP", _safe(name), _number(float(value)), "", str(len(group.runs))]
    for metric, spread in calibration_numbers(group).items():
        yield ["test", metric, "", _number(spread.mean), _number(spread.sd), str(spread.n)]
    yield ["test", "gap closed", "", _number(comparison.gap_closed(group)), "", str(len(group.runs))]


def _distance_lines(apart: Apart) -> Iterator[list[str]]:
    """Wasserstein distances of positives and negatives, for each kind of cell: the mean, and class by class."""
    for kind, table in apart.runs.items():
        if len(table):
            spread, n = apart.spread(kind), str(len(table))
            yield [kind, "W1", "", _number(spread.mean), _number(spread.sd), n]
            for name, value in zip(apart.group.first.classes, apart.per_class(kind).tolist(), strict=True):
                yield [kind, "W1", _safe(name), _number(value), "", n]


def _positive_lines(counted: Counted) -> Iterator[list[str]]:
    """Shares of positives missed and semi-hard, all seeds together."""
    for kind, found in counted.items():
        for name, count in ((f"missed below {HALF}", found.missed), ("semi-hard", found.semi_hard)):
            yield [f"positives of {KINDS[kind]}", name, "", _number(count / found.total), "", str(found.runs)]


def _number(value: float) -> str:
    return "" if math.isnan(value) else repr(round(value, 6))


def _safe(text: str) -> str:
    """A spreadsheet must not run a class name as a formula (a leading =, +, -, @)."""
    return f"'{text}" if text[:1] in "=+-@\t\r" else text


def print_table(comparison: Comparison, console: Console | None = None) -> None:
    """The headline table in the terminal, with a line for every difference of protocol."""
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = console or Console()
    table = headline(comparison)
    drawn = RichTable(box=None, pad_edge=False, header_style="bold")
    drawn.add_column(table.head, overflow="fold", min_width=12)
    shown = [i for i, column in enumerate(table.columns) if console.width >= 100 or column.name not in ("CF1", "OF1")]
    for column in (table.columns[i] for i in shown):
        drawn.add_column(column.name, justify="right", no_wrap=True)
    if told := any(row.unknown for row in table.rows):
        drawn.add_column("unknown labels", overflow="fold")
    ranks = {"best": "bold", "second": "underline"}
    for row in table.rows:
        cells = [Text(cell.text, style=ranks.get(cell.mark, "")) for cell in (row.cells[i] for i in shown)]
        cells += [Text(row.unknown or DASH)] if told else []
        drawn.add_row(Text(row.head, style="dim" if row.reference else ""), *cells)
    console.print(drawn)
    severe = {"alarm": "bold red", "warning": "yellow", "note": "dim"}
    for part in comparison.parts:
        values = "; ".join(f"{value}: {', '.join(labels)}" for value, labels in part.values)
        console.print(Text(f"{part.severity}: rows differ in {part.name}: {values}", style=severe[part.severity]))
    for notice in comparison.notices:
        console.print(Text(f"notice: {notice}", style="yellow"))
