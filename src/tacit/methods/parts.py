"""Pieces that several methods are made of: hyper-parameters they share, and memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import UserError
from ..labels import Labels

# What a hyper-parameter means, once: the text is the help of the command-line flag made from the keyword.
Epsilon = Annotated[float, "0: exact logarithms. 1e-5: the -log(p + 1e-5) of the published programs"]
Smoothing = Annotated[float, "targets become 1 - s and s. 0.1: the published program; 0.05: the paper as written"]
Unknown = Annotated[Literal["negative", "ignore"], "what an unknown label is: a negative, or left out of the loss"]
Alpha = Annotated[
    float, "weight of the entropy of unknown labels (published: VOC 0.2, COCO and NUS-WIDE 0.1, CUB 0.01)"
]
ExpectedPositives = Annotated[
    float,
    "expected number of positive classes per image (published: VOC 1.5, COCO 2.9, NUS-WIDE 1.9, CUB 31.4). "
    "An oracle scalar: it is the mean of the true labels, unless you estimate it from elsewhere",
]

Margin = Annotated[float, "taken off the logit of an observed positive, which is pulled that much further"]
KnownShareAlpha = Annotated[float, "of the weight g(p) = alpha p^gamma + beta of an image whose known share is p"]
KnownShareBeta = Annotated[float, "of g(p). The defaults make g(1) = 1 and g(0.1) = 5, as published"]
KnownShareGamma = Annotated[float, "of g(p). alpha 1, beta 0, gamma -1: the mean over each image's known labels"]


class HyperParameterError(UserError, ValueError):
    """A hyper-parameter that is missing, unknown or out of its range."""


class NoKnownNegative(HyperParameterError):
    """Unknown labels are to be ignored, and nothing else says what is absent."""


def number_within(name: str, value: float, low: float, high: float, hint: str = "") -> float:
    """`value`, if it is a finite number with low <= value <= high."""
    if math.isfinite(value) and low <= value <= high:
        return value
    span = f"at least {low:g}" if math.isinf(high) else f"between {low:g} and {high:g}"
    raise HyperParameterError(f"{name} = {value:g} is out of range: it must be {span}{'. ' + hint if hint else ''}")


def checked_eps(eps: float) -> float:
    return number_within("eps", eps, 0.0, 0.1, "0 takes exact logarithms, 1e-5 is the published value")


def checked_smoothing(smoothing: float) -> float:
    return number_within("smoothing", smoothing, 0.0, 0.5, "0.5 would teach every class the same target")


def checked_alpha(alpha: float) -> float:
    return number_within("alpha", alpha, 0.0, math.inf)


def checked_unknown(unknown: Literal["negative", "ignore"], observed: Labels) -> Literal["negative", "ignore"]:
    """Positives alone, all else ignored, teach a network to say yes to everything."""
    if unknown == "ignore" and not observed.counts().absent.any():
        raise NoKnownNegative(
            "unknown = ignore leaves nothing but positives to learn from: not one label is known to be absent, and "
            "the answer yes to everything would be perfect. Say unknown = negative, or choose a method for such labels"
        )
    return unknown


def checked_negatives(observed: Labels) -> None:
    """For methods that have no other reading of an unknown label than to leave it out, or to decide it later."""
    if not observed.counts().absent.any():
        raise NoKnownNegative(
            "not one label is known to be absent, and from positives alone the answer yes to everything would be "
            "learned. Choose a method for such labels"
        )


def checked_known_share_weight(alpha: float, beta: float, gamma: float, classes: int) -> tuple[float, float, float]:
    """g must not turn an image's loss around. It is monotonic: its ends are one known label, and all."""
    for name, value, most in (("alpha", alpha, 1e6), ("beta", beta, 1e6), ("gamma", gamma, 20.0)):
        number_within(name, value, -most, most)
    for share in (1 / classes, 1.0):
        if not 0 <= (weight := alpha * share**gamma + beta) < math.inf:
            raise HyperParameterError(
                f"alpha = {alpha:g}, beta = {beta:g}, gamma = {gamma:g} give an image whose known share is {share:g} "
                f"the weight {weight:g}: alpha p^gamma + beta must be finite and not below 0 for every p up to 1"
            )
    return alpha, beta, gamma


def checked_epochs(name: str, value: int | None, least: int = 1) -> int | None:
    if value is not None and value < least:
        raise HyperParameterError(f"{name} = {value} is out of range: it counts epochs, {least} or more")
    return value


def checked_expected_positives(k: float, classes: int) -> float:
    if k <= 0:
        raise HyperParameterError(
            f"k = {k:g} is out of range: an image is expected to have more than 0 positive classes"
        )
    return number_within(
        "k", k, 0.0, classes, f"It counts positive classes of an image, and there are {classes} classes"
    )


def expected_positives_oracle(k: float) -> str:
    return (
        f"expected number of positives per image, k = {k:g} (the mean of the true labels, unless estimated elsewhere)"
    )


class RowTable(nn.Module):
    """One free value per training cell, visited a batch of rows at a time (ROLE's label estimates).

    Dense Adam moves every row at every step, visited or not, because its moments outlive the gradient. On large tables
    the optimizer (tacit.optim.RowAdam) lets rows fall behind and catches them up, exactly, when they are next needed:
    it then sets `behind`, takes each visited row's gradient from `visited`, and brings all rows up to date on `settle`.
    Read the whole table through `all()`, never through `weight`.
    """

    def __init__(self, initial: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(initial)
        self.behind = False
        self.visited: Tensor | None = None
        self.settle: Callable[[], None] | None = None

    def rows(self, index: Tensor) -> Tensor:
        if not self.behind:
            return F.embedding(index, self.weight)
        self.visited = self.weight.detach().index_select(0, index).requires_grad_(torch.is_grad_enabled())
        return self.visited

    @torch.no_grad()
    def all(self) -> Tensor:
        """The whole table as dense Adam would have it by now, detached."""
        if self.settle is not None:
            self.settle()
        return self.weight.detach()

    @torch.no_grad()
    def assign(self, values: Tensor) -> None:
        self.weight.copy_(values)


class KeptState(nn.Module):
    """A net's weights and statistics as they are now, to go back to. Buffers: no optimizer trains them."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        for number, value in enumerate(net.state_dict().values()):
            self.register_buffer(f"at{number}", value.detach().clone())

    @torch.no_grad()
    def restore(self, net: nn.Module) -> None:
        for now, then in zip(net.state_dict().values(), self.buffers(), strict=True):
            now.copy_(then)
