"""Hill: the authors' numbers, the slope of a negative, and its two readings of an unknown label."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tacit.methods.parts import HyperParameterError


def test_published_program(partial_step: Callable[..., Any]) -> None:
    partial_step("hill", "hill_sum").check(summed=True)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9, 0.999])
def test_slope_of_a_negative(try_step: Callable[..., Any], p: float) -> None:
    """(1.5 - p) p^2 has the slope 3 p^2 (1 - p)^2 by the logit: largest at 0.5, gone at both ends."""
    step = try_step("hill", [[0, -1]], [[math.log(p / (1 - p))] * 2])
    slope = 3 * p**2 * (1 - p) ** 2 / 2
    torch.testing.assert_close(step.grad_logits, torch.full((1, 2), slope, dtype=torch.float64))
    assert step.loss == pytest.approx((1.5 - p) * p**2)


def test_a_positive_by_hand(try_step: Callable[..., Any]) -> None:
    """At a logit of 1 the margin makes it a coin: (1/2)^2 log 2."""
    assert try_step("hill", [[1]], [[1.0]]).loss == pytest.approx(math.log(2) / 4)


def test_ignoring_unknown_labels(try_step: Callable[..., Any]) -> None:
    step = try_step("hill", [[1, 0, -1]], [[0.0, 0.5, 0.5]], unknown="ignore")
    assert step.grad_logits[0, 1] == 0 and step.grad_logits[0, 2] > 0
    with pytest.raises(HyperParameterError, match="hill: unknown = ignore"):
        try_step("hill", [[1, 0]], [[0.0, 0.5]], unknown="ignore")


def test_sure_mistakes_stay_finite(try_step: Callable[..., Any]) -> None:
    step = try_step("hill", [[1, 0]], [[-400.0, 400.0]])
    assert math.isfinite(step.loss) and step.grad_logits.isfinite().all()
    assert 2 * step.grad_logits[0, 0].item() == pytest.approx(-1)


@pytest.mark.parametrize(("name", "value"), [("height", 1.0), ("margin", -1.0), ("gamma", float("nan"))])
def test_out_of_range(try_step: Callable[..., Any], name: str, value: float) -> None:
    with pytest.raises(HyperParameterError, match=f"{name} = "):
        try_step("hill", [[1, 0]], [[0.0, 0.0]], **{name: value})
