"""The section on calibration: its curve, its table, and what runs without one still get."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_factory import World, write_run

from tacit.report import compare, read_runs, render_html, write_csv, write_markdown
from tacit.report.calibration import BINS, calibration_table, curve_of, reliability_figure
from tacit.report.compare import Comparison
from tacit.report.page import group_looks
from tacit.report.records import ReportError

CHOSEN = {"labels": "observed", "unknown": "negative", "metric": "OF1", "one": 0.75, "per_class": [0.5, 0.9]}


def told(seed: int = 0, **changes: Any) -> dict[str, Any]:
    """What a run's result.json says of thresholds."""
    decisions = {which: {"OF1": 0.5 + at / 10 + seed / 50, "CF1": 0.4} for at, which in enumerate(("half", "one"))}
    decisions["per_class"] = {"OF1": 0.7}  # CF1: no class can be scored
    calibration = {"bins": 15, "ECE": 0.1 + seed / 50, "class_ECE": 0.2, "brier": 0.05, "per_class_ECE": [0.1, None]}
    return {
        "thresholds": {**CHOSEN, "fallback": ["b"]},
        "decisions": {"test": decisions, "val": decisions},
        "calibration": {"test": calibration},
    } | changes


def comparison_of(folder: Path, world: World | None = None, **result: Any) -> Comparison:
    world = world or World(classes=["a", "b"], test_images=40)
    for seed in (0, 1):
        write_run(folder / f"em-{seed}", world, "em", seed, epochs=1, **(told(seed) | result))
    return compare(read_runs([folder]))


def cells(comparison: Comparison) -> dict[str, tuple[str, str]]:
    table = calibration_table(comparison)
    assert table is not None
    row = table.rows[0].cells
    return {
        column.name.replace("\u00a0", " "): (cell.text, cell.below)
        for column, cell in zip(table.columns, row, strict=True)
    }


def test_the_table_holds_the_numbers_of_the_runs(tmp_path: Path) -> None:
    found = cells(comparison_of(tmp_path))
    sd = f"± {100 * np.std([0.1, 0.12], ddof=1):.2f}"
    assert found["ECE"] == ("11.00", sd) and found["class ECE"] == ("20.00", "± 0.00")
    assert found["one threshold"] == ("0.75 ± 0.00", "observed, unknown negative")
    assert found["per class"] == ("0.50 to 0.90", "1 class at the one")
    assert found["OF1 at 0.5"] == ("51.00", sd) and found["OF1 at one"] == ("61.00", sd)
    assert found["OF1 per class"][0] == "70.00" and found["CF1 per class"] == ("–", "")


def test_clean_labels_and_full_ones_hide_nothing(tmp_path: Path) -> None:
    clean = {**CHOSEN, "labels": "clean", "unknown": "masked"}
    assert cells(comparison_of(tmp_path, thresholds=clean))["one threshold"][1] == "clean"
    write_run(tmp_path / "full" / "r", World(classes=["a", "b"], test_images=9), "bce", observe="full", **told())
    assert cells(compare(read_runs([tmp_path / "full"])))["one threshold"][1] == "observed"


def test_a_run_without_validation_or_an_older_one_is_told_from_one_with(tmp_path: Path) -> None:
    half = {"test": {"half": {"OF1": 0.3, "CF1": 0.2}}}
    found = cells(comparison_of(tmp_path / "a", thresholds={"absent": "no validation"}, decisions=half))
    assert found["one threshold"] == found["per class"] == found["OF1 at one"] == ("–", "")
    assert found["OF1 at 0.5"][0] == "30.00"
    old = comparison_of(tmp_path / "b", thresholds=None, decisions=None, calibration=None)
    assert calibration_table(old) is None
    assert reliability_figure(old, group_looks(old)) is not None  # it needs the scores alone
    said = comparison_of(tmp_path / "c", calibration={"test": {"absent": "scores are not probabilities"}})
    assert cells(said)["ECE"] == ("–", "")


def test_curves_count_the_known_cells_of_all_seeds_by_hand(tmp_path: Path) -> None:
    comparison = comparison_of(tmp_path)
    truth = np.array([[1, -1], [0, 1], [-1, 1]], np.int8)
    for seed, last in ((0, 0.5), (1, np.nan)):
        scores = np.array([[1.0, 0.0], [0.9, 0.5], [last, 0.999]], np.float32)
        names = np.array(["x", "y", "z"])
        np.savez(tmp_path / f"em-{seed}" / "scores-test.npz", images=names, scores=scores, truth=truth)
    curve = curve_of(comparison.groups[0])
    assert curve is not None
    assert curve.cells.tolist() == [2] + [0] * 6 + [3] + [0] * 6 + [4] and len(curve.cells) == BINS
    np.testing.assert_allclose(curve.positive[[0, 7, 14]], [0, 2, 4])
    np.testing.assert_allclose(curve.probability[[0, 7, 14]], [0, 1.5, 3.998], rtol=1e-6)
    assert curve.share.sum() == pytest.approx(1) and not len(curve.points()[0])  # too few cells to draw


def test_scores_that_are_no_probabilities_draw_nothing(tmp_path: Path) -> None:
    comparison = comparison_of(tmp_path)
    for seed in (0, 1):
        file = tmp_path / f"em-{seed}" / "scores-test.npz"
        with np.load(file) as held:
            arrays = dict(held)
        np.savez(file, **(arrays | {"scores": arrays["scores"] * 4 - 2}))
    assert reliability_figure(comparison, group_looks(comparison)) is None


def test_the_page_has_the_section_only_where_there_is_something_to_say(tmp_path: Path) -> None:
    with_it = render_html(comparison_of(tmp_path / "a"), tmp_path / "a.html").read_text()
    assert 'id="calibration"' in with_it and 'href="#calibration"' in with_it and 'id="reliability"' in with_it
    assert "Marker: the one threshold that validation chose" in with_it
    bare = write_run(tmp_path / "b" / "r", World(test_images=9), "an", epochs=1)
    (bare / "scores-test.npz").unlink()
    without = render_html(compare(read_runs([bare])), tmp_path / "b.html").read_text()
    assert 'id="calibration"' not in without and 'href="#calibration"' not in without


def test_markdown_and_csv_tell_the_same(tmp_path: Path) -> None:
    comparison = comparison_of(tmp_path)
    write_markdown(comparison, tmp_path / "t.md")
    assert "## Calibration and thresholds" in (tmp_path / "t.md").read_text()
    write_csv(comparison, tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="") as file:
        rows = {row["metric"]: row for row in csv.DictReader(file) if not row["class"]}
    assert float(rows["ECE"]["mean"]) == pytest.approx(0.11)
    assert float(rows["OF1 at the one threshold"]["mean"]) == pytest.approx(0.61)
    assert (rows["threshold"]["mean"], rows["threshold"]["seeds"]) == ("0.75", "2")


@pytest.mark.parametrize(
    ("entry", "value"),
    [("calibration", {"test": {"ECE": "small"}}), ("decisions", {"test": {"half": [1]}}), ("thresholds", 0.5)],
)
def test_a_damaged_entry_is_named(tmp_path: Path, entry: str, value: Any) -> None:
    run = write_run(tmp_path / "r", World(test_images=9), "em", epochs=1, **told())
    result = json.loads((run / "result.json").read_text())
    (run / "result.json").write_text(json.dumps(result | {entry: value}))
    with pytest.raises(ReportError, match=entry):
        read_runs([run])
