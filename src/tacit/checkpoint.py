"""Tensors and their story in one safetensors file, written whole or not at all. No pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from .errors import UserError
from .files import atomic_write


class CheckpointError(UserError):
    """A checkpoint that is damaged or belongs to something else."""


def save(path: Path, tensors: Mapping[str, Tensor], story: Mapping[str, Any]) -> None:
    """`story` is JSON and travels in the file's header, so that the two cannot come apart."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # safetensors refuses two names for one memory; a state may alias (a tied weight), so copies are made.
    seen: set[int] = set()
    for name, tensor in plain.items():
        if tensor.numel() and tensor.data_ptr() in seen:
            plain[name] = tensor.clone()
        seen.add(plain[name].data_ptr())
    with atomic_write(path) as temporary:
        mode = temporary.stat().st_mode
        save_file(plain, temporary, metadata={"story": json.dumps(story)})
        temporary.chmod(mode)  # safetensors makes files that only their owner may read


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
            story = json.loads((file.metadata() or {})["story"])
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise CheckpointError(
            f"{path} cannot be read as a checkpoint ({error}). Delete it to start over, or restore it from a copy."
        ) from error
    return tensors, story


def under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names start with `prefix.`, without it."""
    return {name[len(prefix) + 1 :]: t for name, t in tensors.items() if name.startswith(prefix + ".")}


def named(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def snapshot(module: torch.nn.Module) -> dict[str, Tensor]:
    """A copy of everything a module remembers."""
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
