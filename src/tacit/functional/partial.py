"""Cross-entropies under partial labels, cell by cell: BCE, IU, IUN, AN, AN-LS, N-LS, WAN, PR.

Every function takes logits [..., B, C] and int8 label states [B, C] (1 present, 0 unknown, -1 absent), and returns the
loss of every cell [..., B, C]. The published systems know one reduction: the mean over all cells, also where most of
them are zero; a method applies it. Arithmetic is float32 at least, whatever the precision of the logits.

`eps` chooses the logarithm. 0 (the default) is the exact -log p, computed from the logits, finite and with a live
gradient however sure the network is. A positive `eps` is the published -log(p + eps), with 1e-5: capped at 11.51, its
gradient fading where a confident prediction is wrong, and slightly below zero where it is right.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

PUBLISHED_EPS = 1e-5


def wide(tensor: Tensor) -> Tensor:
    """Half precisions in float32: a bfloat16 probability has no room for 1e-5, nor for the ranks near 0 and 1."""
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()


def cross_entropy(logits: Tensor, targets: Tensor, weights: Tensor | None = None, *, eps: float = 0.0) -> Tensor:
    """w * (t * -log p + (1 - t) * -log(1 - p)) with p = sigmoid(logits); soft targets t and weights w broadcast."""
    logits = wide(logits)
    if eps == 0:
        return F.binary_cross_entropy_with_logits(logits, targets.expand_as(logits), weights, reduction="none")
    present, absent = -(logits.sigmoid() + eps).log(), -((-logits).sigmoid() + eps).log()
    loss = targets * present + (1 - targets) * absent
    return loss if weights is None else loss * weights


def known_only(logits: Tensor, labels: Tensor, *, smoothing: float = 0.0, eps: float = 0.0) -> Tensor:
    """BCE over known cells; an unknown cell costs nothing and has no gradient.

    On fully known labels this is BCE (with `smoothing`, BCE-LS), on one positive and one negative per image IU, on one
    positive and all negatives IUN, and on positives alone the BCE+ that EPR and ROLE regularise.
    """
    known = labels.abs().to(wide(logits).dtype)
    return cross_entropy(logits, _targets(logits, labels, smoothing), known, eps=eps)


def assume_negative(logits: Tensor, labels: Tensor, *, smoothing: float = 0.0, eps: float = 0.0) -> Tensor:
    """AN: whatever is not known to be present counts as absent. With `smoothing` s, AN-LS: targets 1 - s and s."""
    return cross_entropy(logits, _targets(logits, labels, smoothing), eps=eps)


def smoothed_unknown(logits: Tensor, labels: Tensor, *, smoothing: float, eps: float = 0.0) -> Tensor:
    """N-LS: as AN, but an unknown cell's target is `smoothing`; known cells keep their hard targets 1 and 0."""
    unknown = 1 - labels.abs().to(wide(logits).dtype)
    return cross_entropy(logits, _targets(logits, labels) + smoothing * unknown, eps=eps)


def weak_negatives(logits: Tensor, labels: Tensor, *, weight: float, eps: float = 0.0) -> Tensor:
    """WAN: as AN, but an unknown cell weighs `weight` (0 to 1) where a known cell, present or absent, weighs 1."""
    weights = labels.abs().to(wide(logits).dtype).clamp(min=weight)
    return cross_entropy(logits, _targets(logits, labels), weights, eps=eps)


def pairwise_ranking(logits: Tensor, labels: Tensor) -> Tensor:
    """PR: each known positive i pays max(0, 1 - p_i + p_j) for every class j not known to be present.

    Probabilities differ by at most 1, so the hinge never cuts: the sum over j is n * (1 - p_i) + sum_j p_j, linear in
    the number of classes.
    """
    logits = wide(logits)
    present = labels.clamp(min=0).to(logits.dtype)
    rest = 1 - present
    others = (logits.sigmoid() * rest).sum(-1, keepdim=True)
    return present * (rest.sum(-1, keepdim=True) * (-logits).sigmoid() + others)


def _targets(logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """1 for present and 0 otherwise; smoothed: 1 - s and s."""
    targets = labels.clamp(min=0).to(wide(logits).dtype)
    return targets if smoothing == 0 else targets * (1 - 2 * smoothing) + smoothing
