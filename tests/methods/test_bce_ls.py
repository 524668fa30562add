"""BCE-LS on full labels."""

from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor, nn

from tacit.labels import Labels
from tacit.methods.parts import HyperParameterError
from tacit.methods.registry import build_method


def test_default_smoothing_is_the_published_program(published_step: Callable[..., Any], truth: Tensor) -> None:
    published_step("bce_ls", "bce_ls_full_0.1", labels=truth).check()


def test_without_smoothing_it_is_bce(published_step: Callable[..., Any], truth: Tensor) -> None:
    step = published_step("bce_ls", "bce_full", labels=truth, smoothing=0.0)
    step.check()


@pytest.mark.parametrize("smoothing", [-0.1, 0.6, float("nan")])
def test_smoothing_out_of_range(observed: Labels, smoothing: float) -> None:
    with pytest.raises(HyperParameterError, match=r"smoothing = .* between 0 and 0.5"):
        build_method("bce_ls", nn.Identity(), observed, {"smoothing": smoothing})
