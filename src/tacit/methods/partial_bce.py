"""Partial BCE (Durand et al., CVPR 2019): cross-entropy over known labels, weighed by how many an image has."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from ..functional.normalised import partial_bce
from ..labels import Labels
from .base import Batch, Clock, Method
from .parts import KnownShareAlpha, KnownShareBeta, KnownShareGamma, checked_known_share_weight, checked_negatives


class PartialBCE(Method):
    """Binary cross-entropy over known labels; an image with few of them weighs more, g(p) = alpha p^gamma + beta."""

    needs_negatives: ClassVar[bool] = True
    needs: ClassVar[str] = "known negatives beside positives: full labels, or a share of them"
    unknown: str = "ignore"
    ignores_unknown: bool = True

    def __init__(
        self,
        net: nn.Module,
        observed: Labels,
        *,
        alpha: KnownShareAlpha = -4.45,
        beta: KnownShareBeta = 5.45,
        gamma: KnownShareGamma = 1.0,
    ) -> None:
        super().__init__(net, observed)
        checked_negatives(observed)
        self.alpha, self.beta, self.gamma = checked_known_share_weight(alpha, beta, gamma, len(observed.classes))

    def loss(self, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        logits = self.net(batch.inputs)
        cells = partial_bce(logits, batch.labels, alpha=self.alpha, beta=self.beta, gamma=self.gamma)
        return {"bce": cells.mean()}
