"""SPLC: self-paced loss correction. Negatives that the network finds become positives, step by step.

Zhang et al., "Simple and Robust Loss Design for Multi-Label Learning with Missing Labels", 2021 (arXiv 2112.07368).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from .partial import wide


def corrected(logits: Tensor, labels: Tensor, *, tau: float, confirmed: bool = True) -> Tensor:
    """`labels`, with 1 where a cell that is not present has p > tau. `confirmed` leaves known negatives as they are;
    without it every cell but the positives may be turned, as in the published program, which cannot tell them apart."""
    found = wide(logits).sigmoid() > tau
    open_cells = labels == 0 if confirmed else labels != 1
    return torch.where(found & open_cells, torch.ones_like(labels), labels)


def splc(logits: Tensor, labels: Tensor, targets: Tensor, *, margin: float, gamma: float) -> Tensor:
    """Focal loss with the targets of `corrected`: 1 is positive, the rest negative. Only observed positives have the
    margin: a cell that was turned keeps its own logit. The gradient flows through the focusing factors."""
    logits = wide(logits)
    shifted = logits - margin * labels.clamp(min=0).to(logits.dtype)
    p, q = shifted.sigmoid(), (-shifted).sigmoid()
    present = targets.clamp(min=0).to(logits.dtype)
    positive, negative = q.pow(gamma) * F.logsigmoid(shifted), p.pow(gamma) * F.logsigmoid(-shifted)
    return -(present * positive + (1 - present) * negative)
