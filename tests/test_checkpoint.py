"""Tensors and their story, in one file that is whole or absent."""

from pathlib import Path

import pytest
import torch
from torch import nn

from tacit.checkpoint import CheckpointError, load, named, save, snapshot, under


def test_round_trip_bit_for_bit(tmp_path: Path) -> None:
    tied = torch.randn(3, 4)
    tensors = {
        "a": torch.randn(5, dtype=torch.float64),
        "tied": tied,
        "tied too": tied,
        "turned": tied.T,
        "step": torch.tensor(7.0),
        "none": torch.empty(0, 3),
        "count": torch.arange(4),
        "nan": torch.tensor([float("nan"), -0.0]),
        "half": torch.randn(2).bfloat16(),
        "last": torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
    }
    story = {"epoch": 3, "value": 0.1 + 0.2, "none": None, "classes": ["Käse", "a|b"]}
    save(tmp_path / "deep" / "state.safetensors", tensors, story)
    found, told = load(tmp_path / "deep" / "state.safetensors")
    assert told == story and found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype and found[name].shape == tensor.shape
        assert torch.equal(found[name].nan_to_num(9), tensor.nan_to_num(9))
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["state.safetensors"]


@pytest.mark.parametrize("damage", ["cut", "empty", "foreign", "absent"])
def test_a_damaged_file_is_named(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "state.safetensors"
    save(file, {"a": torch.randn(100)}, {})
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-50])
    elif damage == "empty":
        file.write_bytes(b"")
    elif damage == "foreign":
        from safetensors.torch import save_file

        save_file({"a": torch.randn(2)}, file)
    else:
        file.unlink()
    with pytest.raises(CheckpointError, match="cannot be read as a checkpoint") as refused:
        load(file)
    assert str(file) in str(refused.value) and "Delete it" in str(refused.value)


def test_names_are_put_under_a_prefix_and_taken_out() -> None:
    tensors = {"a": torch.zeros(1), "b.c": torch.ones(1)}
    both = named(tensors, "best.clean") | named(tensors, "best.clean too") | named(tensors, "method")
    assert under(both, "best.clean").keys() == tensors.keys()


def test_a_snapshot_is_a_copy() -> None:
    layer = nn.Linear(2, 2)
    held = snapshot(layer)
    before = held["weight"].clone()
    with torch.no_grad():
        layer.weight += 1
    assert torch.equal(held["weight"], before) and not held["weight"].requires_grad
