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


def mean_over_known(cells: Tensor, labels: Tensor) -> Tensor:
    """Losses of cells [B, C], zero where the label [B, C] is unknown, over the number of known labels of the step (the
    BN in BN-BCE). A step without known labels gives 0, and no gradient.

    As a ratio of two means over images: the count then is that of all processes, see `step_mean`.
    """
    known = step_mean(labels.abs().sum(-1).to(cells.dtype))
    return cells.sum(-1).mean() / torch.where(known > 0, known, torch.ones_like(known))


def step_rows(rows: Tensor) -> tuple[Tensor, slice]:
    """The rows of a step [b, ...] from every process, in the step's order, and which of them are one's own.

    What a method ranks or picks among all cells of a step is then what one process would have picked. No gradient.
    """
    rows = rows.detach()
    if _alone.get() or not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return rows, slice(0, len(rows))
    rank, sizes = dist.get_rank(), torch.zeros(dist.get_world_size(), dtype=torch.int64, device=rows.device)
    sizes[rank] = len(rows)
    dist.all_reduce(sizes)
    counts = sizes.tolist()
    padded = rows.new_zeros((max(counts), *rows.shape[1:]))
    padded[: len(rows)] = rows
    every = [torch.empty_like(padded) for _ in counts]
    dist.all_gather(every, padded)
    start = sum(counts[:rank])
    return torch.cat([each[:n] for each, n in zip(every, counts, strict=True)]), slice(start, start + len(rows))
