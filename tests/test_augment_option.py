"""`--augment`: what a run trains on, for any method."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from small_runs import finetune, linear, run, run_interrupted, small_machine, table
from tacit.data.batches import Batches, ImageInputs
from tacit.data.images import PixelStore, uniforms
from tacit.data.source import Split
from tacit.data.views import VIEWS, kinds_of, make_view
from tacit.errors import UserError
from tacit.labels import Labels
from tacit.methods.base import Stage
from tacit.nets.backbone import Preprocessing
from tacit.run import RunConfig, RunDirectory

__all__ = ["small_machine", "table"]
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def test_kinds_in_the_order_of_the_methods_views() -> None:
    assert kinds_of(("weak", "strong"), None) == {"weak": "weak", "strong": "strong"}
    assert kinds_of(("weak", "strong"), "crop") == {"weak": "crop", "strong": "strong"}
    assert kinds_of(("weak", "strong"), "crop,uda") == {"weak": "crop", "strong": "uda"}


@pytest.mark.parametrize(
    ("views", "augment", "said"),
    [
        (("weak",), "crop,strong", "names 2 views"),
        (("weak",), "wild", "no view named 'wild'"),
        (("weak",), ",", "2 views"),
    ],
)
def test_what_cannot_be_is_refused(views: tuple[str, ...], augment: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        kinds_of(views, augment)


def test_a_batch_holds_other_pixels_under_the_same_name_and_address() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (6, 3, 8, 8), dtype=np.uint8)
    labels = Labels.from_dense(np.ones((6, 1), np.int8), ["thing"])
    pre, cpu = Preprocessing(size=8), torch.device("cpu")
    inputs = ImageInputs(PixelStore(Split(tuple("abcdef"), labels, pixels=pixels), 8), pre, cpu)
    stage = Stage("finetune", 1, 4, 0.1, augment="crop")
    made = Batches(inputs, labels, stage, 0, ("weak", "strong"), seed=5, device=cpu)
    for batch in made.epoch(2):
        raw = torch.from_numpy(pixels)[batch.index]
        for number, (name, kind) in enumerate((("weak", "crop"), ("strong", "strong"))):
            wanted = make_view(kind, raw, uniforms(5, 2, batch.index, number, VIEWS[kind].draws), pre)
            assert torch.equal(batch.views[name].inputs, wanted.inputs)
            assert torch.equal(batch.views[name].geometry, wanted.geometry)


def short(where: Path, augment: str | None = None) -> RunConfig:
    budget = {"epochs": 2, "lr": 1e-3} | ({"augment": augment} if augment else {})
    return finetune(where, image_size=16, budget=budget)


def metrics(out: Path) -> list[dict]:
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if "seconds" not in k} for line in lines]


def test_a_run_says_so_and_resumes_in_the_middle(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = run(short(table), tmp_path / "usual")
    config = short(table, augment="strong_crop")
    told = run(config, tmp_path / "other")
    assert any("strong_crop" in choice for choice in told["choices"])
    assert not any("views" in choice for choice in usual["choices"])
    assert metrics(tmp_path / "usual") != metrics(tmp_path / "other")
    assert told["options"]["budget"]["augment"] == "strong_crop"
    assert "augment" not in json.dumps(usual["options"])
    assert RunDirectory(tmp_path / "other").config() == config
    assert run_interrupted(config, tmp_path / "again", 2, monkeypatch)
    run(config, tmp_path / "again", resume=True)
    assert metrics(tmp_path / "again") == metrics(tmp_path / "other")


@pytest.mark.parametrize("augment", ["wild", "crop,strong"])
def test_a_run_is_refused_before_it_begins(table: Path, tmp_path: Path, augment: str) -> None:
    with pytest.raises(UserError, match=r"wild|names 2 views"):
        run(short(table, augment=augment), tmp_path / "run")


def test_features_cannot_be_augmented(table: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be augmented"):
        run(linear(table, budget={"augment": "crop"}), tmp_path / "run")
