"""What becomes of positives: how probable a method finds those it was told, those it was not, and unseen ones.

After "Saliency Regularization for Self-Training with Partial Annotations" (ICCV 2023), figures 1 and 5: histograms of
positives with the hidden ones on an axis of their own, and counts of those missed at 0.5 and of semi-hard ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from ..labels import PRESENT
from .compare import Comparison, Group
from .figures import WIDTH, Figure, short
from .records import RunRecord
from .style import INK, MUTED, RULE, Look, drawing, inline_svg
from .tables import BLANK, Cell, Column, Row, Table

Kind = Literal["told", "hidden", "val"]
KINDS: Mapping[Kind, str] = {
    "told": "training, observed",
    "hidden": "training, hidden",
    "val": "validation",
}
BINS = 40
HALF, HARD = 0.5, 0.2  # a positive below HALF is missed; from HARD to HALF it is semi-hard: nearly found


@dataclass(frozen=True, eq=False)
class Positives:
    """Probabilities of positives of one kind in a group: in bins, and how many are missed; sums over its runs."""

    bins: NDArray[np.int64]
    missed: int
    semi_hard: int
    runs: int

    @property
    def total(self) -> int:
        return int(self.bins.sum())


Counted = Mapping[Kind, Positives]


def count_positives(comparison: Comparison) -> list[Counted]:
    """For each group the kinds that its runs kept scores of and that have a positive."""
    return [_count(group) for group in comparison.groups]


def _count(group: Group) -> Counted:
    found: dict[Kind, list[NDArray[np.float32]]] = {}
    for run in group.runs:
        for kind, probabilities in _probabilities(run).items():
            if len(probabilities):
                found.setdefault(kind, []).append(probabilities)
    return {kind: positives(parts) for kind, parts in found.items()}


def positives(parts: Sequence[NDArray[np.float32]]) -> Positives:
    """Counts of the probabilities of each run."""
    every = np.concatenate(parts)
    bins = np.bincount((every * BINS).clip(0, BINS - 1).astype(np.int64), minlength=BINS)
    missed, hard = int((every < HALF).sum()), int(((every >= HARD) & (every < HALF)).sum())
    return Positives(bins, missed, hard, len(parts))


def _probabilities(run: RunRecord) -> dict[Kind, NDArray[np.float32]]:
    """Of true positives; a score that is no number is left out."""
    found: dict[Kind, NDArray[np.float32]] = {}
    train, val = run.scores("train"), run.scores("val")
    if train is not None and train.observed is not None:
        kept = train.finite
        true, told = kept.truth == PRESENT, train.observed == PRESENT
        found |= {"told": kept.scores[true & told], "hidden": kept.scores[true & ~told]}
    if val is not None:
        kept = val.finite
        found["val"] = kept.scores[kept.truth == PRESENT]
    return found


def positives_figures(comparison: Comparison, looks: Sequence[Look], counted: Sequence[Counted]) -> list[Figure]:
    """A panel per group: training, with the hidden positives on the right axis; and validation."""
    train, val = list[Markup](), list[Markup]()
    for position, (group, look, kinds) in enumerate(zip(comparison.groups, looks, counted, strict=True)):
        if "told" in kinds or "hidden" in kinds:
            train.append(_train_panel(group, look, kinds, f"told{position}"))
        if "val" in kinds:
            val.append(_val_panel(group, look, kinds["val"], f"posval{position}"))
    band = (
        f"Tinted: semi-hard, from {HARD} to {HALF}; dotted: {HALF}, below which a positive is missed. Mean over seeds."
    )
    figures = []
    if train:
        caption = (
            "Predicted probabilities of the true positives of the training images: those the method was told (filled, "
            f"left axis) and those that were hidden from it (line, right axis). {band}"
        )
        figures.append(Figure("positives-train", "Positives told and hidden", tuple(train), caption))
    if val:
        caption = f"Predicted probabilities of the true positives of the validation images, hidden or not. {band}"
        figures.append(Figure("positives-val", "Positives on validation", tuple(val), caption))
    return figures


def _train_panel(group: Group, look: Look, kinds: Counted, prefix: str) -> Markup:
    with drawing(WIDTH, 220) as figure:
        axes = figure.subplots()
        _frame(axes)
        if "told" in kinds:
            _bars(axes, kinds["told"], look)
        axes.set_ylabel("told")
        axes.set_title(_title(group, kinds, ("told", "hidden")), fontsize=9.5)
        if "hidden" in kinds:
            right = axes.twinx()
            right.stairs(_mean(kinds["hidden"]), _EDGES, baseline=None, color=INK, lw=1.2)
            right.set_ylim(bottom=0)
            right.set_ylabel("hidden")
            right.spines["right"].set_visible(True)
            right.grid(visible=False)
        return inline_svg(figure, prefix, f"Probabilities of told and hidden positives under {group.label}")


def _val_panel(group: Group, look: Look, found: Positives, prefix: str) -> Markup:
    with drawing(WIDTH, 200) as figure:
        axes = figure.subplots()
        _frame(axes)
        _bars(axes, found, look)
        axes.set_ylabel("positives")
        axes.set_title(_title(group, {"val": found}, ("val",)), fontsize=9.5)
        return inline_svg(figure, prefix, f"Probabilities of validation positives under {group.label}")


_EDGES = np.linspace(0, 1, BINS + 1)


def _frame(axes: Any) -> None:
    axes.axvspan(HARD, HALF, color=RULE, alpha=0.55, lw=0)
    axes.axvline(HALF, color=MUTED, lw=0.9, ls=":")
    axes.set_xlim(0, 1)
    axes.set_xlabel("predicted probability")


def _bars(axes: Any, found: Positives, look: Look) -> None:
    axes.stairs(_mean(found), _EDGES, fill=True, color=look.color, alpha=0.45)
    axes.stairs(_mean(found), _EDGES, baseline=None, color=look.color, lw=1.2)
    axes.set_ylim(bottom=0)


def _mean(found: Positives) -> NDArray[np.float64]:
    return found.bins / found.runs


def _title(group: Group, kinds: Counted, shown: Sequence[Kind]) -> str:
    words: Mapping[Kind, str] = {"told": "of told", "hidden": "of hidden", "val": "of them"}
    missed = [f"{kinds[kind].missed / kinds[kind].total:.1%} {words[kind]}" for kind in shown if kind in kinds]
    return f"{short(group.label, 34)}: missed {', '.join(missed)}"


def positives_table(comparison: Comparison, counted: Sequence[Counted]) -> Table | None:
    """Missed and semi-hard positives of each kind: shares, and counts of one run."""
    shown = [kind for kind in KINDS if any(kind in kinds for kinds in counted)]
    if not shown:
        return None
    rows = []
    for i, (group, kinds) in enumerate(zip(comparison.groups, counted, strict=True)):
        cells = [cell for kind in shown for cell in _cells(kinds.get(kind))]
        rows.append(Row(group.label, tuple(cells), i, group.is_full))
    columns = []
    for kind in shown:
        columns.append(Column(f"{KINDS[kind]}: missed", f"true positives with a probability below {HALF}"))
        columns.append(Column("semi-hard", f"of these, from {HARD} to {HALF}"))
    caption = (
        f"True positives that a method finds less probable than {HALF} (missed), and those of them from {HARD} on "
        "(semi-hard), as a share of all true positives of their kind; below it, how many, mean over seeds. Training "
        "images are scored by the classifier at the epoch kept, against their hidden truth (for this report only)."
    )
    return Table("positives-table", "Positives missed and semi-hard", "method", tuple(columns), tuple(rows), caption)


def _cells(found: Positives | None) -> tuple[Cell, Cell]:
    if found is None:
        return BLANK, BLANK
    return _cell(found, found.missed), _cell(found, found.semi_hard)


def _cell(found: Positives, count: int) -> Cell:
    share = count / found.total
    return Cell(f"{100 * share:.1f}", share, below=f"{count / found.runs:,.0f} of {found.total / found.runs:,.0f}")
