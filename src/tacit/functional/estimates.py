"""Learning beside guessed labels: the expected-positive regulariser, and the two-sided objective of ROLE.

Cole et al., "Multi-Label Learning from Single Positive Labels", CVPR 2021 (arXiv 2106.09708).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .batch import step_mean
from .partial import cross_entropy, wide

UNKNOWN_SPREAD = math.log(0.6 / 0.4)  # logits of 0.4 and 0.6
KNOWN_LOGIT = math.log(0.995 / 0.005)
PROBABILITY_FLOOR = 1e-5


def expected_positives_penalty(logits: Tensor, k: float) -> Tensor:
    """R_k = ((k_hat - k) / C)^2, k_hat being the batch's mean number of expected positives per image.

    A statistic of the batch and not of a cell: logits [..., B, C] give [...]. The square comes after the batch mean, so
    single images may have more or fewer positives than k.
    """
    k_hat = step_mean(wide(logits).sigmoid().sum(-1))
    return ((k_hat - k) / logits.shape[-1]).square()


def mutual_cross_entropy(pair: Tensor, *, eps: float = 0.0) -> Tensor:
    """Two predictions of the same cells, logits [2, B, C], each learning from the other's frozen probabilities."""
    taught = wide(pair).sigmoid().detach().flip(0)
    return cross_entropy(pair, taught, eps=eps)


def initial_estimates(labels: Tensor) -> Tensor:
    """Logits that ROLE's label estimates start from, float32: unknown cells at random in 0.4 to 0.6, known ones at
    0.995 or 0.005. One draw per cell, known or not, from torch's global generator."""
    drawn = torch.empty(labels.shape, dtype=torch.float32).uniform_(-UNKNOWN_SPREAD, UNKNOWN_SPREAD)
    return torch.where(labels == 0, drawn, labels * KNOWN_LOGIT)


def probabilities_to_logits(probabilities: Tensor) -> Tensor:
    """Float32 logits of probabilities clipped to [1e-5, 1 - 1e-5], as LinearInit hands estimates over."""
    return torch.logit(probabilities.float(), eps=PROBABILITY_FLOOR)
