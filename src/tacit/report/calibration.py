"""Whether a method's probabilities mean what they say, and what deciding at another threshold than 0.5 is worth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.ticker import NullLocator, PercentFormatter
from numpy.typing import NDArray

from ..metrics.calibration import BINS, reliability
from ..metrics.inputs import MetricError
from .compare import FULL, Comparison, Group, Spread
from .figures import WIDTH, Figure
from .records import RunRecord
from .style import INK, MUTED, Look, drawing, inline_svg
from .tables import BLANK, DASH, Cell, Column, Row, Table

FEWEST = 10  # known cells that a bin needs for its share of positives to be drawn
FLOOR = 1e-5  # the smallest share of cells drawn
# Under which thresholds decisions are told: as a column is named, and as it is explained.
WHERE = {
    "half": ("at\u00a00.5", "at 0.5"),
    "one": ("at\u00a0one", "at the one threshold"),
    "per_class": ("per class", "at each class’s own threshold"),
}


@dataclass(frozen=True, eq=False)
class Curve:
    """The reliability curve of a group: its runs' known test cells together. Per bin: sum of the probabilities, of the
    positives, and cells."""

    probability: NDArray[np.float64]
    positive: NDArray[np.float64]
    cells: NDArray[np.int64]

    @property
    def share(self) -> NDArray[np.float64]:
        """Of all cells, in each bin."""
        found: NDArray[np.float64] = self.cells / self.cells.sum()
        return found

    def points(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(mean probability, share of positives) of the bins with cells enough."""
        drawn = self.cells >= FEWEST
        return self.probability[drawn] / self.cells[drawn], self.positive[drawn] / self.cells[drawn]


def curve_of(group: Group) -> Curve | None:
    """None where no run kept test scores that are probabilities of known cells."""
    probability, positive, cells = np.zeros(BINS), np.zeros(BINS), np.zeros(BINS, np.int64)
    for run in group.runs:
        kept = run.scores("test")
        if kept is None or not kept.scores.size:
            continue
        try:
            found = reliability(kept.finite.scores, kept.finite.truth)
        except MetricError:
            continue
        probability += np.nan_to_num(found.confidence) * found.cells
        positive += np.nan_to_num(found.observed) * found.cells
        cells += found.cells
    return Curve(probability, positive, cells) if cells.any() else None


def reliability_figure(comparison: Comparison, looks: Sequence[Look]) -> Figure | None:
    """One line per group over where its probabilities lie, with the threshold that validation chose."""
    curves = [curve_of(group) for group in comparison.groups]
    drawn = tuple(i for i, curve in enumerate(curves) if curve is not None)
    if not drawn:
        return None
    chosen = [_chosen(comparison.groups[i]) for i in drawn]
    panel = _drawing([looks[i] for i in drawn], [curve for curve in curves if curve is not None], chosen)
    caption = (
        f"Above: of the test cells whose predicted probability lies in one of {BINS} equal bins, the share that is "
        "truly positive, against their mean probability; all classes and seeds together, unknown labels left out. On "
        "the dotted diagonal a probability means what it says; below it, a method promises more than it finds. Bins "
        f"with fewer than {FEWEST} cells are not drawn. Below: the share of all cells in each bin, on a logarithmic "
        "scale."
    )
    if any(one.n for one in chosen):
        caption += " Marker: the one threshold that validation chose, mean over seeds; the dotted rule is 0.5."
    return Figure("reliability", "Reliability", (panel,), caption, drawn)


def _chosen(group: Group) -> Spread:
    return Spread(tuple(run.thresholds.one for run in group.runs if run.thresholds is not None))


def _drawing(looks: Sequence[Look], curves: Sequence[Curve], chosen: Sequence[Spread]) -> Markup:
    edges = np.linspace(0, 1, BINS + 1)
    with drawing(WIDTH, 460) as figure:
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2.6, 1))
        above.plot([0, 1], [0, 1], color=MUTED, lw=0.9, ls=":")
        for look, curve, threshold in zip(looks, curves, chosen, strict=True):
            above.plot(*curve.points(), color=look.color, marker=look.marker, ms=4.5, mew=0, lw=1.5, ls=look.dash)
            heights = np.maximum(curve.share, FLOOR)
            below.stairs(heights, edges, baseline=None, color=look.color, lw=1.3, ls=look.dash)
            if threshold.n:
                at = heights[min(int(threshold.mean * BINS), BINS - 1)]
                below.plot(threshold.mean, at, look.marker, ms=6.5, color=look.color, mec=INK, mew=0.6)
        below.axvline(0.5, color=MUTED, lw=0.9, ls=":")
        for axes, label in ((above, "truly positive"), (below, "of all cells")):
            axes.set_ylabel(label)
        above.set_ylim(-0.02, 1.02)
        above.yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
        below.set_yscale("log")
        below.set_ylim(FLOOR, 1.5)
        below.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
        below.yaxis.set_minor_locator(NullLocator())
        below.set_xlim(0, 1)
        below.set_xlabel("predicted probability")
        figure.align_ylabels()
        return inline_svg(figure, "reliability", "Share of true positives against predicted probability, by method")


# --- the table --------------------------------------------------------------------------------------------------------


def calibration_table(comparison: Comparison) -> Table | None:
    """Calibration errors, the thresholds chosen, and OF1 and CF1 at each; None where no run tells them."""
    groups = comparison.groups
    if not any(run.decisions or run.calibration for group in groups for run in group.runs):
        return None
    parts: list[tuple[Column, Callable[[Group], Cell]]] = [
        (Column("ECE", f"expected calibration error, {BINS} bins of equal width, all known cells"), _calibrated("ECE")),
        (Column("class ECE", "mean over classes of each class’s own error"), _calibrated("class_ECE")),
        (Column("Brier", "mean squared difference of probability and label"), _calibrated("brier")),
        (Column("one threshold", "the highest OF1 on validation"), _one_cell),
        (Column("per class", "lowest to highest of the thresholds of each class’s highest F1"), _each_cell),
    ]
    for metric in ("OF1", "CF1"):
        for which, (name, where) in WHERE.items():
            parts.append((Column(f"{metric} {name}", f"test {metric} {where}, percent"), _at(which, metric)))
    rows = [Row(g.label, tuple(make(g) for _, make in parts), i, g.is_full) for i, g in enumerate(groups)]
    columns = tuple(column for column, _ in parts)
    return Table("calibration-table", "Calibration and thresholds", "method", columns, tuple(rows), _CAPTION)


_CAPTION = (
    "On test, percent except for thresholds: mean over seeds, and their sd. ECE: by how much, on average over bins, "
    "probability and share of positives differ; where most labels are negative, nearly all cells lie in the lowest "
    "bins, and a small ECE says little of the positives. Thresholds were chosen on validation, on the labels named "
    "below them, and on nothing of test: one for all classes, with the highest OF1, and for each class the one with "
    "its highest F1 (a class without a positive or a negative there has the one). Where labels are hidden and unknown "
    "ones count as negative, a threshold tends to be too strict for the truth. "
    f"{DASH}: not told by the run, or no validation."
)


def calibration_numbers(group: Group) -> dict[str, Spread]:
    """Everything the runs tell of calibration, thresholds and decisions on test, by name."""
    names = dict.fromkeys(name for run in group.runs for name in run.calibration)
    found = {name: _told(run.calibration.get(name) for run in group.runs) for name in names}
    if _chosen(group).n:
        found["threshold"] = _chosen(group)
    for which, (_, where) in WHERE.items():
        metrics = dict.fromkeys(name for run in group.runs for name in run.decisions.get(which, {}))
        for name in metrics:
            found[f"{name} {where}"] = _told(run.decisions.get(which, {}).get(name) for run in group.runs)
    return found


def _told(values: Iterable[float | None]) -> Spread:
    return Spread(tuple(value for value in values if value is not None))


def _calibrated(name: str) -> Callable[[Group], Cell]:
    return lambda group: _percent_cell(run.calibration.get(name) for run in group.runs)


def _at(which: str, metric: str) -> Callable[[Group], Cell]:
    return lambda group: _percent_cell(run.decisions.get(which, {}).get(metric) for run in group.runs)


def _percent_cell(values: Iterable[float | None]) -> Cell:
    spread = _told(values)
    if not spread.n:
        return BLANK
    return Cell(f"{100 * spread.mean:.2f}", spread.mean, below=f"± {100 * spread.sd:.2f}" if spread.n > 1 else "")


def _one_cell(group: Group) -> Cell:
    spread = _chosen(group)
    if not spread.n:
        return BLANK
    sd = f" ± {spread.sd:.2f}" if spread.n > 1 else ""
    return Cell(f"{spread.mean:.2f}{sd}", spread.mean, below="; ".join(dict.fromkeys(_labels(group.runs))))


def _labels(runs: Iterable[RunRecord]) -> Iterable[str]:
    """Which validation labels each run chose on."""
    for run in runs:
        if run.thresholds is not None:
            hidden = run.thresholds.labels != "clean" and run.run.observe != FULL
            yield run.thresholds.labels + (f", unknown {run.thresholds.unknown}" if hidden else "")


def _each_cell(group: Group) -> Cell:
    values: list[Any] = [t for run in group.runs if run.thresholds is not None for t in run.thresholds.per_class]
    if not values:
        return BLANK
    lacking = dict.fromkeys(name for run in group.runs if run.thresholds for name in run.thresholds.fallback)
    below = f"{len(lacking)} {'class' if len(lacking) == 1 else 'classes'} at the one" if lacking else ""
    return Cell(f"{min(values):.2f} to {max(values):.2f}", float(np.median(values)), below=below)
