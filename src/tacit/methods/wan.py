"""WAN: assume negative, but weigh the assumed negatives down."""

from __future__ import annotations

from typing import Annotated, ClassVar

from torch import Tensor, nn

from ..functional.partial import weak_negatives
from ..labels import Labels
from .base import Batch, Clock, Method
from .parts import Epsilon, HyperParameterError, checked_eps, number_within


class WeakAssumeNegative(Method):
    """Assume negative with unknown labels weighed down, by default to 1 / (C - 1)."""

    needs: ClassVar[str] = "some positives; negatives may be unknown"

    def __init__(
        self,
        net: nn.Module,
        observed: Labels,
        *,
        weight: Annotated[float | None, "of an unknown label, 0 to 1. Default: 1 / (classes - 1), as published"] = None,
        eps: Epsilon = 0.0,
    ) -> None:
        super().__init__(net, observed)
        self.weight = _published_weight(observed) if weight is None else number_within("weight", weight, 0.0, 1.0)
        self.unknown = f"negative, weight {self.weight:.3g}"
        self.eps = checked_eps(eps)

    def loss(self, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        return {"wan": weak_negatives(self.net(batch.inputs), batch.labels, weight=self.weight, eps=self.eps).mean()}


def _published_weight(observed: Labels) -> float:
    """The one positive of an image then weighs as much as all its assumed negatives together."""
    classes = len(observed.classes)
    if classes < 2:
        raise HyperParameterError(
            "WAN's weight 1 / (classes - 1) needs at least two classes; with one class, set weight yourself"
        )
    return 1 / (classes - 1)
