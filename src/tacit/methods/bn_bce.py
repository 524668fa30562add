"""BN-BCE: cross-entropy over known labels, divided by their number in the batch."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from ..functional.normalised import bn_bce
from ..labels import Labels
from .base import Batch, Clock, Method
from .parts import checked_negatives


class BatchNormalisedBCE(Method):
    """Binary cross-entropy, the mean over known labels of the batch: as strong at 10 % known labels as at 90 %."""

    needs_negatives: ClassVar[bool] = True
    needs: ClassVar[str] = "known negatives beside positives: full labels, or a share of them"
    unknown: str = "ignore"
    ignores_unknown: bool = True

    def __init__(self, net: nn.Module, observed: Labels) -> None:
        super().__init__(net, observed)
        checked_negatives(observed)

    def loss(self, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        return {"bce": bn_bce(self.net(batch.inputs), batch.labels)}
