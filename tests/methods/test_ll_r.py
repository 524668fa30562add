"""LL-R: the authors' numbers."""

from collections.abc import Callable
from typing import Any

import pytest

from tacit.methods.base import Clock


@pytest.mark.parametrize("program", ["corrected", "published"])
def test_published_program(partial_step: Callable[..., Any], program: str) -> None:
    """A clean rate of 0.8 is the third epoch at 10 %: k = ceil(12 x 0.2) = 3."""
    partial_step("ll_r", "ll_R_cr0.8", Clock(0, 2, 9, 0, 1), delta=10.0, program=program).check()


def test_more_than_are_unobserved(partial_step: Callable[..., Any]) -> None:
    """The published program then rejects everything; ours keeps the five observed cells."""
    fifth = Clock(0, 4, 9, 0, 1)
    partial_step("ll_r", "ll_R_k_exceeds_unobserved", fifth, delta=20.0, program="published").check()
    ours = partial_step("ll_r", "ll_R_k_exceeds_unobserved", fifth, delta=20.0)
    assert ours.loss > 0
    assert int((ours.grad_logits != 0).sum()) == 5


def test_it_says_what_an_unknown_label_is(partial_step: Callable[..., Any]) -> None:
    assert partial_step("ll_r", "ll_epoch1").method.unknown == "negative, left out where loss is large"
    assert partial_step("ll_r", "ll_epoch1").method.pseudo_labels() is None
