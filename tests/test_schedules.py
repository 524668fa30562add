"""Schedules in closed form, through the loop, and across an interruption."""

from pathlib import Path
from typing import Any

import pytest
import torch

from small_runs import finetune, linear, run, run_interrupted, small_machine, table
from tacit.errors import UserError
from tacit.protocols import budgets
from tacit.schedules import schedule

__all__ = ["small_machine", "table"]
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("constant", [1, 1, 1, 1]),
        ("cosine", [1, 0.8535534, 0.5, 0.1464466]),
        ("step:1,3", [1, 0.1, 0.1, 0.01]),
        ("step:0.5", [1, 0.1, 0.1, 0.1]),
    ],
)
def test_by_hand(text: str, expected: list[float]) -> None:
    factor = schedule(text, epochs=4).factor
    assert [factor(done / 4) for done in range(4)] == pytest.approx(expected)


@pytest.mark.parametrize("length", [1, 2])
def test_one_cycle_is_torchs(length: int) -> None:
    steps = 2000
    parameter = torch.nn.Parameter(torch.zeros(1))
    sgd = torch.optim.SGD([parameter], lr=1.0)
    torchs = torch.optim.lr_scheduler.OneCycleLR(sgd, 1.0, total_steps=length * steps + 1, pct_start=0.2)
    ours = schedule("onecycle" if length == 1 else f"onecycle:{length}", epochs=1).factor
    for step in range(steps):
        at = torchs.get_last_lr()[0]
        assert ours(step / steps) == pytest.approx(at, abs=0.002)  # torch counts the end points otherwise
        sgd.step()
        torchs.step()


@pytest.mark.parametrize("text", ["", "cosin", "cosine:2", "step", "step:a", "step:-1", "onecycle:0.5", "onecycle:nan"])
def test_what_cannot_be_read(text: str) -> None:
    with pytest.raises(UserError, match="--schedule"):
        schedule(text, epochs=4)
    with pytest.raises(UserError, match="--schedule"):
        budgets("linear", {"schedule": text})


@pytest.mark.parametrize(
    ("change", "said"), [({"momentum": 1.0}, "momentum"), ({"head_lr": 0.0}, "head_lr"), ({"optimizer": "rms"}, "adam")]
)
def test_budgets_that_make_no_sense(change: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        budgets("linear", change)


SGD = {"optimizer": "sgd", "momentum": 0.9, "schedule": "cosine", "lr": 0.05, "weight_decay": 1e-4, "head_lr": 10.0}


def test_a_rate_that_falls_moves_the_last_steps_less(table: Path, tmp_path: Path) -> None:
    constant = run(linear(table, budget={"epochs": 3, "lr": 0.1}), tmp_path / "constant")
    falling = run(linear(table, budget={"epochs": 3, "lr": 0.1, "schedule": "step:0"}), tmp_path / "falling")
    tenth = run(linear(table, budget={"epochs": 3, "lr": 0.01}), tmp_path / "tenth")
    assert falling["metrics"]["train"] == tenth["metrics"]["train"] != constant["metrics"]["train"]
    assert any("schedule = step:0" in choice for choice in falling["choices"])


@pytest.mark.parametrize("make", [linear, finetune])
def test_resumed_with_momentum_and_a_schedule(
    make: Any, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make(table, budget={"epochs": 3, **SGD})
    whole = run(config, tmp_path / "whole" / "run")
    assert run_interrupted(config, tmp_path / "parts" / "run", 8, monkeypatch)
    parts = run(config, tmp_path / "parts" / "run", resume=True)
    for file in ("model.safetensors", "scores-test.npz"):
        assert (tmp_path / "whole" / "run" / file).read_bytes() == (tmp_path / "parts" / "run" / file).read_bytes()
    assert whole["metrics"] == parts["metrics"]
