"""BN-BCE: the recorded program, a batch by hand, and nothing known."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tacit.methods.parts import NoKnownNegative


def test_published_program(partial_step: Callable[..., Any]) -> None:
    partial_step("bn_bce", "hcp_bce_margin0").check()


def test_the_mean_over_known_cells_of_the_whole_batch(try_step: Callable[..., Any]) -> None:
    """Three known cells: log 2 twice, and -log(1/4) of a positive at p = 1/4."""
    step = try_step("bn_bce", [[1, 0, -1], [1, 0, 0]], [[0.0, 9.0, 0.0], [math.log(1 / 3), 9.0, -9.0]])
    assert step.loss == pytest.approx((2 * math.log(2) + math.log(4)) / 3)
    wanted = torch.tensor([[-1 / 6, 0, 1 / 6], [-1 / 4, 0, 0]], dtype=torch.float64)
    torch.testing.assert_close(step.grad_logits, wanted)


def test_a_batch_without_known_labels(try_step: Callable[..., Any]) -> None:
    step = try_step("bn_bce", [[1, -1], [0, 0], [0, 0]], [[2.0, -1.0], [300.0, -300.0]], rows=[1, 2])
    assert step.loss == 0
    assert not step.grad_logits.any()


def test_positives_only_are_refused_with_names_that_fit(try_step: Callable[..., Any]) -> None:
    with pytest.raises(NoKnownNegative, match=r"bn_bce: not one label is known to be absent.* an, ") as refused:
        try_step("bn_bce", [[1, 0]], [[0.0, 0.0]])
    named = str(refused.value).rsplit(": ", 1)[1].rstrip(".").split(", ")
    assert {"an", "em", "ll_r", "splc"} <= set(named)
    assert not {"bn_bce", "s_bce", "partial_bce", "plcl", "bce"} & set(named)
