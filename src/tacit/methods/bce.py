"""BCE over known labels; by observation also the published IU and IUN."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from ..functional.partial import known_only
from ..labels import Labels
from .base import Batch, Clock, Method
from .parts import Epsilon, checked_eps


class BCE(Method):
    """Binary cross-entropy over known labels; unknown ones are left out."""

    needs: ClassVar[str] = (
        "known negatives beside positives: full labels, one negative per image (IU), all (IUN), a share"
    )
    ignores_unknown: ClassVar[bool] = True

    def __init__(self, net: nn.Module, observed: Labels, *, eps: Epsilon = 0.0) -> None:
        super().__init__(net, observed)
        self.eps = checked_eps(eps)

    def loss(self, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        return {"bce": known_only(self.net(batch.inputs), batch.labels, eps=self.eps).mean()}
