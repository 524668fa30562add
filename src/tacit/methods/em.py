"""EM: learn from known labels, and keep predictions of unknown ones undecided."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from torch import Tensor, nn

from ..functional.entropy import binary_entropy
from ..functional.partial import known_only, wide
from ..labels import Labels
from .base import Batch, Clock, Method
from .parts import Alpha, Epsilon, checked_alpha, checked_eps


class EntropyMaximisation(Method):
    """Cross-entropy over known labels, and the entropy of unknown ones maximised: they teach neither yes nor no."""

    needs: ClassVar[str] = "some positives; negatives may be unknown"

    def __init__(
        self,
        net: nn.Module,
        observed: Labels,
        *,
        alpha: Alpha = 0.1,
        entropy: Annotated[
            Literal["maximise", "minimise"], "of predictions for unknown labels. minimise: the baseline EntMin"
        ] = "maximise",
        eps: Epsilon = 0.0,
    ) -> None:
        super().__init__(net, observed)
        self.alpha, self.entropy, self.eps = checked_alpha(alpha), entropy, checked_eps(eps)
        self.unknown = "entropy raised" if entropy == "maximise" else "entropy lowered"

    def loss(self, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        logits = self.net(batch.inputs)
        unknown = (batch.labels == 0).to(wide(logits).dtype)
        entropy = (unknown * binary_entropy(logits, eps=self.eps)).mean()
        return {
            "known": known_only(logits, batch.labels, eps=self.eps).mean(),
            "entropy": (-self.alpha if self.entropy == "maximise" else self.alpha) * entropy,
        }
