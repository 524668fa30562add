"""Logits of class maps that lean towards where a map is strongest.

"Saliency Regularization for Self-Training with Partial Annotations", ICCV 2023. With class maps A [B, C, H, W]:
a = their mean, s = the mean of the k largest values of each map, and the logit is a + alpha s.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .partial import wide


def saliency_logits(maps: Tensor, *, alpha: float, k: int) -> Tensor:
    """a + alpha s [B, C] of class maps [B, C, H, W].

    dz/dA = 1/(HW) everywhere, and alpha/k more at the k strongest places (Proposition 2); which places those are is not
    differentiated. No ReLU: s may be negative. alpha = 0 is plain average pooling.
    """
    flat = wide(maps).flatten(2)
    mean = flat.mean(2)
    if alpha == 0:
        return mean
    if k > flat.shape[2]:
        raise ValueError(f"k = {k} is larger than a map of {maps.shape[2]} x {maps.shape[3]} places")
    return mean + alpha * torch.topk(flat, k, dim=2, sorted=False).values.mean(2)


def confident_labels(probabilities: Tensor, labels: Tensor, *, tau: float) -> Tensor:
    """Pseudo-labels of unknown cells, in the states of `labels`: 1 where p >= tau, -1 where p <= 1 - tau, else 0.

    Known cells get 0. At p = 1 - tau = tau both hold and cancel: the cell stays unknown.
    """
    sure = (probabilities >= tau).to(labels.dtype) - (probabilities <= 1 - tau).to(labels.dtype)
    return sure * (labels == 0)


def heat_maps(maps: Tensor) -> Tensor:
    """Class maps as pictures: negative values are 0, a map's largest value is 1 (0 where nothing is positive)."""
    positive = wide(maps).clamp(min=0)
    return positive / positive.amax((2, 3), keepdim=True).clamp(min=torch.finfo(positive.dtype).tiny)
