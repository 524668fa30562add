"""Figures of runs over seeds and epochs. Each panel is a drawing of its own, so that a narrow page can stack them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from .compare import Comparison, Group
from .records import EpochRecord, RunRecord
from .style import INK, MUTED, RULE, Look, drawing, inline_svg

WIDTH = 440.0  # CSS pixels, of a usual panel
USUAL, WIDE = (WIDTH, 260.0), (720.0, 300.0)
_CUT = "Where the first epochs lie far below all others, the axis leaves them out."
Read = Callable[[EpochRecord], float | None]


@dataclass(frozen=True)
class Figure:
    """Panels under one title and one caption."""

    name: str  # the anchor on the page
    title: str
    panels: tuple[Markup, ...]
    caption: str
    legend: tuple[int, ...] = ()  # positions of the groups drawn, where colours need a legend
    wide: bool = False  # one panel over the full width
    small: bool = False  # panels of which three go side by side


def seeds_figure(comparison: Comparison, looks: Sequence[Look]) -> Figure:
    """The headline metric: each seed a dot, the mean a bar, the published number a cross."""
    metric, groups = comparison.metric, comparison.groups
    with drawing(WIDE[0], 46 + 24 * len(groups)) as figure:
        axes = figure.subplots()
        published = False
        for row, (group, look) in enumerate(zip(groups, looks, strict=True)):
            values = 100 * np.array(group.spread(metric).values)
            if len(values):
                axes.plot(
                    [values.mean()] * 2, [row - 0.32, row + 0.32], color=look.color, lw=2.2, solid_capstyle="butt"
                )
            axes.plot(values, _fanned(row, len(values)), look.marker, ms=5.5, color=look.color, alpha=0.75, mew=0)
            number = group.first.published
            if number is not None and (number.metric, number.split) == (metric, "test"):
                axes.plot(number.value, row, "x", ms=8, mew=1.6, color=INK)
                published = True
        axes.set_yticks(range(len(groups)), [short(group.label) for group in groups])
        axes.set_ylim(len(groups) - 0.4, -0.6)
        axes.grid(axis="y", visible=False)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(f"test {metric}, percent")
        panel = inline_svg(figure, "seeds", f"Test {metric} of each run by method")
    caption = f"Test {metric}. A marker is one run (one seed), the vertical bar the mean of a method's runs" + (
        "; × is the published number." if published else "."
    )
    return Figure("seeds", f"Test {metric}, seed by seed", (panel,), caption, wide=True)


def curve_figures(comparison: Comparison, looks: Sequence[Look]) -> list[Figure]:
    """Selection value and label recovery per epoch, where runs recorded them."""
    metric = comparison.metric
    selection = _curves(comparison.groups, looks, "selection", f"validation {metric}", _selection)
    recovery = _curves(
        comparison.groups,
        looks,
        "recovery",
        f"training {metric} against the truth",
        lambda e: e.train.get(metric),
    )
    figures = []
    if selection:
        figures.append(
            Figure(
                "selection",
                "What selection looked at",
                (selection,),
                f"Validation {metric} after each epoch, on the labels named under “Selection” in the table of runs: a "
                "row selected on observed labels is scored against labels of which many are hidden, so its height "
                "cannot be compared with a row selected on clean ones. Thin lines: seeds; thick line: their mean; "
                f"ring: the epoch kept. {_CUT}",
                tuple(range(len(looks))),
                wide=True,
            )
        )
    if recovery:
        figures.append(
            Figure(
                "recovery",
                "Label recovery",
                (recovery,),
                f"{metric} of the classifier on its own training images, scored against their hidden true labels (for "
                "this report only: no method sees them). A curve that turns down unlearns what it had found, because "
                f"it begins to fit the labels that were not written down as if they were absent. {_CUT}",
                tuple(range(len(looks))),
                wide=True,
            )
        )
    return figures


def loss_figure(comparison: Comparison, looks: Sequence[Look]) -> Figure | None:
    """One panel per group: its named loss terms per epoch, mean over seeds."""
    panels = []
    for position, (group, look) in enumerate(zip(comparison.groups, looks, strict=True)):
        names = list(dict.fromkeys(name for run in group.runs for epoch in run.epochs for name in epoch.terms))
        names.sort(key=lambda name: name != "total")
        if not names:
            continue
        if len(names) == 2 and "total" in names:  # a single term is its own total
            names.remove("total")
        panels.append(_loss_panel(group, look, names, f"loss{position}"))
    if not panels:
        return None
    caption = (
        "Training loss by its named terms, mean over the batches of an epoch and over seeds. Losses of different "
        "methods are different quantities: compare shapes, not heights."
    )
    return Figure("loss", "Loss terms", tuple(panels), caption)


def estimates_figure(comparison: Comparison, looks: Sequence[Look]) -> Figure | None:
    """Precision, recall and mAP of the labels that methods estimate while they train."""
    names = list(dict.fromkeys(n for g in comparison.groups for r in g.runs for e in r.epochs for n in e.estimates))
    drawn = [i for i, g in enumerate(comparison.groups) if any(e.estimates for r in g.runs for e in r.epochs)]
    if not drawn:
        return None
    groups, chosen = [comparison.groups[i] for i in drawn], [looks[i] for i in drawn]
    panels: list[Markup] = []
    for name in names:
        panel = _curves(
            groups, chosen, f"est-{len(panels)}", f"{name} of the estimates", _estimate(name), USUAL, cut=False
        )
        if panel:
            panels.append(panel)
    caption = (
        "Labels a method believes its training images have (its pseudo-labels), scored against the hidden truth. "
        "Precision and recall: estimates of at least 0.5, over the cells whose label was not observed; "
        "k: estimated positives per image. Thin lines: "
        "seeds; thick line: their mean; ring: the epoch kept."
    )
    return Figure("estimates", "Estimated labels", tuple(panels), caption, tuple(drawn))


def _selection(epoch: EpochRecord) -> float | None:
    return epoch.selection


def _estimate(name: str) -> Read:
    return lambda epoch: epoch.estimates.get(name)


def _term(name: str) -> Read:
    return lambda epoch: epoch.terms.get(name)


def _loss_panel(group: Group, look: Look, names: Sequence[str], prefix: str) -> Markup:
    with drawing(WIDTH, 230) as figure:
        axes = figure.subplots()
        for i, name in enumerate(names):
            table = _table(group.runs, _term(name))
            style: dict[str, Any] = {
                "lw": 1.9 if i == 0 else 1.3,
                "ls": ("-", (0, (5, 2)), (0, (1.5, 1.5)), "-.")[i % 4],
            }
            axes.plot(
                *_points(_mean(table)),
                color=look.color,
                marker=look.marker if i == 0 else "",
                ms=3.5,
                **style,
                label=name,
            )
        _stages(axes, group.runs[0])
        axes.set_title(short(group.label))
        axes.set_xlabel("epoch")
        axes.set_ylabel("loss")
        axes.legend(frameon=False, fontsize=9, handlelength=3)
        return inline_svg(figure, prefix, f"Loss terms of {group.label} per epoch")


def _curves(
    groups: Sequence[Group],
    looks: Sequence[Look],
    prefix: str,
    label: str,
    read: Read,
    size: tuple[float, float] = WIDE,
    *,
    cut: bool = True,
) -> Markup | None:
    """A value per epoch, fractions in percent; None where no run has any. `cut`: see `_window`."""
    tables = [_table(group.runs, read) for group in groups]
    values = np.concatenate([table[np.isfinite(table)] for table in tables])
    if not len(values):
        return None
    if values.max() <= 1:
        tables, label = [100 * table for table in tables], f"{label}, percent"
    with drawing(*size) as figure:
        axes = figure.subplots()
        for group, look, table in zip(groups, looks, tables, strict=True):
            for run, row in zip(group.runs, table, strict=True):
                axes.plot(*_points(row), color=look.color, lw=0.8, alpha=0.4 if len(table) > 1 else 1.0, ls=look.dash)
                kept = _kept(run)
                if kept is not None and np.isfinite(row[kept]):
                    axes.plot(kept, row[kept], "o", ms=7, mfc="none", mec=look.color, mew=1.2)
            xs, ys = _points(_mean(table))
            every = max(1, len(xs) // 8)
            axes.plot(
                xs, ys, color=look.color, lw=1.9, ls=look.dash, marker=look.marker, ms=4.5, markevery=every, mew=0
            )
        _stages(axes, max((g.runs[0] for g in groups), key=lambda run: len(run.epochs)))
        axes.set_xlabel("epoch")
        axes.set_ylabel(label)
        window = _window(tables) if cut else None
        if window:
            axes.set_ylim(*window)
        return inline_svg(figure, prefix, f"{label} per epoch, by method")


def _window(tables: Sequence[NDArray[np.float64]]) -> tuple[float, float] | None:
    """What the axis shows: everything after a curve's first fifth, if earlier values lie so much lower that they would
    press the rest, which is what one compares, into a line. None: matplotlib's choice."""
    late = np.concatenate([table[:, table.shape[1] // 5 :].ravel() for table in tables])
    every = np.concatenate([table.ravel() for table in tables])
    if not np.isfinite(late).any():
        return None
    low, high = float(np.nanmin(late)), float(np.nanmax(every))
    if low - float(np.nanmin(every)) <= high - low:
        return None
    margin = 0.06 * (high - low)
    return low - margin, high + margin


def _table(runs: Sequence[RunRecord], read: Read) -> NDArray[np.float64]:
    """Runs x epochs, NaN where a run has no value (or no such epoch)."""
    table = np.full((len(runs), max((len(run.epochs) for run in runs), default=0)), np.nan)
    for row, run in enumerate(runs):
        for column, epoch in enumerate(run.epochs):
            value = read(epoch)
            table[row, column] = np.nan if value is None else value
    return table


def _mean(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over the runs, at the epochs that every run reached."""
    return np.asarray(table.mean(axis=0))


def _points(row: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The epochs that have a value (a curve scored on some epochs only is still one line)."""
    finite = np.flatnonzero(np.isfinite(row))
    return finite, row[finite]


def _kept(run: RunRecord) -> int | None:
    """Position in metrics.jsonl of the epoch that selection kept."""
    places = [
        i
        for i, epoch in enumerate(run.epochs)
        if epoch.epoch == run.selected.epoch and run.selected.stage in ("", epoch.stage)
    ]
    return places[-1] if places else None


def _stages(axes: Any, run: RunRecord) -> None:
    """A rule where one stage of the protocol ends and the next begins."""
    for i in range(1, len(run.epochs)):
        if run.epochs[i].stage != run.epochs[i - 1].stage:
            axes.axvline(i - 0.5, color=MUTED, lw=0.8, ls=(0, (2, 3)))
            axes.text(
                i - 0.4,
                1.0,
                run.epochs[i].stage,
                transform=axes.get_xaxis_transform(),
                va="top",
                color=MUTED,
                fontsize=9,
            )
    axes.margins(x=0.02)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(color=RULE)


def _fanned(row: int, n: int) -> NDArray[np.float64]:
    """Heights around a row, so that the dots of several seeds do not hide each other."""
    return row + (np.linspace(-0.18, 0.18, n) if n > 1 else np.zeros(n))


def short(label: str, width: int = 44) -> str:
    """A label that fits over a panel."""
    return label if len(label) <= width else label[: width - 1] + "…"
