"""`tacit compare RUNS… [--report out.html] [--markdown out.md] [--csv out.csv]`: run directories side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from . import console
from .options import parse
from .recipe import OptionError

if TYPE_CHECKING:
    from ..report.compare import Comparison

ENDINGS = {"report": "report.html", "markdown": "results.md", "csv": "results.csv"}
ABOUT = "Compare runs: the headline table here; everything else on one page that needs no network."


@dataclass(frozen=True)
class Compare:
    runs: tyro.conf.Positional[tuple[Path, ...]] = ()  # run directories, or folders that hold some at any depth
    report: Path | None = None  # write the page: one self-contained HTML file
    markdown: Path | None = None  # write all tables as Markdown
    csv: Path | None = None  # write all figures as CSV
    density_class: str | None = None  # class whose densities the page shows; unset: where the methods differ most


def run(argv: Sequence[str]) -> int:
    config = parse("compare", Compare, argv, about=ABOUT, recipes=False).config
    if not config.runs:
        raise OptionError("tacit compare needs RUNS: one or more run directories, or a folder that holds some")
    for flag in ("report", "markdown", "csv"):
        _check_out(flag, getattr(config, flag))
    if config.density_class is not None and config.report is None:
        raise OptionError("--density-class chooses what the page shows: add --report FILE")
    from ..report.compare import compare
    from ..report.read import read_runs

    notices: list[str] = []
    comparison = compare(read_runs(config.runs, notice=notices.append), notices)
    if config.density_class is not None:
        _check_class(config.density_class, comparison)
    _print_and_write(config, comparison)
    return 0


def _check_out(flag: str, out: Path | None) -> None:
    if out is not None and out.is_dir():
        raise OptionError(f"--{flag} {out}: this is a folder; name the file to write, such as {out / ENDINGS[flag]}")


def _check_class(name: str, comparison: Comparison) -> None:
    from ..report.separation import class_column

    class_column(comparison, name)  # refuses a class that the runs do not have, before anything is printed


def _print_and_write(config: Compare, comparison: Comparison) -> None:
    from ..report.write import print_table, write_csv, write_markdown

    print_table(comparison, console.rich_stdout())
    if config.markdown:
        write_markdown(comparison, config.markdown)
    if config.csv:
        write_csv(comparison, config.csv)
    if config.report:
        from ..report.page import render_html

        render_html(comparison, config.report, density_class=config.density_class)
    for out in (config.report, config.markdown, config.csv):
        if out:
            print(f"Written: {out}")
