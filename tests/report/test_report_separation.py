"""The section on separation: which runs are compared, what is counted, what is said where scores are missing."""

import csv
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from run_factory import World, write_run

from tacit.report import compare, read_runs, render_html, write_csv, write_markdown
from tacit.report.compare import Comparison
from tacit.report.page import group_looks
from tacit.report.records import ReportError
from tacit.report.separation import (
    class_column,
    density_column,
    measure,
    pairs,
    scatter_figure,
    separation_section,
    separation_table,
)

CLASSES = ["ant", "bee", "cow"]
TRUTH = np.array([[1, 1, -1], [1, -1, -1], [-1, 1, 1], [-1, -1, -1], [-1, -1, 0]], np.int8)
OBSERVED = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0]], np.int8)
# W1 on training images: a score of 0.5 + gap / 2 for positives and 0.5 - gap / 2 for negatives
GAPS = {"an": (0.2, 0.4, 0.6), "role": (0.5, 0.4, 0.3), "epr": (0.3, 0.5, 0.9), "bce": (1.0, 1.0, 1.0)}


def scored(run: Path, gaps: tuple[float, ...], splits: tuple[str, ...] = ("train", "test")) -> Path:
    scores = (0.5 + 0.5 * np.array(gaps) * np.where(TRUTH == 1, 1, -1)).astype(np.float32)
    names = np.array([f"{i}.jpg" for i in range(len(TRUTH))])
    (run / "scores-test.npz").unlink()
    for split in splits:
        more = {"observed": OBSERVED} if split == "train" else {}
        np.savez(run / f"scores-{split}.npz", images=names, scores=scores, truth=TRUTH, **more)
    return run


def comparison_of(root: Path, methods: tuple[str, ...] = ("an", "role", "epr"), seeds: int = 1) -> Comparison:
    world = World(classes=CLASSES, test_images=5)
    for method in methods:
        for seed in range(seeds):
            observe = "full" if method == "bce" else "single-positive"
            run = write_run(root / f"{method}{seed}", world, method, seed, observe=observe, images=False, epochs=1)
            scored(run, tuple(gap - 0.1 * seed for gap in GAPS[method]))
    return compare(read_runs([root]))


def test_distances_are_of_the_right_cells(tmp_path: Path) -> None:
    one = measure(comparison_of(tmp_path, ("an",)))[0]
    np.testing.assert_allclose(one.per_class("train"), GAPS["an"], atol=1e-6)
    np.testing.assert_allclose(one.per_class("test"), GAPS["an"], atol=1e-6)
    unannotated = one.per_class("unannotated")  # every positive of "ant" was told
    assert np.isnan(unannotated[0]) and unannotated[1:] == pytest.approx(GAPS["an"][1:], abs=1e-6)
    assert one.spread("unannotated").mean == pytest.approx(np.mean(GAPS["an"][1:]), abs=1e-6)


def test_seeds_are_averaged(tmp_path: Path) -> None:
    one = measure(comparison_of(tmp_path, ("an",), seeds=3))[0]
    np.testing.assert_allclose(one.per_class("train"), np.array(GAPS["an"]) - 0.1, atol=1e-6)
    assert one.spread("train").n == 3 and one.spread("train").sd == pytest.approx(0.1, abs=1e-6)


def test_methods_are_held_against_the_baseline_and_full_labels_are_left_out(tmp_path: Path) -> None:
    comparison = comparison_of(tmp_path, ("bce", "an", "role", "epr"))
    found = pairs(comparison, measure(comparison))
    told = {comparison.groups[p.group].label: (comparison.groups[p.against].label, *p.shares) for p in found}
    assert told == {"ROLE": ("AN", 1, 1, 1), "EPR": ("AN", 3, 0, 0)}


def test_without_a_baseline_the_first_method_takes_its_place(tmp_path: Path) -> None:
    comparison = comparison_of(tmp_path, ("epr", "role"))
    labels = [
        (comparison.groups[p.group].label, comparison.groups[p.against].label)
        for p in pairs(comparison, measure(comparison))
    ]
    assert labels == [("ROLE", "EPR")]


def test_one_method_alone_has_a_table_and_densities_but_nothing_to_be_held_against(tmp_path: Path) -> None:
    comparison = comparison_of(tmp_path, ("role",))
    apart = measure(comparison)
    assert scatter_figure(comparison, group_looks(comparison), apart) is None
    names = {figure.name for figure in separation_section(comparison, group_looks(comparison)).figures}
    assert names == {"separation-densities"}
    assert density_column(comparison, apart) == 2  # the class it keeps apart the least


def test_the_table_prints_means_and_shares(tmp_path: Path) -> None:
    comparison = comparison_of(tmp_path)
    table = separation_table(comparison, measure(comparison))
    assert table is not None
    cells = {row.head: [cell.text for cell in row.cells] for row in table.rows}
    assert cells["AN"] == ["40.00", "50.00", "40.00"] and cells["ROLE"] == ["40.00", "35.00", "40.00"]
    below = {row.head: [cell.below for cell in row.cells] for row in table.rows}
    assert below["AN"] == ["", "", ""]
    assert below["ROLE"] == ["1 of 3, 1 equal above AN", "0 of 2, 1 equal above AN", "1 of 3, 1 equal above AN"]


def test_the_class_drawn_is_the_one_asked_for_or_the_one_methods_differ_in_most(tmp_path: Path) -> None:
    comparison = comparison_of(tmp_path)
    apart = measure(comparison)
    assert density_column(comparison, apart) == 2  # 0.3 to 0.9
    assert density_column(comparison, apart, "bee") == 1
    with pytest.raises(ReportError, match=r"no class 'Bees'.*Did you mean bee\?"):
        class_column(comparison, "Bees")


def test_the_page_shows_the_section(tmp_path: Path) -> None:
    comparison = comparison_of(tmp_path)
    text = render_html(comparison, tmp_path / "out.html", density_class="bee").read_text()
    assert 'id="separation-train"' in text and 'id="separation-unannotated"' in text and 'id="separation-table"' in text
    assert "Where the scores of “bee” lie" in text and "further apart: 3 of 3 (100 %)" in text
    assert "2 positives and 3 negatives" in text  # of bee, on test
    assert "No scores-" not in text


def test_runs_without_scores_are_named_with_what_to_do(tmp_path: Path) -> None:
    comparison = comparison_of(tmp_path)
    (tmp_path / "role0" / "scores-train.npz").unlink()
    text = render_html(comparison, tmp_path / "out.html").read_text()
    assert re.search(r"No scores-train\.npz in ROLE \(seed 0\)\. .*repeat the run", text)
    assert [comparison.groups[p.group].label for p in pairs(comparison, measure(comparison))] == ["EPR"]
    for file in tmp_path.glob("*/scores-*.npz"):
        file.unlink()
    text = render_html(comparison, tmp_path / "out.html").read_text()
    assert 'id="separation-' not in text and "No scores-test.npz in AN (seed 0)" in text


def test_a_score_that_is_no_number_counts_nowhere(tmp_path: Path) -> None:
    comparison = comparison_of(tmp_path, ("an",))
    run = comparison.groups[0].first
    kept = run.scores("test")
    assert kept is not None
    kept.scores[2, 1], kept.scores[4, 2] = np.nan, np.inf
    np.savez(run.path / "scores-test.npz", images=kept.images, scores=kept.scores, truth=kept.truth)
    assert measure(comparison)[0].per_class("test") == pytest.approx(GAPS["an"], abs=1e-6)


def test_markdown_and_csv_have_the_distances(tmp_path: Path) -> None:
    comparison = comparison_of(tmp_path)
    write_markdown(comparison, tmp_path / "t.md")
    assert "## Mean separation" in (tmp_path / "t.md").read_text()
    write_csv(comparison, tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "W1" and row["label"] == "EPR"]
    assert {(r["split"], r["class"]): r["mean"] for r in rows}["train", "cow"] == "0.9"
    assert len(rows) == 3 * 4


def test_the_sheet_for_a_page_of_results_has_a_panel_per_pair(tmp_path: Path) -> None:
    comparison_of(tmp_path)
    tool = Path(__file__).parents[2] / "tools" / "draw_results.py"
    draw = runpy.run_path(str(tool))["separation"]
    drawn = [axes for axes in draw([tmp_path]).axes if axes.get_visible()]
    assert [axes.get_xlabel() for axes in drawn] == ["EPR", "ROLE"] * 2
    assert [axes.get_ylabel() for axes in drawn[::2]] == ["AN, all training cells", "AN, unannotated training cells"]
    x, y = drawn[1].lines[1].get_data()
    assert x == pytest.approx(GAPS["role"], abs=1e-6) and y == pytest.approx(GAPS["an"], abs=1e-6)
    with pytest.raises(SystemExit, match="give runs of a baseline"):
        draw([tmp_path / "role0"])
