"""Saliency regularisation (SR) for self-training: class maps, two views, and pseudo-labels where a view is sure."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor, nn

from ..functional.batch import mean_over_known
from ..functional.partial import known_only
from ..functional.saliency import confident_labels, saliency_logits
from ..labels import Labels
from .base import Batch, Clock, Method
from .parts import HyperParameterError, checked_negatives, number_within

SAME_VIEW_TAU, CONSISTENCY_TAU = 0.95, 0.6


class SaliencyRegularisation(Method):
    """BCE over known labels on logits that lean towards the strongest places of class maps, and self-training of
    unknown labels: what a weak view is sure of, a strong view of the same image should say too."""

    needs: ClassVar[str] = "known negatives beside positives, on images: a share of all labels"
    needs_images: ClassVar[bool] = True
    needs_negatives: ClassVar[bool] = True
    head: ClassVar[str] = "class_maps"
    views: tuple[str, ...] = ("weak", "strong")

    def __init__(
        self,
        net: nn.Module,
        observed: Labels,
        *,
        alpha: Annotated[float, "weight of the mean of the k strongest places of a class map; 0: plain average"] = 0.5,
        k: Annotated[int, "how many strongest places of a class map count"] = 5,
        pseudo: Annotated[
            Literal["consistency", "same-view", "none"],
            "labels for unknown cells: from the weak view for the strong one (CR), from and for one view (PL), none",
        ] = "consistency",
        tau: Annotated[
            float | None, "how sure a view must be: p >= tau, or p <= 1 - tau. Default: 0.6; with same-view 0.95"
        ] = None,
        regularise: Annotated[
            Literal["both", "supervised", "none"], "where alpha counts: all terms, known labels only, nowhere"
        ] = "both",
        normalise: Annotated[
            Literal["known", "cells"],
            "the loss is divided by the known labels of the batch (BN-BCE), or by all cells (S-BCE)",
        ] = "known",
        supervise: Annotated[Literal["both", "weak"], "which views known labels are learned from"] = "both",
        test_logit: Annotated[Literal["saliency", "mean"], "predict with alpha, or the plain average"] = "saliency",
    ) -> None:
        super().__init__(net, observed)
        checked_negatives(observed)
        self.alpha = number_within("alpha", alpha, 0.0, 100.0)
        self.k = int(number_within("k", k, 1, 10**6))
        self.pseudo, self.regularise, self.normalise, self.test_logit = pseudo, regularise, normalise, test_logit
        usual = CONSISTENCY_TAU if pseudo == "consistency" else SAME_VIEW_TAU
        self.tau = usual if tau is None else number_within("tau", tau, 0.5, 1.0, "below 0.5 a cell would be both")
        self.views = ("weak", "strong") if pseudo == "consistency" else ("weak",)
        self.supervise = supervise
        self.unknown = "ignore" if pseudo == "none" else f"pseudo-labels, tau {self.tau:g}"
        self.ignores_unknown = pseudo == "none"

    def loss(self, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        views = [batch.views[name].inputs for name in self.views]
        maps = self.net.maps(torch.cat(views))  # type: ignore[operator]
        taught = maps if self.supervise == "both" else maps[: len(batch.labels)]
        repeats = len(taught) // len(batch.labels)
        logits = self._logits(taught, self.alpha if self.regularise != "none" else 0.0)
        terms = {"known": self._mean(logits, batch.labels.repeat(repeats, 1))}
        if self.pseudo != "none":
            terms["pseudo"] = self._self_training(maps.split(len(batch.labels)), batch.labels)
        return terms

    def _self_training(self, maps: tuple[Tensor, ...], labels: Tensor) -> Tensor:
        """The first view says what is so, the last one learns it; with one view it is the same."""
        alpha = self.alpha if self.regularise == "both" else 0.0
        logits = [self._logits(each, alpha) for each in maps]
        made = confident_labels(logits[0].detach().sigmoid(), labels, tau=self.tau)
        return self._mean(logits[-1], made)

    def _logits(self, maps: Tensor, alpha: float) -> Tensor:
        places = maps.shape[2] * maps.shape[3]
        if alpha and self.k > places:
            raise HyperParameterError(
                f"k = {self.k} strongest places, and the backbone's maps have {places}: give a smaller k, or larger "
                "images (--image-size)"
            )
        return saliency_logits(maps, alpha=alpha, k=self.k)

    def _mean(self, logits: Tensor, labels: Tensor) -> Tensor:
        cells = known_only(logits, labels)
        return mean_over_known(cells, labels) if self.normalise == "known" else cells.mean()

    @property
    def pooling(self) -> tuple[float, int]:
        """(alpha, k) of the logits it predicts with."""
        plain = self.test_logit == "mean" or self.regularise == "none"
        return (0.0 if plain else self.alpha), self.k

    def predict(self, inputs: Tensor) -> Tensor:
        alpha, _ = self.pooling
        return self._logits(self.net.maps(inputs), alpha).sigmoid()  # type: ignore[operator]
