"""SPLC (Zhang et al., 2021): after a first epoch, assumed negatives that the network finds count as positives."""

from __future__ import annotations

from typing import Annotated, ClassVar

from torch import Tensor, nn

from ..functional.splc import corrected, splc
from ..labels import Labels
from .base import Batch, Clock, Method
from .parts import Margin, checked_epochs, number_within


class SelfPacedCorrection(Method):
    """Assume negative, and correct on the way: an unknown label with p > tau is a positive of that step."""

    needs: ClassVar[str] = "some positives; negatives may be unknown"

    def __init__(
        self,
        net: nn.Module,
        observed: Labels,
        *,
        tau: Annotated[float, "an unknown label with a probability above this counts as positive"] = 0.6,
        warm_up: Annotated[int, "epochs before anything is corrected"] = 1,
        margin: Margin = 1.0,
        gamma: Annotated[float, "exponent of the focusing factors; 0: all alike"] = 2.0,
        confirmed: Annotated[
            bool, "known negatives stay negative; no: they may be corrected, as the published program does"
        ] = True,
    ) -> None:
        super().__init__(net, observed)
        self.tau = number_within("tau", tau, 0.0, 1.0)
        checked_epochs("warm_up", warm_up, least=0)
        self.warm_up, self.confirmed = warm_up, confirmed
        self.margin = number_within("margin", margin, 0.0, 20.0)
        self.gamma = number_within("gamma", gamma, 0.0, 20.0)
        self.unknown = f"negative, positive once p > {tau:g}"

    def loss(self, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        logits, targets = self.net(batch.inputs), batch.labels
        if clock.epoch >= self.warm_up:
            targets = corrected(logits, batch.labels, tau=self.tau, confirmed=self.confirmed)
        return {"splc": splc(logits, batch.labels, targets, margin=self.margin, gamma=self.gamma).mean()}
