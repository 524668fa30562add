"""A run from configuration to files: what it looks at, how often, and what it leaves behind."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tacit.conduct
from small_runs import CLASSES, TEST, TRAIN, finetune, linear, role, run, small_machine, table
from tacit.assemble import assemble
from tacit.errors import UserError
from tacit.evaluate import Judge, figures
from tacit.label_table import read_label_table
from tacit.labels import Labels
from tacit.methods.base import Batch, Clock, Method
from tacit.methods.registry import build_method
from tacit.run import RunConfig
from tacit.trial import Silent

__all__ = ["small_machine", "table"]
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

HELD = round(0.2 * TRAIN)


def content(out: Path) -> dict[str, Any]:
    return json.loads((out / "result.json").read_text())


def metrics(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def finished(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("finished") / "run"
    run(role(linear(table, also_select=("clean", "last"), budget={"epochs": 4})), out)
    return out


class TestFiles:
    def test_the_run_directory(self, finished: Path) -> None:
        names = {path.name for path in finished.iterdir()}
        expected = {"config.toml", "labels-observed.parquet", "metrics.jsonl", "search.jsonl", "result.json"}
        expected |= {"model.safetensors", "model.json", "examples-test.npz", "gradients.json"}
        expected |= {f"scores-{split}.npz" for split in ("train", "val", "test")}
        assert names == expected

    def test_observed_labels(self, finished: Path, table: Path) -> None:
        told = read_label_table(finished / "labels-observed.parquet")
        bench = assemble(role(linear(table)))
        assert told.split == ("train",) * (TRAIN - HELD) + ("val",) * HELD
        assert told.labels.take(np.arange(TRAIN - HELD)) == bench.observed
        assert told.images[: TRAIN - HELD] == bench.splits["train"].images
        assert (told.labels.counts().present.sum(), told.labels.counts().absent.sum()) == (TRAIN, 0)

    def test_scores_give_the_figures(self, finished: Path) -> None:
        result = content(finished)
        for split in ("train", "val", "test"):
            held = np.load(finished / f"scores-{split}.npz")
            found = figures(held["scores"], Labels.from_dense(held["truth"], CLASSES))
            assert found["metrics"] == result["metrics"][split]
            assert found["AP"] == result["per_class"][split]["AP"]
        assert len(held["images"]) == TEST and "observed" not in held

    def test_result(self, finished: Path) -> None:
        result = content(finished)
        assert result["status"] == "finished" and result["classes"] == list(CLASSES)
        assert result["run"]["observe_seed"] == 1200 and result["images"] == TRAIN - HELD
        assert result["counts"]["train"]["observed_absent"] == [0] * len(CLASSES)
        assert result["options"]["budget"]["epochs"] == 4 and result["options"]["method"] == {"k": 1.5}
        assert any("k = 1.5" in oracle for oracle in result["oracles"])
        assert any(choice.startswith("linear: epochs = 4") for choice in result["choices"])

    def test_each_rule_reports_its_own_epoch(self, finished: Path) -> None:
        result, told = content(finished), metrics(finished)
        observed, clean = [line["selection"] for line in told], [line["val"]["mAP"] for line in told]
        assert result["selected"]["epoch"] == int(np.argmax(observed))
        assert result["selected"]["value"] == max(observed)
        assert result["also"]["clean"]["epoch"] == int(np.argmax(clean))
        assert result["also"]["clean"]["metrics"]["val"]["mAP"] == max(clean)
        assert result["also"]["last"]["epoch"] == 3

    def test_clean_selection_is_called_an_oracle(self, table: Path, tmp_path: Path) -> None:
        result = run(linear(table, select="clean"), tmp_path / "run")
        assert any("clean validation" in oracle for oracle in result["oracles"])


def test_equal_values_keep_the_earlier_epoch(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Judge, "selection", lambda *_: 0.5)
    assert run(linear(table), tmp_path / "run")["selected"]["epoch"] == 0


def test_last_keeps_the_last_epoch(table: Path, tmp_path: Path) -> None:
    result = run(linear(table, select="last"), tmp_path / "run")
    assert (result["selected"]["epoch"], result["selected"]["value"]) == (2, None)


def test_without_validation_every_row_trains(table: Path, tmp_path: Path) -> None:
    result = run(linear(table, val=0), tmp_path / "run")
    assert result["images"] == TRAIN and result["selected"]["epoch"] == 2
    assert set(result["metrics"]) == {"train", "test"}
    assert "no validation: the last epoch is reported" in result["choices"]
    assert all("val" not in line and "selection" not in line for line in metrics(tmp_path / "run"))


def test_a_search_keeps_the_first_best_point(table: Path, tmp_path: Path) -> None:
    config = linear(table, search="lr=1e-2,1e-9 batch_size=7,30", budget={"epochs": 2})
    result = run(config, tmp_path / "run")
    values = [line["value"] for line in result["search"]]
    assert len(values) == 4 and result["selected"]["value"] == max(values)
    chosen = result["search"][values.index(max(values))]
    assert result["selected"]["point"] == {key: chosen[key] for key in ("lr", "batch_size")}
    alone = {key: chosen[key] for key in ("lr", "batch_size")} | {"epochs": 2}
    again = run(replace(config, search="", budget=alone), tmp_path / "alone")
    assert again["metrics"] == result["metrics"]


def test_a_point_that_diverges_is_left_out(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = tacit.conduct.Trial.run

    def run_trial(trial: Any) -> Any:
        if trial.budgets[-1].lr == 0.5:
            raise tacit.conduct.Diverged("the loss term 'an' became NaN")
        return usual(trial)

    monkeypatch.setattr(tacit.conduct.Trial, "run", run_trial)
    result = run(linear(table, search="lr=0.5,0.01", budget={"epochs": 1}), tmp_path / "run")
    assert [line["lr"] for line in result["search"]] == [0.01]
    with pytest.raises(tacit.conduct.Diverged, match="every point of the search diverged"):
        run(linear(table, search="lr=0.5", budget={"epochs": 1}), tmp_path / "all")


@pytest.mark.parametrize("search", ["", "lr=1e-2,1e-3"])
def test_the_test_split_is_scored_once_after_training(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, search: str
) -> None:
    """Before training has ended, nothing runs over the test images and nobody reads the test labels."""
    events: list[str] = []
    sizes = {TRAIN - HELD: "train", HELD: "val", TEST: "test"}
    usual = tacit.conduct.scores
    for module in ("trial", "conduct"):
        monkeypatch.setattr(
            f"tacit.{module}.scores",
            lambda method, inputs, runtime, module=module: (
                events.append(f"{module}:{sizes[len(inputs)]}"),
                usual(method, inputs, runtime),
            )[1],
        )
    run(linear(table, search=search), tmp_path / "run")
    assert events.count("conduct:test") == 1 and "trial:test" not in events
    assert events.index("conduct:test") > max(i for i, event in enumerate(events) if event.startswith("trial"))


class Suspicious(Method):
    """Looks for the truth in everything it is given."""

    truth: np.ndarray
    observed: np.ndarray

    unknown = "left alone"

    def __init__(self, net: torch.nn.Module, observed: Labels) -> None:
        super().__init__(net, observed)
        assert np.array_equal(observed.dense(), self.observed)

    def loss(self, batch: Batch, clock: Clock) -> dict[str, torch.Tensor]:
        rows = batch.index.numpy()
        assert np.array_equal(batch.labels.numpy(), self.observed[rows])
        assert (batch.labels.numpy() == 0).any() and not (self.truth[rows] == 0).any()
        return {"loss": self.net(batch.inputs).square().mean()}

    def refresh(self, clock: Clock, sweep: Any) -> None:
        for swept in sweep():
            assert {name for name in dir(swept) if not name.startswith("_")} == {"index", "logits", "features"}


def test_hidden_labels_never_reach_a_method(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = linear(table)
    bench = assemble(config)
    Suspicious.truth, Suspicious.observed = bench.judge.train.dense(), bench.observed.dense()
    monkeypatch.setattr("tacit.assemble.build_method", lambda name, net, observed, options: Suspicious(net, observed))
    assert run(config, tmp_path / "run")["status"] == "finished"
    assert reachable(build_method("role", torch.nn.Linear(5, 4), bench.observed, {"k": 1.5}), Suspicious.truth) == []


def reachable(thing: Any, truth: np.ndarray) -> list[str]:
    """Attributes of a method, at any depth, that equal the truth."""
    found, queue, seen = [], [("method", thing)], set()
    while queue:
        where, thing = queue.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, Labels):
            thing = thing.dense()
        if isinstance(thing, np.ndarray | torch.Tensor):
            values = np.asarray(thing.detach() if isinstance(thing, torch.Tensor) else thing)
            found += [where] if values.shape == truth.shape and np.array_equal(values, truth) else []
        elif isinstance(thing, dict):
            queue += [(f"{where}[{key}]", value) for key, value in thing.items()]
        elif hasattr(thing, "__dict__"):
            queue += [(f"{where}.{key}", value) for key, value in vars(thing).items()]
    return found


def test_what_training_sees_does_not_depend_on_the_truth(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other hidden labels, the same observed ones: the same weights."""
    from tacit.runtime import Runtime
    from tacit.train import fit

    class Quiet:
        def on_step(self, *_: Any) -> None: ...

        def on_epoch(self, *_: Any) -> bool:
            return False

        def interrupted(self, *_: Any) -> bool:
            return False

    config, runtime, weights = linear(table), Runtime("cpu"), []
    for flip in (False, True):
        bench = assemble(config)
        if flip:
            hidden = np.where(bench.observed.dense() == 0, -bench.judge.train.dense(), bench.judge.train.dense())
            split = replace(bench.splits["train"], labels=Labels.from_dense(hidden, CLASSES))
            bench = replace(
                bench, splits=bench.splits | {"train": split}, judge=replace(bench.judge, train=split.labels)
            )
        inputs = bench.inputs("features", runtime)
        torch.manual_seed(0)
        method = bench.method(bench.net("features", inputs), runtime)
        stage = tacit.conduct.budgets("linear", {"epochs": 2})[0]
        fit(method, stage, inputs["train"], bench.observed, Quiet(), runtime=runtime, seed=0)
        weights.append(method.state_dict())
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_linear_init_on_features_of_another_backbone(table: Path, tmp_path: Path) -> None:
    """The tiny backbone makes 6 numbers, and the features that were brought have 5."""
    features = str(table.parent / "features.npz")
    config = finetune(table, protocol="linear_init", features=features, budget={"epochs": 1, "linear_epochs": 1})
    with pytest.raises(UserError, match="features of 5 numbers, and the backbone makes 6"):
        run(config, tmp_path / "run")


def test_linear_init_hands_over_the_selected_epoch(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tacit.methods.role import ROLE
    from test_resume import wide_features

    features = str(table.parent / "wide.npz")
    wide_features(table, features)
    handed: list[tuple[torch.Tensor, torch.Tensor]] = []
    usual = ROLE.hand_over

    def hand_over(method: ROLE, previous: ROLE) -> None:
        usual(method, previous)
        handed.append((method.theta.weight.detach().clone(), previous.estimates()))
        assert torch.equal(method.net.head.weight, previous.net.head.weight)

    monkeypatch.setattr(ROLE, "hand_over", hand_over)
    monkeypatch.setattr("tacit.conduct.write_regime", lambda directory, observed: None)  # it hands estimates over, too
    budget = {"epochs": 1, "linear_epochs": 2}
    result = run(role(finetune(table, protocol="linear_init", features=features, budget=budget)), tmp_path / "run")
    ((theta, estimates),) = handed
    torch.testing.assert_close(theta.sigmoid(), estimates.clamp(1e-5, 1 - 1e-5))
    assert [line["stage"] for line in metrics(tmp_path / "run")] == ["linear", "linear", "finetune"]
    assert result["selected"]["stage"] == "finetune"


def test_the_observation_is_drawn_on_the_whole_pool_before_the_split(table: Path) -> None:
    from tacit.data.splits import hold_out
    from tacit.observations import parse_observation

    bench = assemble(linear(table))
    pool = bench.source.splits["train"].labels
    hidden = parse_observation("single-positive")(pool, seed=1200)
    rows, held = hold_out(TRAIN, 0.2, 1200)
    assert bench.observed == hidden.take(rows) and bench.judge.val_observed == hidden.take(held)
    assert bench.judge.train == pool.take(rows)


def test_the_fingerprint_is_of_the_protocol(table: Path, tmp_path: Path) -> None:
    def fingerprint(name: str, config: RunConfig) -> str:
        return str(tacit.conduct.conduct(config, tmp_path / name, Silent())["fingerprint"])

    short = {"budget": {"epochs": 1}}
    base = fingerprint("base", linear(table, **short))
    assert fingerprint("method", role(linear(table, seed=4, observe_seed=5, **short))) == base
    assert fingerprint("split", linear(table, split_seed=7, **short)) != base
    assert fingerprint("select", linear(table, select="clean", **short)) != base


def test_a_method_that_asks_its_net_otherwise_has_no_accumulated_label_recovery(table: Path, tmp_path: Path) -> None:
    short = finetune(table, observe="known-share:0.5", train_scores="accumulated", budget={"epochs": 1})
    run(replace(short, method="saliency"), tmp_path / "run")
    assert [("val" in line, "train" in line) for line in metrics(tmp_path / "run")] == [(True, False)]
    assert content(tmp_path / "run")["metrics"]["train"]
