"""Read what runs predicted: figures of docs/results that need scores and not only metrics. Prints Markdown.

    python tools/read_scores.py separation RUNS…   how far positives and negatives lie apart, class by class against AN
    python tools/read_scores.py thresholds RUNS…   calibration, and decisions at 0.5, at 0.75 and where validation says

RUNS are run directories of one protocol with their `scores-*.npz`; seeds of one recipe are read together.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacit.metrics.decisions import decision_scores
from tacit.metrics.intervals import over_seeds
from tacit.metrics.separation import compare_separation
from tacit.report import compare, read_runs
from tacit.report.separation import KINDS, measure, pairs
from tacit.run import RunDirectory

AUTHORS = 0.75  # threshold of the program of EM
CHOSEN = {"half": "at 0.5", "one": "at the one of validation", "per_class": "at one per class"}
Lines = Iterator[str]


def separation(runs: Sequence[Path]) -> Lines:
    """Wasserstein distance of true positives and negatives: mean over classes, and where it exceeds the baseline's."""
    comparison = compare(read_runs(runs))
    apart = measure(comparison)
    yield from _table("method", "cells", "mean W1", "of the baseline", "classes further apart", "seed by seed")
    for kind, cells in KINDS.items():
        for pair in pairs(comparison, apart, kind):
            mine, base = apart[pair.group], apart[pair.against]
            both = zip(mine.runs[kind], base.runs[kind], strict=False)
            seeds = ", ".join(str(compare_separation(one, other).larger) for one, other in both)
            means = (f"{np.nanmean(one.per_class(kind)):.3f}" for one in (mine, base))
            ahead = f"{pair.shares.larger} of {pair.shares.classes}"
            yield _line(comparison.groups[pair.group].label, cells, *means, ahead, seeds)


def thresholds(runs: Sequence[Path]) -> Lines:
    """Test images: expected calibration error, and OF1 / CF1 at each threshold, percent.

    What a run has decided stands in its result; at 0.75 its scores are needed, and seeds without them do not count.
    """
    columns = ["ECE", "chosen on validation", CHOSEN["half"], f"at {AUTHORS:g}", *list(CHOSEN.values())[1:]]
    yield from _table("row", "runs", *columns[:2], *(f"OF1 / CF1 {column}" for column in columns[2:]))
    for name, group in _groups(runs).items():
        results = [json.loads(RunDirectory(path).result_file.read_text()) for path in group]
        error = _mean([100 * result["calibration"]["test"]["ECE"] for result in results])
        one = np.array([result["thresholds"]["one"] for result in results])
        by_rule = {key: [result["decisions"]["test"][key] for result in results] for key in CHOSEN}
        kept = [path for path in group if (path / "scores-test.npz").is_file()]
        decided = [by_rule["half"], [at(path, AUTHORS) for path in kept], by_rule["one"], by_rule["per_class"]]
        yield _line(name, str(len(group)), error, f"{one.mean():.2f}", *map(_both, decided))


def at(run: Path, threshold: float) -> dict[str, float]:
    """Decision metrics of the run's kept test scores."""
    with np.load(run / "scores-test.npz") as file:
        return decision_scores(file["scores"], file["truth"], threshold=threshold)._asdict()


def _both(found: Sequence[dict[str, Any]]) -> str:
    if not found:
        return "–"
    return " / ".join(_mean([100 * entry[name] for entry in found]) for name in ("OF1", "CF1"))


def _mean(values: Sequence[float]) -> str:
    found = over_seeds(values)
    return f"{found.mean:.1f} ± {found.sd:.1f}" if len(values) > 1 else f"{found.mean:.1f}"


def _groups(runs: Sequence[Path]) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in runs:
        found.setdefault(path.parent.name, []).append(path)
    return found


def _table(*columns: str) -> Lines:
    yield _line(*columns)
    yield "|---" + "|--:" * (len(columns) - 1) + "|"


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


READ: dict[str, Callable[[Sequence[Path]], Lines]] = {"separation": separation, "thresholds": thresholds}


def main(arguments: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=tuple(READ))
    parser.add_argument("runs", nargs="+", type=Path)
    given = parser.parse_args(None if arguments is None else list(arguments))
    print("\n".join(READ[given.what](given.runs)))


if __name__ == "__main__":
    main()
