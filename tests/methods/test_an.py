"""AN: both programs that publish it."""

from collections.abc import Callable
from typing import Any

import pytest
from torch import nn

from tacit.labels import Labels
from tacit.methods.an import AssumeNegative
from tacit.methods.parts import HyperParameterError


@pytest.mark.parametrize("vector", ["an", "an_em_repo"])
def test_published_programs(published_step: Callable[..., Any], vector: str) -> None:
    published_step("an", vector).check()


@pytest.mark.parametrize("eps", [-1e-5, 0.5, float("inf")])
def test_eps_out_of_range(observed: Labels, eps: float) -> None:
    with pytest.raises(HyperParameterError, match="1e-5 is the published value"):
        AssumeNegative(nn.Identity(), observed, eps=eps)
