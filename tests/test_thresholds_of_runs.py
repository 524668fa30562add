"""What a run says of thresholds and calibration: chosen on validation, told on test, absent where there is none."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit.conduct
from small_runs import CLASSES, linear, run, small_machine, table
from tacit.assemble import Bench, assemble
from tacit.evaluate import Judge, calibration_figures
from tacit.labels import Labels
from tacit.metrics import best_threshold, best_thresholds, calibration, decision_scores, unknown_as_absent

__all__ = ["small_machine", "table"]
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def kept(out: Path, split: str) -> dict[str, np.ndarray]:
    with np.load(out / f"scores-{split}.npz") as held:
        return dict(held)


@pytest.fixture(scope="module")
def finished(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("thresholds") / "run"
    run(linear(table), out)
    return out


def test_chosen_on_what_validation_could_see(finished: Path) -> None:
    chosen, val = json.loads((finished / "result.json").read_text())["thresholds"], kept(finished, "val")
    labels = unknown_as_absent(val["observed"])
    one = best_threshold(val["scores"], labels, metric="OF1").threshold
    each = best_thresholds(val["scores"], labels, fallback=one)
    assert chosen == {
        "labels": "observed",
        "unknown": "negative",
        "metric": "OF1",
        "one": one,
        "per_class": each.thresholds.tolist(),
        "fallback": [CLASSES[c] for c in each.fallback],
    }
    assert json.loads((finished / "model.json").read_text())["chosen_thresholds"] == chosen


@pytest.mark.parametrize("split", ["val", "test"])
def test_decisions_are_told_under_each(finished: Path, split: str) -> None:
    result, held = json.loads((finished / "result.json").read_text()), kept(finished, split)
    limits = {"half": 0.5} | {which: result["thresholds"][which] for which in ("one", "per_class")}
    assert set(result["decisions"][split]) == set(limits)
    for which, limit in limits.items():
        wanted = decision_scores(held["scores"], held["truth"], threshold=limit)
        told = result["decisions"][split][which]
        assert set(told) == set(wanted._fields) - {"unscored"}
        assert told["OF1"] == pytest.approx(wanted.OF1) and told["CF1"] == pytest.approx(wanted.CF1)
    assert result["decisions"][split]["half"]["OF1"] == result["metrics"][split]["OF1"]


def test_calibration_is_that_of_the_test_scores(finished: Path) -> None:
    told, held = json.loads((finished / "result.json").read_text())["calibration"]["test"], kept(finished, "test")
    width = calibration(held["scores"], held["truth"])
    mass = calibration(held["scores"], held["truth"], binning="mass")
    assert (told["bins"], told["ECE"], told["brier"]) == (15, width.ECE, width.brier)
    assert (told["ECE_mass"], told["class_ECE"]) == (mass.ECE, width.class_ECE)
    assert told["per_class_ECE"] == width.per_class_ECE.tolist()


def test_without_validation_there_are_none_and_the_reason_is_told(table: Path, tmp_path: Path) -> None:
    result = run(linear(table, val=0), tmp_path / "run")
    assert result["thresholds"] == {"absent": "no images were held out for validation"}
    assert set(result["decisions"]) == {"test"} and set(result["decisions"]["test"]) == {"half"}
    assert not (tmp_path / "run" / "scores-val.npz").exists()
    assert json.loads((tmp_path / "run" / "model.json").read_text())["chosen_thresholds"] == result["thresholds"]


def opposite_test(bench: Bench) -> Bench:
    """The same run with every test label turned round."""
    split = bench.splits["test"]
    turned = Labels.from_dense(-split.labels.dense(), split.labels.classes)
    splits = {**bench.splits, "test": replace(split, labels=turned)}
    return replace(bench, splits=splits, judge=replace(bench.judge, test=turned))


@pytest.mark.parametrize("select", ["observed", "clean", "last"])
def test_no_test_label_moves_a_threshold(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, select: Any
) -> None:
    config, usual = linear(table, select=select), tacit.conduct.assemble
    here = run(config, tmp_path / "here")
    monkeypatch.setattr("tacit.conduct.assemble", lambda config: opposite_test(usual(config)))
    there = run(config, tmp_path / "there")
    assert here["decisions"]["test"] != there["decisions"]["test"]
    assert here["calibration"] != there["calibration"]
    assert here["thresholds"] == there["thresholds"] and "one" in here["thresholds"]
    assert here["thresholds"]["labels"] == ("clean" if select == "clean" else "observed")


def judge_of(observed: list[list[int]], truth: list[list[int]]) -> Judge:
    val, seen = (Labels.from_dense(np.array(states, np.int8), ("a", "b")) for states in (truth, observed))
    return Judge(train=val, test=val, val=val, val_observed=seen, train_observed=seen)


def test_known_negatives_mask_what_is_unknown_and_clean_labels_hide_nothing() -> None:
    judge = judge_of([[1, 0], [0, -1], [0, 1], [-1, 0]], [[1, 1], [1, -1], [-1, 1], [-1, -1]])
    scores = np.array([[0.9, 0.2], [0.4, 0.1], [0.6, 0.8], [0.5, 0.3]], np.float32)
    seen = judge.thresholds("observed", scores)
    assert (seen["unknown"], seen["fallback"]) == ("masked", [])
    np.testing.assert_allclose(seen["per_class"], [0.7, 0.45], rtol=1e-6)
    clean = judge.thresholds("clean", scores)
    assert (clean["labels"], clean["unknown"]) == ("clean", "masked")
    np.testing.assert_allclose(clean["per_class"], [0.75, 0.15], rtol=1e-6)


def test_a_class_that_validation_never_saw_gets_the_one_threshold_and_is_named() -> None:
    judge = judge_of([[1, 0], [0, 0]], [[1, -1], [-1, 1]])
    found = judge.thresholds("observed", np.array([[0.9, 0.2], [0.4, 0.1]], np.float32))
    assert found["fallback"] == ["b"] and found["per_class"][1] == found["one"]


def test_nothing_to_choose_on_is_told() -> None:
    judge = judge_of([[0, 0], [0, 0]], [[1, -1], [-1, 1]])
    assert "no known positive" in judge.thresholds("observed", np.full((2, 2), 0.5, np.float32))["absent"]
    logits = np.array([[2.0, -1.0], [0.0, 0.0]], np.float32)
    assert "not probabilities" in judge.thresholds("clean", logits)["absent"]
    assert "not probabilities" in calibration_figures(logits, judge.test)["absent"]


def test_early_stopping_looks_at_the_labels_of_its_rule(table: Path) -> None:
    judge = assemble(linear(table)).judge
    assert judge.val is not None
    scores = np.random.default_rng(0).random(judge.val.shape).astype(np.float32)
    assert judge.thresholds("clean-stop", scores) == judge.thresholds("clean", scores)
    assert judge.thresholds("observed-stop", scores) == judge.thresholds("observed", scores)
