"""Positives told, hidden and unseen: who is counted, in which bin, and what the page says of it."""

from pathlib import Path

import numpy as np
from run_factory import World, write_run

from tacit.report import compare, read_runs, render_html, write_csv, write_markdown
from tacit.report.positives import BINS, count_positives, positives, positives_table

CLASSES = ["a", "b"]


def write_scores(run: Path) -> None:
    names = np.array(["0", "1", "2"])
    scores = np.array([[0.9, 0.3], [0.1, 0.5], [0.45, np.nan]], np.float32)
    truth = np.array([[1, 1], [1, -1], [1, 1]], np.int8)
    observed = np.array([[1, 0], [0, 0], [0, 0]], np.int8)
    np.savez(run / "scores-train.npz", images=names, scores=scores, truth=truth, observed=observed)
    np.savez(run / "scores-val.npz", images=names[:1], scores=scores[:1], truth=truth[:1], observed=truth[:1])


def test_counts_by_hand() -> None:
    found = positives([np.array([0.1, 0.2, 0.499], np.float32), np.array([0.5, 1.0], np.float32)])
    assert (found.missed, found.semi_hard, found.total, found.runs) == (3, 2, 5, 2)
    assert found.bins[BINS - 1] == 1 and found.bins[BINS // 2] == 1 and found.bins[4] == 1


def test_told_and_hidden_positives_are_apart_and_a_score_that_is_no_number_is_left_out(tmp_path: Path) -> None:
    write_scores(write_run(tmp_path / "r", World(classes=CLASSES, test_images=3), "an"))
    comparison = compare(read_runs([tmp_path]))
    (kinds,) = count_positives(comparison)
    counts = {kind: (found.total, found.missed, found.semi_hard) for kind, found in kinds.items()}
    assert counts == {"told": (1, 0, 0), "hidden": (3, 3, 2), "val": (2, 1, 1)}
    table = positives_table(comparison, [kinds])
    assert table is not None
    assert [cell.text for cell in table.rows[0].cells] == ["0.0", "0.0", "100.0", "66.7", "50.0", "50.0"]
    assert table.rows[0].cells[3].below == "2 of 3"


def test_seeds_are_a_mean(tmp_path: Path) -> None:
    for seed in (0, 1):
        write_scores(write_run(tmp_path / str(seed), World(classes=CLASSES, test_images=3), "an", seed))
    comparison = compare(read_runs([tmp_path]))
    table = positives_table(comparison, count_positives(comparison))
    assert table is not None and table.rows[0].cells[2].below == "3 of 3"


def test_the_page_and_the_markdown_hold_them_where_scores_were_kept(tmp_path: Path) -> None:
    run = write_run(tmp_path / "r", World(classes=CLASSES, test_images=3), "an")
    bare = render_html(compare(read_runs([run])), tmp_path / "bare.html").read_text()
    assert "positives-train" not in bare and "positives-table" not in bare
    write_scores(run)
    text = render_html(compare(read_runs([run])), tmp_path / "out.html").read_text()
    assert all(f'id="{name}"' in text for name in ("positives-train", "positives-val", "positives-table"))
    write_markdown(compare(read_runs([run])), tmp_path / "out.md")
    assert "semi-hard" in (tmp_path / "out.md").read_text()
    write_csv(compare(read_runs([run])), tmp_path / "out.csv")
    lines = [line.split(",") for line in (tmp_path / "out.csv").read_text().splitlines()]
    assert ["semi-hard", "", "0.666667", "", "1"] in [line[-5:] for line in lines]
