"""Gradient regimes: how hard each method pushes a cell's logit, read from the curves that runs leave behind."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure as Canvas
from numpy.typing import NDArray

from ..files import read_text
from .compare import Comparison
from .figures import Figure
from .records import ReportError
from .style import MUTED, Look, drawing, inline_svg

FILE = "gradients.json"
PANEL = (360.0, 250.0)
STATES = {"present": "label present", "unknown": "label unknown", "absent": "label absent"}
SHAPES = "shapes"  # the panel in which every curve has the same height
FAINT = 1 / 6  # a curve that stays below this share of the highest one cannot be read beside it
MARKS = 25  # points of a curve between its markers
LINE = 0.06  # height of a line of small text, of a panel's height
Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Regime:
    """d loss / d logit of a cell by its probability, for each label that it may have."""

    unknown: str  # what an unknown label is to the method
    probabilities: Values
    curves: Mapping[str, Values]  # "present", "unknown", "absent"; more after a comma, e.g. "unknown, estimated at 0.1"
    notes: tuple[str, ...]

    def of(self, state: str) -> dict[str, Values]:
        """The curves of one state, by what their names say beyond it."""
        named = {name.partition(", "): curve for name, curve in self.curves.items()}
        return {more: curve for (plain, _, more), curve in named.items() if plain == state}


@dataclass(frozen=True, eq=False)
class Drawn:
    """A regime with the name and the look of its method."""

    label: str
    regime: Regime
    look: Look


def read_regime(run: Path) -> Regime | None:
    """What a run left; None where it left nothing (an older run)."""
    path = run / FILE
    if not path.is_file():
        return None
    try:
        return regime_of(json.loads(read_text(path)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReportError(f"{path} is not as tacit writes it ({error}); delete it, or run again.") from None


def regime_of(content: Mapping[str, Any]) -> Regime:
    probabilities = np.array(content["probabilities"], np.float64)
    curves = {str(name): np.array(curve, np.float64) for name, curve in content["curves"].items()}
    for name, curve in curves.items():
        if curve.shape != probabilities.shape or curve.ndim != 1:
            raise ValueError(f"curve '{name}' has {curve.shape} values for {probabilities.shape} probabilities")
    return Regime(str(content["unknown"]), probabilities, curves, tuple(map(str, content["notes"])))


def regimes_figure(comparison: Comparison, looks: Sequence[Look]) -> Figure | None:
    """One panel per state of a label; curves are those of each group's first run that has any."""
    found = []
    for position, (group, look) in enumerate(zip(comparison.groups, looks, strict=True)):
        kept = next((regime for run in group.runs if (regime := read_regime(run.path)) is not None), None)
        if kept is not None:
            found.append((position, Drawn(group.label, kept, look)))
    if not found:
        return None
    drawn = [one for _, one in found]
    panels = tuple(_panel(drawn, state) for state in panels_of(drawn))
    return Figure(
        "regimes", "How each method pushes a cell", panels, caption(drawn), tuple(position for position, _ in found)
    )


def draw_file(drawn: Sequence[Drawn], path: Path, kind: str) -> None:
    """The panels in one file, with a legend; `kind` is matplotlib's name of the format."""
    states = panels_of(drawn)
    columns = 2 if len(states) > 3 else len(states)
    rows = -(-len(states) // columns)
    with drawing(PANEL[0] * columns, PANEL[1] * rows + 24) as figure:
        for place, state in enumerate(states, 1):
            draw_panel(figure.add_subplot(rows, columns, place), drawn, state)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(6, len(labels)), frameon=False)
        _save(figure, path, kind)


def _save(figure: Canvas, path: Path, kind: str) -> None:
    metadata = {"Date": None} if kind == "svg" else None
    figure.savefig(path, format=kind, dpi=144, transparent=False, facecolor="white", metadata=metadata)


def panels_of(drawn: Sequence[Drawn]) -> list[str]:
    """The states that some method has a curve for; after "unknown" its shapes, where heights hide them."""
    states = [state for state in STATES if any(one.regime.of(state) for one in drawn)]
    peaks = [peak for one in drawn for curve in one.regime.of("unknown").values() if (peak := np.abs(curve).max()) > 0]
    if peaks and min(peaks) < FAINT * max(peaks):
        states.insert(states.index("unknown") + 1, SHAPES)
    return states


def caption(drawn: Sequence[Drawn]) -> str:
    """What is drawn, and what each method adds."""
    text = (
        "How a cell’s loss changes with its logit (d loss / d logit), by the probability the network gives it and the "
        "label it has, asked of each method itself. Training steps against the gradient: a curve above zero pushes the "
        "probability down, below zero up, at zero it leaves the cell alone."
    )
    if SHAPES in panels_of(drawn):
        text += (
            " A weak push cannot be seen beside a strong one: the second panel of unknown labels scales every curve to "
            "the same height."
        )
    if any(more for one in drawn for state in STATES for more in one.regime.of(state)):
        text += " Thin lines: what an unknown label has become to the method, named at their ends."
    said = {one.label: f"{one.label}: {one.regime.unknown}" for one in drawn if one.regime.of("unknown")}
    if said:
        text += f" An unknown label is, to {'; '.join(said.values())}."
    notes: dict[str, list[str]] = {}
    for one in drawn:
        for note in one.regime.notes:
            notes.setdefault(note, []).append(one.label)
    return text + "".join(f" {', '.join(labels)}: {note}." for note, labels in notes.items())


def _panel(drawn: Sequence[Drawn], state: str) -> Markup:
    with drawing(*PANEL) as figure:
        draw_panel(figure.subplots(), drawn, state)
        return inline_svg(figure, f"regime-{state}", f"Gradient by probability, {_title(state)}")


def draw_panel(axes: Any, drawn: Sequence[Drawn], state: str) -> None:
    axes.axhline(0, color=MUTED, lw=0.8)
    ends: list[tuple[float, str, Look]] = []
    for one in drawn:
        for more, curve in one.regime.of("unknown" if state == SHAPES else state).items():
            if state != SHAPES:
                _draw_curve(axes, one, more, curve)
                ends += [(float(curve[-1]), more, one.look)] * bool(more)
            elif not more and curve.any():
                _draw_curve(axes, one, more, curve / np.abs(curve).max())
    axes.set_title(_title(state))
    axes.set_xlim(0, 1)
    axes.set_xlabel("predicted probability p")
    axes.set_ylabel("share of its peak" if state == SHAPES else "d loss / d logit")
    _name_ends(axes, ends)


def _title(state: str) -> str:
    return "label unknown, shapes" if state == SHAPES else STATES[state]


def _draw_curve(axes: Any, one: Drawn, more: str, curve: Values) -> None:
    thin: dict[str, Any] = {"lw": 1.0, "label": f"_{one.label}"} if more else {"lw": 1.8, "label": one.label}
    marks = {"marker": one.look.marker, "ms": 4.5, "markevery": (MARKS // 2, MARKS), "mew": 0}
    axes.plot(one.regime.probabilities, curve, color=one.look.color, ls=one.look.dash, **thin, **marks)


def _name_ends(axes: Any, ends: Sequence[tuple[float, str, Look]]) -> None:
    """Names at the right edge, in the curves' colours, moved up where they would cover each other."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    free = -np.inf
    for value, name, look in sorted(ends, key=lambda end: end[0]):
        height = max((value - low) / (high - low), free)
        axes.text(1.01, height, name, transform=axes.transAxes, va="center", fontsize=8, color=look.color)
        free = height + LINE
