"""EPR: learn from known labels alone, and keep the number of predicted positives near its expectation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn

from ..functional.estimates import expected_positives_penalty
from ..functional.partial import known_only
from ..labels import Labels
from .base import Batch, Clock, Method
from .parts import (
    Epsilon,
    ExpectedPositives,
    checked_eps,
    checked_expected_positives,
    expected_positives_oracle,
)


class ExpectedPositiveRegularisation(Method):
    """Cross-entropy over known labels, plus a penalty on the mean number of predicted positives."""

    needs: ClassVar[str] = "some positives, and the number of positives to expect per image"
    unknown: str = "ignore, but counted in k"
    example_options: ClassVar[Mapping[str, Any]] = {"k": 1.5}

    def __init__(self, net: nn.Module, observed: Labels, *, k: ExpectedPositives, eps: Epsilon = 0.0) -> None:
        super().__init__(net, observed)
        self.k = checked_expected_positives(k, len(observed.classes))
        self.eps = checked_eps(eps)

    def oracles(self) -> tuple[str, ...]:
        return (expected_positives_oracle(self.k),)

    def loss(self, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        logits = self.net(batch.inputs)
        return {
            "known": known_only(logits, batch.labels, eps=self.eps).mean(),
            "expected_positives": expected_positives_penalty(logits, self.k),
        }
