"""BCE-LS: BCE over known labels with smoothed targets."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from ..functional.partial import known_only
from ..labels import Labels
from .base import Batch, Clock, Method
from .parts import Epsilon, Smoothing, checked_eps, checked_smoothing


class BCELabelSmoothing(Method):
    """Binary cross-entropy over known labels, with label smoothing."""

    needs: ClassVar[str] = "known negatives beside positives: full labels, or a share of them"
    ignores_unknown: ClassVar[bool] = True

    def __init__(self, net: nn.Module, observed: Labels, *, smoothing: Smoothing = 0.1, eps: Epsilon = 0.0) -> None:
        super().__init__(net, observed)
        self.smoothing = checked_smoothing(smoothing)
        self.eps = checked_eps(eps)

    def loss(self, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        cells = known_only(self.net(batch.inputs), batch.labels, smoothing=self.smoothing, eps=self.eps)
        return {"bce_ls": cells.mean()}
