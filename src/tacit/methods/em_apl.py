"""EM+APL: entropy maximisation, and asymmetric pseudo-labels: soft negatives for the least probable unknown labels."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn

from ..functional.entropy import binary_entropy
from ..functional.partial import cross_entropy, known_only, wide
from ..functional.pseudo import lowest_of_rows
from ..labels import Labels
from .base import Batch, Clock, Method, Stage, Sweep
from .parts import Alpha, Epsilon, HyperParameterError, checked_alpha, checked_eps, number_within

KNOWN = -2.0  # in `soft`: below every candidate, whose probability is at most 1
CELLS_AT_ONCE = 1 << 19  # of `soft` that are copied while choosing: 2 MB, a few classes that stay in the cache


class EntropyMaximisationAPL(Method):
    """EM, then round by round soft negative pseudo-labels for the unknown labels that look least likely."""

    needs: ClassVar[str] = "some positives; negatives may be unknown"
    unknown: str = "entropy raised, then soft negatives"

    soft: Tensor

    def __init__(
        self,
        net: nn.Module,
        observed: Labels,
        *,
        alpha: Alpha = 0.1,
        beta: Annotated[
            float,
            "weight of a pseudo-label; a known one weighs 1 (published: VOC 0.02, COCO 0.9, NUS-WIDE 0.2, CUB 0.4)",
        ] = 0.9,
        share: Annotated[
            float,
            "theta: share of each class's unknown labels that are pseudo-labelled by the end, above 0 and at most 1",
        ] = 0.9,
        warm_up: Annotated[
            int | None,
            "epochs of plain EM before the first round (published, of 10: VOC 5, COCO 5, NUS-WIDE 4, CUB 3). "
            "Default: half of the epochs",
        ] = None,
        flip: Annotated[
            bool, "predict randomly flipped images for the pseudo-labels, as published, instead of plain ones"
        ] = True,
        eps: Epsilon = 0.0,
    ) -> None:
        super().__init__(net, observed)
        self.alpha, self.eps = checked_alpha(alpha), checked_eps(eps)
        self.beta = number_within("beta", beta, 0.0, math.inf)
        self.share, self.flip = _checked_share(share), flip
        if warm_up is not None and warm_up < 0:
            raise HyperParameterError(f"warm_up = {warm_up} is out of range: it counts epochs, 0 or more")
        self.warm_up = warm_up
        known = observed.counts()
        self.unknown_cells = [len(observed) - int(p) - int(a) for p, a in zip(known.present, known.absent, strict=True)]
        # One number per training cell: above 0 a frozen soft target; in [-1, 0] a candidate, holding minus its last
        # prediction; KNOWN where the label is observed. Probabilities of exactly 0 stay candidates, as published.
        states = torch.tensor(observed.dense())
        self.register_buffer("soft", torch.where(states == 0, 0.0, KNOWN))

    def stages(self, budget: Stage) -> list[Stage]:
        if self.warm_up is not None and self.warm_up >= budget.epochs:
            raise HyperParameterError(
                f"warm_up = {self.warm_up} leaves no epoch for pseudo-labels: the {budget.name} phase has "
                f"{budget.epochs} epochs, and warm_up must be less. Plain EM without pseudo-labels is the method em."
            )
        if budget.epochs < 2:
            raise HyperParameterError(
                f"pseudo-labels are made between epochs, and the {budget.name} phase has one: give more --epochs, or "
                "take the method em, which has none."
            )
        return [budget]

    def refresh(self, clock: Clock, sweep: Sweep) -> None:
        """A round of pseudo-labels before every epoch after the warm-up."""
        warm_up = clock.epochs // 2 if self.warm_up is None else self.warm_up
        if clock.epoch < max(warm_up, 1):
            return
        for chunk in sweep(view="weak" if self.flip else "plain"):
            held = self.soft[chunk.index]
            said = -chunk.logits.float().sigmoid()
            self.soft[chunk.index] = torch.where(_is_candidate(held), said, held)
        self._freeze([math.floor(self.share * n / (clock.epochs - warm_up)) for n in self.unknown_cells])

    def _freeze(self, quotas: list[int]) -> None:
        """The least probable candidates of each class become pseudo-labels, with the probability they have now."""
        rows, classes = self.soft.shape
        width = max(1, CELLS_AT_ONCE // max(rows, 1))
        for first in range(0, classes, width):
            held = self.soft[:, first : first + width].T.contiguous()
            probabilities = held.neg().masked_fill_(held > 0, -KNOWN)
            chosen = lowest_of_rows(probabilities, quotas[first : first + width]) & (probabilities <= 1)
            self.soft[:, first : first + width] = torch.where(chosen, probabilities, held).T

    def loss(self, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        logits = self.net(batch.inputs)
        soft = self.soft.index_select(0, batch.index).to(wide(logits).dtype)
        pseudo = (soft > 0).to(soft.dtype)
        undecided = (batch.labels == 0).to(soft.dtype) * (1 - pseudo)
        return {
            "known": known_only(logits, batch.labels, eps=self.eps).mean(),
            "entropy": -self.alpha * (undecided * binary_entropy(logits, eps=self.eps)).mean(),
            "pseudo": cross_entropy(logits, soft.clamp(min=0), self.beta * pseudo, eps=self.eps).mean(),
        }

    def pseudo_labels(self) -> Tensor:
        return -(self.soft > 0).to(torch.int8)


def _is_candidate(held: Tensor) -> Tensor:
    """Unknown cells that are not pseudo-labelled yet."""
    return (held <= 0) & (held >= -1)


def _checked_share(share: float) -> float:
    if not 0 < share <= 1:
        raise HyperParameterError(f"share = {share:g} is out of range: it must be above 0 and at most 1")
    return share
