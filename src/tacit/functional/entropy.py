"""Entropy of predictions whose labels are unknown.

Zhou et al., "Acknowledging the Unknown for Multi-label Learning with Single Positive Labels", ECCV 2022
(arXiv 2203.16219).
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from .partial import wide


def binary_entropy(logits: Tensor, *, eps: float = 0.0) -> Tensor:
    """H(p) = p * -log p + (1 - p) * -log(1 - p) of every cell, in nats: log 2 at p = 0.5, 0 where p is sure.

    The gradient flows through both factors of each product: dH/dx = -x p (1 - p) for a logit x. A positive `eps` takes
    the published -log(p + eps), as everywhere in `functional.partial`.
    """
    logits = wide(logits)
    present, absent = logits.sigmoid(), (-logits).sigmoid()
    if eps == 0:
        return present * F.softplus(-logits) + absent * F.softplus(logits)
    return -(present * (present + eps).log() + absent * (absent + eps).log())
