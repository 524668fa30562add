"""SPLC: the authors' numbers before and after the first epoch, and what may be corrected."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tacit.functional.splc import corrected
from tacit.methods.base import Clock
from tacit.methods.parts import HyperParameterError

LATER = Clock(0, 1, 3, 0, 1)


@pytest.mark.parametrize(
    ("vector", "clock"), [("splc_ep0_tau0.6_sum", Clock(0, 0, 3, 0, 1)), ("splc_ep1_tau0.6_sum", LATER)]
)
@pytest.mark.parametrize("confirmed", [True, False])
def test_published_program(partial_step: Callable[..., Any], vector: str, clock: Clock, confirmed: bool) -> None:
    """Its labels have no confirmed negatives, so that both readings agree."""
    partial_step("splc", vector, clock, confirmed=confirmed).check(summed=True)


def test_confirmed_negatives_are_exempt_unless_said(try_step: Callable[..., Any]) -> None:
    states, logits = [[1, 0, -1, -1]], [[2.0, 2.0, 2.0, -2.0]]
    exempt = try_step("splc", states, logits, clock=LATER).grad_logits[0]
    assert exempt[1] < 0 < exempt[2] and exempt[3] > 0
    published = try_step("splc", states, logits, clock=LATER, confirmed=False).grad_logits[0]
    assert published[2] < 0 < published[3]


def test_the_threshold_is_not_reached_by_equality() -> None:
    logits = torch.tensor([[0.0, 1e-6, -1e-6]], dtype=torch.float64)
    assert corrected(logits, torch.zeros(1, 3, dtype=torch.int8), tau=0.5).tolist() == [[0, 1, 0]]


def test_nothing_is_corrected_during_the_warm_up(try_step: Callable[..., Any]) -> None:
    for warm_up, pulled in ((0, True), (1, True), (2, False)):
        step = try_step("splc", [[1, 0]], [[0.0, 3.0]], clock=LATER, warm_up=warm_up)
        assert bool(step.grad_logits[0, 1] < 0) == pulled


@pytest.mark.parametrize(("name", "value"), [("tau", 1.5), ("warm_up", -1), ("margin", -0.1), ("gamma", -1.0)])
def test_out_of_range(try_step: Callable[..., Any], name: str, value: float) -> None:
    with pytest.raises(HyperParameterError, match=f"{name} = "):
        try_step("splc", [[1, 0]], [[0.0, 0.0]], **{name: value})
