"""AN: assume negative, the plain baseline of learning from positives alone."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from ..functional.partial import assume_negative
from ..labels import Labels
from .base import Batch, Clock, Method
from .parts import Epsilon, checked_eps


class AssumeNegative(Method):
    """Binary cross-entropy that takes every unknown label for a negative."""

    needs: ClassVar[str] = "some positives; negatives may be unknown"

    def __init__(self, net: nn.Module, observed: Labels, *, eps: Epsilon = 0.0) -> None:
        super().__init__(net, observed)
        self.eps = checked_eps(eps)

    def loss(self, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        return {"an": assume_negative(self.net(batch.inputs), batch.labels, eps=self.eps).mean()}
