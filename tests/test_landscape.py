"""Loss surfaces: directions by hand, a known surface, interruption, and the surfaces of real small runs."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from small_runs import finetune, forget, linear, role, run, small_machine, table, write_world
from tacit.checkpoint import load
from tacit.data.images import subseed
from tacit.errors import UserError
from tacit.landscape import LandscapeError, Place, Plane, Surface, _filled, drawn_rows, filter_normalised, landscape
from tacit.train import Interrupted

__all__ = ["small_machine", "table"]
SMALL = Plane(grid=5, images=12)


def test_every_filter_of_a_direction_has_the_norm_of_the_solutions():
    weight = torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.6, 0.8]])
    kernel = torch.full((2, 3, 2, 2), 0.5)
    found = filter_normalised({"w": weight, "k": kernel, "bias": torch.ones(3)}, seed=7)
    assert torch.allclose(found["w"].norm(dim=1), torch.tensor([5.0, 0.0, 1.0]))
    assert torch.allclose(found["k"].flatten(1).norm(dim=1), torch.full((2,), 3**0.5))
    assert "bias" not in found
    again = filter_normalised({"w": 2 * weight, "k": kernel}, seed=7)
    assert torch.allclose(again["w"], 2 * found["w"])  # the same way for every net of these shapes
    assert not torch.allclose(filter_normalised({"w": weight}, seed=9)["w"], found["w"])


class Bowl:
    """Half the squared distance of a linear net's weights from zero; may be interrupted after some calls."""

    def __init__(self, stop_after: int | None = None) -> None:
        torch.manual_seed(3)
        self.net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
        self.left = stop_after

    def __call__(self) -> float:
        if self.left == 0:
            raise KeyboardInterrupt
        self.left = None if self.left is None else self.left - 1
        return float(sum(p.detach().double().square().sum() for p in self.net.parameters()) / 2)


def empty(plane: Plane) -> Surface:
    nothing = np.full((plane.grid, plane.grid), np.nan)
    return Surface(plane.steps, nothing, np.zeros(plane.grid, bool), {"direction_seed": 1})


def test_a_quadratic_loss_has_its_known_surface(tmp_path):
    bowl, plane = Bowl(), Plane(grid=7, span=0.8)
    solution = {name: weight.detach().clone() for name, weight in bowl.net.named_parameters()}
    surface = _filled(empty(plane), tmp_path / "l.npz", bowl.net, bowl, None)
    weight = solution["0.weight"].double()
    first, second = (filter_normalised({"w": weight.float()}, subseed(1, axis))["w"].double() for axis in (0, 1))
    rest = sum(float(w.double().square().sum()) for name, w in solution.items() if name != "0.weight")
    for i, a in enumerate(plane.steps):
        for j, b in enumerate(plane.steps):
            want = (rest + float((weight + a * first + b * second).square().sum())) / 2
            assert surface.loss[i, j] == pytest.approx(want, rel=1e-6)
    assert all(torch.equal(p, solution[name]) for name, p in bowl.net.named_parameters())


def test_an_interrupted_surface_goes_on_bit_for_bit(tmp_path):
    plane, path = Plane(grid=5), tmp_path / "l.npz"
    stopped = Bowl(stop_after=13)
    with pytest.raises(Interrupted, match="2 of 5 rows"):
        _filled(empty(plane), path, stopped.net, stopped, None)
    kept = Surface.read(path)
    assert kept.done.tolist() == [True, True, False, False, False]
    seen: list[int] = []
    bowl = Bowl()
    whole = _filled(empty(plane), tmp_path / "whole.npz", bowl.net, bowl, None)
    bowl = Bowl()
    resumed = _filled(kept, path, bowl.net, bowl, lambda done, of: seen.append(done))
    assert np.array_equal(resumed.loss, whole.loss)
    assert np.array_equal(Surface.read(path).loss, whole.loss)
    assert seen == list(range(11, 26))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of AN on full labels, one of EM and one of ROLE; features lie beside the table."""
    folder = tmp_path_factory.mktemp("runs")
    world = write_world(tmp_path_factory.mktemp("landscape"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TACIT_CACHE", str(folder / "cache"))
        patch.setenv("OMP_NUM_THREADS", "1")
        config = linear(world, budget={"epochs": 2})
        run(config, folder / "an")
        run(replace(config, method="em"), folder / "em")
        run(role(config), folder / "role")
        run(replace(config, method="em_apl", method_options={"warm_up": 1}), folder / "em_apl")
    return folder


def by_hand(folder, rows, sign):
    """AN's loss, or EM's, of some training rows, from the files of a run alone."""
    weights, _ = load(folder / "model.safetensors")
    with np.load(folder / "scores-train.npz") as kept:
        names, observed = kept["images"][rows], kept["observed"][rows]
    with np.load(folder.parent / "world.npz") as found:
        features = dict(zip(found["images"], found["features"], strict=True))
    table = torch.tensor(np.stack([features[name] for name in names])).half().double()
    logits = table @ weights["net.head.weight"].double().T + weights["net.head.bias"].double()
    p = logits.sigmoid()
    positive = torch.tensor(observed == 1)
    unknown = -(1 - p).log() if sign == "an" else 0.1 * (p * p.log() + (1 - p) * (1 - p).log())
    return float(torch.where(positive, -p.log(), unknown).mean())


def test_the_middle_is_the_loss_of_the_solution(runs):
    source = json.loads((runs / "an" / "model.json").read_text())["features"]
    with np.load(source) as found:
        np.savez(runs / "world.npz", **found)
    rows = drawn_rows(30, SMALL)
    with np.load(runs / "an" / "scores-train.npz") as kept:
        assert len(kept["images"]) == 30
    for name in ("an", "em"):
        surface = landscape(runs / name, SMALL, again=True)
        assert surface.loss[2, 2] == pytest.approx(by_hand(runs / name, rows, name), rel=1e-5)
        assert np.isfinite(surface.loss).all()
        assert surface.loss.std() > 0
        assert surface.story["images"] == 12


def test_one_loss_for_all(runs):
    plane = replace(SMALL, loss="an")
    own = landscape(runs / "an", SMALL, again=True)
    assert np.array_equal(landscape(runs / "an", plane, again=True).loss, own.loss)
    assert landscape(runs / "role", plane).story["loss"] == "an"
    assert (runs / "role" / "landscape-an.npz").is_file()
    half = landscape(runs / "em", replace(SMALL, loss="em", loss_options={"alpha": 0.1}), again=True)
    assert np.array_equal(half.loss, landscape(runs / "em", SMALL, again=True).loss)


def test_images_that_come_in_chunks_count_alike(runs, monkeypatch):
    whole = landscape(runs / "em", SMALL, again=True)
    monkeypatch.setattr("tacit.data.batches.CPU_FEATURE_CHUNK", 5)  # 12 images: 5, 5 and 2
    assert np.allclose(landscape(runs / "em", SMALL, again=True).loss, whole.loss, rtol=1e-5)


@pytest.mark.parametrize("name", ["role", "em_apl"])
def test_a_loss_with_memory_is_refused(runs, name):
    with pytest.raises(LandscapeError, match=f"loss of {name} depends on what it remembers.*--loss"):
        landscape(runs / name, SMALL)
    with pytest.raises(LandscapeError, match=f"loss of {name}"):
        landscape(runs / "an", replace(SMALL, loss=name, loss_options={"k": 1.5} if name == "role" else {}))


def test_a_finished_surface_is_not_computed_again(runs, monkeypatch):
    first = landscape(runs / "an", SMALL, again=True)
    forget()
    monkeypatch.setattr("tacit.landscape.Objective.__call__", lambda self: 1 / 0)
    assert np.array_equal(landscape(runs / "an", SMALL).loss, first.loss)


def test_another_surface_is_not_mixed_in(runs):
    landscape(runs / "an", SMALL, again=True)
    with pytest.raises(LandscapeError, match=r"grid was 5, now 7.*--again"):
        landscape(runs / "an", replace(SMALL, grid=7))
    assert landscape(runs / "an", replace(SMALL, grid=7), again=True).loss.shape == (7, 7)


def test_inputs_that_moved(runs, tmp_path):
    source = json.loads((runs / "an" / "model.json").read_text())["features"]
    moved = tmp_path / "elsewhere.npz"
    with np.load(source) as found:
        np.savez(moved, **found)
    same = landscape(runs / "an", SMALL, again=True)
    assert np.array_equal(landscape(runs / "an", SMALL, Place(features=str(moved)), again=True).loss, same.loss)
    with pytest.raises(UserError, match="nowhere"):
        landscape(runs / "an", SMALL, Place(features="/nowhere.npz"), again=True)


def test_other_labels_are_noticed(runs):
    file = runs / "an" / "result.json"
    before = file.read_text()
    result = json.loads(before)
    result["fingerprints"]["observed"] = "0" * 64
    file.write_text(json.dumps(result))
    try:
        with pytest.raises(LandscapeError, match="not those that the run was trained on"):
            landscape(runs / "an", SMALL, again=True)
    finally:
        file.write_text(before)


def test_batch_statistics_and_norms_stay_as_trained(table, tmp_path):
    config = finetune(table, backbone="test_resnet", weights="none", image_size=32, budget={"epochs": 1})
    run(config, tmp_path / "run")
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    plane = Plane(grid=3, images=6, span=0.5)
    surface = landscape(tmp_path / "run", plane)
    with np.load(tmp_path / "run" / "scores-train.npz") as kept:  # scored in evaluation mode
        rows = drawn_rows(len(kept["images"]), plane)
        p, positive = kept["scores"][rows].astype(np.float64), kept["observed"][rows] == 1
    assert surface.loss[1, 1] == pytest.approx(np.where(positive, -np.log(p), -np.log(1 - p)).mean(), rel=1e-4)
    assert np.isfinite(surface.loss).all()
    assert surface.loss.std() > 0
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before
    assert np.array_equal(landscape(tmp_path / "run", plane, again=True).loss, surface.loss)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"grid": 20}, "odd"),
        ({"grid": 1}, "odd"),
        ({"span": 0.0}, "above 0"),
        ({"span": float("nan")}, "above 0"),
        ({"images": 0}, "at least 1"),
        ({"seed": -1}, "seed -1"),
        ({"direction_seed": -1}, "seed -1"),
    ],
)
def test_wrong_planes_are_refused(wrong, says):
    with pytest.raises(LandscapeError, match=says):
        Plane(**wrong)


def test_folders_that_hold_no_finished_run(tmp_path, runs):
    with pytest.raises(UserError, match="there is no"):
        landscape(tmp_path / "nothing", SMALL)
    with pytest.raises(UserError, match="holds no run"):
        landscape(tmp_path, SMALL)
    (runs / "an" / "result.json").rename(runs / "an" / "aside.json")
    try:
        with pytest.raises(LandscapeError, match="finish it first"):
            landscape(runs / "an", SMALL)
    finally:
        (runs / "an" / "aside.json").rename(runs / "an" / "result.json")


def test_a_damaged_surface_is_named(runs):
    landscape(runs / "em", SMALL, again=True)
    (runs / "em" / "landscape.npz").write_bytes(b"PK\x03\x04 no")
    with pytest.raises(LandscapeError, match=r"landscape.npz cannot be read"):
        landscape(runs / "em", SMALL)
    assert landscape(runs / "em", SMALL, again=True).done.all()
