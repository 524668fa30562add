"""What the runs of a published table gave: collected from run directories, exported as JSON, read back for the ledger.

All figures are percent, as tables print them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from ..metrics.groups import grouped_map
from ..metrics.intervals import SeedSummary, over_seeds, paired_over_seeds
from ..run import MACHINE, RunConfig, RunDirectory
from .spec import Cell, Table, TableError

# Selection rules in the order of columns; -stop is early stopping, without it the best epoch is kept.
RULES = ("clean-stop", "clean", "observed-stop", "observed", "last")
# A table's metric may be that of a fifth of the classes, in the order of their annotations: "mAP G1" to "mAP G5".
GROUPS, GROUP = 5, re.compile(r"mAP G([1-5])")
# Seeds are said apart, and names name: neither is to be given to --set.
_NAMES = {"seed", "observe_seed", "recipe", "published", "published_where"}
_HARDWARE = {"device", "workers", "threads", "tracker"}
# What does not make a run another experiment than its recipe, or is described in words of its own (inputs).
_ASIDE = _NAMES | MACHINE | {"source", "weights_by_order", "backbone", "image_size", "train_scores"}


@dataclass(frozen=True)
class CellResult:
    """Our runs of one published cell: same settings, different seeds."""

    table: str
    recipe: str
    source: str
    row: str
    protocol: str
    metric: str
    split: str
    seeds: tuple[int, ...]
    observe_seeds: tuple[int, ...]  # empty: nothing was hidden
    percent: dict[str, tuple[float, ...]]  # selection rule -> one value per seed
    inputs: str  # the backbone, or the features a linear classifier was trained on
    departures: tuple[str, ...]  # what makes it another experiment than the recipe, in words
    settings: dict[str, str]  # what to give to --set to have these runs again
    oracles: tuple[str, ...]
    images: dict[str, int]
    seconds: float  # mean per run
    device: str
    date: str = ""
    select: str = "clean"  # the rule that chose; the others were reported beside it
    unknown: str = ""  # what an unknown label is to the method, in its words; "" in runs older than that

    def summary(self, rule: str) -> SeedSummary | None:
        values = self.percent.get(rule)
        return over_seeds(values) if values else None

    def text(self, rule: str) -> str:
        """ "84.21 ± 0.10", without a spread where there is one run, "–" where this rule was not followed."""
        found = self.summary(rule)
        if found is None:
            return "–"
        return f"{found.mean:.2f}" if math.isnan(found.sd) else f"{found.mean:.2f} ± {found.sd:.2f}"

    def seeds_text(self) -> str:
        seeds = f"seed{'s' * (len(self.seeds) > 1)} {_listed(self.seeds)}"
        if not self.observe_seeds:
            return f"{seeds}; all labels"
        return f"{seeds}; labels hidden by {_listed(dict.fromkeys(self.observe_seeds))}"


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def collect(table: Table, cell: Cell, recipe: RunConfig, runs: Iterable[Path]) -> CellResult | None:
    """The finished runs among these directories as one result; None where none is finished."""
    found = [(RunDirectory(path).config(), _result(path)) for path in runs if RunDirectory(path).finished]
    if not found:
        return None
    _check_alike(cell, [config for config, _ in found], [result["run"]["backbone"] for _, result in found])
    config, first = found[0]
    results = [result for _, result in found]
    full = config.observe == "full"
    percent = _percent(results, table.split, table.metric)
    if full and "clean" in percent:
        percent.setdefault("observed", percent["clean"])  # every label is observed: it is the same selection
    departures = _departures(config, recipe, first["run"]["backbone"]) + _other_images(table, cell, first["counts"])
    return CellResult(
        table=table.name, recipe=cell.recipe, source=cell.source, row=cell.row.name, protocol=cell.protocol,
        metric=table.metric, split=table.split,
        seeds=tuple(result["run"]["seed"] for result in results),
        observe_seeds=() if full else tuple(result["run"]["observe_seed"] for result in results),
        percent=percent,
        inputs=first["run"]["backbone"],
        departures=tuple(departures),
        settings=_settings(config, recipe),
        oracles=tuple(first["oracles"]),
        images={split: count["images"] for split, count in first["counts"].items()},
        seconds=float(np.mean([result["seconds"] for result in results])),
        device=first["device"],
        select=first["run"]["select"],
        unknown="; ".join(dict.fromkeys(result["run"].get("unknown", "") for result in results)),  # a search may differ
    )  # fmt: skip


def average(cell: Cell, found: Sequence[CellResult | None]) -> CellResult | None:
    """The mean over an axis, seed by seed, of the seeds that every member has; None before there is one."""
    members = [result for result in found if result is not None]
    seeds = [seed for seed in members[0].seeds if all(seed in other.seeds for other in members)] if members else []
    rules = [rule for rule in RULES if all(rule in result.percent for result in members)]
    if not seeds or not rules or len(members) < len(found):
        return None
    first = members[0]
    at = [[result.seeds.index(seed) for seed in seeds] for result in members]
    return replace(
        first,
        recipe=cell.recipe,
        row=cell.row.name,
        seeds=tuple(seeds),
        observe_seeds=tuple(first.observe_seeds[place] for place in at[0]) if first.observe_seeds else (),
        percent={rule: tuple(_means([result.percent[rule] for result in members], at)) for rule in rules},
        departures=tuple(dict.fromkeys(text for result in members for text in result.departures)),
        settings={k: v for k, v in first.settings.items() if all(other.settings.get(k) == v for other in members)},
        oracles=tuple(dict.fromkeys(text for result in members for text in result.oracles)),
        seconds=float(np.mean([result.seconds for result in members])),
        unknown="; ".join(dict.fromkeys(result.unknown for result in members)),
    )


def _means(values: Sequence[Sequence[float]], at: Sequence[Sequence[int]]) -> list[float]:
    """Over members, one for each seed; `at`: where a member has that seed."""
    columns = [[mine[place] for place in places] for mine, places in zip(values, at, strict=True)]
    return [round(float(value), 4) for value in np.mean(columns, axis=0)]


def _result(path: Path) -> dict[str, Any]:
    file = RunDirectory(path).result_file
    try:
        content: dict[str, Any] = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise TableError(f"{file} cannot be read: {error}. Delete {path} to have this run again.") from error
    return content


def _percent(results: Sequence[Mapping[str, Any]], split: str, metric: str) -> dict[str, tuple[float, ...]]:
    """By selection rule; a rule counts where every run followed it."""
    by_rule: dict[str, list[float]] = {}
    group = GROUP.fullmatch(metric)
    for result in results:
        measured = {result["run"]["select"]: result, **({} if group else result["also"])}
        for rule, found in measured.items():
            value = _group_map(found, split, int(group[1])) if group else found["metrics"][split][metric]
            by_rule.setdefault(rule, []).append(round(100 * value, 4))
    return {rule: tuple(values) for rule, values in by_rule.items() if len(values) == len(results)}


def _group_map(result: Mapping[str, Any], split: str, number: int) -> float:
    """mAP of the classes of group G1 (the least annotated in training) to G5; only of the rule that chose the epoch."""
    known = result["counts"]["train"]
    annotated = np.add(known["observed_present"], known["observed_absent"])
    area = [math.nan if ap is None else ap for ap in result["per_class"][split]["AP"]]
    return grouped_map(area, annotated, GROUPS)[number - 1].mAP


def _check_alike(cell: Cell, configs: Sequence[RunConfig], inputs: Sequence[str]) -> None:
    """Seeds of one mean must be seeds of one experiment."""
    compared = [f.name for f in fields(RunConfig) if f.name not in _NAMES | MACHINE]
    different = [name for name in compared if any(getattr(c, name) != getattr(configs[0], name) for c in configs)]
    if len(set(inputs)) > 1:
        different.append("features")
    if different:
        raise TableError(
            f"the runs of {cell.recipe} were not made with the same settings ({', '.join(different)} differ), so "
            "there is no mean over them. Give each setting its own --out."
        )


def _departures(config: RunConfig, recipe: RunConfig, inputs: str) -> list[str]:
    out = []
    wanted = recipe.backbone.partition(".")[0]
    by_name = inputs.startswith("features:") and wanted in inputs
    if not by_name and inputs != recipe.backbone:
        out.append(f"backbone {inputs} (recipe {recipe.backbone})")
    if not config.features:
        if config.image_size != recipe.image_size:
            out.append(f"images of {config.image_size} pixels (recipe {recipe.image_size})")
        if config.weights == "none":
            out.append("no pretrained weights")
    for field in fields(RunConfig):
        mine, written = getattr(config, field.name), getattr(recipe, field.name)
        if field.name in _ASIDE or mine == written:
            continue
        if isinstance(mine, dict):
            keys = [key for key in {**written, **mine} if mine.get(key) != written.get(key)]
            out += [f"{key} {mine.get(key, 'default')} (recipe {written.get(key, 'default')})" for key in keys]
        else:
            out.append(f"{field.name} {_said(mine)} (recipe {_said(written)})")
    return out


def _said(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return text or "none"


def _other_images(table: Table, cell: Cell, counts: Mapping[str, Any]) -> list[str]:
    published = table.images.get(cell.source, {})
    return [
        f"{counts[split]['images']:,} {split} images (published {number:,})"
        for split, number in published.items()
        if split in counts and counts[split]["images"] != number
    ]


def _settings(config: RunConfig, recipe: RunConfig) -> dict[str, str]:
    """What `--set` needs to say to get from the recipe to this run."""
    out: dict[str, str] = {}
    for field in fields(RunConfig):
        mine, written = getattr(config, field.name), getattr(recipe, field.name)
        if field.name in _NAMES | _HARDWARE or mine == written:
            continue
        if isinstance(mine, dict):
            out |= {key: _typed(value) for key, value in mine.items() if written.get(key) != value}
        elif field.name == "source":
            out["data"] = mine.partition(":")[2]
        elif mine is not None:
            out[field.name] = _typed(mine)
    return out


def _typed(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


# --- differences and orders -------------------------------------------------------------------------------------------


def difference(result: CellResult, baseline: CellResult, rule: str) -> SeedSummary | None:
    """Result less baseline, paired by the seeds both have, with Student's t interval."""
    if result is baseline or not {rule} <= set(result.percent) & set(baseline.percent):
        return None
    mine = dict(zip(result.seeds, result.percent[rule], strict=True))
    base = dict(zip(baseline.seeds, baseline.percent[rule], strict=True))
    both = [seed for seed in mine if seed in base]
    return paired_over_seeds([mine[s] for s in both], [base[s] for s in both]) if both else None


def share_of_gap(value: float, floor: float, ceiling: float) -> float | None:
    """Of what lies between the baseline and full labels, the share that a method closes."""
    return (value - floor) / (ceiling - floor) if ceiling > floor else None


def pairs_in_order(published: Sequence[float | None], ours: Sequence[float]) -> tuple[int, int]:
    """Of the pairs of rows with different published figures: how many have the same order in ours, and of how many."""
    agree = of = 0
    both = [(printed, mine) for printed, mine in zip(published, ours, strict=True) if printed is not None]
    for (one, mine), (other, theirs) in combinations(both, 2):
        if one != other:
            of += 1
            agree += (one - other) * (mine - theirs) > 0
    return agree, of


# --- files ------------------------------------------------------------------------------------------------------------


def to_json(results: Iterable[CellResult], *, command: str, date: str, version: str) -> dict[str, Any]:
    """The content of an export; mean and sd are there for the reader, values are what is read back."""
    cells = []
    for result in results:
        content = asdict(replace(result, date=date))
        content["percent"] = {
            rule: {"mean": round(float(np.mean(values)), 4), "sd": _sd(values), "values": list(values)}
            for rule, values in result.percent.items()
        }
        cells.append(content)
    return {"format": 1, "tacit": version, "date": date, "command": command, "cells": cells}


def _sd(values: Sequence[float]) -> float | None:
    return round(float(np.std(values, ddof=1)), 4) if len(values) > 1 else None


def read_export(path: Path) -> list[CellResult]:
    try:
        content = json.loads(path.read_text())
        if content["format"] != 1:
            raise TableError(f"{path}: format {content['format']!r} is not one this version reads (1).")
        return [_from_json(cell) for cell in content["cells"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TableError(f"{path} cannot be read as results of `tacit table --export`: {error!r}") from error


def read_exports(folder: Path) -> list[CellResult]:
    """All exports of a folder, in the order of their names."""
    return [result for path in sorted(folder.glob("*.json")) for result in read_export(path)]


def _from_json(cell: Mapping[str, Any]) -> CellResult:
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in cell.items()}
    values["percent"] = {rule: tuple(found["values"]) for rule, found in cell["percent"].items()}
    return CellResult(**values)
