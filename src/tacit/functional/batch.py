"""Statistics of a batch that training in several processes must not change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
import torch.distributed as dist
from torch import Tensor

_alone: ContextVar[bool] = ContextVar("alone", default=False)


@contextmanager
def alone() -> Iterator[None]:
    """Inside, the images of a step are those at hand: one process asks a method about images that no other has, and
    would wait for the others' share for ever."""
    token = _alone.set(True)
    try:
        yield
    finally:
        _alone.reset(token)


def step_mean(per_image: Tensor) -> Tensor:
    """Mean over the last dimension, the images of a step: [..., B] gives [...].

    With data parallelism each process holds a share of the step's images; the value is the mean over all of them, and
    the gradient is that of the own share. What is not linear in the mean (a squared deviation) thereby has the value
    and, once the processes' gradients are averaged by their shares, the gradient that one process would have found.
    """
    mine = per_image.mean(-1)
    if _alone.get() or not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return mine
    summed = per_image.detach().sum(-1).flatten()
    everyones = torch.cat([summed, summed.new_tensor([per_image.shape[-1]])])
    dist.all_reduce(everyones)
    mean = (everyones[:-1] / everyones[-1]).view(mine.shape)
    return mine + (mean - mine.detach())
