"""EPR: the published numbers, its terms, and its oracle."""

from collections.abc import Callable
from typing import Any

import pytest
from torch import nn

from tacit.labels import Labels
from tacit.methods.epr import ExpectedPositiveRegularisation
from tacit.methods.parts import HyperParameterError


def test_published_program(published_step: Callable[..., Any]) -> None:
    step = published_step("epr", "epr_k2.0", k=2.0)
    step.check()
    assert float(step.terms["expected_positives"]) == pytest.approx(step.recorded["reg"], rel=1e-7)


def test_the_oracle_is_said(observed: Labels) -> None:
    (line,) = ExpectedPositiveRegularisation(nn.Identity(), observed, k=1.5).oracles()
    assert "k = 1.5" in line and "true labels" in line


@pytest.mark.parametrize("k", [0.0, -1.0, 3.5, float("nan")])
def test_k_out_of_range(observed: Labels, k: float) -> None:
    with pytest.raises(HyperParameterError, match=r"k = .* out of range"):
        ExpectedPositiveRegularisation(nn.Identity(), observed, k=k)
