"""A sweep: one method over an axis or a grid of them. What is to be run, its record on disk, and what came out.

The folder of a sweep holds `sweep.json` (the axes, the settings all runs share, the points) and a folder per point with
a run directory per seed. Everything else is read from the runs. Figures are percent, as tables print them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..files import atomic_write, read_text
from ..metrics.intervals import SeedSummary, over_seeds
from ..run import MACHINE, RunConfig, RunDirectory, from_toml, to_toml
from .axes import Axis, Point, points
from .runs import Planned, Seeds, folder_of

FILE = "sweep.json"
METRICS = ("mAP", "OF1", "CF1")
_NAMES = {"seed", "observe_seed"}  # said with every run


class SweepError(UserError):
    """A sweep that cannot be run, or a folder that cannot be read as one."""


# --- what is to be run ------------------------------------------------------------------------------------------------


def plan(
    axes: Sequence[Axis], config_at: Callable[[Point], RunConfig], seeds: Seeds, out: Path
) -> list[tuple[Point, list[Planned]]]:
    """Every point with a run per seed. What a point's settings refuse is said with its name."""
    planned = []
    for point in points(axes):
        try:
            config = config_at(point)
            drawn = seeds.for_observation(config.observe, config.observe_seed)
        except UserError as error:
            raise type(error)(f"{point.name}: {error}") from error
        runs = [
            Planned(
                point.name,
                replace(config, seed=seed, observe_seed=observe),
                out / point.folder / folder_of(seed, observe),
            )
            for seed, observe in drawn
        ]
        planned.append((point, runs))
    return planned


def in_order(planned: Sequence[tuple[Point, Sequence[Planned]]]) -> list[Planned]:
    """Seed by seed, so that an interrupted sweep has whole curves to look at."""
    return [run for at in range(len(planned[0][1])) for run in (runs[at] for _, runs in planned)]


# --- the record -------------------------------------------------------------------------------------------------------


def shared_settings(config: RunConfig, axes: Sequence[Axis]) -> RunConfig:
    """A point's settings without what is varied: those of every other point."""
    blank = RunConfig(config.source)
    changes: dict[str, Any] = {name: getattr(blank, name) for name in _NAMES}
    for axis in axes:
        table, dot, name = axis.key.partition(".")
        if dot:
            field = table if table == "budget" else f"{table}_options"
            kept = changes.get(field, getattr(config, field))
            changes[field] = {key: value for key, value in kept.items() if key != name}
        else:
            changes[axis.key] = getattr(blank, axis.key)
    return replace(config, **changes)


def claim(out: Path, axes: Sequence[Axis], shared: RunConfig, planned: Iterable[Point]) -> None:
    """Make the folder's record, or add points to that of the same sweep; refuse to mix two sweeps."""
    if out.exists() and not out.is_dir():
        raise SweepError(f"{out} is a file; --out names the folder of one sweep")
    places = {point.folder: dict(point.values) for point in planned}
    file = out / FILE
    if file.is_file():
        found = _read(file)
        if different := _differences(found, axes, shared):
            raise SweepError(f"{out} holds another sweep: {'; '.join(different)}. Give --out another name.")
        places = found["points"] | places
    elif out.is_dir() and any(out.iterdir()):
        raise SweepError(f"{out} is not empty and holds no sweep. Give --out a new or empty folder.")
    content = {
        "format": 1,
        "axes": [{"name": axis.name, "key": axis.key} for axis in axes],
        "settings": to_toml(shared),
        "points": places,
    }
    with atomic_write(file) as temporary:
        temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _read(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_text(file))
        if content["format"] != 1:
            raise SweepError(f"{file}: format {content['format']!r} is not one this version reads (1).")
        _ = [(axis["name"], axis["key"]) for axis in content["axes"]], content["settings"], content["points"].items()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SweepError(f"{file} is damaged ({error!r}). Delete it: the same `tacit sweep` makes it anew.") from error
    found: dict[str, Any] = content
    return found


def _differences(found: Mapping[str, Any], axes: Sequence[Axis], shared: RunConfig) -> list[str]:
    before, now = [axis["name"] for axis in found["axes"]], [axis.name for axis in axes]
    if before != now:
        return [f"it goes over {' and '.join(before)}, this one over {' and '.join(now)}"]
    old, new = from_toml(found["settings"], FILE), from_toml(to_toml(shared), "this sweep")
    names = [field.name for field in fields(RunConfig) if field.name not in MACHINE]
    return [
        f"{name} was {getattr(old, name)!r}, now {getattr(new, name)!r}"
        for name in names
        if getattr(old, name) != getattr(new, name)
    ]


# --- what came out ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Done:
    """A finished run."""

    config: RunConfig
    result: Mapping[str, Any]

    def percent(self, metric: str) -> float:
        """NaN where nothing could be scored."""
        value = self.result["metrics"]["test"].get(metric)
        return float("nan") if value is None else 100 * float(value)


@dataclass(frozen=True, eq=False)
class Reached:
    """A point, those of its runs that are finished, and how many it should have."""

    values: Mapping[str, str]
    runs: tuple[Done, ...]
    wanted: int

    def summary(self, metric: str) -> SeedSummary | None:
        return over_seeds([run.percent(metric) for run in self.runs]) if self.runs else None


@dataclass(frozen=True, eq=False)
class Curve:
    """The points along the first axis at fixed values of the others."""

    label: str
    axis: str
    points: tuple[Reached, ...]

    @property
    def runs(self) -> list[Done]:
        return [run for point in self.points for run in point.runs]

    @property
    def numeric(self) -> bool:
        """Whether the axis is one of numbers, that have an order and an average."""
        return all(as_number(point.values[self.axis]) is not None for point in self.points)

    @property
    def complete(self) -> bool:
        """Whether every point has the same seeds, so that there is an average over the axis for each of them."""
        seeds = [[run.config.seed for run in point.runs] for point in self.points]
        return bool(seeds and seeds[0]) and all(found == seeds[0] for found in seeds)

    def average(self, metric: str) -> SeedSummary | None:
        """Mean over the axis, seed by seed; each metric on its own, as the tables of this literature have it."""
        if not self.complete:
            return None
        by_seed = zip(*([run.percent(metric) for run in point.runs] for point in self.points), strict=True)
        return over_seeds([sum(values) / len(self.points) for values in by_seed])

    @cached_property
    def validation(self) -> str:
        return "; ".join(dict.fromkeys(validation_of(run.config) for run in self.runs)) or "–"


@dataclass(frozen=True, eq=False)
class Sweep:
    """The curves of one folder."""

    folder: Path
    axes: tuple[str, ...]
    settings: RunConfig
    curves: tuple[Curve, ...]


def read_sweep(folder: Path, planned: Sequence[tuple[Point, Sequence[Planned]]] | None = None) -> Sweep:
    """What is finished in a sweep's folder: of the planned runs, or of all there are."""
    file = folder / FILE
    if not file.is_file():
        raise SweepError(f"{folder} holds no sweep (no {FILE}); name a folder that `tacit sweep … --out` made")
    content = _read(file)
    axes, settings = tuple(axis["name"] for axis in content["axes"]), from_toml(content["settings"], str(file))
    if planned is None:
        reached = [
            _reached(values, sorted(path.parent for path in (folder / place).glob("*/config.toml")))
            for place, values in content["points"].items()
        ]
    else:
        reached = [_reached(dict(point.values), [run.out for run in runs]) for point, runs in planned]
    rest = list(dict.fromkeys(tuple(point.values[axis] for axis in axes[1:]) for point in reached))
    curves = []
    for fixed in rest:
        here = [point for point in reached if tuple(point.values[axis] for axis in axes[1:]) == fixed]
        curves.append(Curve(_label(settings, axes, fixed), axes[0], tuple(sorted(here, key=_place(axes[0])))))
    return Sweep(folder, axes, settings, tuple(curves))


def _reached(values: Mapping[str, str], places: Sequence[Path]) -> Reached:
    found = [RunDirectory(path) for path in places]
    done = [Done(run.config(), run.result()) for run in found if run.finished]
    done.sort(key=lambda run: (run.config.seed, run.config.observe_seed or 0))
    return Reached(values, tuple(done), len(places))


def _place(axis: str) -> Callable[[Reached], float]:
    """Numbers in their order; words where they were named."""
    return lambda point: as_number(point.values[axis]) or 0.0


def as_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _label(settings: RunConfig, axes: Sequence[str], fixed: Sequence[str]) -> str:
    told = [f"{axis} {value}" for axis, value in zip(axes[1:], fixed, strict=True) if axis != "method"]
    names = [value for axis, value in zip(axes[1:], fixed, strict=True) if axis == "method"]
    name = "by method" if axes[0] == "method" else settings.method
    return ", ".join([*(names or [name]), *told])


def validation_of(config: RunConfig) -> str:
    """How the reported epoch was chosen, in words: published programs of this field hold nothing out."""
    if config.val == 0:
        return "none: every row trains, last epoch"
    chosen = "last epoch" if config.selection == "last" else f"epoch by {config.selection} labels"
    return f"{100 * config.val:g} % held out, {chosen}"


# --- export -----------------------------------------------------------------------------------------------------------


def csv_rows(sweeps: Sequence[Sweep]) -> list[list[str]]:
    """One line per run, its axes first and all test metrics in percent last; a header line before them."""
    axes = list(dict.fromkeys(axis for sweep in sweeps for axis in sweep.axes))
    runs = [(sweep, point, run) for sweep in sweeps for c in sweep.curves for point in c.points for run in point.runs]
    metrics = list(dict.fromkeys(name for _, _, run in runs for name in run.result["metrics"]["test"]))
    told = ("source", "method", "observe", "protocol", "seed", "observe_seed", "val")
    rows = [["sweep", *axes, *told, "selection", "validation", "epoch", *metrics]]
    for sweep, point, run in runs:
        config = asdict(run.config)
        values = [*(point.values.get(axis, "") for axis in axes), *(str(config[name]) for name in told)]
        chosen = [run.config.selection, validation_of(run.config), str(run.result["selected"]["epoch"])]
        rows.append([str(sweep.folder), *values, *chosen, *(_percent(run, name) for name in metrics)])
    return rows


def _percent(run: Done, metric: str) -> str:
    value = run.percent(metric)
    return "" if value != value else repr(round(value, 4))
