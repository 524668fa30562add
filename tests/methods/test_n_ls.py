"""N-LS: only unknown labels are smoothed."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tacit.labels import Labels
from tacit.methods.base import Batch, Clock, View
from tacit.methods.registry import build_method


def test_published_definition(published_step: Callable[..., Any]) -> None:
    published_step("n_ls", "nls_0.1").check()


def test_confirmed_negatives_stay_certain(observed: Labels) -> None:
    """At p = 3/4 everywhere, labels 1 0 0 / 0 1 -1: two positives, one negative, three unknown with target 0.2."""
    method = build_method("n_ls", nn.Identity(), observed, {"smoothing": 0.2})
    batch = Batch(
        torch.arange(2), torch.from_numpy(observed.rows([0, 1])), {"weak": View(torch.full((2, 3), math.log(3)))}
    )
    present, absent = math.log(4 / 3), math.log(4)
    expected = (2 * present + absent + 3 * (0.2 * present + 0.8 * absent)) / 6
    assert method(batch, Clock(0, 0, 1, 0, 1))["bce"].item() == pytest.approx(expected)
