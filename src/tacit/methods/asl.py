"""ASL: asymmetric loss; the focal loss is its symmetric case (see `names.py`)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from torch import Tensor, nn

from ..functional.focusing import focused_cross_entropy
from ..functional.partial import wide
from ..labels import Labels
from .base import Batch, Clock, Method
from .parts import Unknown, checked_unknown, number_within


class AsymmetricLoss(Method):
    """Cross-entropy that looks away from easy cells, and from negatives more than from positives."""

    needs: ClassVar[str] = "some positives; negatives may be unknown"

    def __init__(
        self,
        net: nn.Module,
        observed: Labels,
        *,
        gamma_pos: Annotated[float, "exponent of the positives' focusing factor (1 - p); 0: all alike"] = 0.0,
        gamma_neg: Annotated[float, "exponent of the negatives' focusing factor p; 0: all alike"] = 4.0,
        clip: Annotated[float, "a negative with a probability up to this costs nothing"] = 0.05,
        detach: Annotated[bool, "keep the focusing factor out of the gradient, as the published program trains"] = True,
        unknown: Unknown = "negative",
        floor: Annotated[
            float, "smallest argument of a logarithm. 0: exact. 1e-8: the published program, with no gradient beyond"
        ] = 0.0,
    ) -> None:
        super().__init__(net, observed)
        self.gamma_pos = number_within("gamma_pos", gamma_pos, 0.0, 20.0)
        self.gamma_neg = number_within("gamma_neg", gamma_neg, 0.0, 20.0)
        self.clip = number_within("clip", clip, 0.0, 0.5)
        self.floor = number_within("floor", floor, 0.0, 0.1)
        self.detach = detach
        self.unknown = checked_unknown(unknown, observed)
        self.ignores_unknown = unknown == "ignore"

    def loss(self, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        logits = self.net(batch.inputs)
        cells = focused_cross_entropy(
            logits,
            batch.labels,
            gamma_pos=self.gamma_pos,
            gamma_neg=self.gamma_neg,
            clip=self.clip,
            detach=self.detach,
            floor=self.floor,
        )
        if self.ignores_unknown:
            cells = cells * batch.labels.abs().to(wide(logits).dtype)
        return {"asl": cells.mean()}
