"""CSL (Ben-Baruch et al., CVPR 2022): a partial asymmetric loss, selective about which unknown labels are negatives."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from ..functional.batch import step_mean
from ..functional.csl import count_weight, partial_asymmetric, selected
from ..functional.partial import wide
from ..labels import Labels
from .base import Batch, Clock, Method, Stage, Sweep
from .parts import (
    HyperParameterError,
    KeptState,
    NoKnownNegative,
    checked_epochs,
    checked_unknown,
    number_within,
)

Prior = Literal["model", "observed", "none"]
USUAL_TOP = 5
SELECTIVE = "negative, unless likely or common"
PRIOR_STAGE = "prior"


class ClassAwareSelectiveLoss(Method):
    """Unknown labels are weak negatives, except those of common classes and those that look positive."""

    needs_negatives: ClassVar[bool] = True
    needs: ClassVar[str] = "known negatives beside positives: a share of all labels, or really partial ones"

    said: Tensor
    steps_heard: Tensor

    def __init__(
        self,
        net: nn.Module,
        observed: Labels,
        *,
        unknown: Annotated[
            Literal["selective", "negative", "ignore"],
            "what an unknown label is: a negative unless likely or of a common class, always a negative, or left out",
        ] = "selective",
        prior: Annotated[
            Prior,
            "selective: how common a class is. By a temporary model, trained first with unknown labels left out; by "
            "the share of present among its known labels; or not asked",
        ] = "model",
        eta: Annotated[float, "selective: unknown labels of classes more common than this are left out"] = 0.05,
        top: Annotated[
            int | None,
            "selective: per image of a batch, so many of the batch's most probable unknown labels are left out. "
            "Default: 5, or a quarter of the classes where that is fewer",
        ] = None,
        prior_epochs: Annotated[
            int | None, "selective, prior = model: epochs of the temporary model. Default: as many as the main training"
        ] = None,
        gamma_pos: Annotated[float, "exponent of the focusing factor of known positives"] = 0.0,
        gamma_neg: Annotated[float, "of known negatives"] = 1.0,
        gamma_unknown: Annotated[float, "of unknown labels that count as negatives"] = 4.0,
        alpha_pos: Annotated[float, "weight of known positives"] = 1.0,
        alpha_neg: Annotated[float, "of known negatives"] = 1.0,
        alpha_unknown: Annotated[float, "of unknown labels that count as negatives"] = 1.0,
        clip: Annotated[float, "a negative with a probability up to this costs nothing"] = 0.0,
        by_count: Annotated[
            bool, "unknown = ignore: times 1 + 1/(1 + n), n an image's known labels, as a mode of the published program"
        ] = False,
    ) -> None:
        super().__init__(net, observed)
        gammas = {"gamma_pos": gamma_pos, "gamma_neg": gamma_neg, "gamma_unknown": gamma_unknown}
        alphas = {"alpha_pos": alpha_pos, "alpha_neg": alpha_neg, "alpha_unknown": alpha_unknown}
        self.gammas, self.alphas = _checked_three(gammas, 20.0), _checked_three(alphas, 1e6)
        self.clip = number_within("clip", clip, 0.0, 0.5)
        self.eta = number_within("eta", eta, 0.0, 1.0)
        self.top = _checked_top(top, len(observed.classes))
        self.prior_epochs = checked_epochs("prior_epochs", prior_epochs)
        self.selective, self.ignores_unknown, self.by_count = unknown == "selective", unknown == "ignore", by_count
        self.unknown = SELECTIVE if unknown == "selective" else checked_unknown(unknown, observed)
        self.prior = _checked_prior(prior, observed) if self.selective else "none"
        if by_count and not self.ignores_unknown:
            raise HyperParameterError("by_count weighs an image by its known labels alone: it needs unknown = ignore")
        self._remember(observed)

    def _remember(self, observed: Labels) -> None:
        """The prior as a sum and what to divide it by: of observed shares, or of a temporary model's steps."""
        present, absent, _ = observed.counts()
        share = torch.tensor(present / np.maximum(present + absent, 1), dtype=torch.float64)
        told = self.prior == "observed"
        self.register_buffer("said", share if told else torch.zeros_like(share))
        self.register_buffer("steps_heard", torch.tensor(float(told), dtype=torch.float64))
        if self.prior == "model":
            self.start = KeptState(self.net)
        self._saying: Tensor | None = None  # of this step, until after_step

    def stages(self, budget: Stage) -> list[Stage]:
        """The temporary model is trained as the main one will be."""
        if self.prior != "model":
            return [budget]
        epochs = self.prior_epochs or budget.epochs
        return [replace(budget, name=f"{budget.name}-{PRIOR_STAGE}", epochs=epochs, prepares=True), budget]

    def refresh(self, clock: Clock, sweep: Sweep) -> None:
        """Nothing of the temporary model goes into the main one but how common it found the classes."""
        if self.prior == "model" and clock.own_stage == 1 and clock.epoch == 0:
            self.start.restore(self.net)

    def loss(self, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        logits, labels = self.net(batch.inputs), batch.labels
        cells = partial_asymmetric(logits, labels, gammas=self.gammas, alphas=self.alphas, clip=self.clip)
        if self._estimates_prior(clock):
            self._saying = step_mean(wide(logits.detach()).sigmoid().T)
        if self.ignores_unknown or self._estimates_prior(clock):
            cells = cells * (labels != 0)
        elif self.selective:
            common = self.said > self.eta * self.steps_heard
            cells = cells * selected(logits, labels, top=self.top, common=common)
        if self.by_count:
            cells = cells * count_weight(labels)[:, None]
        return {"csl": cells.mean()}

    def after_step(self, clock: Clock) -> None:
        if self._saying is not None:
            self.said += self._saying
            self.steps_heard += 1
            self._saying = None

    def class_prior(self) -> Tensor | None:
        """How common it takes each class to be [C]; None before anything was learned of it."""
        return self.said / self.steps_heard if self.steps_heard > 0 else None

    def _estimates_prior(self, clock: Clock) -> bool:
        return self.prior == "model" and clock.own_stage == 0


def _checked_three(given: dict[str, float], most: float) -> tuple[float, float, float]:
    first, second, third = (number_within(name, value, 0.0, most) for name, value in given.items())
    return first, second, third


def _checked_prior(prior: Prior, observed: Labels) -> Prior:
    if prior != "none" and not observed.counts().absent.any():
        raise NoKnownNegative(
            f"prior = {prior} asks how common classes are among known labels, and not one is known to be absent. "
            "Say prior = none, or choose a method for such labels"
        )
    return prior


def _checked_top(top: int | None, classes: int) -> int:
    """Not as many as there are classes: that would leave out every unknown label."""
    if top is None:
        return min(USUAL_TOP, max(1, classes // 4))
    if not 0 <= top < classes:
        raise HyperParameterError(
            f"top = {top} is out of range: it counts unknown labels per image that are left out, at least 0 and fewer "
            f"than the {classes} classes"
        )
    return top
