"""Draw the figures of docs/results: `python tools/draw_results.py order OUT.svg` or `recovery OUT.svg RUNS…`.

order     our mAP over the published one, a panel per protocol, from docs/results/data: a published order that holds
          rises from left to right.
recovery  training mAP per epoch at two learning rates, from the search of the run directories given: curves that the
          choice on validation picks from.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from tacit.tables.results import CellResult, read_export
from tacit.tables.spec import Cell, read_table

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "docs" / "results" / "data"
LOOKS = {"an": ("#757b83", "D", ":"), "an_ls": ("#d55e00", "^", "-."), "role": ("#0072b2", "o", "-")}
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


def order() -> Figure:
    """Rows of Table 1 on VOC 2012, clean selection, mean ± sd over seeds."""
    figure = Figure(figsize=(7.6, 3.6))
    cells = {cell.recipe: cell for cell in read_table(ROOT / "recipes" / "tables" / "role_table1.toml").cells}
    for axes, protocol in zip(figure.subplots(1, 2), ("linear", "finetune"), strict=True):
        results = read_export(DATA / f"role_table1_voc2012_{protocol}.json")
        rows = [(cells[result.recipe], result) for result in results]
        _scatter(axes, [row for row in rows if row[0].protocol == protocol])
        axes.set_title(f"VOC 2012, {protocol}", loc="left")
    return figure


def _scatter(axes: Any, rows: Sequence[tuple[Cell, CellResult]]) -> None:
    spots = [(cell.published, found.mean) for cell, result in rows if (found := result.summary("clean"))]
    for cell, result in rows:
        found = result.summary("clean")
        if found is None:
            continue
        x, y = cell.published, found.mean
        crowded = any(0 < other - x < 0.8 and abs(height - y) < 0.3 for other, height in spots)
        color, marker = ("#757b83", "s") if "N" in cell.row.labels.replace("0 N", "") else ("#0072b2", "o")
        axes.errorbar(x, y, yerr=found.sd, fmt=marker, ms=5, capsize=2, lw=1, color=color)
        place: dict[str, Any] = {"xytext": (-5 if crowded else 5, -3), "ha": "right" if crowded else "left"}
        axes.annotate(cell.row.label, (x, y), textcoords="offset points", fontsize=8, **place)
    axes.margins(0.14)
    axes.set_xlabel("published test mAP, percent (another backbone)")
    axes.set_ylabel("our test mAP, percent")


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("order", "recovery"))
    parser.add_argument("out", type=Path)
    parser.add_argument("runs", nargs="*", type=Path)
    given = parser.parse_args()
    with mpl.rc_context(STYLE):
        figure = order() if given.what == "order" else recovery(given.runs)
        given.out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(given.out, metadata={"Date": None}, facecolor="white")


if __name__ == "__main__":
    main()
