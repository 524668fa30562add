"""ROLE: a classifier and free estimates of every training label, each learning from the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..functional.estimates import (
    expected_positives_penalty,
    initial_estimates,
    mutual_cross_entropy,
    probabilities_to_logits,
)
from ..functional.partial import known_only, wide
from ..labels import Labels
from .base import Batch, Clock, Method
from .parts import (
    Epsilon,
    ExpectedPositives,
    HyperParameterError,
    RowTable,
    checked_eps,
    checked_expected_positives,
    expected_positives_oracle,
)

ESTIMATOR_LR = 10.0  # times the classifier's learning rate


class ROLE(Method):
    """Regularised online label estimation: classifier and label estimates fit the known labels and each other."""

    needs: ClassVar[str] = "some positives, and the number of positives to expect per image"
    unknown: str = "estimated"
    example_options: ClassVar[Mapping[str, Any]] = {"k": 1.5}

    def __init__(self, net: nn.Module, observed: Labels, *, k: ExpectedPositives, eps: Epsilon = 0.0) -> None:
        super().__init__(net, observed)
        self.k = checked_expected_positives(k, len(observed.classes))
        self.eps = checked_eps(eps)
        self.theta = RowTable(initial_estimates(torch.tensor(observed.dense())))

    def oracles(self) -> tuple[str, ...]:
        return (expected_positives_oracle(self.k),)

    def groups(self, lr: float) -> list[dict[str, Any]]:
        return [
            {"params": [p for p in self.net.parameters() if p.requires_grad], "lr": lr},
            {"params": [self.theta.weight], "lr": ESTIMATOR_LR * lr, "rows": True},
        ]

    def loss(self, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        """Half of L_f + L_g of the paper: `pair` stacks f(x) and the estimates g, which have the same objective."""
        pair = torch.stack((wide(self.net(batch.inputs)), self.theta.rows(batch.index)))
        cells = known_only(pair, batch.labels, eps=self.eps) + mutual_cross_entropy(pair, eps=self.eps)
        classifier, estimator = (cells.mean((1, 2)) / 2).unbind()
        expected_positives = expected_positives_penalty(pair, self.k).mean()
        return {"classifier": classifier, "estimator": estimator, "expected_positives": expected_positives}

    def estimates(self) -> Tensor:
        return self.theta.all().sigmoid()

    def hand_over(self, previous: Method) -> None:
        """LinearInit: start from the earlier phase's estimates, clipped to [1e-5, 1 - 1e-5]."""
        earlier = previous.estimates()
        if earlier is None:
            return
        if earlier.shape != self.theta.weight.shape:
            raise HyperParameterError(
                f"label estimates of {tuple(earlier.shape)} training cells cannot be handed over to "
                f"{tuple(self.theta.weight.shape)}: both phases must train on the same rows and classes"
            )
        self.theta.assign(probabilities_to_logits(earlier))
