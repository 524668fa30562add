"""Focal loss: both focusing factors alike, in the gradient too."""

from collections.abc import Callable
from typing import Any

import pytest
import torch


def test_published_definition(published_step: Callable[..., Any]) -> None:
    published_step("focal", "focal_gamma2_noalpha_mean").check()


def test_without_focus_it_is_an(published_step: Callable[..., Any]) -> None:
    step = published_step("focal", "an", gamma_pos=0.0, gamma_neg=0.0)
    assert float(step.terms["asl"]) == pytest.approx(
        step.recorded["loss"], rel=1e-4
    )  # the program's logarithm has 1e-5 inside
    wanted = torch.tensor(step.recorded["grad_logits"], dtype=torch.float64)
    torch.testing.assert_close(step.grad_logits, wanted, rtol=1e-3, atol=1e-6)
