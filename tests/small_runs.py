"""Whole runs in miniature: 47 images of a label table, their features, and a backbone with BatchNorm and Dropout."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import tacit.assemble
from tacit.conduct import conduct
from tacit.label_table import LabelTable, write_label_table
from tacit.labels import Labels
from tacit.methods.registry import learns_from_positives
from tacit.nets.backbone import Backbone, Preprocessing
from tacit.run import RunConfig
from tacit.train import EpochEnd, Interrupted, State
from tacit.trial import Silent, Trial

TRAIN, TEST, CLASSES, SIDE = 38, 9, ("ant", "bee", "cow", "dog"), 8
PREPROCESSING = Preprocessing((0.5, 0.5, 0.5), (0.5, 0.5, 0.5), SIDE)


class TinyBackbone(Backbone):
    """Remembers batch statistics and draws at random, as large ones do."""

    def __init__(self) -> None:
        super().__init__()
        self.width, self.map_width, self.preprocessing = 6, 6, PREPROCESSING
        self.body = nn.Sequential(nn.Conv2d(3, 6, 3, 2), nn.BatchNorm2d(6), nn.ReLU(), nn.Dropout(0.3))

    def maps(self, images: Tensor) -> Tensor:
        return self.body(images)

    def pool(self, maps: Tensor) -> Tensor:
        return maps.mean((2, 3))

    def describe(self) -> dict[str, Any]:
        return {"kind": "tiny"}


def write_world(folder: Path) -> Path:
    """A label table with its pictures, and features.npz beside it; returns the table."""
    draw = np.random.RandomState(0)
    total = TRAIN + TEST
    features = draw.randn(total, 5).astype(np.float32)
    positive = features @ draw.randn(5, len(CLASSES)) > 0.2
    positive[np.arange(total), np.arange(total) % len(CLASSES)] = True
    names = tuple(f"{i:03d}.png" for i in range(total))
    pixels = draw.randint(0, 256, (total, SIDE, SIDE, 3), dtype=np.uint8)
    for name, image in zip(names, pixels, strict=True):
        Image.fromarray(image).save(folder / name)
    labels = Labels.from_dense(np.where(positive, 1, -1).astype(np.int8), CLASSES)
    write_label_table(folder / "labels.csv", LabelTable(names, labels, ("train",) * TRAIN + ("test",) * TEST))
    np.savez(folder / "features.npz", images=np.array(names), features=features)
    return folder / "labels.csv"


def linear(table: Path, **changes: Any) -> RunConfig:
    budget = {"epochs": 3, "batch_size": 7, "lr": 0.01} | changes.pop("budget", {})
    config = RunConfig(str(table), features=str(table.parent / "features.npz"), device="cpu", budget=budget)
    return replace(config, **changes)


def finetune(table: Path, **changes: Any) -> RunConfig:
    return linear(table, **({"protocol": "finetune", "features": None, "backbone": "tiny"} | changes))


def role(config: RunConfig, **changes: Any) -> RunConfig:
    return replace(config, method="role", method_options={"k": 1.5}, **changes)


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(autouse=True)
def small_machine(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The tiny backbone under the name 'tiny', a cache of our own, one thread."""
    usual, usual_shape = tacit.assemble.fresh_backbone, tacit.assemble.fresh_backbone_shape
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(
        tacit.assemble, "fresh_backbone", lambda config: TinyBackbone() if config.backbone == "tiny" else usual(config)
    )
    monkeypatch.setattr(
        tacit.assemble,
        "fresh_backbone_shape",
        lambda name, size: PREPROCESSING if name == "tiny" else usual_shape(name, size),
    )


class StopAfter:
    """An interruption that arrives while step number `steps` of the whole run is being taken."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    @property
    def requested(self) -> bool:
        self.left -= 1
        return self.left == 0


Moment = tuple[Any, ...]


class Watch:
    """Everything a run remembered at the end of each epoch, by (folder inside the run, budget, stage, epoch)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: dict[Moment, dict[str, Tensor]] = {}
        usual = Trial.on_epoch

        def on_epoch(trial: Trial, end: EpochEnd, state: State) -> bool:
            try:
                return usual(trial, end, state)
            finally:
                moment = (trial.directory.path.name, trial.budget, end.clock.stage, end.clock.epoch)
                self.seen[moment] = remembered(trial, state)

        monkeypatch.setattr(Trial, "on_epoch", on_epoch)


def remembered(trial: Trial, state: State) -> dict[str, Tensor]:
    tensors = {f"method.{name}": tensor for name, tensor in trial.method.state_dict().items()}
    tensors |= {f"optimizer.{name}": tensor for name, tensor in state.optimizer.items()}
    for rule, best in trial.best.items():
        tensors |= {f"best.{rule}.{name}": tensor for name, tensor in best.state.items()}
        facts = [best.epoch, -1.0 if best.value is None else best.value]
        tensors[f"best.{rule}.facts"] = torch.tensor(facts, dtype=torch.float64)
    if trial.recorder is not None:
        tensors["recorded"] = trial.recorder.logits.nan_to_num(-1)
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def forget() -> None:
    """As a new process starts: nothing cached, the global generators anywhere."""
    for cached in (tacit.assemble._load, tacit.assemble._store):
        cached.cache_clear()
    torch.manual_seed(np.random.randint(2**31))
    torch.rand(7)


def run(config: RunConfig, out: Path, *, resume: bool = False) -> dict[str, Any]:
    return conduct(config, out, Silent(), resume=resume)


def run_interrupted(config: RunConfig, out: Path, steps: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """True if the run was stopped after `steps` steps, False if it was over before."""

    @contextmanager
    def stop_on_ctrl_c() -> Any:
        yield StopAfter(steps)

    with monkeypatch.context() as patch:
        patch.setattr("tacit.conduct._stop_on_ctrl_c", stop_on_ctrl_c)
        try:
            run(config, out)
        except Interrupted as stop:
            assert "--resume" in str(stop)
            return True
    return False


def observation_for(method: str) -> str:
    """Labels that a method can learn from: one that ignores unknown labels needs known negatives."""
    return "single-positive" if learns_from_positives(method) else "known-share:0.5"
