"""AN-LS: the program's smoothing by default, the paper's on request."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tacit.labels import Labels
from tacit.methods.base import Batch, Clock, View
from tacit.methods.registry import build_method


def test_default_smoothing_is_the_published_program(published_step: Callable[..., Any]) -> None:
    published_step("an_ls", "an_ls_0.1").check()


def test_smoothing_of_the_paper(observed: Labels) -> None:
    """At p = 3/4 everywhere: a positive pays 0.95 ln 4/3 + 0.05 ln 4, each of the four others the reverse."""
    method = build_method("an_ls", nn.Identity(), observed, {"smoothing": 0.05})
    logits = torch.full((2, 3), math.log(3))
    batch = Batch(torch.arange(2), torch.from_numpy(observed.rows([0, 1])), {"weak": View(logits)})
    a, b = math.log(4 / 3), math.log(4)
    expected = (2 * (0.95 * a + 0.05 * b) + 4 * (0.95 * b + 0.05 * a)) / 6
    assert method(batch, Clock(0, 0, 1, 0, 1))["bce"].item() == pytest.approx(expected)
