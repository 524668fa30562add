"""Which unknown labels look easy enough to be decided: the strategies of curriculum labelling.

Durand et al., "Learning a Deep ConvNet for Multi-label Classification with Partial Labels", CVPR 2019
(arXiv 1902.09720). Scores are logits [N, C]; decided states are int8: 1 present, -1 absent, 0 left open.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .pseudo import lowest_of_rows


def sure_scores(scores: Tensor, threshold: float, *, negatives: bool = True) -> Tensor:
    """Present from a score of `threshold` on; absent from its negative down. A score of 0 says nothing."""
    present = (scores >= threshold) & (scores > 0)
    absent = (scores <= -threshold) & (scores < 0) if negatives else torch.zeros_like(present)
    return present.to(torch.int8) - absent.to(torch.int8)


def top_share(scores: Tensor, candidates: Tensor, share: float) -> Tensor:
    """The highest `share` of the positive scores of candidates, and the lowest of the negative ones, all classes
    together (rounded down). Of equal scores, the first in row order."""
    states = torch.zeros_like(scores, dtype=torch.int8)
    for sign in (1, -1):
        sided = candidates & (sign * scores > 0)
        quota = math.floor(share * int(sided.sum()))
        values = torch.where(sided, -sign * scores, math.inf).flatten()[None]
        chosen = lowest_of_rows(values, [quota]).view_as(scores)
        states += sign * chosen.to(torch.int8)
    return states


def entropy_of_mean(probabilities: Tensor) -> Tensor:
    """-p log p - (1 - p) log(1 - p) in nats, 0 where p is 0 or 1."""
    p, q = probabilities, 1 - probabilities
    entropy: Tensor = -(torch.special.xlogy(p, p) + torch.special.xlogy(q, q))
    return entropy
