"""LL-Ct: the authors' numbers; a large loss is that of the other label, in this step alone."""

from collections.abc import Callable
from typing import Any

import pytest

from tacit.methods.base import Clock


@pytest.mark.parametrize("program", ["corrected", "published"])
def test_published_program(partial_step: Callable[..., Any], program: str) -> None:
    step = partial_step("ll_ct", "ll_Ct_cr0.8", Clock(0, 2, 9, 0, 1), delta=10.0, program=program)
    step.check()
    assert step.method.pseudo_labels() is None


def test_known_negatives_are_never_turned(try_step: Callable[..., Any]) -> None:
    step = try_step("ll_ct", [[1, -1, 0, 0]], [[0.0, 9.0, 1.0, -1.0]], clock=Clock(0, 1, 9, 0, 1), delta=25.0)
    assert [bool(slope < 0) for slope in step.grad_logits[0]] == [True, False, True, False]
