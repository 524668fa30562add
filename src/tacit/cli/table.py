"""`tacit table NAME`: run, resume or collect the recipes of a published table; our figures beside its own."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from ..errors import UserError
from ..files import atomic_write
from ..run import RunConfig
from ..tables.spec import Cell, Table, TableError, find_table, recipes_folder, runs_of, table_names
from . import console
from .flags import flags_of
from .options import parse
from .recipe import OptionError
from .train import Train, asked, config_of
from .words import gathered

if TYPE_CHECKING:
    from ..tables.results import CellResult
    from ..tables.runs import Failure, Planned

ABOUT = (
    "Run, resume or collect the recipes of a published table. Every run has its own directory below --out; finished "
    "ones are kept, interrupted ones go on, and one that fails does not stop the others."
)


@dataclass(frozen=True)
class TableCommand:
    name: tyro.conf.Positional[str | None] = None  # a file of recipes/tables; without it the tables are listed
    source: str | None = None  # only these data sets: voc2012,coco2014
    protocol: str | None = None  # only these protocols: linear,finetune
    rows: str | None = None  # only these rows: an,role
    seeds: str = "0,1,2"  # training seeds; published tables vary nothing else
    observe_seeds: str = "published"  # the same hidden labels for all; paired: anew with each seed; or one per seed
    set: tuple[str, ...] = ()  # settings other than the recipes': features=FILE backbone=NAME epochs=2 …
    jobs: int = 0  # processes side by side; 0: one run after another in this process, which keeps data in memory
    out: Path = Path("runs/tables")  # the runs lie in OUT/TABLE/RECIPE/seed0-observe1200
    collect: bool = False  # run nothing, show what is finished
    export: Path | None = None  # write the figures as JSON: what the ledger and the recipes' headers are made from
    ledger: Path | None = None  # write the ledger of all tables from the exports in the folder data beside it
    recipes: Path | None = None  # folder of the recipes; unset: ./recipes, or those of this checkout


def run(argv: Sequence[str]) -> int:
    config = parse("table", TableCommand, gathered(argv, "--set"), about=ABOUT, recipes=False).config
    recipes = recipes_folder(config.recipes)
    if config.ledger is not None:
        return _write_ledger(config.ledger, recipes)
    if config.name is None:
        return _list(recipes)
    if config.jobs < 0:
        raise OptionError(f"--jobs {config.jobs}: a number of processes, or 0 to run them in this one")
    table = find_table(config.name, recipes)
    cells = table.choose(*(_words(text) for text in (config.source, config.protocol, config.rows)))
    return _table(config, table, cells, recipes)


def _table(config: TableCommand, table: Table, cells: Sequence[Cell], recipes: Path) -> int:
    from ..tables.runs import Seeds, plan, run_here, run_side_by_side

    seeds = Seeds.read(config.seeds, config.observe_seeds)
    with_runs = runs_of(cells)
    written = {cell: recipe_config(recipes, cell) for cell in with_runs}
    configs = {cell: recipe_config(recipes, cell, config.set) for cell in with_runs} if config.set else written
    planned = plan(table, configs, seeds, config.out)
    failures = []
    if not config.collect and config.jobs:
        failures = run_side_by_side(planned, config.jobs, console.notice)
    elif not config.collect:
        from .live import Live

        failures = run_here(planned, Live, console.notice)
    from .table_text import show

    results = _results(table, cells, written, planned)
    show(table, cells, results, wanted=len(_words(config.seeds)), drawn_anew=config.observe_seeds != "published")
    if config.export is not None:
        _export(config, list(results.values()))
    tell_failures(failures)
    return 2 if failures else 0


def _results(
    table: Table, cells: Sequence[Cell], written: Mapping[Cell, RunConfig], planned: Sequence[Planned]
) -> dict[Cell, CellResult]:
    """What is finished, of runs and of averages over runs, in the order of the cells."""
    from ..tables.results import average, collect

    paths = {cell: [run.out for run in planned if run.label == cell.recipe] for cell in written}
    ran = {cell.recipe: collect(table, cell, config, paths[cell]) for cell, config in written.items()}
    found = (
        (cell, average(cell, [ran[run.recipe] for run in cell.members]) if cell.members else ran[cell.recipe])
        for cell in cells
    )
    return {cell: result for cell, result in found if result is not None}


def tell_failures(failures: Sequence[Failure]) -> None:
    """Every reason once, with the runs it stopped."""
    for reason in dict.fromkeys(failure.reason for failure in failures):
        runs = [failure.run.name for failure in failures if failure.reason == reason]
        more = f" and {len(runs) - 3} more runs" if len(runs) > 3 else ""
        console.warn(f"failed: {'; '.join(runs[:3])}{more}:\n{reason}")


def recipe_config(recipes: Path, cell: Cell, settings: Sequence[str] = ()) -> RunConfig:
    """The recipe of a cell as `tacit train --config RECIPE --key value …` would read it."""
    words = ["--config", str(recipes / f"{cell.file}.toml")]
    for setting in (*cell.settings, *settings):
        words += setting_words(setting)
    try:
        return config_of(asked(words))
    except UserError as error:
        raise type(error)(f"{cell.recipe}: {error}") from error


def setting_words(setting: str) -> list[str]:
    """`image_size=128` as words of `tacit train`."""
    key, equals, value = setting.partition("=")
    if not key or not equals:
        raise OptionError(f"--set {setting}: write key=value, for example image_size=128")
    flag = "--" + key.strip().replace("_", "-")
    if value in ("true", "false"):
        return [flag] if value == "true" else [f"--no-{flag[2:]}"]
    many = {f.name for f in flags_of(Train) if f.takes_many}
    return [flag, *value.split(",")] if key.strip() in many else [f"{flag}={value}"]


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def _list(recipes: Path) -> int:
    rows = []
    for name in table_names(recipes):
        table = find_table(name, recipes)
        rows.append([name, len(table.cells), ", ".join(table.protocols), ", ".join(table.sources), table.title])
    console.table(["table", "cells", "protocols", "sources", "what"], rows, right=("cells",))
    return 0


def _export(config: TableCommand, results: Sequence[CellResult]) -> None:
    from .. import __version__
    from ..tables.results import to_json

    assert config.export is not None
    if not results:
        raise TableError(f"--export {config.export}: nothing is finished yet, so there is nothing to write.")
    content = to_json(results, command=command(config, results), date=date.today().isoformat(), version=__version__)
    config.export.parent.mkdir(parents=True, exist_ok=True)
    _write(config.export, _json(content))
    console.notice(f"written: {config.export}")


def _json(content: Mapping[str, object]) -> str:
    import json

    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _write(path: Path, text: str) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text(text)


def command(config: TableCommand, results: Sequence[CellResult]) -> str:
    """The command that makes these runs: with the settings they have in common, whether or not this call named them."""
    words = ["tacit", "table", str(config.name)]
    for flag in ("source", "protocol", "rows", "seeds", "observe_seeds"):
        value = getattr(config, flag)
        if value:
            words += [f"--{flag.replace('_', '-')}", value]
    common = [f"{k}={v}" for k, v in results[0].settings.items() if all(r.settings.get(k) == v for r in results)]
    return shlex.join(words + (["--set", *common] if common else []))


def _write_ledger(path: Path, recipes: Path) -> int:
    from ..tables.ledger import ledger, read_reasons
    from ..tables.results import read_exports

    tables = [find_table(name, recipes) for name in table_names(recipes)]
    reasons = read_reasons(path.parent / "absent.toml")
    _write(path, ledger(tables, read_exports(path.parent / "data"), reasons))
    console.notice(f"written: {path}")
    return 0
