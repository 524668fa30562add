"""Figures over classes and scores: AP per class, head to tail, and where the probabilities lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.ticker import NullLocator
from numpy.typing import NDArray

from .compare import Comparison, Group
from .figures import WIDE, WIDTH, Figure
from .records import Scores
from .style import INK, MUTED, Look, drawing, inline_svg

ROWS = 40  # classes in a panel at most
_LABEL: dict[str, Any] = {"ha": "right", "va": "center", "fontsize": 8.5}
BINS, FLOOR = 40, 1e-5  # of the histograms; the smallest share drawn


def class_figure(comparison: Comparison, looks: Sequence[Look]) -> Figure | None:
    """AP per class on test, the most frequent class first, at most `ROWS` classes to a panel."""
    groups = comparison.same_classes
    drawn = tuple(i for i, group in enumerate(comparison.groups) if group in groups)
    table = np.stack([group.per_class_ap() for group in groups])
    if not np.isfinite(table).any():
        return None
    order = comparison.by_frequency()
    chunks = np.array_split(order, max(2 if len(order) > 12 else 1, -(-len(order) // ROWS)))
    limits = np.floor(10 * np.nanmin(table)) * 10 - 1.5, np.ceil(10 * np.nanmax(table)) * 10 + 1.5
    panels = [
        _class_panel(comparison, [looks[i] for i in drawn], table, chunk, limits, f"class{i}")
        for i, chunk in enumerate(chunks)
    ]
    ordered = "most frequent in training first (true positives in brackets)" if comparison.thirds() else "in list order"
    caption = (
        f"Average precision per class on the test images, {ordered}; mean over seeds. A class without a mark cannot be "
        "scored. The same numbers stand in the table below."
    )
    return Figure("classes", "Average precision per class", tuple(panels), caption, drawn)


def thirds_figure(comparison: Comparison, looks: Sequence[Look]) -> Figure | None:
    """Mean AP of head, middle and tail classes: one line per group."""
    thirds, groups = comparison.thirds(), comparison.same_classes
    drawn = tuple(i for i, group in enumerate(comparison.groups) if group in groups)
    if not thirds:
        return None
    with drawing(*WIDE) as figure:
        axes = figure.subplots()
        for place, (i, group) in enumerate(zip(drawn, groups, strict=True)):
            look = looks[i]
            heights = [100 * third_mean(group, third.columns) for third in thirds]
            xs = np.arange(3) + 0.012 * (place - (len(groups) - 1) / 2)
            axes.plot(xs, heights, color=look.color, marker=look.marker, ms=6, lw=1.5, ls=look.dash, mew=0)
        axes.set_xticks(range(3), [f"{t.name}\n{len(t.columns)} classes, {_range(t.fewest, t.most)}" for t in thirds])
        axes.set_xlim(-0.25, 2.25)
        axes.set_ylabel("mean AP, percent")
        panel = inline_svg(figure, "thirds", "Mean average precision of head, middle and tail classes, by method")
    caption = (
        "Mean test AP of frequent, middling and rare classes: the classes in three equal parts by their true "
        "positives in the training images (the range under each name). Mean over the classes that can be scored, "
        "then over seeds."
    )
    return Figure("thirds", "Head, middle and tail", (panel,), caption, drawn, wide=True)


def third_mean(group: Group, columns: NDArray[np.int64]) -> float:
    """Mean AP of some classes, over those that can be scored."""
    values = group.per_class_ap()[columns]
    values = values[np.isfinite(values)]
    return float(values.mean()) if len(values) else float("nan")


def histogram_figure(comparison: Comparison, looks: Sequence[Look]) -> Figure | None:
    """Where predicted probabilities of positives and negatives lie, one panel per group."""
    panels = []
    for position, (group, look) in enumerate(zip(comparison.groups, looks, strict=True)):
        counts = histogram(group)
        if counts is not None:
            panels.append(_histogram_panel(group, look, counts, f"hist{position}"))
    if not panels:
        return None
    caption = (
        f"Predicted probabilities on the test images in {BINS} bins, all classes and seeds together: the share of the "
        "true positives (filled) and of the true negatives (dashed line) in each bin, on a logarithmic scale. "
        "Unknown labels are left out. The dotted rule marks 0.5, where the decisions of CF1 and OF1 are taken; the "
        "percentages say how much of each side lies on or above it."
    )
    return Figure("histogram", "Predicted probabilities", tuple(panels), caption)


def histogram(group: Group) -> NDArray[np.int64] | None:
    """Counts [positives, negatives] x bins over all runs that kept their test scores."""
    total = np.zeros((2, BINS), np.int64)
    for run in group.runs:
        kept = run.scores("test")
        if kept is not None:
            total += _counts(kept)
    return total if total.any() else None


def _counts(kept: Scores) -> NDArray[np.int64]:
    """Counts [positives, negatives] x bins; a score that is no number is in no bin."""
    with np.errstate(invalid="ignore"):
        bins = (kept.scores * BINS).clip(0, BINS - 1).astype(np.int16)
    known = np.where(np.isfinite(kept.scores), kept.truth, 0)
    counts = np.bincount(((known + 1) * np.int16(BINS) + bins).ravel().astype(np.int64), minlength=3 * BINS)
    return counts.reshape(3, BINS)[[2, 0]]


def _class_panel(
    comparison: Comparison,
    looks: Sequence[Look],
    table: NDArray[np.float64],
    columns: NDArray[np.int64],
    limits: tuple[float, float],
    prefix: str,
) -> Markup:
    first = comparison.groups[0].first
    counts = first.counts["train"].present if comparison.thirds() else None
    names = [_name(first.classes[c], None if counts is None else counts[c]) for c in columns]
    height = 44 + 15.5 * len(columns)
    with drawing(WIDTH, height) as figure:
        figure.set_layout_engine("none")  # forty measured tick labels a panel would be half the time of a page
        left = 12 + 5.1 * max(map(len, names))
        axes = figure.add_axes((left / WIDTH, 38 / height, 1 - (left + 8) / WIDTH, 1 - 42 / height))
        rows = np.arange(len(columns))
        axes.hlines(rows, 100 * _least(table[:, columns]), 100 * _most(table[:, columns]), color=MUTED, lw=0.7)
        for look, values in zip(looks, table[:, columns], strict=True):
            axes.plot(100 * values, rows, look.marker, ms=5, color=look.color, mew=0, alpha=0.9)
        axes.set_yticks([])
        for row, name in enumerate(names):
            axes.text(-5 / (WIDTH - left), row, name, transform=axes.get_yaxis_transform(), **_LABEL)
        axes.set_ylim(len(columns) - 0.4, -0.6)
        axes.set_xlim(*limits)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("test AP, percent")
        return inline_svg(figure, prefix, f"AP of {names[0]} to {names[-1]}, by method")


def _least(table: NDArray[np.float64]) -> NDArray[np.float64]:
    low = np.where(np.isnan(table), np.inf, table).min(axis=0)
    return np.where(np.isinf(low), np.nan, low)


def _most(table: NDArray[np.float64]) -> NDArray[np.float64]:
    return -_least(-table)


def _histogram_panel(group: Group, look: Look, counts: NDArray[np.int64], prefix: str) -> Markup:
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    above = share[:, BINS // 2 :].sum(axis=1)
    edges = np.linspace(0, 1, BINS + 1)
    with drawing(WIDTH, 220) as figure:
        axes = figure.subplots()
        axes.stairs(np.maximum(share[0], FLOOR), edges, baseline=FLOOR, fill=True, color=look.color, alpha=0.45)
        axes.stairs(np.maximum(share[0], FLOOR), edges, baseline=None, color=look.color, lw=1.2)
        axes.stairs(np.maximum(share[1], FLOOR), edges, baseline=None, color=INK, lw=1.1, ls=(0, (4, 2)))
        axes.axvline(0.5, color=MUTED, lw=0.9, ls=":")
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_ylim(FLOOR, 1.5)
        axes.set_xlim(0, 1)
        axes.set_title(f"{group.label}: {above[0]:.1%} of positives, {above[1]:.1%} of negatives ≥ 0.5", fontsize=9.5)
        axes.set_xlabel("predicted probability")
        axes.set_ylabel("share")
        return inline_svg(figure, prefix, f"Histogram of the probabilities of {group.label}")


def _name(name: str, count: int | None, width: int = 28) -> str:
    """A class and its frequency; a long name loses its middle, since siblings share beginnings."""
    short = name if len(name) <= width else f"{name[: width // 2 - 1]}…{name[-width // 2 :]}"
    return short if count is None else f"{short} ({count:,})"


def _range(fewest: int, most: int) -> str:
    return f"{most:,} to {fewest:,} positives"
