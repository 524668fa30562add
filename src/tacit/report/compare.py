"""Runs that differ only in their seeds become one row; rows find their baseline and their full-label reference."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..metrics.intervals import SeedSummary, over_seeds, paired_over_seeds
from .protocol import Part, differing_parts, fixed_budget
from .records import RunRecord

FULL, BASELINE = "full", "an"
PRINTED = {"em_apl": "EM+APL", "entmin": "EntMin"}  # names that their letters do not give away
LOWER_IS_BETTER = frozenset({"hamming_loss", "one_error", "coverage", "coverage_depth", "ranking_loss"})
_SAID = object()  # value of an option that is its own description
COUNTS = frozenset({"coverage_depth"})  # not a fraction: never printed in percent


@dataclass(frozen=True)
class Spread:
    """Values of several seeds; `sd` is the sample standard deviation, NaN for a single seed."""

    values: tuple[float, ...]

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float:
        return float(np.mean(self.values)) if self.values else float("nan")

    @property
    def sd(self) -> float:
        return over_seeds(self.values).sd if self.values else float("nan")


@dataclass(frozen=True, eq=False)
class Group:
    """Runs that differ only in their seeds: one row of every table, one colour in every figure."""

    label: str
    runs: tuple[RunRecord, ...]

    @property
    def first(self) -> RunRecord:
        return self.runs[0]

    @property
    def is_full(self) -> bool:
        """Trained on every label: a reference, not a competitor."""
        return self.first.run.observe == FULL

    @property
    def unknown(self) -> str:
        """What an unknown label is to the method; empty where every label is known, or no run said."""
        told = dict.fromkeys(run.run.unknown for run in self.runs if run.run.unknown)
        return "" if self.is_full else "; ".join(told)

    @property
    def oracles(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(text for run in self.runs for text in run.oracles))

    @property
    def choices(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(text for run in self.runs for text in run.choices))

    def spread(self, metric: str, split: str = "test") -> Spread:
        """A metric of result.json over the seeds that have it."""
        found = (run.metrics.get(split, {}).get(metric) for run in self.runs)
        return Spread(tuple(value for value in found if value is not None))

    def per_class_ap(self, split: str = "test") -> NDArray[np.float64]:
        """Mean AP per class over the seeds that could score it; NaN where none could."""
        rows = [run.per_class_ap[split] for run in self.runs if split in run.per_class_ap]
        if not rows:
            return np.full(len(self.first.classes), np.nan)
        table = np.stack(rows)
        scored = (~np.isnan(table)).sum(axis=0)
        total = np.nansum(table, axis=0)
        return np.where(scored > 0, total / np.maximum(scored, 1), np.nan)


@dataclass(frozen=True, eq=False)
class Third:
    """Classes of like frequency: a third of all classes, by true positives in the training images."""

    name: str
    columns: NDArray[np.int64]
    most: int
    fewest: int


@dataclass(frozen=True, eq=False)
class Comparison:
    """What every table and figure is drawn from."""

    groups: tuple[Group, ...]
    metric: str
    parts: tuple[Part, ...]  # of the protocol, in which the groups differ
    notices: tuple[str, ...]

    @property
    def comparable(self) -> bool:
        """Whether all rows were scored on the same test labels of the same classes."""
        return not any(part.severity == "alarm" for part in self.parts)

    @property
    def same_classes(self) -> tuple[Group, ...]:
        """The groups that share the first group's class list: the only ones drawn per class."""
        return tuple(g for g in self.groups if g.first.classes == self.groups[0].first.classes)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Test metrics that any run has, intervals aside, in the order of the first run that has them."""
        names: dict[str, None] = {}
        for group in self.groups:
            names.update(dict.fromkeys(group.first.metrics.get("test", {})))
        return tuple(name for name in names if not name.endswith(("_low", "_high")))

    def baseline_of(self, group: Group) -> Group | None:
        """Assume-negative (`an`) in the same setting: same observation where there is one, else any partial one."""
        found = [g for g in self.groups if _setting(g) == _setting(group)]
        found = [g for g in found if g.first.run.method == BASELINE and not g.is_full]
        same = [g for g in found if g.first.run.observe == group.first.run.observe]
        return next(iter(same or found), None)

    def reference_of(self, group: Group) -> Group | None:
        """Plain BCE on full labels in the same setting."""
        found = [g for g in self.groups if _setting(g) == _setting(group)]
        return next((g for g in found if g.is_full and g.first.run.method == "bce"), None)

    def gap_closed(self, group: Group) -> float:
        """(this - baseline) / (full - baseline), of the means over seeds; NaN where there is no gap to close."""
        baseline, full = self.baseline_of(group), self.reference_of(group)
        if baseline is None or full is None:
            return float("nan")
        floor, ceiling = baseline.spread(self.metric).mean, full.spread(self.metric).mean
        return (group.spread(self.metric).mean - floor) / (ceiling - floor) if ceiling > floor else float("nan")

    def difference(self, group: Group) -> SeedSummary | None:
        """Test metric less the baseline's, paired by seeds, with Student's t interval; None where no seeds pair up."""
        baseline = self.baseline_of(group)
        if baseline is None or baseline is group:
            return None
        pairs = _pairs(group, baseline, self.metric)
        return paired_over_seeds(*zip(*pairs, strict=True)) if pairs else None

    def thirds(self) -> tuple[Third, ...]:
        """Head, middle and tail classes; empty where the runs do not record frequencies or have under 3 classes."""
        counts = self.groups[0].first.counts.get("train")
        if counts is None or len(counts.present) != len(self.groups[0].first.classes) or len(counts.present) < 3:
            return ()
        frequency = np.array(counts.present)
        chunks = np.array_split(np.argsort(-frequency, kind="stable"), 3)
        names = ("head", "middle", "tail")
        return tuple(
            Third(name, chunk, int(frequency[chunk].max()), int(frequency[chunk].min()))
            for name, chunk in zip(names, chunks, strict=True)
        )

    def by_frequency(self) -> NDArray[np.int64]:
        """Class columns, the most frequent in training first; in the list's own order where that is unknown."""
        thirds = self.thirds()
        return np.concatenate([t.columns for t in thirds]) if thirds else np.arange(len(self.groups[0].first.classes))

    def ranks(self, values: Sequence[float], *, lower_is_better: bool = False) -> list[str]:
        """'best', 'second' or '' per group. References on full labels do not compete where there are others;
        nobody does where the rows were not scored on the same labels."""
        competitors = [i for i, g in enumerate(self.groups) if not g.is_full] or list(range(len(self.groups)))
        scored = [i for i in competitors if not np.isnan(values[i])]
        marks = [""] * len(values)
        if not self.comparable or len(scored) < 2:
            return marks
        levels = sorted({values[i] for i in scored}, reverse=not lower_is_better)
        if len(levels) < 2:
            return marks
        for i in scored:
            marks[i] = {0: "best", 1: "second"}.get(levels.index(values[i]), "")
        return marks


def compare(records: Sequence[RunRecord], notices: Iterable[str] = ()) -> Comparison:
    """Group runs by everything but their seeds and name each group by what sets it apart."""
    if not records:
        raise ValueError("compare() needs at least one run")
    told = list(notices)
    found: dict[str, dict[tuple[int, int, int], RunRecord]] = {}
    for record in records:
        seeds = found.setdefault(_group_key(record), {})
        seed = _seeds(record)
        if seed in seeds:
            told.append(f"{record.path} repeats {seeds[seed].path} (same settings, same seeds) and was left out")
        else:
            seeds[seed] = record
    members = [tuple(runs[seed] for seed in sorted(runs)) for runs in found.values()]
    groups = [Group(label, runs) for label, runs in zip(labels_of([m[0] for m in members]), members, strict=True)]
    groups.sort(key=_place)
    told += _unlike_classes(groups)
    parts = differing_parts([(group.label, group.runs) for group in groups])
    return Comparison(tuple(groups), groups[0].first.selected.metric, tuple(parts), tuple(told))


def display_name(method: str) -> str:
    """`an_ls` -> AN-LS; a longer name stays as it is written (large_loss -> large loss), or as its paper has it."""
    if method in PRINTED:
        return PRINTED[method]
    short = all(len(part) <= 4 for part in method.split("_"))
    return method.upper().replace("_", "-") if short else method.replace("_", " ")


def _group_key(record: RunRecord) -> str:
    run = record.run
    what = [run.source, run.method, run.observe, run.protocol, run.select, run.backbone]
    options = [record.options.get("method", {}), record.options.get("source", {}), fixed_budget(record)]
    protocol = {key: value for key, value in record.protocol.items() if key not in ("train", "split_seed")}
    return json.dumps([what, options, protocol, record.choices], sort_keys=True, default=str)


def _seeds(record: RunRecord) -> tuple[int, int, int]:
    return record.run.seed, record.run.split_seed, record.run.observe_seed


def _setting(group: Group) -> tuple[str, str, str]:
    run = group.first.run
    return run.source, run.backbone, run.protocol


def _place(group: Group) -> int:
    """Full labels first, then the baseline, then the others in the order they were given."""
    if group.is_full:
        return 0 if group.first.run.method == "bce" else 1
    return 2 if group.first.run.method == BASELINE else 3


# As papers head their columns (P: positives, N: negatives); the page spells the observations out once.
_SHORT_OBSERVE = {
    FULL: f"{FULL} labels",
    "single-positive": "1 P",
    "one-positive-one-negative": "1 P + 1 N",
    "one-positive-all-negatives": "1 P + all N",
}


def labels_of(firsts: Sequence[RunRecord]) -> list[str]:
    """A short unique name per group: the method, and only what sets it apart from the others."""
    usual = Counter(record.run.observe for record in firsts).most_common(1)[0][0]
    varying = [k for k in ("source", "backbone", "protocol") if len({getattr(r.run, k) for r in firsts}) > 1]
    details = []
    for record in firsts:
        parts = [str(getattr(record.run, key)) for key in varying]
        observe = record.run.observe
        details.append([_SHORT_OBSERVE.get(observe, observe)] * (observe != usual) + parts)
    labels = [" · ".join([display_name(r.run.method), *d]) for r, d in zip(firsts, details, strict=True)]
    for extra in (_method_options, _budget_options, _source_options, _choices):
        labels = _told_apart(labels, [extra(record) for record in firsts])
    seen: Counter[str] = Counter()
    for i, label in enumerate(labels):
        seen[label] += 1
        if seen[label] > 1:
            labels[i] = f"{label} #{seen[label]}"
    return labels


def _told_apart(labels: list[str], options: list[dict[str, Any]]) -> list[str]:
    """Equal labels get the options in which they differ."""
    out = list(labels)
    for label in {label for label in labels if labels.count(label) > 1}:
        same = [i for i, other in enumerate(labels) if other == label]
        keys = sorted({key for i in same for key in options[i]})
        differing = [key for key in keys if len({repr(options[i].get(key)) for i in same}) > 1]
        for i in same:
            mine = {key: options[i][key] for key in differing if key in options[i]}
            told = ", ".join(key if value is _SAID else f"{key}={value}" for key, value in mine.items())
            out[i] = f"{label} ({told})" if told else label
    return out


def _method_options(record: RunRecord) -> dict[str, Any]:
    return dict(record.options.get("method", {}))


def _budget_options(record: RunRecord) -> dict[str, Any]:
    return {**fixed_budget(record), "select": record.run.select}


def _source_options(record: RunRecord) -> dict[str, Any]:
    return dict(record.options.get("source", {}))


def _choices(record: RunRecord) -> dict[str, Any]:
    return dict.fromkeys(record.choices, _SAID)


def _unlike_classes(groups: Sequence[Group]) -> list[str]:
    names = [g.label for g in groups if g.first.classes != groups[0].first.classes]
    return [f"other classes than {groups[0].label}, so not drawn per class: {', '.join(names)}"] if names else []


def _pairs(group: Group, other: Group, metric: str) -> list[tuple[float, float]]:
    """Test values of runs with equal seeds; full labels have nothing to observe, so its seed is not asked for."""
    width = 2 if group.is_full or other.is_full else 3
    mine, theirs = _by_seed(group, metric, width), _by_seed(other, metric, width)
    return [(mine[seed], theirs[seed]) for seed in mine if seed in theirs]


def _by_seed(group: Group, metric: str, width: int) -> Mapping[tuple[int, ...], float]:
    found = {}
    for run in group.runs:
        value = run.metrics.get("test", {}).get(metric)
        if value is not None:
            found[_seeds(run)[:width]] = value
    return found
