"""WAN: the published weight, and the down-weighted AN of later papers."""

from collections.abc import Callable
from typing import Any

import pytest
from torch import nn

from tacit.labels import Labels
from tacit.methods.parts import HyperParameterError
from tacit.methods.wan import WeakAssumeNegative


def test_half_weight_is_down_weighted_an(published_step: Callable[..., Any]) -> None:
    published_step("wan", "dw_0.5", weight=0.5).check()


def test_weight_one_is_an(published_step: Callable[..., Any]) -> None:
    published_step("wan", "an", weight=1.0).check()


def test_weight_zero_leaves_positives_alone(published_step: Callable[..., Any]) -> None:
    published_step("wan", "iun_role_repo_as_released_BUG", weight=0.0).check()


def test_published_weight_balances_one_positive_against_all_negatives(observed: Labels) -> None:
    assert WeakAssumeNegative(nn.Identity(), observed).weight == 0.5
    assert (
        WeakAssumeNegative(nn.Identity(), Labels.from_dense([[1] * 80], [f"{i}" for i in range(80)])).weight == 1 / 79
    )


def test_one_class_has_no_published_weight() -> None:
    only = Labels.from_dense([[1], [0]], ["cat"])
    with pytest.raises(HyperParameterError, match="at least two classes"):
        WeakAssumeNegative(nn.Identity(), only)
    assert WeakAssumeNegative(nn.Identity(), only, weight=0.1).weight == 0.1


def test_weight_out_of_range(observed: Labels) -> None:
    with pytest.raises(HyperParameterError, match="weight = 2 is out of range"):
        WeakAssumeNegative(nn.Identity(), observed, weight=2.0)
