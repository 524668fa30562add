"""Runs on more images x classes than anybody can hold scores of: what is left out, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tacit.evaluate
from small_runs import CLASSES, finetune, linear, role, run, small_machine, table
from tacit.assemble import assemble
from tacit.cli import main
from tacit.errors import UserError
from tacit.labels import LabelError, Labels

__all__ = ["small_machine", "table"]
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.mark.parametrize("train_scores", ["auto", "accumulated"])
def test_training_images_are_not_scored_and_the_run_says_so(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, train_scores: str
) -> None:
    config = role(linear(table, budget={"epochs": 2}, train_scores=train_scores))
    run(config, tmp_path / "small")
    monkeypatch.setattr(tacit.evaluate, "TRAIN_CELLS", 3)
    run(config, tmp_path / "large")
    small, large = (json.loads((tmp_path / name / "result.json").read_text()) for name in ("small", "large"))
    assert not (tmp_path / "large" / "scores-train.npz").exists()
    assert set(large["metrics"]) == {"val", "test"}
    assert large["metrics"]["test"] == small["metrics"]["test"]
    assert [c for c in large["choices"] if c not in small["choices"]] == [
        "training images are not scored: there are too many of them and classes"
    ]
    lines = (tmp_path / "large" / "metrics.jsonl").read_text().splitlines()
    assert all("train" not in json.loads(line) for line in lines)
    assert main(["compare", str(tmp_path / "large"), "--report", str(tmp_path / "page.html")]) == 0


def test_images_to_be_judged_by_are_needed_so_too_many_are_refused(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tacit.evaluate, "HELD_CELLS", 36)
    with pytest.raises(UserError, match=r"scores of 19 images of split 'val' and 4 classes .* Hold out less"):
        assemble(role(finetune(table, val=0.5)))
    monkeypatch.setattr(tacit.evaluate, "HELD_CELLS", 35)
    with pytest.raises(UserError, match="9 images of split 'test'"):
        assemble(role(finetune(table, val=0.0)))


def test_labels_of_millions_are_not_laid_out() -> None:
    labels = Labels.from_sorted([f"class {c}" for c in range(9605)], np.zeros(9_000_001, np.int64), [], [])
    with pytest.raises(LabelError, match=r"9,000,000 images x 9,605 classes would take 86 GB"):
        labels.dense()
    assert labels.rows(slice(0, 2)).shape == (2, 9605)


class TestFromSorted:
    STARTS, COLUMNS, STATES = [0, 2, 2, 3], [1, 3, 0], [1, -1, -1]

    def test_the_same_as_from_cells(self) -> None:
        labels = Labels.from_sorted(CLASSES, self.STARTS, self.COLUMNS, self.STATES)
        assert labels == Labels.from_cells(3, CLASSES, [0, 0, 2], [1, 3, 0], [1, -1, -1])
        assert labels.is_sparse
        assert labels.dense().tolist() == [[0, 1, 0, -1], [0, 0, 0, 0], [-1, 0, 0, 0]]
        assert labels.take(np.array([2, 0])).dense().tolist() == [[-1, 0, 0, 0], [0, 1, 0, -1]]
        empty = Labels.from_sorted(CLASSES, [0, 0], np.zeros(0, np.int64), np.zeros(0, np.int8))
        assert empty.dense().tolist() == [[0, 0, 0, 0]]

    @pytest.mark.parametrize(
        ("starts", "columns", "states", "message"),
        [
            ([0, 2, 2, 2], COLUMNS, STATES, "do not fill the rows"),
            ([1, 2, 3], COLUMNS, STATES, "do not fill the rows"),
            ([0, 3, 2, 3], COLUMNS, STATES, "outside 3 images x 4 classes"),
            (STARTS, [1, 4, 0], STATES, "outside 3 images x 4 classes"),
            (STARTS, [-1, 3, 0], STATES, "outside 3 images x 4 classes"),
            (STARTS, [3, 1, 0], STATES, "must ascend"),
            (STARTS, [1, 1, 0], STATES, "must ascend"),
            (STARTS, COLUMNS, [1, 0, -1], "leave unknown cells out"),
        ],
    )
    def test_what_is_out_of_order(self, starts: list[int], columns: list[int], states: list[int], message: str) -> None:
        with pytest.raises(LabelError, match=message):
            Labels.from_sorted(CLASSES, starts, columns, states)
