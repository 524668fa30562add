"""Large loss: of labels assumed to be negative, those with the largest losses are probably wrong.

Kim et al., "Large Loss Matters in Weakly Supervised Multi-Label Classification", CVPR 2022 (arXiv 2206.03740).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import torch
from torch import Tensor

from .batch import step_rows
from .partial import cross_entropy, wide


class Large(NamedTuple):
    """Which cells [B, C] have a loss of at least the threshold, and which one above it."""

    reached: Tensor
    above: Tensor


def flipped(logits: Tensor, labels: Tensor) -> Tensor:
    """The cross-entropy of the other label: 1 where a cell is absent or unknown, 0 where it is present."""
    return cross_entropy(logits, 1 - labels.clamp(min=0).to(wide(logits).dtype))


def largest(losses: Tensor, candidates: Tensor, share: float | Fraction, *, spill: bool = False) -> Large:
    """Candidates whose loss is among the ceil(share * B * C) largest of the step's candidates, ties included.

    The share is one of all cells, candidates or not. Where it asks for more than there are candidates, all of them are
    chosen; with `spill`, the published program's threshold of 0 is reached by every cell, observed ones too.
    """
    losses = losses.detach()
    held = torch.where(candidates, losses, 0.0 if spill else -math.inf)
    everyones, _ = step_rows(held)
    count = min(math.ceil(share * everyones.numel()), everyones.numel())
    if count <= 0:
        return Large(torch.zeros_like(candidates), torch.zeros_like(candidates))
    threshold = everyones.flatten().topk(count, sorted=False).values.min()
    reached = held >= threshold
    return Large(reached if spill else reached & candidates, (held > threshold) & candidates)


def rejected_share(epoch: int, delta: float, *, rounding: bool = False) -> float | Fraction:
    """`epoch` (counted from 0) times delta percent, exactly. With `rounding` as the published program has it,
    1 - (1 - epoch * delta): a rounding error above an exact whole number of cells rejects one more."""
    if rounding:
        return 1 - (1 - epoch * (delta / 100))
    return epoch * Fraction(repr(float(delta))) / 100
