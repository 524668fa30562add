"""EM against the published program, its gradient in closed form, and confirmed negatives."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tacit.functional.entropy import binary_entropy
from tacit.labels import Labels
from tacit.methods.base import Batch, Clock, View
from tacit.methods.parts import HyperParameterError
from tacit.methods.registry import build_method

CLOCK = Clock(0, 0, 1, 0, 1)


def test_published_program(published_step: Callable[..., Any]) -> None:
    step = published_step("em", "em_alpha0.2", alpha=0.2)
    step.check()
    assert step.method.unknown == "entropy raised"


@given(st.floats(-40, 40))
def test_slope_of_the_entropy(logit: float) -> None:
    x = torch.tensor([logit], dtype=torch.float64, requires_grad=True)
    binary_entropy(x).sum().backward()
    p = torch.sigmoid(x.detach())
    assert x.grad is not None
    assert x.grad.item() == pytest.approx((-x.detach() * p * torch.sigmoid(-x.detach())).item(), rel=1e-9, abs=1e-15)


def test_peak_of_the_push_towards_one_half() -> None:
    """The gradient alpha * x p (1 - p) is largest at |x| = 1.5434, where it is 0.223872 alpha."""
    x = torch.linspace(-6, 6, 240_001, dtype=torch.float64, requires_grad=True)
    (-binary_entropy(x)).sum().backward()
    assert x.grad is not None
    top = int(x.grad.argmax())
    assert x.grad[top].item() == pytest.approx(0.223872, abs=1e-6)
    assert x[top].item() == pytest.approx(1.5434, abs=1e-4)
    assert binary_entropy(torch.zeros(1)).item() == pytest.approx(math.log(2))


def test_confirmed_negatives_are_cross_entropy() -> None:
    observed = Labels.from_dense([[1, -1, 0, 0]], list("abcd"))
    batch = Batch(torch.arange(1), torch.from_numpy(observed.rows([0])), {"weak": View(torch.zeros(1, 4))})
    terms = build_method("em", nn.Identity(), observed, {"alpha": 0.5})(batch, CLOCK)
    assert terms["known"].item() == pytest.approx(2 * math.log(2) / 4)
    assert terms["entropy"].item() == pytest.approx(-0.5 * 2 * math.log(2) / 4)


@pytest.mark.parametrize("alpha", [-0.1, float("inf"), float("nan")])
def test_alpha_out_of_range(observed: Labels, alpha: float) -> None:
    with pytest.raises(HyperParameterError, match=r"alpha = .* at least 0"):
        build_method("em", nn.Identity(), observed, {"alpha": alpha})
