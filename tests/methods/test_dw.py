"""DW: WAN with a free weight."""

from collections.abc import Callable
from typing import Any

from torch import nn

from tacit.labels import Labels
from tacit.methods.registry import build_method


def test_published_definition(published_step: Callable[..., Any]) -> None:
    published_step("dw", "dw_0.5").check()
    published_step("dw", "an", weight=1.0).check()


def test_the_weight_is_said(observed: Labels) -> None:
    assert build_method("dw", nn.Identity(), observed, {"weight": 0.1}).unknown == "negative, weight 0.1"
