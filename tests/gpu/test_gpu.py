"""What must also hold on a GPU (`make test-gpu`). Single methods: losses, gradients, capture are in test_contract."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from small_runs import finetune, linear, role, run, small_machine, table
from tacit.data.images import uniforms
from tacit.methods.registry import build_method, method_names
from tacit.optim import Optimizer
from tacit.runtime import Runtime
from tacit.step import CapturedStep
from test_resume import STEPS, Story, lines, story
from toy_world import World, fit_toy

__all__ = ["small_machine", "story", "table"]
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
every_method = pytest.mark.parametrize("name", method_names())


@pytest.fixture(autouse=True)
def exact_products() -> Iterator[None]:
    """No TF32: the CPU has none to compare with."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


@pytest.fixture(params=[False, True], ids=["dense", "by rows"])
def by_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        monkeypatch.setitem(Optimizer.__init__.__kwdefaults__, "dense_cells", 0)


def weights(name: str, device: str, precision: str = "fp32") -> dict[str, Tensor]:
    method = fit_toy(name, Runtime(device, precision))
    return {key: tensor.detach().cpu() for key, tensor in method.state_dict().items()}


@every_method
def test_training_is_that_of_the_cpu_within_rounding(name: str, by_rows: None) -> None:
    cpu, gpu = weights(name, "cpu"), weights(name, "cuda")
    for key, tensor in cpu.items():
        torch.testing.assert_close(gpu[key], tensor, rtol=1e-3, atol=2e-4)


@every_method
def test_a_captured_step_is_the_eager_step_bit_for_bit(
    name: str, by_rows: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replaying a graph launches the kernels that the eager step launches."""
    replays: list[int] = []
    usual = torch.cuda.CUDAGraph.replay
    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", lambda graph: (replays.append(1), usual(graph))[1])
    monkeypatch.setattr("tacit.step.WARM_UP", 1)
    captured = weights(name, "cuda")
    assert bool(replays) == build_method(name, *_example(name)).capturable
    monkeypatch.setattr(CapturedStep, "possible", staticmethod(lambda step, batches: False))
    eager = weights(name, "cuda")
    assert [key for key, tensor in eager.items() if not torch.equal(tensor, captured[key])] == []


def _example(name: str) -> tuple[torch.nn.Module, object, dict[str, object]]:
    from tacit.methods.registry import find_method

    method = find_method(name)
    world = World(method.needs_images)
    return world.net(), world.observed, dict(method.example_options)


@every_method
def test_the_same_seed_gives_the_same_bits(name: str, by_rows: None) -> None:
    first, second = weights(name, "cuda"), weights(name, "cuda")
    assert all(torch.equal(first[key], second[key]) for key in first)


@every_method
def test_bfloat16_trains(name: str) -> None:
    full, half = weights(name, "cuda"), weights(name, "cuda", "bf16")
    for key, tensor in half.items():
        assert tensor.dtype == full[key].dtype and (not tensor.is_floating_point() or tensor.isfinite().all())
        torch.testing.assert_close(tensor, full[key], rtol=0.2, atol=0.1)


def test_row_adam_is_dense_adam(monkeypatch: pytest.MonkeyPatch) -> None:
    dense = weights("role", "cuda")
    monkeypatch.setitem(Optimizer.__init__.__kwdefaults__, "dense_cells", 0)
    rows = weights("role", "cuda")
    for key, tensor in dense.items():
        torch.testing.assert_close(rows[key], tensor, rtol=1e-5, atol=1e-5)


def test_resumed_features_bit_for_bit(story: Story, table: Path, by_rows: None) -> None:
    story.check(role(linear(table, device="cuda")), 1, STEPS - 1, STEPS, STEPS + 2)


def test_resumed_images_bit_for_bit(story: Story, table: Path) -> None:
    story.check(role(finetune(table, device="cuda")), 2, STEPS, STEPS + 3)


def test_resumed_streamed_images_bit_for_bit(story: Story, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.data.images.default_memory_limit", lambda: 0.0)
    story.check(role(finetune(table, device="cuda", workers=2)), STEPS + 3)


def test_resumed_in_bfloat16_bit_for_bit(story: Story, table: Path) -> None:
    story.check(role(finetune(table, device="cuda", precision="bf16")), STEPS + 3)


def test_a_run_on_the_gpu_is_the_run_on_the_cpu(table: Path, tmp_path: Path) -> None:
    config = role(linear(table))
    run(config, tmp_path / "cpu" / "run")
    result = run(replace(config, device="cuda"), tmp_path / "cuda" / "run")
    assert result["device"] != "cpu" and result["peak_memory_mb"] > 0
    for a, b in zip(lines(tmp_path / "cpu" / "run"), lines(tmp_path / "cuda" / "run"), strict=True):
        assert b["terms"] == pytest.approx(a["terms"], rel=1e-3, abs=1e-4)
    with np.load(tmp_path / "cpu/run/scores-test.npz") as cpu, np.load(tmp_path / "cuda/run/scores-test.npz") as gpu:
        np.testing.assert_allclose(gpu["scores"], cpu["scores"], atol=1e-3)


def test_augmentation_draws_are_those_of_the_cpu() -> None:
    rows = torch.arange(500)
    assert torch.equal(uniforms(3, 4, rows.cuda(), 1, 5).cpu(), uniforms(3, 4, rows, 1, 5))


def test_an_explicit_device_number() -> None:
    assert Runtime("cuda:0").device == torch.device("cuda:0")
