"""Run directories -> typed records (docs/design.md, section 6). Broken files are named, with the line."""

from __future__ import annotations

import json
import os
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..files import read_text
from .records import EpochRecord, Published, ReportError, RunInfo, RunRecord, Selected, SplitCounts, Thresholds

FORMAT = 1
_MARKS = ("result.json", "config.toml", "metrics.jsonl")  # any of these makes a folder a run directory


class SkippedRun(UserWarning):
    """A run directory that was left out of a report."""


def read_runs(paths: Iterable[str | Path], notice: Callable[[str], None] | None = None) -> list[RunRecord]:
    """Finished runs in `paths`: run directories, or folders that hold some at any depth.

    An unfinished run is skipped, and `notice` is told (by default a `SkippedRun` warning).
    """
    tell = notice or (lambda message: warnings.warn(message, SkippedRun, stacklevel=3))
    records, skipped = [], []
    for directory in _directories(paths):
        if why := _unfinished(directory):
            skipped.append(f"{directory}: {why}")
            tell(f"skipped {directory}: {why}")
        else:
            records.append(read_run(directory))
    if not records:
        listed = "; ".join(skipped[:5]) or "no paths were given"
        raise ReportError(f"no finished run to report on ({listed}). Finish one with `tacit train … --resume`.")
    return records


def read_run(directory: Path) -> RunRecord:
    """One finished run."""
    path = directory / "result.json"
    result = _Fields(_json(read_text(path), path), str(path))
    if result.raw.get("format") != FORMAT:
        raise ReportError(
            f"{path}: format {result.raw.get('format')!r} is unknown here (this is format {FORMAT}). "
            "It was written by another version of tacit: report with that version, or run again."
        )
    try:
        return _record(directory, result)
    except (TypeError, ValueError) as error:
        raise ReportError(f"{path} is not as tacit writes it ({error}); was it edited? Run again.") from error


def _record(directory: Path, result: _Fields) -> RunRecord:
    config_text, config = _config(directory / "config.toml")
    classes = tuple(result.texts("classes"))
    return RunRecord(
        path=directory,
        run=_run_info(result.table("run")),
        options={name: dict(table) for name, table in result.table("options", {}).raw.items() if table is not None},
        fingerprint=result.text("fingerprint"),
        fingerprints={k: str(v) for k, v in result.table("fingerprints", {}).raw.items()},
        protocol=result.table("protocol", {}).raw,
        classes=classes,
        counts={split: _counts(table) for split, table in result.tables("counts")},
        selected=_selected(result.table("selected")),
        metrics={split: table.numbers() for split, table in result.tables("metrics")},
        per_class_ap={split: _per_class(table, len(classes)) for split, table in result.tables("per_class")},
        unscored={split: tuple(map(str, names)) for split, names in result.table("unscored", {}).raw.items()},
        thresholds=_thresholds(result.table("thresholds", {})),
        decisions={which: table.numbers() for which, table in result.table("decisions", {}).tables("test")},
        calibration=_calibration(result.table("calibration", {}).table("test", {})),
        estimates=result.table("estimates", {}).numbers(),
        also={
            rule: {split: t.numbers() for split, t in table.tables("metrics")} for rule, table in result.tables("also")
        },
        oracles=tuple(result.texts("oracles", ())),
        choices=tuple(result.texts("choices", ())),
        published=_published(result),
        search=tuple(result.raw.get("search") or ()),
        seconds=result.number("seconds", float("nan")),
        peak_memory_mb=result.number("peak_memory_mb", float("nan")),
        device=result.text("device", "unknown"),
        threads=int(result.number("threads", 0)),
        tacit=result.text("tacit", "unknown"),
        epochs=tuple(_epochs(directory / "metrics.jsonl")),
        config=config,
        config_text=config_text,
    )


@dataclass(frozen=True)
class _Fields:
    """A JSON object whose missing or mistyped fields are named with the file they are missing from."""

    raw: Mapping[str, Any]
    where: str

    def _get(self, key: str, default: Any, wanted: str, kinds: type | tuple[type, ...]) -> Any:
        value = self.raw.get(key)
        if value is None:
            if default is None:
                raise ReportError(f"{self.where}: '{key}' is missing ({wanted}); the run directory is incomplete.")
            return default
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise ReportError(f"{self.where}: '{key}' should be {wanted}, found {value!r:.80}")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        return str(self._get(key, default, "a text", str))

    def number(self, key: str, default: float | None = None) -> float:
        return float(self._get(key, default, "a number", (int, float)))

    def texts(self, key: str, default: Sequence[str] | None = None) -> list[str]:
        return [str(item) for item in self._get(key, default, "a list", (list, tuple))]

    def table(self, key: str, default: Mapping[str, Any] | None = None) -> _Fields:
        return _Fields(self._get(key, default, "an object", dict), f"{self.where}: {key}")

    def tables(self, key: str) -> Iterator[tuple[str, _Fields]]:
        outer = self.table(key, {})
        return ((name, outer.table(name)) for name in outer.raw if outer.raw[name] is not None)

    def numbers(self) -> dict[str, float]:
        """Its numbers; a null is a metric that could not be computed, and left out."""
        return {key: self.number(key) for key, value in self.raw.items() if value is not None}


def _directories(paths: Iterable[str | Path]) -> list[Path]:
    """Run directories named by `paths`, each once, in the order given (those found inside a folder: by name)."""
    found: dict[Path, Path] = {}
    for path in map(Path, paths):
        if not path.is_dir():
            what = "is a file" if path.exists() else "does not exist"
            raise ReportError(f"{path} {what}; name run directories (as `tacit train … --out` wrote them).")
        inside = [path] if _is_run(path) else sorted(_runs_below(path))
        if not inside:
            raise ReportError(f"{path} is no run directory and holds none: no {' or '.join(_MARKS)} in or below it.")
        for directory in inside:
            found.setdefault(directory.resolve(), directory)
    return list(found.values())


def _is_run(directory: Path) -> bool:
    return any((directory / mark).is_file() for mark in _MARKS)


def _runs_below(root: Path) -> Iterator[Path]:
    for folder, inner, files in os.walk(root):
        if not set(_MARKS).isdisjoint(files):
            inner.clear()  # nothing inside a run is a run of its own
            yield Path(folder)


def _unfinished(directory: Path) -> str:
    """Why a run cannot be reported on yet; empty for a finished one."""
    path = directory / "result.json"
    if not path.is_file():
        return "unfinished (no result.json); continue it with --resume"
    result = _json(read_text(path), path)
    status = str(result.get("status", "finished"))
    return "" if status == "finished" else f"its status is '{status}'; continue it with --resume"


def _json(text: str, path: Path, line: int = 0) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        at = line or error.lineno
        raise ReportError(
            f"{path}, line {at}: broken JSON ({error.msg}, column {error.colno}); resume or repeat the run."
        ) from None
    if not isinstance(value, dict):
        raise ReportError(f"{path}, line {line or 1}: expected a JSON object, found {type(value).__name__}")
    return value


def _config(path: Path) -> tuple[str, dict[str, Any]]:
    if not path.is_file():
        return "", {}
    text = read_text(path)
    try:
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ReportError(f"{path}: broken TOML: {error}") from None


def _run_info(run: _Fields) -> RunInfo:
    return RunInfo(
        source=run.text("source"),
        method=run.text("method"),
        observe=run.text("observe"),
        protocol=run.text("protocol"),
        seed=int(run.number("seed")),
        observe_seed=int(run.number("observe_seed", 0)),
        split_seed=int(run.number("split_seed", 0)),
        select=run.text("select", "observed"),
        backbone=run.text("backbone", "unnamed"),
        recipe=str(run.raw["recipe"]) if run.raw.get("recipe") else None,
        unknown=run.text("unknown", ""),
    )


def _counts(table: _Fields) -> SplitCounts:
    def per_class(key: str) -> tuple[int, ...]:
        return tuple(int(n) for n in table.raw.get(key) or ())

    columns = (per_class(key) for key in ("present", "observed_present", "observed_absent"))
    return SplitCounts(int(table.number("images", 0)), *columns)


def _selected(table: _Fields) -> Selected:
    return Selected(
        int(table.number("epoch")),
        table.text("stage", ""),
        table.number("value", float("nan")),
        table.text("metric", "mAP"),
        table.text("labels", "observed"),
        table.text("unknown", "negative"),
    )


def _published(result: _Fields) -> Published | None:
    table = result.table("published", {})
    if not table.raw:
        return None
    return Published(
        table.number("value"), table.text("metric", "mAP"), table.text("split", "test"), table.text("where", "")
    )


def _thresholds(table: _Fields) -> Thresholds | None:
    """None for runs that chose none: older ones, and those without validation."""
    if "one" not in table.raw:
        return None
    return Thresholds(
        table.text("labels", ""),
        table.text("unknown", ""),
        table.number("one"),
        tuple(float(value) for value in table.raw.get("per_class") or ()),
        tuple(table.texts("fallback", ())),
    )


def _calibration(table: _Fields) -> dict[str, float]:
    """Its numbers; empty for runs that say why there are none. The errors class by class are for other readers."""
    return {key: table.number(key) for key in table.raw if key not in ("absent", "bins", "per_class_ECE")}


def _per_class(table: _Fields, classes: int) -> NDArray[np.float64]:
    """AP per class, NaN where it is null: a class without a known positive or a known negative."""
    values = table.raw.get("AP") or []
    if len(values) != classes:
        raise ReportError(f"{table.where}: AP has {len(values)} values for {classes} classes")
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _epochs(path: Path) -> Iterator[EpochRecord]:
    if not path.is_file():
        return
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        row = _Fields(_json(line, path, number), f"{path}, line {number}")
        yield EpochRecord(
            row.text("stage", ""),
            int(row.number("epoch")),
            row.table("terms", {}).numbers(),
            row.table("val", {}).numbers(),
            row.table("train", {}).numbers(),
            row.table("estimates", {}).numbers(),
            row.number("selection", float("nan")),
            row.number("seconds", float("nan")),
        )
