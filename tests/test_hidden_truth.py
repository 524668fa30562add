"""Whole runs in two worlds that look alike from outside: what is hidden in one is the opposite in the other.

Whatever a run decides with observed labels (weights, epoch, point of a search, thresholds) must come out byte for
byte the same.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tacit.conduct
from small_runs import finetune, linear, observation_for, run, small_machine, table
from tacit.assemble import Bench
from tacit.labels import UNKNOWN, Labels
from tacit.methods.base import Method
from tacit.methods.registry import find_method, method_names

__all__ = ["small_machine", "table"]


def opposite(truth: Labels, observed: Labels | None = None) -> Labels:
    """Every label turned round, except those that were observed."""
    states = truth.dense()
    known = np.zeros_like(states) if observed is None else observed.dense()
    return Labels.from_dense(np.where(known == UNKNOWN, -states, states), truth.classes)


def turned(bench: Bench) -> Bench:
    judge = bench.judge
    assert judge.val is not None and judge.val_observed is not None
    judge = replace(
        judge,
        train=opposite(judge.train, bench.observed),
        val=opposite(judge.val, judge.val_observed),
        test=opposite(judge.test),
    )
    truths = {"train": judge.train, "val": judge.val, "test": judge.test}
    splits = {name: replace(split, labels=truths[name]) for name, split in bench.splits.items()}
    return replace(bench, judge=judge, splits=splits)


def decided(directory: Path, result: dict[str, Any]) -> tuple[Any, ...]:
    with np.load(directory / "scores-test.npz") as held:
        scores = held["scores"].tobytes()
    selected = {key: result["selected"][key] for key in ("epoch", "value", "point")}
    chosen = result["thresholds"], (directory / "model.json").read_bytes()
    return (directory / "model.safetensors").read_bytes(), scores, selected, result["search"], chosen


@pytest.mark.parametrize("search", ["", "lr=1e-1,1e-3"])
@pytest.mark.parametrize("name", method_names())
def test_nothing_that_was_hidden_decides_anything(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, search: str
) -> None:
    options, make = dict(find_method(name).example_options), finetune if find_method(name).needs_images else linear
    config = make(table, method=name, method_options=options, search=search, observe=observation_for(name))
    usual = tacit.conduct.assemble
    here = run(config, tmp_path / "here")
    monkeypatch.setattr("tacit.conduct.assemble", lambda config: turned(usual(config)))
    there = run(config, tmp_path / "there")
    assert here["metrics"]["test"]["mAP"] != there["metrics"]["test"]["mAP"]
    assert decided(tmp_path / "here", here) == decided(tmp_path / "there", there)


def test_selection_on_clean_labels_does_look_at_them(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same comparison can fail: an oracle's value changes with what was hidden."""
    config, usual = linear(table, select="clean"), tacit.conduct.assemble
    here = run(config, tmp_path / "here")
    monkeypatch.setattr("tacit.conduct.assemble", lambda config: turned(usual(config)))
    assert here["selected"]["value"] != run(config, tmp_path / "there")["selected"]["value"]


def test_two_rules_that_choose_one_epoch_look_at_the_test_split_once(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, judged = tacit.conduct.figures, []
    monkeypatch.setattr(tacit.conduct, "figures", lambda *words: judged.append(words) or usual(*words))
    config = replace(linear(table), observe="full", also_select=("clean",))  # nothing is hidden: both rules agree
    result = run(config, tmp_path / "run")
    assert len(judged) == 3  # train, test, val
    assert result["also"]["clean"]["metrics"] == result["metrics"]


@pytest.mark.parametrize("search", ["", "lr=1e-2,1e-3"])
def test_the_test_split_is_scored_once_after_all_training(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, search: str
) -> None:
    told: list[str] = []
    usual, predict = tacit.conduct.assemble, Method.predict
    test_rows: list[torch.Tensor] = []

    def watched(config: Any) -> Bench:
        bench = usual(config)
        inputs = Bench.inputs

        def noted(self: Bench, *words: Any) -> Any:
            found = inputs(self, *words)
            test_rows[:] = [found["test"].rows(torch.arange(len(found["test"])))]
            return found

        monkeypatch.setattr(Bench, "inputs", noted)
        return bench

    def listening(method: Method, inputs: torch.Tensor) -> torch.Tensor:
        told.append("test" if torch.equal(inputs, test_rows[0]) else "other")
        return predict(method, inputs)

    monkeypatch.setattr("tacit.conduct.assemble", watched)
    monkeypatch.setattr(Method, "predict", listening)
    run(linear(table, search=search), tmp_path / "run")
    assert told.count("test") == 1 and told.index("test") >= 3
    assert "other" in told[: told.index("test")] and len(told) - told.index("test") <= 3
