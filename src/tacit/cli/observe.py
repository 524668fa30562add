"""`tacit observe SOURCE --observe MODEL --out labels.parquet`: what would be known, as a label table.

The labels are those a run with the same seeds sees: hidden over the whole training pool, then split into training and
validation rows. Of a label table every row that is not marked as test is observed, and no image needs to exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tyro

from ..data.checks import read_lines
from ..data.source import load_source, parse_spec
from ..data.splits import SPLIT_SEED, hide_and_hold_out
from ..label_table import LabelTable, read_label_table, write_label_table
from ..labels import Labels
from ..observations import Observation, observations, parse_observation
from ..observe import warnings_for
from ..table_files import Form
from . import console
from .flags import Group
from .options import parse, source_group
from .recipe import OptionError

ABOUT = "Hide labels as an observation model does; print what is left of each class, and write it as a label table."


@dataclass(frozen=True)
class Observe:
    source: tyro.conf.Positional[str | None] = None  # a source (`tacit sources`), or a label table's path
    observe: str = "single-positive"  # the observation model; --list shows them
    observe_seed: int | None = None  # which labels are hidden; unset: the published seed of the model
    out: Path | None = None  # the label table to write: .parquet or .csv
    form: Form = "lists"  # how the table is laid out
    data: Path | None = None  # folder of the source's files, unless SOURCE says it after a colon
    val: float = 0.2  # share of the training pool marked as validation, where the source brings none
    split_seed: int = SPLIT_SEED  # which images those are
    list: bool = False  # list the observation models
    json: bool = False  # for programs


@dataclass(frozen=True, eq=False)
class Observed:
    """Labels before and after, row by row."""

    images: tuple[str, ...]
    truth: Labels
    labels: Labels
    split: tuple[str, ...] | None

    def rows_of(self, name: str) -> Any:
        if self.split is None:
            return np.arange(len(self.images))
        return np.flatnonzero([said.strip().lower() == name for said in self.split])


def run(argv: Sequence[str]) -> int:
    parsed = parse("observe", Observe, argv, groups={"source": _options}, about=ABOUT, recipes=False)
    config = parsed.config
    if config.list:
        _list(config.json)
        return 0
    if config.source is None:
        raise OptionError("tacit observe needs SOURCE: a source or a label table; --list shows the observation models")
    if config.out is not None and config.out.suffix.lower() not in (".parquet", ".csv", ".tsv"):
        raise OptionError(f"--out {config.out}: a label table is a .parquet or a .csv file")
    model = parse_observation(config.observe)
    seed = model.published_seed if config.observe_seed is None else config.observe_seed
    observed = _observe(config, parsed.source_options, model, seed)
    warnings = warnings_for(observed.labels.take(observed.rows_of("train")))
    if config.out is not None:
        write_label_table(config.out, LabelTable(observed.images, observed.labels, observed.split), form=config.form)
    if config.json:
        console.print_json(_as_json(config, model, seed, observed, warnings))
    else:
        _print(config, model, seed, observed)
    for warning in warnings:
        console.warn(warning)
    return 0


def _options(seen: Mapping[str, Any]) -> Group | None:
    if _is_table(seen.get("source")):
        return Group("table", _read_table, "What the label table does not say itself.")
    return source_group(seen)


def _is_table(spec: Any) -> bool:
    return bool(spec) and parse_spec(str(spec))[0] == "table"


def _read_table(
    path: Path, *, classes: Path | None = None, silence: Literal["unknown", "absent"] | None = None
) -> LabelTable:
    """The table's rows that are not marked as test.

    Args:
        path: the table.
        classes: text file with the class list, one per line.
        silence: what a class means that a row does not mention.
    """
    names = None if classes is None else read_lines(classes, "It holds one class name per line.")
    table = read_label_table(path, classes=names, silence=silence)
    if table.split is None:
        return table
    kept = [row for row, name in enumerate(table.split) if name.strip().lower() != "test"]
    if not kept:
        raise OptionError(f"{path}: every row is marked as test, so there is nothing to observe")
    images, split = (tuple(column[row] for row in kept) for column in (table.images, table.split))
    return LabelTable(images, table.labels.take(kept), split)


def _observe(config: Observe, options: Mapping[str, Any], model: Observation, seed: int) -> Observed:
    spec = str(config.source)
    if _is_table(spec):
        path = parse_spec(spec)[2] or config.data
        if path is None:
            raise OptionError("name the label table: tacit observe labels.csv …")
        table = _read_table(path, **options)
        return Observed(table.images, table.labels, model(table.labels, seed), table.split)
    return _observe_source(config, options, model, seed)


def _observe_source(config: Observe, options: Mapping[str, Any], model: Observation, seed: int) -> Observed:
    source = load_source(str(config.source), config.data, **options)
    for problem in source.problems:
        console.warn(str(problem))
    hidden = hide_and_hold_out(source, model, seed, val=config.val, split_seed=config.split_seed)
    return Observed(
        tuple(image for part in hidden.values() for image in part.split.images),
        Labels.stack([part.split.labels for part in hidden.values()]),
        Labels.stack([part.observed for part in hidden.values()]),
        tuple(name for name, part in hidden.items() for _ in part.split.images),
    )


def _list(as_json: bool) -> None:
    entries = [
        {"observe": kind.usage, "what is known": kind.describe, "published seed": kind.published_seed}
        for kind in observations()
    ]
    if as_json:
        console.print_json(entries)
        return
    columns = ("observe", "what is known", "published seed")
    rows = [[str(entry[column]) for column in columns] for entry in entries]
    console.table(columns, rows, right=("published seed",))


def _counts(observed: Observed) -> list[dict[str, Any]]:
    truth, known = observed.truth.counts(), observed.labels.counts()
    return [
        {
            "class": name,
            "truly present": int(truth.present[at]),
            "present": int(known.present[at]),
            "absent": int(known.absent[at]),
            "unknown": int(known.unknown[at]),
        }
        for at, name in enumerate(observed.labels.classes)
    ]


def _print(config: Observe, model: Observation, seed: int, observed: Observed) -> None:
    counts = _counts(observed)
    columns = tuple(counts[0]) if counts else ("class",)
    console.table(columns, [list(entry.values()) for entry in counts], right=columns[1:])
    parts = ""
    if observed.split:
        parts = f" ({', '.join(f'{observed.split.count(name):,} {name}' for name in dict.fromkeys(observed.split))})"
    print(
        f"\n{len(observed.images):,} images{parts}, {len(counts)} classes. {model.spec}, seed {seed}: {model.describe}."
    )
    if config.out:
        print(f"Written: {config.out}")


def _as_json(
    config: Observe, model: Observation, seed: int, observed: Observed, warnings: Sequence[str]
) -> dict[str, Any]:
    return {
        "source": config.source,
        "observe": model.spec,
        "seed": seed,
        "images": len(observed.images),
        "classes": _counts(observed),
        "fingerprint": observed.labels.fingerprint(),
        "warnings": list(warnings),
        "out": config.out,
    }
