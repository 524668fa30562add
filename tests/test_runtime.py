"""One process's view of the machine."""

import pytest
import torch

from tacit.errors import UserError
from tacit.runtime import Runtime


def test_one_process() -> None:
    runtime = Runtime("cpu")
    assert runtime.is_main and (runtime.rank, runtime.world) == (0, 1) and runtime.device.type == "cpu"
    assert runtime.share(7) == range(7)
    rows, layer = torch.randn(3, 2), torch.nn.Linear(2, 2)
    assert runtime.gather(rows, 3) is rows and runtime.mean(rows) is rows and runtime.wrap(layer) is layer
    assert runtime.any(True) and not runtime.any(False)
    runtime.wait()
    runtime.align(layer)


@pytest.mark.parametrize("world", [1, 2, 3, 5])
def test_shares_are_contiguous_and_complete(world: int) -> None:
    runtime = Runtime("cpu")
    runtime.world, found = world, []
    for runtime.rank in range(world):
        found += list(runtime.share(11))
    assert found == list(range(11))


def test_each_run_has_its_own_precision() -> None:
    for precision, wanted in (("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp32", torch.float32)):
        runtime = Runtime("cpu", precision)
        with runtime.autocast():
            assert torch.nn.Linear(2, 2)(torch.ones(1, 2)).dtype == wanted


def test_a_missing_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for device in ("cuda", "cuda:1"):
        with pytest.raises(UserError, match=rf"--device {device}: no CUDA device .* --device cpu"):
            Runtime(device)


def test_a_gpu_beyond_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(UserError, match=r"--device cuda:2: this machine has 2 GPU"):
        Runtime("cuda:2")


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "cpu:0", ""])
def test_no_such_device(device: str) -> None:
    with pytest.raises(UserError, match=r"unknown\. Devices: auto, cpu, cuda"):
        Runtime(device)


def test_trackers() -> None:
    with pytest.raises(UserError, match=r"--tracker excel: unknown\. Trackers: tensorboard"):
        Runtime("cpu", trackers=("excel",))


def test_a_tracker_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'tacit-labels\[mlflow\]'"):
        Runtime("cpu", trackers=("mlflow",))


def test_buffers_are_sent_when_they_change_not_at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime("cpu")
    monkeypatch.setattr(runtime, "world", 2)
    monkeypatch.setattr(runtime.accelerator, "prepare_model", SendsBuffers)
    assert runtime.wrap(torch.nn.BatchNorm1d(3)).broadcast_buffers is False  # type: ignore[attr-defined]


class SendsBuffers(torch.nn.Module):
    """As data parallelism does unless it is told."""

    def __init__(self, method: torch.nn.Module) -> None:
        super().__init__()
        self.module, self.broadcast_buffers = method, True
