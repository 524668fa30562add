"""Hyper-parameters that several methods share: what they mean, once, and what they may be.

The text inside an `Annotated` is the help of the command-line flag made from the keyword.
"""

from __future__ import annotations

import math
from typing import Annotated

from ..errors import UserError

Epsilon = Annotated[float, "0: exact logarithms. 1e-5: the -log(p + 1e-5) of the published programs"]
Smoothing = Annotated[float, "targets become 1 - s and s. 0.1: the published program; 0.05: the paper as written"]
ExpectedPositives = Annotated[
    float,
    "expected number of positive classes per image (published: VOC 1.5, COCO 2.9, NUS-WIDE 1.9, CUB 31.4). "
    "An oracle scalar: it is the mean of the true labels, unless you estimate it from elsewhere",
]


class OptionError(UserError, ValueError):
    """A hyper-parameter that is missing, unknown or out of its range."""


def number_within(name: str, value: float, low: float, high: float, hint: str = "") -> float:
    """`value`, if it is a finite number with low <= value <= high."""
    if math.isfinite(value) and low <= value <= high:
        return value
    span = f"at least {low:g}" if math.isinf(high) else f"between {low:g} and {high:g}"
    raise OptionError(f"{name} = {value:g} is out of range: it must be {span}{'. ' + hint if hint else ''}")


def checked_eps(eps: float) -> float:
    return number_within("eps", eps, 0.0, 0.1, "0 takes exact logarithms, 1e-5 is the published value")


def checked_smoothing(smoothing: float) -> float:
    return number_within("smoothing", smoothing, 0.0, 0.5, "0.5 would teach every class the same target")


def checked_expected_positives(k: float, classes: int) -> float:
    if k <= 0:
        raise OptionError(f"k = {k:g} is out of range: an image is expected to have more than 0 positive classes")
    return number_within(
        "k", k, 0.0, classes, f"it counts positive classes of an image, and there are {classes} classes"
    )


def expected_positives_oracle(k: float) -> str:
    return (
        f"expected number of positives per image, k = {k:g} (the mean of the true labels, unless estimated elsewhere)"
    )
