"""Loss surfaces around the solutions of runs, as `tacit landscape` left them: side by side, on one scale."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from ..files import why_unreadable
from .compare import Comparison, Group
from .figures import USUAL, Figure
from .records import ReportError
from .style import MUTED, Look, drawing, inline_svg

RADIUS = 0.5  # of the plane around the solution that the number for flatness is taken over
LEVELS = 13
PANEL, RELIEF = (360.0, 300.0), (340.0, 260.0)
RELIEFS = 6  # more would make a heavy page
COLOURS = "cividis_r"  # even steps of lightness, and readable with the common colour-vision deficiencies
BELOW, MARK = "#ffffff", "#101214"  # what lies lower than the solution; marks on the map, in either theme
Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Surface:
    """The loss [G, G] around a solution, at steps [G] along two directions; the solution is in the middle."""

    steps: Values
    loss: Values
    story: Mapping[str, Any]  # what it was computed with

    @property
    def solution(self) -> float:
        return float(self.loss[len(self.steps) // 2, len(self.steps) // 2])

    @property
    def rise(self) -> Values:
        """How much higher than at the solution; NaN where the loss was no number."""
        rise = self.loss - self.solution
        return np.where(np.isfinite(rise), rise, np.nan)

    @property
    def key(self) -> str:
        """Which loss: that of the run itself, or one by name. Only surfaces of one key lie in one figure."""
        return "" if self.story["own"] else str(self.story["loss"])

    @property
    def plane(self) -> tuple[Any, ...]:
        """What must agree before two surfaces may be laid side by side."""
        told = (self.story.get(name) for name in ("images", "seed", "direction_seed"))
        options = None if self.story["own"] else sorted(self.story.get("options", {}).items())
        return (*self.steps.tolist(), *told, str(options))

    def mean_rise(self, radius: float = RADIUS) -> float:
        """Mean of the rise over the points within `radius` of the solution: small where the surface is flat."""
        far = np.hypot(self.steps[:, None], self.steps[None, :])
        inside = self.rise[far <= radius * (1 + 1e-9)]
        return float(inside.mean()) if np.isfinite(inside).all() else float("nan")


@dataclass(frozen=True, eq=False)
class Drawn:
    """A group's surfaces under one loss; the first seed's is drawn, numbers are means over all."""

    group: Group
    look: Look
    surfaces: tuple[Surface, ...]

    @property
    def first(self) -> Surface:
        return self.surfaces[0]

    @property
    def flatness(self) -> str:
        values = [surface.mean_rise() for surface in self.surfaces]
        spread = f" ± {np.std(values, ddof=1):.2g}" if len(values) > 1 else ""
        return f"{np.mean(values):.3g}{spread}"


def read_surfaces(run: Path) -> dict[str, Surface]:
    """The finished surfaces of a run by their keys; one that was interrupted is left out."""
    found = (read_surface(path) for path in sorted(run.glob("landscape*.npz")))
    return {surface.key: surface for surface in found if surface is not None}


def read_surface(path: Path) -> Surface | None:
    """None where rows are missing."""
    try:
        with np.load(path, allow_pickle=False) as file:
            steps, loss, done, story = file["steps"], file["loss"], file["done"], json.loads(str(file["story"]))
        if steps.ndim != 1 or loss.shape != (len(steps), len(steps)) or not len(steps) % 2 or "own" not in story:
            raise ValueError(f"a surface of shape {loss.shape} at {steps.shape} steps")
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ReportError(
            f"{path} cannot be read ({why_unreadable(error)}); compute it again: tacit landscape … --again"
        ) from None
    return Surface(steps, loss, story) if done.all() else None


def landscape_figures(comparison: Comparison, looks: Sequence[Look]) -> list[Figure]:
    """Maps, profiles and reliefs for each loss that surfaces were computed under; the runs' own first."""
    told = [[read_surfaces(run.path) for run in group.runs] for group in comparison.groups]
    keys = sorted({key for runs in told for surfaces in runs for key in surfaces})
    return [_figure(comparison, looks, told, key, f"landscape{number}") for number, key in enumerate(keys)]


def _figure(
    comparison: Comparison, looks: Sequence[Look], told: Sequence[Sequence[Mapping[str, Surface]]], key: str, name: str
) -> Figure:
    """Under one loss: what was computed on the plane of the first surface; others are named in the caption."""
    plane = next(surfaces[key].plane for runs in told for surfaces in runs if key in surfaces)
    drawn, other = dict[int, Drawn](), list[str]()
    for position, (group, look, runs) in enumerate(zip(comparison.groups, looks, told, strict=True)):
        found = [surfaces[key] for surfaces in runs if key in surfaces]
        kept = tuple(surface for surface in found if surface.plane == plane)
        if kept:
            drawn[position] = Drawn(group, look, kept)
        if len(kept) < len(found):
            other.append(group.label)
    shown = list(drawn.values())
    levels = common_levels([one.first for one in shown])
    maps = [_map(one, levels, f"{name}-map{at}") for at, one in enumerate(shown)]
    few = shown if len(shown) <= RELIEFS else []
    reliefs = [_relief(one, levels, f"{name}-relief{at}") for at, one in enumerate(few)]
    title = f"Under the loss {key}" if key else "Each run under its own loss"
    panels = (*maps, _profile(shown, f"{name}-profile"), *reliefs)
    return Figure(name, title, panels, _caption(shown, key, other), tuple(drawn))


def common_levels(surfaces: Iterable[Surface]) -> Values:
    """One scale for all: from the solution to the highest point, closer together at the bottom."""
    tops = [np.max(s.rise, initial=0.0, where=np.isfinite(s.rise)) for s in surfaces]
    return np.asarray(max([*tops, 1e-9]) * (np.arange(LEVELS) / (LEVELS - 1)) ** 2)


def _caption(shown: Sequence[Drawn], key: str, left_out: Sequence[str]) -> str:
    story = shown[0].first.story
    other = (
        ""
        if key
        else (
            " Losses of different methods are different quantities: compare shapes, and heights only between runs "
            "under one loss (tacit landscape RUN … --loss NAME)."
        )
    )
    if left_out:
        other += (
            f" Left out, because computed on another grid or span, other images or directions: {', '.join(left_out)}."
        )
    numbers = "; ".join(f"{one.group.label} {one.flatness}" for one in shown)
    return (
        f"The loss on {story['images']:,} training images when the weights move from the solution (cross) along two "
        "random directions, every filter by that share of its own norm; how much it rises above the solution, on one "
        "scale for all, white where it is lower. Batch statistics stay as trained and dropout is off. The directions "
        f"have the same seed everywhere. Mean rise within radius {RADIUS:g} (circle): {numbers}.{other}"
    )


def _map(one: Drawn, levels: Values, prefix: str) -> Markup:
    with drawing(*PANEL) as figure:
        axes = figure.subplots()
        bar = figure.colorbar(draw_map(axes, one, levels), ax=axes, shrink=0.9, ticks=levels[::3], format="%.2g")
        bar.set_label("rise of the loss")
        bar.outline.set_visible(False)
        return inline_svg(figure, prefix, f"Loss around the solution of {one.group.label}")


def draw_map(axes: Any, one: Drawn, levels: Values) -> Any:
    """The rise around one solution, seen from above; returns what a colour bar wants to know."""
    surface = one.first
    filled = axes.contourf(surface.steps, surface.steps, surface.rise.T, levels, extend="min", **_colours(levels))
    axes.contour(surface.steps, surface.steps, surface.rise.T, levels, colors=MUTED, linewidths=0.4)
    axes.plot(0, 0, "+", ms=9, mew=1.4, color=MARK)
    turn = np.linspace(0, 2 * np.pi, 60)
    axes.plot(RADIUS * np.cos(turn), RADIUS * np.sin(turn), color=MARK, lw=0.8, ls=(0, (2, 2)))
    axes.set_aspect("equal")
    axes.set_xticks(np.linspace(surface.steps[0], surface.steps[-1], 5))
    axes.set_yticks(np.linspace(surface.steps[0], surface.steps[-1], 5))
    axes.grid(False)
    axes.set_title(f"{one.group.label}: {surface.solution:.3g} at the solution", fontsize=9.5)
    axes.set_xlabel("first direction")
    axes.set_ylabel("second direction")
    return filled


def _relief(one: Drawn, levels: Values, prefix: str) -> Markup:
    surface = one.first
    across, along = np.meshgrid(surface.steps, surface.steps)
    with drawing(*RELIEF) as figure:
        axes: Any = figure.add_subplot(projection="3d")
        axes.plot_surface(across, along, surface.rise.T, rcount=20, ccount=20, lw=0, **_colours(levels))
        axes.set_zlim(np.min(surface.rise, initial=0.0, where=np.isfinite(surface.rise)), levels[-1])
        axes.set_title(one.group.label, fontsize=9.5)
        axes.tick_params(labelsize=7, pad=0)
        for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
            axis.pane.fill = False
            axis.set_major_locator(MaxNLocator(4))
        axes.set_xticks(surface.steps[[0, len(surface.steps) // 2, -1]])
        axes.set_yticks(surface.steps[[0, len(surface.steps) // 2, -1]])
        axes.view_init(28, -55)
        return inline_svg(figure, prefix, f"Relief of the loss around the solution of {one.group.label}")


def _colours(levels: Values) -> dict[str, Any]:
    """Every stretch between two levels has a colour of its own, however narrow it is."""
    shades = mpl.colormaps[COLOURS](np.linspace(0, 1, len(levels) - 1))
    colours = mpl.colors.ListedColormap(shades).with_extremes(under=BELOW, over=shades[-1])
    return {"cmap": colours, "norm": mpl.colors.BoundaryNorm(levels, len(shades))}


def _profile(shown: Sequence[Drawn], prefix: str) -> Markup:
    """The rise along each direction through the solution."""
    with drawing(*USUAL) as figure:
        axes = figure.subplots()
        for one in shown:
            steps, rise = one.first.steps, one.first.rise
            middle = len(steps) // 2
            axes.plot(
                steps, rise[:, middle], color=one.look.color, ls=one.look.dash, lw=1.8, marker=one.look.marker, ms=4
            )
            axes.plot(steps, rise[middle], color=one.look.color, ls=one.look.dash, lw=0.9)
        axes.set_title("along the first direction (thick) and the second (thin)", fontsize=9.5)
        axes.set_xlabel("step from the solution")
        axes.set_ylabel("rise of the loss")
        axes.margins(x=0.02)
        return inline_svg(figure, prefix, "Rise of the loss along both directions, by method")
