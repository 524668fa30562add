"""EntMin: EM with the sign of its second term turned."""

from collections.abc import Callable
from typing import Any

import pytest


def test_only_the_sign_of_the_entropy_differs(published_step: Callable[..., Any]) -> None:
    raised = published_step("em", "em_alpha0.2", alpha=0.2)
    lowered = published_step("entmin", "em_alpha0.2", alpha=0.2)
    assert lowered.terms["known"] == raised.terms["known"]
    assert lowered.terms["entropy"].item() == pytest.approx(-raised.terms["entropy"].item())
    assert raised.terms["entropy"] < 0 and lowered.method.unknown == "entropy lowered"
