"""Hill (Zhang et al., 2021): negatives stop being pushed down where they look like missing positives."""

from __future__ import annotations

from typing import Annotated, ClassVar

from torch import Tensor, nn

from ..functional.hill import hill
from ..functional.partial import wide
from ..labels import Labels
from .base import Batch, Clock, Method
from .parts import Margin, Unknown, checked_unknown, number_within


class Hill(Method):
    """A focal loss with a margin for positives, and a hill for negatives: flat at both ends."""

    needs: ClassVar[str] = "some positives; negatives may be unknown"

    def __init__(
        self,
        net: nn.Module,
        observed: Labels,
        *,
        height: Annotated[
            float,
            "lambda: a negative costs (lambda - p) p^2. 1.5: no slope at p = 1; more: surer ones are pushed again",
        ] = 1.5,
        margin: Margin = 1.0,
        gamma: Annotated[float, "exponent of the positives' focusing factor; 0: all alike"] = 2.0,
        unknown: Unknown = "negative",
    ) -> None:
        super().__init__(net, observed)
        hint = "Below 1.5 a sure prediction of a negative would be pushed up"
        self.height = number_within("height", height, 1.5, 100.0, hint)
        self.margin = number_within("margin", margin, 0.0, 20.0)
        self.gamma = number_within("gamma", gamma, 0.0, 20.0)
        self.unknown = checked_unknown(unknown, observed)
        self.ignores_unknown = unknown == "ignore"

    def loss(self, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        logits = self.net(batch.inputs)
        cells = hill(logits, batch.labels, height=self.height, margin=self.margin, gamma=self.gamma)
        if self.ignores_unknown:
            cells = cells * batch.labels.abs().to(wide(logits).dtype)
        return {"hill": cells.mean()}
