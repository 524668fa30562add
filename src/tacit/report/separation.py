"""How far apart methods keep positives and negatives: the distance per class, and where one class's scores lie.

After "Acknowledging the Unknown" (Zhou et al., ECCV 2022): Wasserstein distance of one method against another's, class
by class on the training images, and the densities of a class on unannotated training cells and on test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import reduce
from typing import Any, Literal

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from ..labels import UNKNOWN
from ..metrics.separation import Densities, Shares, compare_separation, densities, wasserstein
from .compare import Comparison, Group, Spread
from .figures import WIDTH, Figure, short
from .records import ReportError, RunRecord, Scores
from .style import INK, MUTED, Look, drawing, inline_svg
from .tables import BLANK, Cell, Column, Row, Table

Kind = Literal["train", "unannotated", "test"]
KINDS: Mapping[Kind, str] = {
    "train": "all training cells",
    "unannotated": "unannotated training cells",
    "test": "test images",
}
SCATTERED: tuple[Kind, ...] = ("train", "unannotated")  # the paper's, and where it matters: what was not told
SQUARE = 250.0  # CSS pixels, of a panel that holds one method against another
BINS = 40


@dataclass(frozen=True, eq=False)
class Apart:
    """W1 of one group: for each kind of cell, runs x classes (runs that kept these scores; NaN: a side is missing)."""

    group: Group
    runs: Mapping[Kind, NDArray[np.float64]]

    def per_class(self, kind: Kind) -> NDArray[np.float64]:
        """Mean over the seeds that have the class [C]; NaN where none has."""
        table = self.runs[kind]
        found = ~np.isnan(table)
        counted = found.sum(axis=0)
        total = np.where(found, table, 0).sum(axis=0)
        return np.where(counted > 0, total / np.maximum(counted, 1), np.nan)

    def spread(self, kind: Kind) -> Spread:
        """Mean over classes, seed by seed."""
        means = (row[~np.isnan(row)] for row in self.runs[kind])
        return Spread(tuple(float(row.mean()) for row in means if len(row)))


@dataclass(frozen=True, eq=False)
class Pair:
    """One method held against another, by the positions of their groups, and in how many classes it is ahead."""

    group: int
    against: int
    kind: Kind
    shares: Shares


@dataclass(frozen=True, eq=False)
class Section:
    """What the page shows: figures by name, the table, and what could not be drawn and why."""

    figures: tuple[Figure, ...]
    table: Table | None
    missing: tuple[str, ...]


def separation_section(comparison: Comparison, looks: Sequence[Look], density_class: str | None = None) -> Section:
    """Figures and table of the comparison; `density_class` as `density_column` takes it."""
    apart = measure(comparison)
    column = density_column(comparison, apart, density_class)
    drawn = [scatter_figure(comparison, looks, apart, kind) for kind in SCATTERED]
    drawn.append(density_figure(comparison, looks, apart, column))
    figures = tuple(figure for figure in drawn if figure is not None)
    return Section(figures, separation_table(comparison, apart), missing(comparison))


def measure(comparison: Comparison) -> list[Apart]:
    """W1 of every group's runs, from the scores they kept."""
    return [_measure(group) for group in comparison.groups]


def _measure(group: Group) -> Apart:
    rows: dict[Kind, list[NDArray[np.float64]]] = {kind: [] for kind in KINDS}
    for run in group.runs:
        for kind, (kept, cells) in _kept(run).items():
            rows[kind].append(wasserstein(kept.scores, kept.truth, cells=cells))
    width = len(group.first.classes)
    return Apart(group, {kind: np.array(found).reshape(-1, width) for kind, found in rows.items()})


def _kept(run: RunRecord) -> dict[Kind, tuple[Scores, NDArray[np.bool_] | None]]:
    """The scores a run kept for each kind of cell, and which cells count (None: all)."""
    found: dict[Kind, tuple[Scores, NDArray[np.bool_] | None]] = {}
    for split in ("train", "test"):
        kept = run.scores(split)
        if kept is None or not kept.scores.size:
            continue
        kept = kept.finite
        found["train" if split == "train" else "test"] = (kept, None)
        if kept.observed is not None:
            found["unannotated"] = (kept, kept.observed == UNKNOWN)
    return found


def missing(comparison: Comparison) -> tuple[str, ...]:
    """What runs lack for this section, in words; run directories are often copied without their scores."""
    said = []
    for name in ("train", "test"):
        without = [
            f"{group.label} (seed {run.run.seed})"
            for group in comparison.groups
            for run in group.runs
            if not (run.path / f"scores-{name}.npz").is_file()
        ]
        if without:
            said.append(
                f"No scores-{name}.npz in {', '.join(without)}. A run writes it beside result.json when it ends: bring "
                "it from where the run was made, or repeat the run (commands below)."
            )
    return tuple(said)


# --- one method against another -----------------------------------------------------------------------------------


def pairs(comparison: Comparison, apart: Sequence[Apart], kind: Kind = "train") -> list[Pair]:
    """Every group that saw part of the labels, against its baseline (where there is none: against the first of them).

    Only groups whose scores of this kind are there, and with the classes of what they are held against.
    """
    usable = [i for i, one in enumerate(apart) if len(one.runs[kind]) and not one.group.is_full]
    found = []
    for i in usable:
        baseline = comparison.baseline_of(comparison.groups[i])
        against = usable[0] if baseline is None else comparison.groups.index(baseline)
        same = comparison.groups[against].first.classes == comparison.groups[i].first.classes
        if against != i and against in usable and same:
            shares = compare_separation(apart[i].per_class(kind), apart[against].per_class(kind))
            found += [Pair(i, against, kind, shares)] * (shares.classes > 0)
    return found


def scatter_figure(
    comparison: Comparison, looks: Sequence[Look], apart: Sequence[Apart], kind: Kind = "train"
) -> Figure | None:
    """One panel per method: W1 of a class under this method (x) and under the baseline (y)."""
    found = pairs(comparison, apart, kind)
    if not found:
        return None
    panels = []
    for pair in found:
        label = comparison.groups[pair.group].label
        with drawing(SQUARE, SQUARE + 16) as figure:
            draw_scatter(figure.subplots(), pair, comparison, apart, looks[pair.group])
            panels.append(inline_svg(figure, f"{kind}{pair.group}", f"Distance per class: {label} and the baseline"))
    caption = (
        "Wasserstein distance between the predicted probabilities of a class’s true positives and true negatives, "
        f"on {KINDS[kind]}: a point is a class, its distance under the method named in the title on x, "
        f"under {_listed(comparison.groups[pair.against].label for pair in found)} on y; mean over seeds. Below the "
        "diagonal (tinted) the method keeps the class further apart; classes with equal distances are counted apart. "
        "Named: the class furthest from the diagonal on either side."
    )
    return Figure(f"separation-{kind}", f"Class by class, {KINDS[kind]}", tuple(panels), caption, small=True)


def draw_scatter(axes: Any, pair: Pair, comparison: Comparison, apart: Sequence[Apart], look: Look) -> None:
    """The panel of one pair; panels of the same kind end at the same distance."""
    group, against = comparison.groups[pair.group], comparison.groups[pair.against]
    x, y = apart[pair.group].per_class(pair.kind), apart[pair.against].per_class(pair.kind)
    highest = _limit(apart, pair.kind)
    axes.fill_between([0, highest], [0, highest], color=look.color, alpha=0.09, lw=0)
    axes.plot([0, highest], [0, highest], color=MUTED, lw=0.9, ls=(0, (4, 3)))
    axes.plot(x, y, look.marker, ms=4.5, color=look.color, mew=0, alpha=0.85, ls="")
    for c in _furthest(x - y):
        _name_point(axes, group.first.classes[c], float(x[c]), float(y[c]), highest)
    axes.set_xlim(0, highest)
    axes.set_ylim(0, highest)
    axes.set_aspect("equal")
    axes.set_xlabel(short(group.label))
    axes.set_ylabel(short(against.label))
    axes.set_title(f"{short(group.label, 38)}\n{told(pair.shares)}", fontsize=9.5)


def _limit(apart: Sequence[Apart], kind: Kind) -> float:
    """Where the axes end: a little beyond the largest distance of any method."""
    tables = [one.runs[kind] for one in apart if one.runs[kind].size]
    return min(1.0, 1.06 * max(float(np.nanmax(table, initial=0.0)) for table in tables) + 0.01)


def _name_point(axes: Any, name: str, x: float, y: float, highest: float) -> None:
    """A class's name beside its point, away from the diagonal and inside the panel."""
    below = x > y
    left = x > (0.72 if below else 0.3) * highest
    axes.annotate(
        name,
        (x, y),
        xytext=(-6 if left else 6, -4 if below else 2),
        textcoords="offset points",
        ha="right" if left else "left",
        va="top" if below else "bottom",
        fontsize=8.5,
    )


def told(shares: Shares) -> str:
    """'further apart: 19 of 20 (95 %)' classes, and the ties where there are any."""
    return f"further apart: {_counts(shares)} ({100 * shares.larger_share:.4g} %)"


def _counts(shares: Shares) -> str:
    ties = f", {shares.equal} equal" if shares.equal else ""
    return f"{shares.larger} of {shares.classes}{ties}"


def _furthest(gap: NDArray[np.float64]) -> list[int]:
    """The class most in favour of each side, where that side has any."""
    known = np.nan_to_num(gap)
    return [int(at) for at, there in ((known.argmax(), known.max() > 0), (known.argmin(), known.min() < 0)) if there]


def separation_table(comparison: Comparison, apart: Sequence[Apart]) -> Table | None:
    """Mean distance per group and kind of cell, and in how many classes it beats the baseline's."""
    if not any(len(table) for one in apart for table in one.runs.values()):
        return None
    ahead = {(pair.group, kind): pair for kind in KINDS for pair in pairs(comparison, apart, kind)}
    rows = []
    for i, one in enumerate(apart):
        cells = [_distance_cell(comparison, one.spread(kind), ahead.get((i, kind))) for kind in KINDS]
        rows.append(Row(one.group.label, tuple(cells), i, one.group.is_full))
    columns = [Column(name, f"mean Wasserstein distance over classes, {name}") for name in KINDS.values()]
    caption = (
        "Mean over classes of the Wasserstein distance between the predicted probabilities of true positives and true "
        "negatives, × 100, mean ± sd over seeds; a class that lacks either side there is left out. Below it: in how "
        "many classes it is larger than the baseline’s. Unannotated: training cells whose label the method was not "
        "told. The distance is of probabilities, not of ranks: a method whose scores stay close together has a small "
        "one even where it ranks well, so read it beside mAP."
    )
    return Table("separation-table", "Mean separation", "method", tuple(columns), tuple(rows), caption)


def _distance_cell(comparison: Comparison, spread: Spread, pair: Pair | None) -> Cell:
    if not spread.n:
        return BLANK
    sd = f" ± {100 * spread.sd:.2f}" if spread.n > 1 else ""
    below = "" if pair is None else f"{_counts(pair.shares)} above {comparison.groups[pair.against].label}"
    return Cell(f"{100 * spread.mean:.2f}{sd}", spread.mean, below=below)


# --- the scores of one class --------------------------------------------------------------------------------------


def density_column(comparison: Comparison, apart: Sequence[Apart], name: str | None = None) -> int:
    """The class to draw: the one asked for, else the one over which the methods' distances differ most.

    With one method: the class it keeps apart the least. Distances on training where they are there, else on test.
    """
    if name is not None:
        return class_column(comparison, name)
    drawn = [one for one in apart if one.group in comparison.same_classes]
    for kind in ("train", "test"):
        tables = [one.per_class(kind) for one in drawn if len(one.runs[kind]) and not one.group.is_full]
        tables = tables or [one.per_class(kind) for one in drawn if len(one.runs[kind])]
        if tables:
            table = np.stack(tables)
            gap = np.ptp(table, axis=0) if len(table) > 1 else -table[0]
            return 0 if np.isnan(gap).all() else int(np.nanargmax(gap))
    return 0


def class_column(comparison: Comparison, name: str) -> int:
    """The column of a class by its name; an error names those that are near."""
    classes = comparison.groups[0].first.classes
    if name in classes:
        return classes.index(name)
    lower = {other.lower(): other for other in classes}
    near = [lower[found] for found in get_close_matches(name.lower(), lower, n=3, cutoff=0.5)]
    hint = f" Did you mean {' or '.join(near)}?" if near else f" They are {', '.join(classes[:8])}, …"
    raise ReportError(f"no class '{name}' among the {len(classes)} classes of these runs.{hint}")


def density_figure(comparison: Comparison, looks: Sequence[Look], apart: Sequence[Apart], column: int) -> Figure | None:
    """Positives and negatives of one class: left on unannotated training cells, right on test."""
    panels = []
    for i, one in enumerate(apart):
        if one.group in comparison.same_classes:
            panels += _density_panels(one.group, looks[i], column, f"density{i}")
    if not panels:
        return None
    name = comparison.groups[0].first.classes[column]
    caption = (
        f"Predicted probabilities of the class “{name}” in {BINS} bins, all seeds together: the share of its true "
        "positives (filled in the method’s colour, solid line) and of its true negatives (grey, dashed line) in each "
        "bin. On a square-root scale, so that a tall bin does not hide the low ones. Left: training cells that the "
        "method was told nothing of (for full labels, which leave none: all training cells); right: test images. "
        "Counts: of one run."
    )
    return Figure("separation-densities", f"Where the scores of “{name}” lie", tuple(panels), caption)


def _density_panels(group: Group, look: Look, column: int, prefix: str) -> list[Markup]:
    counted: dict[Kind, list[Densities]] = {}
    for run in group.runs:
        for kind, (kept, cells) in _kept(run).items():
            found = densities(kept.scores, kept.truth, column, bins=BINS, cells=cells)
            counted.setdefault(kind, []).append(found)
    left: Kind = "train" if group.is_full or "unannotated" not in counted else "unannotated"
    shown: tuple[Kind, ...] = (left, "test")
    return [_density_panel(group, look, counted[kind], kind, f"{prefix}-{kind}") for kind in shown if kind in counted]


def _density_panel(group: Group, look: Look, seeds: Sequence[Densities], kind: Kind, prefix: str) -> Markup:
    counted = reduce(Densities.plus, seeds)
    positives, negatives = counted.shares
    with drawing(WIDTH, 170) as figure:
        axes = figure.subplots()
        for share, color, alpha, dash in ((negatives, INK, 0.16, (0, (4, 2))), (positives, look.color, 0.45, "-")):
            axes.stairs(share, counted.edges, fill=True, color=color, alpha=alpha, lw=0)
            axes.stairs(share, counted.edges, baseline=None, color=color, lw=1.2, ls=dash)
        axes.set_yscale("function", functions=(lambda y: np.sqrt(np.maximum(y, 0)), np.square))
        axes.set_yticks([0.0, 0.05, 0.25, 0.5, 1.0])
        axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        cells = " and ".join(
            f"{side.sum() / len(seeds):,.0f} {name}"
            for name, side in (("positives", counted.positives), ("negatives", counted.negatives))
        )
        axes.set_title(f"{short(group.label)}: {cells}", fontsize=9.5)
        axes.set_xlabel(f"predicted probability, {KINDS[kind]}")
        axes.set_ylabel("share")
        return inline_svg(figure, prefix, f"Scores of one class: {group.label}, {KINDS[kind]}")


def _listed(labels: Any) -> str:
    return " or ".join(dict.fromkeys(labels))
