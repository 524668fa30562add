"""Tables of a comparison: one model, written as HTML (by the page), Markdown, CSV and to a terminal."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from .class_figures import third_mean
from .compare import COUNTS, FULL, LOWER_IS_BETTER, Comparison, Group, Spread
from .protocol import searched_keys
from .records import RunRecord

DASH = "–"


@dataclass(frozen=True)
class Column:
    """A column head; `meaning` is its explanation."""

    name: str
    meaning: str = ""


@dataclass(frozen=True)
class Cell:
    """What is printed, the number it sorts by (None: by its text; NaN: last), its rank, a smaller second line."""

    text: str
    sort: float | None = None
    mark: str = ""  # "best", "second" or nothing
    below: str = ""

    @property
    def numeric(self) -> bool:
        return self.sort is not None

    @property
    def sort_key(self) -> str:
        """The number as an attribute of HTML; empty where there is none."""
        return "" if self.sort is None or math.isnan(self.sort) else repr(float(self.sort))


BLANK = Cell(DASH, float("nan"))


@dataclass(frozen=True)
class Row:
    """A line of a table; `group` is the position of the group it belongs to, where it belongs to one. `unknown` says
    what an unlabelled cell was to it, where the table tells."""

    head: str
    cells: tuple[Cell, ...]
    group: int | None = None
    reference: bool = False
    unknown: str = ""


@dataclass(frozen=True)
class Table:
    """Rows under columns; the first column is the row's head."""

    name: str
    title: str
    head: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    caption: str
    sortable: bool = True


def headline(comparison: Comparison) -> Table:
    """The headline metric with what it is measured against: published, baseline, full labels."""
    metric, groups = comparison.metric, comparison.groups
    marks = comparison.ranks([group.spread(metric).mean for group in groups])
    parts: list[tuple[Column, Callable[[int, Group], Cell]]] = [
        (Column("seeds"), lambda i, group: Cell(str(len(group.runs)), len(group.runs))),
        (
            Column(metric, f"test {metric}, percent: mean and sd over seeds"),
            lambda i, group: _spread_cell(metric, group.spread(metric), marks[i], _interval(group, metric)),
        ),
    ]
    if any(group.first.published for group in groups):
        about = "as printed, percent; below it, ours less the published number"
        parts.append((Column("published", about), lambda i, group: _published_cell(group)))
    if any(comparison.difference(group) for group in groups):
        about = "paired difference over seeds, percentage points"
        parts.append((Column("to baseline", about), lambda i, group: _difference_cell(comparison, group)))
    if not all(math.isnan(comparison.gap_closed(group)) for group in groups):
        about = "share of the way from the baseline to full labels"
        parts.append((Column("gap closed", about), lambda i, group: _share_cell(comparison.gap_closed(group))))
    companions = [name for name in ("CF1", "OF1") if name in comparison.metrics]
    parts += [(Column(name), partial(_ranked_cell, comparison, name)) for name in companions]
    rows = [
        Row(group.label, tuple(make(i, group) for _, make in parts), i, group.is_full, group.unknown)
        for i, group in enumerate(groups)
    ]
    columns = tuple(column for column, _ in parts)
    return Table("headline", "Results", "method", columns, tuple(rows), _headline_caption(comparison, columns))


def all_metrics(comparison: Comparison) -> Table:
    """Every test metric, a line each: there are usually more metrics than methods."""
    groups = comparison.groups
    rows = []
    for name in comparison.metrics:
        cells = (_ranked_cell(comparison, name, i, group) for i, group in enumerate(groups))
        rows.append(Row(f"{name} ↓" if name in LOWER_IS_BETTER else name, tuple(cells)))
    parts = [
        "All metrics on the test images in percent, mean ± sd over seeds.",
        "Decisions are taken at a probability of 0.5. ↓: lower is better.",
        _RANKED if comparison.comparable else "",
    ]
    columns = tuple(Column(group.label) for group in groups)
    return Table("metrics", "All metrics", "metric", columns, tuple(rows), " ".join(parts).strip(), sortable=False)


def frequency_thirds(comparison: Comparison) -> Table | None:
    """Mean AP of head, middle and tail classes."""
    thirds = comparison.thirds()
    if not thirds:
        return None
    values = [[third_mean(group, third.columns) for group in comparison.same_classes] for third in thirds]
    places = [i for i, group in enumerate(comparison.groups) if group in comparison.same_classes]
    rows = tuple(
        Row(group.label, tuple(Cell(_percent(column[at]), column[at]) for column in values), place, group.is_full)
        for at, (place, group) in enumerate(zip(places, comparison.same_classes, strict=True))
    )
    columns = tuple(
        Column(t.name, f"{len(t.columns)} classes, {t.most:,} to {t.fewest:,} positives in training") for t in thirds
    )
    caption = (
        "Mean test AP, percent, of the classes in three equal parts by their true positives in the training images."
    )
    return Table("thirds-table", "Head, middle and tail", "method", columns, rows, caption)


def per_class(comparison: Comparison) -> Table:
    """AP of every class, the most frequent first."""
    groups, first = comparison.same_classes, comparison.groups[0].first
    values = [group.per_class_ap() for group in groups]
    present = first.counts["train"].present if comparison.thirds() else ()
    columns = ([Column("positives", "true positives in training")] if present else []) + [
        Column(g.label) for g in groups
    ]
    rows = []
    for c in comparison.by_frequency():
        cells = [Cell(f"{present[c]:,}", present[c])] if present else []
        cells += [Cell(_percent(column[c]), float(column[c])) for column in values]
        rows.append(Row(first.classes[c], tuple(cells)))
    caption = f"Average precision per class on test, percent, mean over seeds. {DASH}: cannot be scored."
    return Table("class-table", "Average precision per class", "class", tuple(columns), tuple(rows), caption)


def other_selections(comparison: Comparison) -> Table | None:
    """What another declared selection rule would have chosen, where runs tracked one."""
    metric = comparison.metric
    rules = list(dict.fromkeys(rule for group in comparison.groups for run in group.runs for rule in run.also))
    if not rules:
        return None
    rows = []
    for i, group in enumerate(comparison.groups):
        own = group.spread(metric)
        cells = [_spread_cell(metric, own)]
        for rule in rules:
            other = Spread(tuple(v for run in group.runs if (v := _also(run, rule, metric)) is not None))
            cells += [_spread_cell(metric, other), _points_cell(other.mean - own.mean)]
        rows.append(Row(group.label, tuple(cells), i, group.is_full))
    columns = [Column("as selected")]
    for rule in rules:
        columns += [Column(f"selected on {rule}"), Column("difference", "percentage points")]
    caption = (
        f"Test {metric} of the epoch each rule would have kept in the same runs, percent. Selection on clean labels "
        "uses labels that nobody who has only the observed ones would have: the difference is what that knowledge is "
        "worth."
    )
    return Table("selections", "What selection is worth", "method", tuple(columns), tuple(rows), caption)


def all_runs(comparison: Comparison) -> Table:
    """One row per run: seeds, what selection kept, cost."""
    names = ["seed", "observe / split seed", "epoch kept", "selection", f"test {comparison.metric}"]
    names += ["epochs", "batch", "lr", "wall time", "peak memory", "directory"]
    rows, root = [], _common_parent(comparison)
    for i, group in enumerate(comparison.groups):
        for run in group.runs:
            cells = _run_cells(run, comparison.metric, os.path.relpath(run.path.resolve(), root))
            rows.append(Row(group.label, tuple(cells), i, group.is_full))
    caption = (
        "Every run behind this page. Epochs count from 0 inside their stage. Selection: the value looked at, and the "
        "validation labels it was computed from. Wall time: of training and evaluation; memory: the peak of "
        "the process, or of the GPU where one was used."
    )
    return Table("runs", "Runs", "method", tuple(map(Column, names)), tuple(rows), caption)


def tables_of(comparison: Comparison) -> list[Table]:
    """Every table, in the order of the page."""
    found = [headline(comparison), all_metrics(comparison), other_selections(comparison), frequency_thirds(comparison)]
    return [table for table in (*found, per_class(comparison), all_runs(comparison)) if table is not None]


_RANKED = "Bold: best; underlined: second; references trained on full labels do not compete."


def _headline_caption(comparison: Comparison, columns: Sequence[Column]) -> str:
    shown = {column.name for column in columns}
    groups = comparison.groups
    parts = [f"Test {comparison.metric} in percent: mean ± sample standard deviation over seeds, or one run’s interval"]
    if comparison.comparable:
        parts.append(_RANKED.removesuffix("."))
    if "published" in shown:
        where = dict.fromkeys(group.first.published.where for group in groups if group.first.published)
        parts.append(f"Published: the number printed in {'; '.join(filter(None, where))}; below it, ours less it")
    baselines = " or ".join(dict.fromkeys(b.label for g in groups if (b := comparison.baseline_of(g)) is not None))
    if "to baseline" in shown:
        parts.append(
            f"To baseline: difference to {baselines} in points, paired by seeds; below it, the 95 % interval of "
            "Student’s t"
        )
    if "gap closed" in shown:
        full = " or ".join(dict.fromkeys(r.label for g in groups if (r := comparison.reference_of(g)) is not None))
        parts.append(f"Gap closed: how much of the way from {baselines} to {full} a method goes, by means over seeds")
    return ". ".join(parts) + "."


def _ranked_cell(comparison: Comparison, metric: str, position: int, group: Group) -> Cell:
    means = [g.spread(metric).mean for g in comparison.groups]
    mark = comparison.ranks(means, lower_is_better=metric in LOWER_IS_BETTER)[position]
    return _spread_cell(metric, group.spread(metric), mark)


def _spread_cell(metric: str, spread: Spread, mark: str = "", below: str = "") -> Cell:
    if not spread.n:
        return BLANK
    scale = 1 if metric in COUNTS else 100
    sd = f" ± {scale * spread.sd:.2f}" if spread.n > 1 else ""
    return Cell(f"{scale * spread.mean:.2f}{sd}", spread.mean, mark, below)


def _interval(group: Group, metric: str) -> str:
    low, high = group.spread(f"{metric}_low"), group.spread(f"{metric}_high")
    return f"{100 * low.mean:.1f} to {100 * high.mean:.1f}" if len(group.runs) == 1 and low.n and high.n else ""


def _published_cell(group: Group) -> Cell:
    published = group.first.published
    if published is None:
        return BLANK
    ours = group.spread(published.metric, published.split)
    what = [part for part, usual in ((published.metric, "mAP"), (published.split, "test")) if part != usual]
    below = f"ours {_signed(ours.mean - published.value / 100)}" if ours.n else "ours not scored"
    return Cell(f"{published.value:g}", published.value, below=", ".join([*what, below]))


def _difference_cell(comparison: Comparison, group: Group) -> Cell:
    difference = comparison.difference(group)
    if difference is None:
        return Cell("baseline", float("nan")) if comparison.baseline_of(group) is group else BLANK
    below = f"{_signed(difference.low)} to {_signed(difference.high)}" if difference.seeds > 1 else "one pair"
    return Cell(_signed(difference.mean), difference.mean, below=below)


def _share_cell(share: float) -> Cell:
    return Cell(DASH if math.isnan(share) else f"{100 * share:.0f} %".replace("-", "−"), share)


def _points_cell(difference: float) -> Cell:
    return Cell(DASH if math.isnan(difference) else _signed(difference), difference)


def _signed(fraction: float) -> str:
    """A fraction in percentage points with a proper minus sign."""
    return f"{100 * fraction:+.2f}".replace("-", "−")


def _percent(value: float) -> str:
    return DASH if math.isnan(value) else f"{100 * value:.1f}"


def _also(run: RunRecord, rule: str, metric: str) -> float | None:
    return run.also.get(rule, {}).get("test", {}).get(metric)


def _common_parent(comparison: Comparison) -> str:
    """The folder above all runs: a page to hand on names no more of a disk than it must."""
    return os.path.commonpath([run.path.resolve().parent for group in comparison.groups for run in group.runs])


def _run_cells(run: RunRecord, metric: str, directory: str) -> Iterable[Cell]:
    yield Cell(str(run.run.seed), run.run.seed)
    yield Cell(f"{run.run.observe_seed} / {run.run.split_seed}", run.run.observe_seed)
    yield Cell(f"{run.selected.stage} {run.selected.epoch}".strip(), run.selected.epoch)
    rule = run.selected.labels
    if rule == "observed" and run.run.observe != FULL:
        rule += f", unknown {run.selected.unknown}"
    yield Cell(_percent(run.selected.value), run.selected.value, below=rule)
    value = run.metrics.get("test", {}).get(metric, float("nan"))
    yield Cell(DASH if math.isnan(value) else f"{100 * value:.2f}", value)
    budget, tried = run.options.get("budget", {}), f"best of {len(run.search)}" if run.search else ""
    searched = searched_keys(run)
    for key in ("epochs", "batch_size", "lr"):
        yield Cell(str(budget.get(key, DASH)), _as_number(budget.get(key)), below=tried if key in searched else "")
    yield Cell(_duration(run.seconds), run.seconds)
    threads = f", {run.threads} thread{'s' * (run.threads > 1)}" if run.device == "cpu" and run.threads else ""
    memory = DASH if math.isnan(run.peak_memory_mb) else f"{run.peak_memory_mb:,.0f} MB"
    yield Cell(memory, run.peak_memory_mb, below=run.device + threads)
    yield Cell(directory)


def _duration(seconds: float) -> str:
    if math.isnan(seconds):
        return DASH
    return (
        f"{seconds:.1f} s"
        if seconds < 100
        else f"{seconds / 60:.1f} min"
        if seconds < 6000
        else f"{seconds / 3600:.1f} h"
    )


def _as_number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")


def best_of(groups: Sequence[Group], metric: str) -> Group | None:
    """The group with the highest mean among those that did not see all labels."""
    scored = [g for g in groups if not g.is_full and not math.isnan(g.spread(metric).mean)]
    return max(scored, key=lambda group: group.spread(metric).mean, default=None)
