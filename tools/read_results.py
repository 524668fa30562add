"""Read measured tables critically: the figures of docs/results that no single run says. Prints Markdown.

    python tools/read_results.py order EXPORT            which pairs of rows stand against the published order
    python tools/read_results.py pairs EXPORT            the difference of every two rows, also of two protocols
    python tools/read_results.py selection EXPORT        what selection on observed validation labels costs
    python tools/read_results.py stopping EXPORT         what early stopping changes against the best epoch
    python tools/read_results.py chosen RUNS…            learning rate, batch size and epoch of every run
    python tools/read_results.py recovery RUNS…          training mAP over all cells, over hidden and over observed ones
    python tools/read_results.py grid RUNS…              validation and training mAP of every point of the search
    python tools/read_results.py points RUNS…            the same from the search's own notes, by each rule of selection
    python tools/read_results.py images RUNS…            intervals over test images, of each run and of each pair

EXPORT is a file of docs/results/data, RUNS are run directories of `tacit table`.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.metrics.intervals import SeedSummary, bootstrap, over_seeds, paired_bootstrap, paired_over_seeds
from tacit.metrics.ranking import mean_average_precision
from tacit.run import RunDirectory
from tacit.tables.results import CellResult, difference, read_export
from tacit.tables.spec import Cell, read_table

ROOT = Path(__file__).resolve().parents[1]
PRESENT, UNKNOWN = 1, 0
STOPPED = "clean-stop"  # the published selection of the EM paper
Lines = Iterator[str]


def order(export: Path, rule: str, *, together: bool = False) -> Lines:
    """Pairs of rows against the published order, and whether our seeds are sure of it."""
    for protocol, rows in (_together(export) if together else _by_protocol(export)).items():
        yield f"{protocol}, {rule} selection\n"
        yield from _table("published higher", "published lower", "published", "ours [95 %]", "sure")
        against = of = sure = close = 0
        printed = list(_printed(rows))
        for pair in combinations(printed, 2):
            (high, ours), (low, below) = sorted(pair, key=lambda row: -(row[0].published or 0))
            if high.published == low.published:
                continue
            of += 1
            found = difference(ours, below, rule)
            if found is None or found.mean > 0:
                continue
            against += 1
            sure += found.high < 0
            close += _close_in_print(high, low)
            labels = [_label(cell) if together else cell.row.label for cell in (high, low)]
            yield _line(*labels, _apart(high, low), interval(found), _yes(found.high < 0))
        told = (
            f"{of - against} of {of} pairs in the published order; our seeds are sure of {sure} of the other {against}"
        )
        spreads = any(cell.sd for cell, _ in printed)
        yield f"\n{told}" + (f"; {close} of them lie within the published spread" if spreads else "") + "\n"


def _printed(rows: Sequence[tuple[Cell, CellResult]]) -> Iterator[tuple[Cell, CellResult]]:
    """Rows with a published figure: the paper's for this protocol or, where it has none, its first for another."""
    for cell, result in rows:
        others = (other for other in _table_cells(cell.table) if (other.source, other.row) == (cell.source, cell.row))
        found = next((other for other in (cell, *others) if other.published is not None), None)
        if found:
            yield replace(cell, published=found.published, sd=found.sd, printed=found.printed), result


def _apart(high: Cell, low: Cell) -> str:
    """The published difference, with as many digits as are printed, and its spread if the paper has one."""
    assert high.published is not None and low.published is not None
    digits = max(len(cell.printed.split()[0].partition(".")[2]) for cell in (high, low))
    text = f"{high.published - low.published:+.{digits}f}"
    return f"{text} ± {math.hypot(high.sd, low.sd):.{digits}f}" if high.sd and low.sd else text


def _close_in_print(high: Cell, low: Cell) -> bool:
    """Whether two published figures are closer than the standard deviation of their difference."""
    if not (high.published and low.published and high.sd and low.sd):
        return False
    return high.published - low.published < math.hypot(high.sd, low.sd)


def pairs(export: Path, rule: str) -> Lines:
    """Every two rows, also of two protocols."""
    yield from _table("first less second", "points [95 %]")
    rows = [row for protocol in _by_protocol(export).values() for row in protocol]
    for (one, mine), (other, theirs) in combinations(rows, 2):
        found = difference(mine, theirs, rule)
        if found:
            what = [f"{cell.row.label} {cell.protocol}" for cell in (one, other)]
            yield _line(" – ".join(what), interval(found))


def stopping(export: Path) -> Lines:
    """Three rules over the same runs: early stopping, and the best epoch on true and on observed validation labels."""
    for protocol, rows in _by_protocol(export).items():
        yield f"{protocol}: early stopping and the best epoch\n"
        others = ("clean", "observed")
        yield from _table("row", STOPPED, *others, *(f"{STOPPED} – {rule} [95 %]" for rule in others))
        for cell, result in rows:
            if STOPPED in result.percent:
                texts = [result.text(rule) for rule in (STOPPED, *others)]
                yield _line(cell.row.label, *texts, *(_between(result, STOPPED, rule) for rule in others))
        yield ""


def _between(result: CellResult, rule: str, other: str) -> str:
    """What one rule's choice gives over another's, paired by seed."""
    if not {rule, other} <= set(result.percent):
        return "–"
    return interval(paired_over_seeds(result.percent[rule], result.percent[other]))


def selection(export: Path) -> Lines:
    """Clean less observed selection in the same runs, paired by seed."""
    for protocol, rows in _by_protocol(export).items():
        yield f"{protocol}: clean less observed selection\n"
        yield from _table("row", "points [95 %]", "seed by seed")
        for cell, result in rows:
            clean, observed = (np.array(result.percent[rule]) for rule in ("clean", "observed"))
            if result.observe_seeds:
                apart = ", ".join(f"{value:+.2f}" for value in clean - observed)
                yield _line(cell.row.label, interval(paired_over_seeds(clean, observed)), apart)
        yield ""


def chosen(runs: Sequence[Path]) -> Lines:
    """What the search and the choice of epoch ended with, and how far the best two points lie apart."""
    results = {path: _result(path) for path in runs}
    rules = list(dict.fromkeys(rule for result in results.values() for rule in _chosen(result)))
    yield from _table("run", *(f"{rule}: batch, lr, epoch" for rule in rules), "val mAP", "to the second point")
    for path, result in results.items():
        values = sorted((point["value"] for point in result["search"] or []), reverse=True)
        margin = f"{100 * (values[0] - values[1]):.2f}" if len(values) > 1 else "–"
        budget, by_rule = result["options"]["budget"], _chosen(result)
        cells = [_point(budget, by_rule[rule]) if rule in by_rule else "the same" for rule in rules]
        yield _line(_name(path), *cells, f"{100 * result['selected']['value']:.2f}", margin)


def _chosen(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By rule: what it chose. With full labels there is one kind of validation labels, and fewer rules."""
    return {result["run"]["select"]: result["selected"], **result["also"]}


def recovery(runs: Sequence[Path]) -> Lines:
    """Label recovery over all training cells, over those whose label was hidden, and over the observed positives.

    Hidden: observed positives are left out, so a class's AP ranks its hidden positives among its true negatives.
    Observed: hidden positives are left out, so it says how well the positives that were shown are remembered.
    """
    yield from _table("row", "runs", "all cells", "hidden cells", "observed positives", "epoch", "best of any epoch")
    for name, group in _groups(runs).items():
        found = [recovered(path) for path in group]
        every, hidden, shown = (_mean(column) for column in zip(*found, strict=True))
        curves = [_curve(path / "metrics.jsonl", "train") for path in group]
        kept = ", ".join(str(_result(path)["selected"]["epoch"]) for path in group)
        highest = "–"  # fine-tuning scores the training images once, at its end
        if all(curves):
            highest = f"{_mean([max(curve) for curve in curves])} (epoch {int(np.argmax(curves[0]))})"
        yield _line(name, str(len(group)), every, hidden, shown, kept, highest)


def recovered(run: Path) -> tuple[float, float, float]:
    """Training mAP of the model kept, percent: over all cells, hidden cells, and observed positives with negatives."""
    with np.load(run / "scores-train.npz") as file:
        scores, truth, observed = file["scores"], file["truth"], file["observed"]
    without_shown = np.where(observed == PRESENT, UNKNOWN, truth)
    without_hidden = np.where((truth == PRESENT) & (observed != PRESENT), UNKNOWN, truth)
    first, second, third = (_map(scores, labels) for labels in (truth, without_shown, without_hidden))
    return first, second, third


def grid(runs: Sequence[Path]) -> Lines:
    """Every point of the search at its best epoch and at its last, mean over runs."""
    columns = ["val at best epoch", "train there", "train at the last epoch", "positives per image in the estimates"]
    points = {name: [e["point"] for e in _jsonl(group[0] / "search.jsonl")] for name, group in _groups(runs).items()}
    axes = list(dict.fromkeys(axis for tried in points.values() for point in tried for axis in point))
    yield from _table("row", *axes, *columns)
    for name, group in _groups(runs).items():
        for point in points[name]:
            files = [path / "search" / _folder(point) / "metrics.jsonl" for path in group]
            val, train = (np.array([_curve(file, split) for file in files]) for split in ("val", "train"))
            best = val.argmax(axis=1)[:, None]
            words = [f"{np.take_along_axis(val, best, axis=1).mean():.2f}", "–", "–"]
            if train.size:  # fine-tuning scores the training images once, at its end
                there = np.take_along_axis(train, best, axis=1)
                words[1:] = [f"{values.mean():.2f}" for values in (there, train[:, -1])]
            yield _line(name, *(str(point.get(axis, "–")) for axis in axes), *words, _estimated(files, best))


def points(runs: Sequence[Path]) -> Lines:
    """Validation mAP of every point at the epoch that each rule would keep, mean over runs, with these epochs.

    `observed` is measured on observed labels: its figures and those of the other rules are different quantities.
    """
    tried = {name: [_jsonl(path / "search.jsonl") for path in group] for name, group in _groups(runs).items()}
    entries = [entry for searches in tried.values() for entry in searches[0]]
    axes, rules = (list(dict.fromkeys(key for entry in entries for key in entry[part])) for part in ("point", "best"))
    yield from _table("row", *axes, *(f"{rule}: val (epochs)" for rule in rules))
    for name, searches in tried.items():
        for same in zip(*searches, strict=True):
            point = (f"{same[0]['point'][axis]:g}" if axis in same[0]["point"] else "–" for axis in axes)
            yield _line(name, *point, *(_kept([entry["best"].get(rule) for entry in same]) for rule in rules))


def _kept(found: Sequence[dict[str, Any] | None]) -> str:
    best = [entry for entry in found if entry]
    if not best:
        return "–"
    mean = 100 * np.mean([entry["value"] for entry in best])
    return f"{mean:.2f} ({', '.join(str(entry['epoch']) for entry in best)})"


def images(runs: Sequence[Path]) -> Lines:
    """How much of a figure, and of a difference, is the choice of test images: bootstrap, 1,000 resamples."""
    scored = {_name(path): _test_scores(path) for path in runs}
    yield from _table("run, or first less second", "test mAP [95 %]")
    for name, (scores, truth) in scored.items():
        found = bootstrap(scores, truth)
        yield _line(name, f"{100 * found.value:.2f} [{100 * found.low:.2f}, {100 * found.high:.2f}]")
    for (one, (ours, truth)), (other, (theirs, _)) in combinations(scored.items(), 2):
        apart = paired_bootstrap(ours, theirs, truth)
        yield _line(f"{one} – {other}", f"{100 * apart.value:+.2f} [{100 * apart.low:+.2f}, {100 * apart.high:+.2f}]")


# --- reading ----------------------------------------------------------------------------------------------------------


def _by_protocol(export: Path) -> dict[str, list[tuple[Cell, CellResult]]]:
    found: dict[str, list[tuple[Cell, CellResult]]] = {}
    for result in read_export(export):
        cell = next(cell for cell in _table_cells(result.table) if cell.recipe == result.recipe)
        found.setdefault(result.protocol, []).append((cell, result))
    return found


@cache
def _table_cells(table: str) -> tuple[Cell, ...]:
    return read_table(ROOT / "recipes" / "tables" / f"{table}.toml").cells


def _together(export: Path) -> dict[str, list[tuple[Cell, CellResult]]]:
    """All protocols as one column, for a paper that prints them as one."""
    found = _by_protocol(export)
    return {", ".join(found): [row for rows in found.values() for row in rows]}


def _label(cell: Cell) -> str:
    return f"{cell.row.label}+LI" if cell.protocol == "linear_init" else cell.row.label


def _result(run: Path) -> Any:
    return json.loads(RunDirectory(run).result_file.read_text())


def _test_scores(run: Path) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    with np.load(run / "scores-test.npz") as file:
        return file["scores"], file["truth"]


def _jsonl(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def _curve(file: Path, split: str) -> list[float]:
    return [100 * line[split]["mAP"] for line in _last_stage(file) if split in line]


def _last_stage(file: Path) -> list[dict[str, Any]]:
    lines = _jsonl(file)
    return [line for line in lines if line["stage"] == lines[-1]["stage"]]


def _estimated(files: Sequence[Path], best: NDArray[np.int64]) -> str:
    lines = [_last_stage(file)[int(at)] for file, at in zip(files, best[:, 0], strict=True)]
    values = [line["estimates"]["k"] for line in lines if "k" in line.get("estimates", {})]
    return f"{np.mean(values):.2f}" if values else "–"


def _groups(runs: Sequence[Path]) -> dict[str, list[Path]]:
    """Runs of one recipe together."""
    found: dict[str, list[Path]] = {}
    for path in runs:
        found.setdefault(path.parent.name, []).append(path)
    return found


def _map(scores: NDArray[np.float32], labels: NDArray[np.int8]) -> float:
    return 100 * mean_average_precision(scores, labels).value


def _folder(point: dict[str, Any]) -> str:
    return "-".join(f"{key}={value}" for key, value in point.items())


# --- writing ----------------------------------------------------------------------------------------------------------


def _point(budget: dict[str, Any], selected: dict[str, Any]) -> str:
    searched = selected.get("point") or {}
    point = {**budget, **searched}
    own = "".join(f", {key} {value:g}" for key, value in searched.items() if key not in budget)
    return f"{point['batch_size']}, {point['lr']:g}, {selected['epoch']}{own}"


def _name(run: Path) -> str:
    return f"{run.parent.name}, {run.name}"


def _mean(values: Sequence[float]) -> str:
    found = over_seeds(values)
    return f"{found.mean:.2f} ± {found.sd:.2f}" if len(values) > 1 else f"{found.mean:.2f}"


def _yes(sure: bool) -> str:
    return "yes" if sure else "no"


def interval(found: SeedSummary) -> str:
    if math.isnan(found.low):
        return f"{found.mean:+.2f}"
    return f"{found.mean:+.2f} [{found.low:+.2f}, {found.high:+.2f}]"


def _table(*columns: str) -> Lines:
    yield _line(*columns)
    yield "|---" + "|--:" * (len(columns) - 1) + "|"


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def main(arguments: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "what", choices=("order", "pairs", "selection", "stopping", "chosen", "recovery", "grid", "points", "images")
    )
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument(
        "--rule", default="clean", help="validation labels of the selection that `order` and `pairs` read"
    )
    parser.add_argument("--together", action="store_true", help="`order`: all protocols of the export in one column")
    given = parser.parse_args(None if arguments is None else list(arguments))
    exports = {
        "order": lambda path: order(path, given.rule, together=given.together),
        "pairs": lambda path: pairs(path, given.rule),
        "selection": selection,
        "stopping": stopping,
    }
    directories = {"chosen": chosen, "recovery": recovery, "grid": grid, "points": points, "images": images}
    if given.what in exports:
        lines = [line for path in given.paths for line in exports[given.what](path)]
    else:
        lines = list(directories[given.what](given.paths))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
