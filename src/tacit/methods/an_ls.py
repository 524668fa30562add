"""AN-LS: assume negative, with smoothed targets."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from ..functional.partial import assume_negative
from ..labels import Labels
from .base import Batch, Clock, Method
from .parts import Epsilon, Smoothing, checked_eps, checked_smoothing


class AssumeNegativeLabelSmoothing(Method):
    """Assume negative with label smoothing, so that a wrong negative costs less than certainty."""

    needs: ClassVar[str] = "some positives; negatives may be unknown"

    def __init__(self, net: nn.Module, observed: Labels, *, smoothing: Smoothing = 0.1, eps: Epsilon = 0.0) -> None:
        super().__init__(net, observed)
        self.smoothing = checked_smoothing(smoothing)
        self.eps = checked_eps(eps)

    def loss(self, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        cells = assume_negative(self.net(batch.inputs), batch.labels, smoothing=self.smoothing, eps=self.eps)
        return {"an_ls": cells.mean()}
