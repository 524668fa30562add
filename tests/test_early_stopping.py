"""Rules that stop at the first epoch that is no better, and searches over a method's own hyper-parameters."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from small_runs import finetune, linear, run, run_interrupted, small_machine, table
from tacit.evaluate import Judge
from tacit.protocols import ProtocolError, search_grid
from tacit.run import RunConfig
from test_resume import wide_features

__all__ = ["small_machine", "table"]

VALUES = (0.3, 0.5, 0.5, 0.9)  # of four epochs: the third is no better, and the fourth the best


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Validation values by epoch instead of by scores: the same for every rule of an epoch."""
    asked = {"epochs": -1}

    def selection(_judge: Judge, rule: str, val_scores: Any) -> float | None:
        if val_scores is not None and not val_scores.any():
            return 0.0  # the look before training whether anything can be scored
        if asked.get("scores") is not val_scores:
            asked["scores"], asked["epochs"] = val_scores, asked["epochs"] + 1
        return VALUES[asked["epochs"] % len(VALUES)]

    monkeypatch.setattr(Judge, "selection", selection)
    return asked


def epochs_of(out: Path) -> int:
    return len((out / "metrics.jsonl").read_text().splitlines())


def four(table: Path, **changes: Any) -> RunConfig:
    return linear(table, budget={"epochs": 4}, **changes)


def test_training_ends_with_the_first_epoch_that_is_no_better(
    table: Path, tmp_path: Path, scripted: dict[str, int]
) -> None:
    result = run(four(table, select="clean-stop"), tmp_path / "run")
    assert epochs_of(tmp_path / "run") == 3
    assert (result["selected"]["epoch"], result["selected"]["value"]) == (1, 0.5)
    assert result["selected"]["rule"] == "clean-stop" and result["selected"]["labels"] == "clean"
    assert any("clean validation" in oracle for oracle in result["oracles"])
    assert any("stops after the first epoch" in choice for choice in result["choices"])


def test_beside_another_rule_training_goes_on(table: Path, tmp_path: Path, scripted: dict[str, int]) -> None:
    result = run(four(table, select="clean-stop", also_select=("clean",)), tmp_path / "run")
    assert epochs_of(tmp_path / "run") == 4
    assert result["selected"]["epoch"] == 1
    assert (result["also"]["clean"]["epoch"], result["also"]["clean"]["value"]) == (3, 0.9)


def test_two_stopping_rules_wait_for_each_other(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {
        "clean-stop": iter((0.5, 0.4, 0.9, 0.9)),
        "observed-stop": iter((0.1, 0.2, 0.3, 0.2)),
        "clean": iter([0.0] * 4),
    }
    monkeypatch.setattr(
        Judge, "selection", lambda _, rule, told: next(values[rule]) if told is not None and told.any() else 0.0
    )
    result = run(four(table, select="clean-stop", also_select=("observed-stop",)), tmp_path / "run")
    assert epochs_of(tmp_path / "run") == 4
    assert result["selected"]["epoch"] == 0 and result["also"]["observed-stop"]["epoch"] == 2


def test_an_earlier_phase_runs_to_its_end(table: Path, tmp_path: Path, scripted: dict[str, int]) -> None:
    features = str(tmp_path / "wide.npz")
    wide_features(table, features)
    budget = {"epochs": 4, "linear_epochs": 4}
    config = finetune(table, protocol="linear_init", features=features, budget=budget)
    run(replace(config, select="clean-stop"), tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["stage"] for line in lines] == ["linear"] * 4 + ["finetune"] * 3


def test_resumed_after_it_stopped(
    table: Path, tmp_path: Path, scripted: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = four(table, select="clean-stop")
    assert run_interrupted(config, tmp_path / "run", 7, monkeypatch)  # in the second epoch
    result = run(config, tmp_path / "run", resume=True)
    assert epochs_of(tmp_path / "run") == 3 and result["selected"]["epoch"] == 1


def test_a_search_tries_hyper_parameters_of_the_method(table: Path, tmp_path: Path) -> None:
    result = run(linear(table, method="dw", search="lr=1e-2 weight=0.1,1"), tmp_path / "run")
    assert [point["weight"] for point in result["search"]] == [0.1, 1.0]
    chosen = result["selected"]["point"]["weight"]
    assert result["run"]["unknown"] == f"negative, weight {chosen:g}"
    told = json.loads((tmp_path / "run" / "model.json").read_text())
    assert told["method_options"] == {"weight": chosen}
    assert result["options"]["method"] == {}  # what was asked for; what was found is the point


def test_weight_one_is_assuming_negatives(table: Path, tmp_path: Path) -> None:
    searched = run(linear(table, method="dw", search="weight=1"), tmp_path / "dw")
    plain = run(linear(table, method="an"), tmp_path / "an")
    assert searched["metrics"]["test"]["mAP"] == plain["metrics"]["test"]["mAP"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("weight=0.1", "cannot read 'weight=0.1'"),
        ("warm_up=1.5", "warm_up takes whole numbers"),
        ("alpha=a", "alpha takes numbers"),
        ("lr=1 lr=2", "names lr twice"),
    ],
)
def test_searches_that_cannot_be_read(text: str, said: str) -> None:
    with pytest.raises(ProtocolError, match=said):
        search_grid(text, {"alpha": float, "warm_up": int})


@pytest.mark.parametrize(
    ("options", "epochs", "said"), [({"warm_up": 3}, 3, "leaves no epoch"), ({"share": 2.0}, 3, "share = 2")]
)
def test_what_a_method_refuses_leaves_the_folder_free(
    table: Path, tmp_path: Path, options: dict[str, Any], epochs: int, said: str
) -> None:
    from tacit.errors import UserError

    config = linear(table, method="em_apl", method_options=options, budget={"epochs": epochs})
    with pytest.raises(UserError, match=said):
        run(config, tmp_path / "run")
    assert run(linear(table, method="em_apl", budget={"epochs": 2}), tmp_path / "run")["status"] == "finished"
