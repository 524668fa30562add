"""AN: both programs that publish it."""

from collections.abc import Callable
from typing import Any

import pytest
from torch import nn

from tacit.labels import Labels
from tacit.methods.parts import HyperParameterError
from tacit.methods.registry import MethodError, build_method


@pytest.mark.parametrize("vector", ["an", "an_em_repo"])
def test_published_programs(published_step: Callable[..., Any], vector: str) -> None:
    published_step("an", vector).check()


@pytest.mark.parametrize("vector", ["an", "an_em_repo"])
def test_it_is_bce_with_unknown_labels_as_negatives(published_step: Callable[..., Any], vector: str) -> None:
    published_step("bce", vector, unknown="negative").check()


def test_what_the_name_decides_is_no_option(observed: Labels) -> None:
    with pytest.raises(MethodError, match=r"an has no hyper-parameter 'unknown'\. an takes eps"):
        build_method("an", nn.Identity(), observed, {"unknown": "ignore"})


@pytest.mark.parametrize("eps", [-1e-5, 0.5, float("inf")])
def test_eps_out_of_range(observed: Labels, eps: float) -> None:
    with pytest.raises(HyperParameterError, match="1e-5 is the published value"):
        build_method("an", nn.Identity(), observed, {"eps": eps})
