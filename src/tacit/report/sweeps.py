"""Curves of sweeps: test metrics along an axis, as one picture and as a page that needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from ..files import atomic_write
from ..tables.sweep_rows import curve_labels, heading, point_rows, remarks, together_rows
from ..tables.sweeps import METRICS, Curve, Sweep
from .compare import BASELINE
from .curves import Curve as Line
from .curves import draw_lines
from .page import templates
from .style import Look, drawing, inline_svg, looks, theme_css

PANEL = (360.0, 270.0)
LOGARITHMIC = 50  # an axis whose largest value is that many times the smallest has a logarithmic scale


@dataclass(frozen=True, eq=False)
class Drawn:
    """A curve with its name and look."""

    label: str
    curve: Curve
    look: Look


def drawn(sweeps: Sequence[Sweep]) -> list[Drawn]:
    """The curves that have a finished run."""
    found = [(label, curve) for label, curve in curve_labels(sweeps) if curve.runs]
    plain = [all(run.config.method == BASELINE for run in curve.runs) for _, curve in found]
    styled = looks([False] * len(found), plain)
    return [Drawn(label, curve, look) for (label, curve), look in zip(found, styled, strict=True)]


def draw_file(sweeps: Sequence[Sweep], path: Path) -> None:
    """The panels side by side with a legend, as SVG on white."""
    curves = drawn(sweeps)
    with drawing(PANEL[0] * len(METRICS), PANEL[1] + 16 + 16 * -(-len(curves) // 4)) as figure:
        for place, metric in enumerate(METRICS, 1):
            draw_panel(figure.add_subplot(1, len(METRICS), place), curves, metric)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)), frameon=False)
        with atomic_write(path) as temporary:
            figure.savefig(temporary, format="svg", transparent=False, facecolor="white", metadata={"Date": None})


def draw_panel(axes: Any, curves: Sequence[Drawn], metric: str) -> None:
    """Mean over seeds at every finished point, and ± one standard deviation where there are several."""
    places = _places([one.curve for one in curves])
    lines = [
        Line(
            one.label,
            {places[p.values[one.curve.axis]]: [run.percent(metric) / 100 for run in p.runs] for p in one.curve.points},
        )
        for one in curves
    ]
    draw_lines(axes, lines, [one.look for one in curves])
    axes.set_title(metric)
    axes.set_ylabel(f"test {metric}, percent")
    _label_axis(axes, [one.curve for one in curves], places)


def _places(curves: Sequence[Curve]) -> dict[str, float]:
    """Where each value of the axis lies: at its number, or words one after the other."""
    values = dict.fromkeys(point.values[curve.axis] for curve in curves for point in curve.points)
    numeric = all(curve.numeric for curve in curves)
    return {value: float(value) if numeric else float(at) for at, value in enumerate(values)}


def _label_axis(axes: Any, curves: Sequence[Curve], places: dict[str, float]) -> None:
    axes.set_xlabel(curves[0].axis)
    if not all(curve.numeric for curve in curves):
        axes.set_xticks(list(places.values()), list(places))
        return
    low, high = min(places.values()), max(places.values())
    if low > 0 and high >= LOGARITHMIC * low:
        axes.set_xscale("log")
    elif len(places) <= 10:
        axes.set_xticks(sorted(places.values()), sorted(places, key=float))


def render_page(sweeps: Sequence[Sweep], out: Path) -> None:
    """Tables, curves and settings of one or several sweeps along the same axis."""
    curves = drawn(sweeps)
    tables = [(heading(sweep), *point_rows(sweep), remarks(sweep), sweep) for sweep in sweeps]
    text = (
        templates()
        .get_template("sweep.html")
        .render(
            title=f"Sweep over {sweeps[0].axes[0]}",
            curves=curves,
            panels=[_panel(curves, metric) for metric in METRICS],
            tables=tables,
            together=together_rows(sweeps) if len(curves) > 1 else None,
            light=theme_css(False),
            dark=theme_css(True),
        )
    )
    with atomic_write(out) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _panel(curves: Sequence[Drawn], metric: str) -> Markup:
    with drawing(*PANEL) as figure:
        draw_panel(figure.subplots(), curves, metric)
        return inline_svg(figure, f"curve-{metric}", f"Test {metric} along {curves[0].curve.axis}")
