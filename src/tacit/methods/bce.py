"""BCE: cross-entropy under partial labels, and most baselines of the field as its options (see `names.py`)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor, nn

from ..functional.partial import assume_negative, known_only, smoothed_unknown
from ..labels import Labels
from .base import Batch, Clock, Method
from .parts import (
    Epsilon,
    HyperParameterError,
    Smoothing,
    Unknown,
    checked_eps,
    checked_smoothing,
    checked_unknown,
    number_within,
)


class BCE(Method):
    """Binary cross-entropy over known labels; unknown ones are left out, or count as negatives."""

    needs: ClassVar[str] = (
        "known negatives beside positives: full labels, one negative per image (IU), all (IUN), a share"
    )

    def __init__(
        self,
        net: nn.Module,
        observed: Labels,
        *,
        unknown: Unknown = "ignore",
        smoothing: Smoothing = 0.0,
        smoothed: Annotated[
            Literal["all", "unknown"], "whose targets are smoothed: all cells, or only unknown ones taken for negative"
        ] = "all",
        l1: Annotated[float, "times the sum of absolute weights (biases and norms left out), added to the loss"] = 0.0,
        l2: Annotated[float, "times the sum of squared weights (biases and norms left out), added to the loss"] = 0.0,
        eps: Epsilon = 0.0,
    ) -> None:
        super().__init__(net, observed)
        self.unknown = checked_unknown(unknown, observed)
        self.ignores_unknown = unknown == "ignore"
        self.smoothing, self.smoothed = checked_smoothing(smoothing), smoothed
        if self.ignores_unknown and smoothed == "unknown":
            raise HyperParameterError(
                "smoothed = unknown smooths unknown labels that are taken for negative, and unknown = ignore leaves "
                "them out. Say unknown = negative, or smoothed = all"
            )
        self.l1, self.l2 = number_within("l1", l1, 0.0, 1.0), number_within("l2", l2, 0.0, 1.0)
        self.eps = checked_eps(eps)

    def loss(self, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        terms = {"bce": self._cells(self.net(batch.inputs), batch.labels).mean()}
        if self.l1:
            terms["l1"] = self.l1 * torch.stack([w.abs().sum() for w in self._weights()]).sum()
        if self.l2:
            terms["l2"] = self.l2 * torch.stack([w.square().sum() for w in self._weights()]).sum()
        return terms

    def _cells(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self.ignores_unknown:
            return known_only(logits, labels, smoothing=self.smoothing, eps=self.eps)
        if self.smoothed == "unknown":
            return smoothed_unknown(logits, labels, smoothing=self.smoothing, eps=self.eps)
        return assume_negative(logits, labels, smoothing=self.smoothing, eps=self.eps)

    def _weights(self) -> list[nn.Parameter]:
        return [p for p in self.net.parameters() if p.requires_grad and p.ndim > 1]
