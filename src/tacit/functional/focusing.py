"""Cross-entropies that look away from what is easy: focal loss, and asymmetric loss (ASL).

Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017 (arXiv 1708.02002); Ridnik et al., "Asymmetric Loss For
Multi-Label Classification", ICCV 2021 (arXiv 2009.14119).
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from .partial import wide


def focused_cross_entropy(
    logits: Tensor,
    labels: Tensor,
    *,
    gamma_pos: float,
    gamma_neg: float | Tensor,
    clip: float = 0.0,
    detach: bool = True,
    floor: float = 0.0,
) -> Tensor:
    """(1 - p)^gamma_pos * -log p where a label is 1; elsewhere pm^gamma_neg * -log(1 - pm), pm = max(p - clip, 0).

    Unknown cells count as negatives: a method that ignores them multiplies them away. `detach` keeps the focusing
    factor out of the gradient. `floor` is the smallest argument a logarithm may get (published: 1e-8); 0 takes exact
    logarithms from the logits. `gamma_neg` may be a matrix: an exponent for each cell.
    """
    logits = wide(logits)
    p, q = logits.sigmoid(), (-logits).sigmoid()
    shifted = (p - clip).clamp(min=0) if clip else p
    factor_pos, factor_neg = q.pow(gamma_pos), shifted.pow(gamma_neg)
    if detach:
        factor_pos, factor_neg = factor_pos.detach(), factor_neg.detach()
    log_p = p.clamp(min=floor).log() if floor else F.logsigmoid(logits)
    log_q = (q + clip).clamp(min=floor, max=1).log() if clip or floor else F.logsigmoid(-logits)
    present = labels.clamp(min=0).to(logits.dtype)
    return -(present * factor_pos * log_p + (1 - present) * factor_neg * log_q)
