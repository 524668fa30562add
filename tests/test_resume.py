"""A run that was interrupted and resumed is the run that was not, bit for bit."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from small_runs import (
    Watch,
    finetune,
    forget,
    linear,
    observation_for,
    role,
    run,
    run_interrupted,
    small_machine,
    table,
)
from tacit.checkpoint import load
from tacit.methods.registry import find_method, method_names
from tacit.optim import Optimizer
from tacit.run import RunConfig

__all__ = ["small_machine", "table"]
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

STEPS = 5  # of an epoch: 30 training rows, batch 7, the last one of 2 rows
UNTIMED = ("seconds", "peak_memory_mb", "threads")


def lines(out: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key not in UNTIMED} for row in rows]


def result(out: Path) -> dict[str, Any]:
    content = json.loads((out / "result.json").read_text())
    return {key: value for key, value in content.items() if key not in UNTIMED}


def assert_same_run(whole: Path, parts: Path) -> None:
    assert lines(whole) == lines(parts)
    assert result(whole) == result(parts)
    (a, _), (b, _) = load(whole / "model.safetensors"), load(parts / "model.safetensors")
    assert a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
    left = {path.relative_to(parts).as_posix() for path in parts.rglob("*")}
    assert left == {path.relative_to(whole).as_posix() for path in whole.rglob("*")}


class Story:
    """Runs a configuration whole and in parts, in folders of its own, and compares all that is remembered."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.monkeypatch, self.watch = folder, monkeypatch, Watch(monkeypatch)

    def check(self, config: RunConfig, *stops: int, resumed: RunConfig | None = None) -> None:
        whole = self.folder / "whole" / "run"
        run(config, whole)
        expected = dict(self.watch.seen)
        for steps in stops:
            self.watch.seen.clear()
            forget()
            parts = self.folder / f"stopped-{steps}" / "run"
            assert run_interrupted(config, parts, steps, self.monkeypatch), "the run was over before"
            forget()
            run(resumed or config, parts, resume=True)
            assert self.watch.seen.keys() == expected.keys()
            for moment, tensors in expected.items():
                found = self.watch.seen[moment]
                assert tensors.keys() == found.keys()
                different = [
                    name for name, tensor in tensors.items() if not torch.equal(tensor.cpu(), found[name].cpu())
                ]
                assert not different, f"stopped after step {steps}: {different} differ at {moment}"
            if resumed is None:
                assert_same_run(whole, parts)


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Story:
    return Story(tmp_path, monkeypatch)


@pytest.fixture
def by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row tables of any size take the sparse path."""
    monkeypatch.setitem(Optimizer.__init__.__kwdefaults__, "dense_cells", 0)


@pytest.fixture
def streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No image stays in memory."""
    monkeypatch.setattr("tacit.data.images.default_memory_limit", lambda: 0.0)


BORDERS = (1, 4, STEPS, STEPS + 1, 2 * STEPS, 3 * STEPS - 1, 3 * STEPS)


def test_features_at_any_step(story: Story, table: Path) -> None:
    story.check(linear(table, also_select=("clean", "last")), *BORDERS)


def test_role_with_dense_adam(story: Story, table: Path) -> None:
    story.check(role(linear(table)), 1, STEPS, 8)


def test_role_by_rows(story: Story, table: Path, by_rows: None) -> None:
    story.check(role(linear(table)), *BORDERS)


def test_accumulated_label_recovery(story: Story, table: Path) -> None:
    story.check(linear(table, train_scores="accumulated"), 3, STEPS, STEPS + 2)


@pytest.mark.parametrize("workers", [0, 2])
def test_images_with_batch_statistics_and_dropout(story: Story, table: Path, streamed: None, workers: int) -> None:
    story.check(role(finetune(table, workers=workers)), 2, STEPS, STEPS + 3)


def test_the_number_of_workers_may_change(story: Story, table: Path, streamed: None) -> None:
    config = finetune(table, budget={"epochs": 2})
    story.check(config, 3, resumed=replace(config, workers=1))


@pytest.mark.parametrize("rows", [False, True], ids=["dense", "by rows"])
def test_both_budgets_of_linear_init(story: Story, table: Path, rows: bool, request: pytest.FixtureRequest) -> None:
    if rows:
        request.getfixturevalue("by_rows")
    features = str(table.parent / "wide.npz")
    wide_features(table, features)
    budget = {"epochs": 2, "linear_epochs": 2, "linear_batch_size": 7}
    config = role(finetune(table, protocol="linear_init", features=features, budget=budget))
    story.check(config, 3, 2 * STEPS, 2 * STEPS + 1, 3 * STEPS, 3 * STEPS + 2)


def wide_features(table: Path, out: str) -> None:
    """Features as wide as the tiny backbone's."""
    import numpy as np

    with np.load(table.parent / "features.npz") as held:
        six = np.concatenate([held["features"], held["features"][:, :1] ** 2], axis=1)
        np.savez(out, images=held["images"], features=six)


def test_inside_a_search(story: Story, table: Path) -> None:
    config = linear(table, search="lr=1e-2,1e-3 batch_size=7,30", budget={"epochs": 2}, also_select=("clean",))
    story.check(config, 4, 2 * STEPS, 2 * STEPS + 2, 2 * (STEPS + 1) + 1)


@pytest.mark.parametrize("name", method_names())
def test_every_method(name: str, story: Story, table: Path) -> None:
    method = find_method(name)
    make: Callable[..., RunConfig] = finetune if method.needs_images else linear
    options, budget = dict(method.example_options), {"epochs": 2}
    config = make(table, method=name, method_options=options, budget=budget, observe=observation_for(name))
    story.check(config, 3, STEPS + 1)


def test_between_and_inside_rounds_of_pseudo_labels(story: Story, table: Path) -> None:
    config = linear(table, method="em_apl", method_options={"warm_up": 1}, budget={"epochs": 4})
    story.check(config, STEPS, STEPS + 1, 2 * STEPS, 3 * STEPS - 1, 3 * STEPS)


def test_rounds_of_pseudo_labels_on_flipped_images(story: Story, table: Path) -> None:
    config = finetune(table, method="em_apl", method_options={"warm_up": 1}, budget={"epochs": 3})
    story.check(config, STEPS, STEPS + 2, 2 * STEPS + 1)


def test_interrupted_twice(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = role(linear(table))
    run(config, tmp_path / "whole" / "run")
    out = tmp_path / "parts" / "run"
    assert run_interrupted(config, out, 3, monkeypatch)
    from small_runs import Silent, StopAfter
    from tacit import conduct

    class Again:
        def __enter__(self) -> StopAfter:
            return StopAfter(6)

        def __exit__(self, *_: object) -> None: ...

    with monkeypatch.context() as patch:
        patch.setattr("tacit.conduct._stop_on_ctrl_c", Again)
        with pytest.raises(conduct.Interrupted):
            conduct.conduct(config, out, Silent(), resume=True)
    run(config, out, resume=True)
    assert_same_run(tmp_path / "whole" / "run", out)


def test_a_crash_after_training_costs_no_training(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, out = linear(table, also_select=("clean",)), tmp_path / "crashed" / "run"
    with monkeypatch.context() as patch:
        patch.setattr("tacit.conduct.write_result", lambda *_: (_ for _ in ()).throw(RuntimeError("power cut")))
        with pytest.raises(RuntimeError, match="power cut"):
            run(config, out)
    with monkeypatch.context() as patch:
        patch.setattr("tacit.trial.fit", None)
        run(config, out, resume=True)
    run(config, tmp_path / "whole" / "run")
    assert_same_run(tmp_path / "whole" / "run", out)


def test_a_finished_run_is_read_and_not_repeated(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(linear(table), tmp_path / "run")
    monkeypatch.setattr("tacit.conduct.assemble", None)
    assert run(linear(table), tmp_path / "run", resume=True) == first


def test_ctrl_c_in_a_terminal(table: Path, tmp_path: Path) -> None:
    """A real process and a real signal; the printed command goes on, as it is printed."""
    out, whole = tmp_path / "run", tmp_path / "whole" / "run"
    budget = ["--epochs", "60", "--batch-size", "2", "--lr", "0.01"]
    words = [str(table), "--method", "role", "--k", "1.5", "--device", "cpu", *budget]
    words += ["--features", str(table.parent / "features.npz")]
    tacit = [sys.executable, "-m", "tacit"]
    started = subprocess.Popen([*tacit, "train", *words, "--out", str(out)], stderr=subprocess.PIPE, text=True)
    metrics, waited = out / "metrics.jsonl", time.monotonic()
    while not (metrics.is_file() and metrics.read_text().count("\n") >= 2):
        assert started.poll() is None, "the run ended before it could be stopped"
        assert time.monotonic() - waited < 60
        time.sleep(0.002)
    started.send_signal(signal.SIGINT)
    told = started.communicate(timeout=60)[1]
    assert started.returncode == 130, told
    assert "Everything is saved" in told and "Traceback" not in told
    again = re.search(r"tacit (train --config .* --resume)", " ".join(told.split()))
    assert again, told
    assert not (out / "result.json").exists()
    subprocess.run([*tacit, *again[1].split()], check=True, capture_output=True, timeout=100)
    subprocess.run([*tacit, "train", *words, "--out", str(whole)], check=True, capture_output=True, timeout=100)
    assert lines(out) == lines(whole)
    assert result(out) == result(whole)
