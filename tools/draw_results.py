"""Draw the figures of docs/results: `python tools/draw_results.py order OUT.svg`, or `recovery OUT.svg RUNS…`.

order     our mAP over the published one, a panel per protocol, from docs/results/data: a published order that holds
          rises from left to right.
recovery  training mAP per epoch at two learning rates, from the search of the run directories given: curves that the
          choice on validation picks from.
benchmark our mAP over the published one for the rows of the EM paper, a panel per protocol that was exported.
shares    test mAP over the share of labels that are known, ours and the published drawing.
separation  how far apart each method of the run directories given keeps positives and negatives, class by class against
          the baseline: the panels of the report on one sheet (`python tools/draw_results.py separation OUT.svg RUNS…`).
landscape the loss around the solutions of the run directories given, each under its own loss, as `tacit landscape` left
          it: above on one scale, below each on its own.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from tacit.report import compare, read_runs
from tacit.report.landscapes import Drawn, common_levels, draw_map, read_surfaces
from tacit.report.page import group_looks
from tacit.report.separation import KINDS, SCATTERED, draw_scatter, measure, pairs
from tacit.report.style import drawing
from tacit.tables.results import CellResult, read_export
from tacit.tables.spec import Cell, read_table

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "docs" / "results" / "data"
GREY, BLUE, RED, GREEN = "#757b83", "#0072b2", "#d55e00", "#009e73"
LOOKS = {"an": (GREY, "D", ":"), "an_ls": (RED, "^", "-."), "role": (BLUE, "o", "-")}
METHODS = {"BCE negative": (RED, "^"), "BCE ignoring": (GREY, "D"), "EM": (GREEN, "s"), "EM+APL": (BLUE, "o")}
FULL = "BCE, all labels"
# Where a label may stand, best first: offset in points, and how far left of it the label begins, in its own widths.
SIDES = ((6, -3, 0), (-6, -3, 1), (0, 9, 0.5), (0, -16, 0.5), (5, 5, 0), (-5, 5, 1), (5, -12, 0), (-5, -12, 1))
OUTSIDE = 10.0  # points below the published median: told in words, so that the others can be told apart
POINTS = {"batch_size=16-lr=0.001": "batch 16, lr 1e-3", "batch_size=8-lr=0.0001": "batch 8, lr 1e-4"}
STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#d8dce1",
    "grid.linewidth": 0.6,
    "figure.constrained_layout.use": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "tacit",  # the same figures, the same file
}


@dataclass(frozen=True)
class Spot:
    """A row: the published figure against ours."""

    label: str
    published: float
    ours: float
    sd: float
    told: bool  # of true negatives: another colour


def order() -> Figure:
    """Rows of Table 1 on VOC 2012, clean selection, mean ± sd over seeds."""
    figure = Figure(figsize=(7.6, 3.6))
    cells, panels = {cell.recipe: cell for cell in _cells("role_table1")}, []
    for axes, protocol in zip(figure.subplots(1, 2), ("linear", "finetune"), strict=True):
        results = read_export(DATA / f"role_table1_voc2012_{protocol}.json")
        here = [(cells[result.recipe], result) for result in results if result.protocol == protocol]
        panels.append((axes, _spots([(cell, cell.published, result, "clean") for cell, result in here])))
        _scatter(*panels[-1])
        axes.set_title(f"VOC 2012, {protocol}", loc="left")
    _name(figure, panels)
    return figure


def benchmark(data: Path = DATA) -> Figure:
    """Rows of the EM paper on VOC 2012, by their recipes' selection; the paper fine-tunes: its x is in both panels."""
    figure, panels = Figure(figsize=(7.6, 4.2)), []
    cells = {cell.recipe: cell for cell in _cells("em_benchmark") if cell.source == "voc2012"}
    published = {cell.row.name: cell.published for cell in cells.values() if cell.protocol == "finetune"}
    found = _exports(data, "em_benchmark_voc2012")
    for axes, (protocol, results) in zip(figure.subplots(1, len(found), squeeze=False)[0], found.items(), strict=True):
        here = [(cells[result.recipe], result) for result in results]
        spots = _spots([(c, c.published or published[c.row.name], r, r.select) for c, r in here])
        typical = float(np.median([spot.published for spot in spots]))
        far = [spot for spot in spots if spot.published < typical - OUTSIDE]
        panels.append((axes, [spot for spot in spots if spot not in far]))
        _scatter(*panels[-1])
        for spot in far:
            text = f"outside: {spot.label}, published {spot.published:.1f}, ours {spot.ours:.1f}"
            axes.annotate(text, (0.98, 0.02), xycoords="axes fraction", ha="right", fontsize=8, color=GREY)
        axes.set_title(f"VOC 2012, {protocol}", loc="left")
        axes.set_xlabel("published test mAP, fine-tuned, percent")
    _name(figure, panels)
    return figure


def _spots(rows: Sequence[tuple[Cell, float | None, CellResult, str]]) -> list[Spot]:
    spots = []
    for cell, published, result, rule in rows:
        found = result.summary(rule)
        if found is not None and published is not None:
            label = f"{cell.row.label}+LI" if cell.protocol == "linear_init" else cell.row.label
            told = "N" in cell.row.labels.replace("0 N", "")
            spots.append(Spot(label, published, found.mean, found.sd, told))
    return spots


def _scatter(axes: Any, spots: Sequence[Spot]) -> None:
    for spot in spots:
        color, marker = (GREY, "s") if spot.told else (BLUE, "o")
        axes.errorbar(spot.published, spot.ours, yerr=spot.sd, fmt=marker, ms=5, capsize=2, lw=1, color=color)
    axes.margins(0.14)
    axes.set_xlabel("published test mAP, percent (another backbone)")
    axes.set_ylabel("our test mAP, percent")


def _name(figure: Figure, panels: Sequence[tuple[Any, Sequence[Spot]]]) -> None:
    """Every spot's label at the first of eight sides where it covers nothing, or where it covers least."""
    figure.draw_without_rendering()  # for the places of the spots
    point = figure.dpi / 72
    for axes, spots in panels:
        places = [axes.transData.transform((spot.published, spot.ours)) / point for spot in spots]
        taken = [Bbox.from_bounds(x - 4, y - 4, 8, 8) for x, y in places]
        for spot, (x, y) in zip(spots, places, strict=True):
            width, height = 4.8 * len(spot.label), 8.0
            boxes = [Bbox.from_bounds(x + dx - a * width, y + dy, width, height) for dx, dy, a in SIDES]
            covered = [sum(_shared(box, other) for other in taken) for box in boxes]
            dx, dy, a = SIDES[covered.index(min(covered))]
            taken.append(boxes[covered.index(min(covered))])
            where: dict[str, Any] = {"xytext": (dx, dy), "ha": {0: "left", 0.5: "center", 1: "right"}[a]}
            axes.annotate(spot.label, (spot.published, spot.ours), textcoords="offset points", fontsize=8, **where)


def _shared(one: Any, other: Any) -> float:
    """Area that two boxes share."""
    both = Bbox.intersection(one, other)
    return 0.0 if both is None else float(both.width * both.height)


def shares(data: Path = DATA) -> Figure:
    """Missing labels: test mAP over the share of labels that are known, ours per protocol and the published drawing."""
    found = _exports(data, "em_shares_voc2012")
    cells = {cell.recipe: cell for cell in _cells("em_shares")}
    panels: dict[str, list[tuple[str, float, float]]] = {
        f"ours, {protocol}": [
            (cells[result.recipe].row.label, summary.mean, summary.sd)
            for result in results
            if (summary := result.summary(result.select))
        ]
        for protocol, results in found.items()
    }
    panels["published, read off a drawing"] = [
        (cell.row.label, cell.published, cell.sd or 0.0) for cell in cells.values() if cell.published is not None
    ]
    figure = Figure(figsize=(2.9 * len(panels), 3.4))
    for axes, (title, points) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        _lines(axes, points)
        axes.set_title(title, loc="left")
    figure.axes[0].set_ylabel("test mAP, percent")
    figure.axes[0].legend(frameon=False, loc="lower right", fontsize=8)
    return figure


def _lines(axes: Any, points: Sequence[tuple[str, float, float]]) -> None:
    """`EM, 20 %` is a point of the line EM; `BCE, all labels` is a level."""
    for method, (color, marker) in METHODS.items():
        mine = [(label, mean, sd) for label, mean, sd in points if label.startswith(f"{method}, ")]
        if mine:
            share = [int(label.removeprefix(f"{method}, ").removesuffix(" %")) for label, _, _ in mine]
            mean, sd = (np.nan_to_num(np.array([point[at] for point in mine])) for at in (1, 2))
            axes.plot(share, mean, marker=marker, ms=4, lw=1.4, color=color, label=method)
            axes.fill_between(share, mean - sd, mean + sd, color=color, alpha=0.15, lw=0)
    for label, mean, _ in points:
        if label == FULL:
            axes.axhline(mean, color=GREY, lw=1, ls="--", label=FULL)
    axes.set_xticks([20, 50, 80])
    axes.set_xlabel("labels known, percent")


def _cells(table: str) -> tuple[Cell, ...]:
    return read_table(ROOT / "recipes" / "tables" / f"{table}.toml").cells


def _exports(data: Path, start: str) -> dict[str, list[CellResult]]:
    """Protocol -> results, of the two exports that a table has on VOC 2012: those there are."""
    files = {protocol: data / f"{start}_{protocol}.json" for protocol in ("linear", "finetune")}
    found = {protocol: read_export(file) for protocol, file in files.items() if file.is_file()}
    if not found:
        raise SystemExit(f"{data}: neither of {', '.join(file.name for file in files.values())} is there yet")
    return found


def recovery(runs: Sequence[Path]) -> Figure:
    """AN, AN-LS and ROLE at the two points of the search that selection prefers, mean over runs."""
    figure = Figure(figsize=(7.6, 3.2))
    for axes, (folder, title) in zip(figure.subplots(1, 2, sharey=True), POINTS.items(), strict=True):
        for row, (color, marker, dash) in LOOKS.items():
            mine = [path / "search" / folder / "metrics.jsonl" for path in runs if path.parent.name == f"{row}_linear"]
            if not mine:
                continue
            val, train = (np.array([_curve(file, split) for file in mine]) for split in ("val", "train"))
            curve = train.mean(axis=0)
            axes.plot(curve, color=color, ls=dash, lw=1.6, label=row.upper().replace("_", "-"))
            for at, values in zip(val.argmax(axis=1), train, strict=True):
                axes.plot(at, values[at], marker, color=color, mfc="none", ms=7)
        axes.set_title(title, loc="left")
        axes.set_xlabel("epoch")
        axes.set_ylim(82, 93)
    figure.axes[0].set_ylabel("training mAP against the truth, percent")
    figure.axes[0].legend(frameon=False, loc="lower right")
    return figure


def _curve(file: Path, split: str) -> list[float]:
    return [100 * json.loads(line)[split]["mAP"] for line in file.read_text().splitlines()]


FROM_EXPORTS = {"order": order, "benchmark": benchmark, "shares": shares}


def separation(runs: Sequence[Path]) -> Figure:
    """W1 of each class under a method and under the baseline: a panel per method that saw part of the labels, on all
    training cells and, from the next row on, on those it was told nothing of."""
    comparison = compare(read_runs(runs))
    looks, apart = group_looks(comparison), measure(comparison)
    blocks = [found for kind in SCATTERED if (found := pairs(comparison, apart, kind))]
    if not blocks:
        raise SystemExit("separation: give runs of a baseline (an) and of other methods, with their scores-train.npz")
    columns = min(4, max(map(len, blocks)))
    lines = [block[at : at + columns] for block in blocks for at in range(0, len(block), columns)]
    with drawing(220 * columns, 240 * len(lines)) as figure:
        for panels, line in zip(figure.subplots(len(lines), columns, squeeze=False), lines, strict=True):
            for axes, pair in zip(panels, line, strict=False):
                draw_scatter(axes, pair, comparison, apart, looks[pair.group])
            panels[0].set_ylabel(f"{panels[0].get_ylabel()}, {KINDS[line[0].kind]}")
            for axes in panels[len(line) :]:
                axes.set_visible(False)
        return figure


def landscape(runs: Sequence[Path]) -> Figure:
    """Seen from above, on one scale for all and again on a scale for each."""
    comparison = compare(read_runs(runs))
    told = [
        (g, look, read_surfaces(g.first.path))
        for g, look in zip(comparison.groups, group_looks(comparison), strict=True)
    ]
    shown = [Drawn(group, look, (surfaces[""],)) for group, look, surfaces in told if "" in surfaces]
    if len({one.first.plane for one in shown}) != 1:
        raise SystemExit("landscape: give runs with a landscape.npz each, on the same images, directions and grid")
    with drawing(265 * len(shown), 440) as figure:
        rows = figure.subplots(2, len(shown), squeeze=False)
        together = common_levels([one.first for one in shown])
        for at, one in enumerate(shown):
            for axes, levels in zip(rows[:, at], (together, common_levels([one.first])), strict=True):
                bar = figure.colorbar(
                    draw_map(axes, one, levels), ax=axes, shrink=0.95, ticks=levels[::4], format="%.2g"
                )
                bar.outline.set_visible(False)
            rows[1, at].set_title("on a scale of its own", fontsize=9.5)
        return figure


FROM_RUNS = {"recovery": recovery, "separation": separation, "landscape": landscape}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=(*FROM_EXPORTS, *FROM_RUNS))
    parser.add_argument("out", type=Path)
    parser.add_argument("runs", nargs="*", type=Path)
    given = parser.parse_args()
    with mpl.rc_context(STYLE):
        figure = FROM_RUNS[given.what](given.runs) if given.what in FROM_RUNS else FROM_EXPORTS[given.what]()
        given.out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(given.out, metadata={"Date": None}, facecolor="white")


if __name__ == "__main__":
    main()
