"""A metric against whatever was varied: a line per method, a band over its seeds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from markupsafe import Markup

from .compare import BASELINE, Comparison, Group, labels_of
from .figures import WIDE, Figure
from .records import RunRecord
from .style import Look, drawing, inline_svg, looks

SHARES = ("known-share", "positive-share", "labelled-share")  # observations NAME:SHARE


@dataclass(frozen=True)
class Curve:
    """A line: at each place of the x axis the values of the seeds (fractions)."""

    label: str
    points: Mapping[float, Sequence[float]]


def curve_panel(
    curves: Sequence[Curve],
    styled: Sequence[Look],
    *,
    x: str,
    y: str,
    prefix: str,
    percent_x: bool = False,
    size: tuple[float, float] = WIDE,
) -> Markup:
    """The drawing as an SVG for a page; `x` and `y` name the axes, `prefix` is unique on the page."""
    with drawing(*size) as figure:
        draw_curves(figure.subplots(), curves, styled, x=x, y=y, percent_x=percent_x)
        return inline_svg(figure, prefix, f"{y} against {x}, by method")


def draw_curves(
    axes: Any, curves: Sequence[Curve], styled: Sequence[Look], *, x: str, y: str, percent_x: bool = False
) -> None:
    """Lines with their axes and a legend; `percent_x` where the places are fractions."""
    draw_lines(axes, curves, styled, scale=100 if percent_x else 1)
    every = sorted({at * (100 if percent_x else 1) for curve in curves for at in curve.points})
    if len(every) <= 12:
        axes.set_xticks(every, [f"{at:.4g}" for at in every])
    axes.set_xlabel(f"{x}, percent" if percent_x else x)
    axes.set_ylabel(f"{y}, percent")
    axes.legend(frameon=False, fontsize=9, handlelength=3)


def draw_lines(axes: Any, curves: Sequence[Curve], styled: Sequence[Look], *, scale: float = 1) -> None:
    """Means as lines, mean ± sd over seeds as bars and, between places that have several, as bands; y in percent."""
    for curve, look in zip(curves, styled, strict=True):
        places = sorted(at for at, values in curve.points.items() if len(values))
        means = np.array([100 * np.mean(curve.points[at]) for at in places])
        sds = np.array([100 * _sd(curve.points[at]) for at in places])
        drawn = np.array(places) * scale
        axes.fill_between(drawn, means - sds, means + sds, color=look.color, alpha=0.18, lw=0)
        bars = np.isfinite(sds)
        axes.vlines(drawn[bars], (means - sds)[bars], (means + sds)[bars], color=look.color, lw=1.1)
        axes.plot(
            drawn, means, color=look.color, ls=look.dash, lw=1.7, marker=look.marker, ms=5, mew=0, label=curve.label
        )


def _sd(values: Sequence[float]) -> float:
    """Sample standard deviation; NaN, which draws nothing, for one seed."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")


def share_figure(comparison: Comparison) -> Figure | None:
    """The metric on test against the share of labels that is known, where groups differ in nothing else."""
    name, families = _families(comparison)
    if not families:
        return None
    labels = labels_of([_without_share(groups[0].first) for groups in families])
    curves = [
        Curve(label, {_share(group)[1]: group.spread(comparison.metric).values for group in groups})
        for label, groups in zip(labels, families, strict=True)
    ]
    styled = looks([False] * len(families), [groups[0].first.run.method == BASELINE for groups in families])
    panel = curve_panel(
        curves, styled, x=name.replace("-", " "), y=f"test {comparison.metric}", prefix="shares", percent_x=True
    )
    caption = (
        f"Test {comparison.metric} against the share of labels that is observed ({name}): a line per method, mean over "
        "seeds; bars and the band between them are ± one standard deviation, where there are several seeds."
    )
    return Figure("shares", f"Test {comparison.metric} by share", (panel,), caption, wide=True)


def _families(comparison: Comparison) -> tuple[str, list[list[Group]]]:
    """Groups that differ in their share alone, under the observation that most of them have; none where no family has
    two shares."""
    found: dict[str, dict[str, list[Group]]] = {}
    for group in comparison.groups:
        name, _ = _share(group)
        if name and group.spread(comparison.metric).n:
            found.setdefault(name, {}).setdefault(_family_key(group.first), []).append(group)
    usable = {name: by for name, by in found.items() if any(len(groups) > 1 for groups in by.values())}
    if not usable or not comparison.comparable:
        return "", []
    name = max(usable, key=lambda name: sum(map(len, usable[name].values())))
    return name, list(usable[name].values())


def _share(group: Group) -> tuple[str, float]:
    """('known-share', 0.3) of a group observed so; ('', 0) of any other."""
    name, _, rest = group.first.run.observe.partition(":")
    try:
        return (name, float(rest)) if name in SHARES else ("", 0.0)
    except ValueError:
        return "", 0.0


def _without_share(record: RunRecord) -> RunRecord:
    return replace(record, run=replace(record.run, observe=""), choices=())


def _family_key(record: RunRecord) -> str:
    """All that sets a line apart."""
    run = record.run
    what = [run.source, run.method, run.protocol, run.select, run.backbone]
    kept = {key: value for key, value in record.protocol.items() if key in ("val", "image_size", "pool")}
    return json.dumps([what, record.options, kept], sort_keys=True, default=str)
