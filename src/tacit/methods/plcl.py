"""PLCL (Durand et al., CVPR 2019): curriculum labelling. Partial BCE, and rounds of labels for what looks easy."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor, nn

from ..functional.curriculum import entropy_of_mean, sure_scores, top_share
from ..functional.normalised import partial_bce
from ..labels import Labels
from .base import Batch, Clock, Method, Stage, Sweep
from .parts import (
    HyperParameterError,
    KnownShareAlpha,
    KnownShareBeta,
    KnownShareGamma,
    checked_epochs,
    checked_known_share_weight,
    checked_negatives,
    number_within,
)

Strategy = Literal["score", "proportion", "positive_only", "ensemble", "uncertainty"]
THRESHOLDS = {"score": 2.0, "proportion": 0.8, "positive_only": 5.0, "ensemble": 2.0, "uncertainty": 0.3}
SUMMED = ("ensemble",)
BITS = 2**62  # of the address that dropout's draws start from


class CurriculumLabelling(Method):
    """Partial BCE; every few epochs unknown labels that the network is sure of get its answer as their label."""

    needs_negatives: ClassVar[bool] = True
    needs: ClassVar[str] = "known negatives beside positives: a share of all labels"
    unknown: str = "ignore, until the network is sure of it"
    ignores_unknown: bool = True  # what is still unknown; a label that was made pushes as a known one does

    made: Tensor
    summed: Tensor
    rounds: Tensor
    draws: Tensor

    def __init__(
        self,
        net: nn.Module,
        observed: Labels,
        *,
        strategy: Annotated[
            Strategy,
            "which unknown labels are decided. score: |logit| reaches the threshold. proportion: that share of the "
            "highest and of the lowest logits. positive_only: the logit reaches it, no negatives. ensemble: score, of "
            "the rounds' mean logit. uncertainty: entropy under dropout is at most that",
        ] = "score",
        threshold: Annotated[
            float | None,
            "of the strategy. Default: score 2, proportion 0.8, positive_only 5, ensemble 2, uncertainty 0.3",
        ] = None,
        every: Annotated[
            int | None, "epochs between rounds, and before the first. Default: a third of the epochs, rounded up"
        ] = None,
        alpha: KnownShareAlpha = -4.45,
        beta: KnownShareBeta = 5.45,
        gamma: KnownShareGamma = 1.0,
        samples: Annotated[int, "uncertainty: passes with dropout"] = 10,
        dropout: Annotated[float, "uncertainty: share of the pooled features that a pass leaves out"] = 0.5,
    ) -> None:
        super().__init__(net, observed)
        checked_negatives(observed)
        if strategy == "uncertainty" and getattr(getattr(net, "head", None), "takes", "pooled") == "maps":
            raise HyperParameterError(
                "strategy = uncertainty leaves out pooled features, and this net's head works on maps: use "
                "--head linear, or another strategy"
            )
        self.strategy, self.threshold = strategy, _checked_threshold(strategy, threshold)
        self.every = checked_epochs("every", every)
        self.alpha, self.beta, self.gamma = checked_known_share_weight(alpha, beta, gamma, len(observed.classes))
        self.samples = int(number_within("samples", samples, 1, 10_000))
        self.dropout = number_within("dropout", dropout, 0.0, 0.95)
        states = torch.tensor(observed.dense())
        self.register_buffer("open_cells", states == 0)
        self.register_buffer("made", torch.zeros_like(states))
        if strategy in SUMMED:
            self.register_buffer("summed", torch.zeros(states.shape))
            self.register_buffer("rounds", torch.zeros(()))
        if strategy == "uncertainty":
            self.register_buffer("draws", torch.randint(BITS, ()))  # a run's seed decides it

    def stages(self, budget: Stage) -> list[Stage]:
        if budget.epochs < 2:
            raise HyperParameterError(
                f"rounds are made between epochs, and the {budget.name} phase has one: give more --epochs, or take the "
                "method partial_bce, which has none"
            )
        if self.every is not None and self.every >= budget.epochs:
            raise HyperParameterError(
                f"every = {self.every} leaves no round of labels: the {budget.name} phase has {budget.epochs} epochs, "
                "and every must be less. Without labels of its own it is the method partial_bce"
            )
        return [budget]

    def refresh(self, clock: Clock, sweep: Sweep) -> None:
        """A round: all labels of the last one are forgotten, and decided anew."""
        every = self.every or math.ceil(clock.epochs / 3)
        if clock.epoch == 0 or clock.epoch % every:
            return
        states = self._decided_by_dropout(clock, sweep) if self.strategy == "uncertainty" else self._decided(sweep)
        self.made.copy_(states * self.get_buffer("open_cells"))

    def _decided(self, sweep: Sweep) -> Tensor:
        """States int8 [N, C] by the strategy, of known cells as well."""
        scores = torch.empty(self.made.shape, device=self.made.device)
        for chunk in sweep():
            scores[chunk.index] = chunk.logits.float()
        if self.strategy in SUMMED:
            self.summed += scores
            self.rounds += 1
            scores = self.summed / self.rounds
        if self.strategy == "proportion":
            return top_share(scores, self.get_buffer("open_cells"), self.threshold)
        return sure_scores(scores, self.threshold, negatives=self.strategy != "positive_only")

    def _decided_by_dropout(self, clock: Clock, sweep: Sweep) -> Tensor:
        """The sign of the mean answer of passes with dropout, where its entropy is low enough."""
        states = torch.zeros_like(self.made)
        generator = torch.Generator(self.made.device)
        start = int(self.draws) + clock.stage * 1_000_003 + clock.epoch
        generator.manual_seed(start)
        for chunk in sweep(features=True):
            assert chunk.features is not None
            said = [self.net(self._dropped(chunk.features, generator)).float().sigmoid() for _ in range(self.samples)]
            mean = torch.stack(said).mean(0)
            sure = entropy_of_mean(mean) <= self.threshold
            states[chunk.index] = torch.where(sure, torch.where(mean > 0.5, 1, -1), 0).to(torch.int8)
        return states

    def _dropped(self, features: Tensor, generator: torch.Generator) -> Tensor:
        kept = torch.rand(features.shape, generator=generator, device=features.device) >= self.dropout
        return features * kept / (1 - self.dropout)

    def loss(self, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        logits = self.net(batch.inputs)
        labels = batch.labels + self.made.index_select(0, batch.index)  # one of the two is 0 everywhere
        return {"bce": partial_bce(logits, labels, alpha=self.alpha, beta=self.beta, gamma=self.gamma).mean()}

    def pseudo_labels(self) -> Tensor:
        return self.made.clone()


def _checked_threshold(strategy: Strategy, threshold: float | None) -> float:
    value = THRESHOLDS[strategy] if threshold is None else threshold
    if strategy == "proportion":
        return number_within("threshold", value, 0.0, 1.0, "With strategy = proportion it is a share")
    if strategy == "uncertainty":
        return number_within("threshold", value, 0.0, math.log(2), "It is an entropy in nats: log 2 is a coin's")
    return number_within("threshold", value, 0.0, math.inf, "It is compared with logits")
