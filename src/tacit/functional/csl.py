"""CSL: which unknown labels are negatives, by how likely they look and how common their class is.

Ben-Baruch et al., "Multi-label Classification with Partial Annotations using Class-aware Selective Loss", CVPR 2022
(arXiv 2110.10955).
"""

from __future__ import annotations

import torch
from torch import Tensor

from .batch import step_rows
from .focusing import focused_cross_entropy
from .partial import wide


def partial_asymmetric(
    logits: Tensor,
    labels: Tensor,
    *,
    gammas: tuple[float, float, float],
    alphas: tuple[float, float, float] = (1.0, 1.0, 1.0),
    clip: float = 0.0,
) -> Tensor:
    """Asymmetric loss with an exponent and a weight of its own for present, absent and unknown cells, in this order.
    Unknown cells count as negatives; focusing factors are kept out of the gradient."""
    x = wide(logits)
    of_negative = torch.where(labels == 0, gammas[2], gammas[1]).to(x.dtype)
    cells = focused_cross_entropy(x, labels, gamma_pos=gammas[0], gamma_neg=of_negative, clip=clip)
    weight = torch.where(labels == 1, alphas[0], torch.where(labels == 0, alphas[2], alphas[1]))
    return cells * weight.to(x.dtype)


def selected(logits: Tensor, labels: Tensor, *, top: int, common: Tensor | None = None) -> Tensor:
    """1 for cells that take part, 0 for those left out: unknown cells of `common` classes [C], and of the whole step's
    unknown cells the `top` times B most probable ones (counted over all classes). A known cell always takes part."""
    unknown = labels == 0
    likely = torch.where(unknown, wide(logits).sigmoid(), -1.0)
    everyones, mine = step_rows(likely)
    flat = everyones.flatten()
    first = flat.topk(min(top * len(everyones), flat.numel()), sorted=False).indices
    out = torch.zeros_like(flat, dtype=torch.bool).index_fill_(0, first, True).view_as(everyones)[mine]
    if common is not None:
        out = out | common
    return (~(out & unknown)).to(likely.dtype)


def count_weight(labels: Tensor) -> Tensor:
    """1 / (1 + n) + 1 [B], n the number of an image's known labels: the program's mode ignore_normalize_classes."""
    return 1 / (1 + (labels != 0).sum(-1)) + 1
