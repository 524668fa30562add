"""What a cross-entropy over known labels is divided by, where most are unknown.

The mean over all cells (`known_only(...).mean()`, S-BCE) shrinks with the share of known labels. Divided by the number
of known labels of the batch it does not (BN-BCE: "Saliency Regularization for Self-Training with Partial Annotations",
ICCV 2023); divided image by image, by a function of the known share, it is the partial BCE of Durand et al., "Learning
a Deep ConvNet for Multi-label Classification with Partial Labels", CVPR 2019 (arXiv 1902.09720).
"""

from __future__ import annotations

import torch
from torch import Tensor

from .batch import mean_over_known
from .partial import known_only, wide


def bn_bce(logits: Tensor, labels: Tensor) -> Tensor:
    """BN-BCE: the mean over known cells of the whole batch; without any, 0 and no gradient."""
    return mean_over_known(known_only(logits, labels), labels)


def known_share_weight(labels: Tensor, *, alpha: float, beta: float, gamma: float) -> Tensor:
    """g(p) = alpha p^gamma + beta [B] of the known share p of each image; 0 for an image without known labels."""
    known = (labels != 0).to(torch.float64).mean(-1)
    some = known > 0
    weight = alpha * torch.where(some, known, 1.0).pow(gamma) + beta
    return torch.where(some, weight, 0.0)


def partial_bce(logits: Tensor, labels: Tensor, *, alpha: float, beta: float, gamma: float) -> Tensor:
    """Durand's loss, cell by cell: the cross-entropy of a known cell times g of its image. The mean over all B x C
    cells is the published one."""
    weight = known_share_weight(labels, alpha=alpha, beta=beta, gamma=gamma)
    return known_only(logits, labels) * weight.to(wide(logits).dtype)[:, None]
