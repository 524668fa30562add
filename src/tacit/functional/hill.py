"""Hill, a loss for labels of which positives are missing.

Zhang et al., "Simple and Robust Loss Design for Multi-Label Learning with Missing Labels", 2021 (arXiv 2112.07368).
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from .partial import wide


def focal_margin(logits: Tensor, *, margin: float, gamma: float) -> Tensor:
    """(1 - q)^gamma * -log q with q = sigmoid(x - margin): a positive, pulled harder while it is only half sure."""
    shifted = wide(logits) - margin
    return -(-shifted).sigmoid().pow(gamma) * F.logsigmoid(shifted)


def hill(logits: Tensor, labels: Tensor, *, height: float, margin: float, gamma: float) -> Tensor:
    """Focal margin loss where a label is 1; elsewhere (height - p) p^2, whose slope turns back for sure predictions.

    d/dx of a negative is (2 height - 3 p) p^2 (1 - p): with the published height 1.5 it is 3 p^2 (1 - p)^2, largest at
    p = 0.5 and fading for what may be a missing positive. Unknown cells count as negatives.
    """
    p = wide(logits).sigmoid()
    present = labels.clamp(min=0).to(p.dtype)
    return present * focal_margin(logits, margin=margin, gamma=gamma) + (1 - present) * (height - p) * p.square()
