"""Scores of a split, and what they are worth against the truth: the only reader of the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .data.batches import Inputs, in_order
from .labels import PRESENT, UNKNOWN, Labels
from .methods.base import Method
from .metrics.inputs import unknown_as_absent
from .metrics.ranking import mean_average_precision
from .metrics.summary import per_class_ap, summarise
from .runtime import Runtime

Scores = NDArray[np.float32]
Rule = Literal["observed", "clean", "last"]


@torch.no_grad()
def scores(method: Method, inputs: Inputs, runtime: Runtime) -> Scores:
    """Probabilities [N, C] of a split in row order; several processes share the work."""
    method.eval()
    chunks: list[Tensor] = []
    for _, chunk in in_order(inputs, runtime.device, rows=runtime.share(len(inputs))):
        with runtime.autocast():
            chunks.append(method.predict(chunk).float())
    every = runtime.gather(torch.cat(chunks), len(inputs))
    return every.cpu().numpy()


def unknown_rule(observed: Labels) -> Literal["masked", "negative"]:
    """How observed validation labels are ranked. With no known negative there is nothing to rank positives against, so
    unknown cells then count as negative, as the published programs have it; otherwise they are masked."""
    return "masked" if observed.counts().absent.any() else "negative"


@dataclass(frozen=True)
class Judge:
    """The truth, kept away from methods: what selection and final figures are computed against."""

    train: Labels
    test: Labels
    val: Labels | None
    val_observed: Labels | None
    train_observed: Labels

    def selection(self, rule: Rule, val_scores: Scores | None) -> float | None:
        """The value by which a rule prefers an epoch; None where it has no opinion: 'last', or no class to score."""
        if rule == "last" or val_scores is None:
            return None
        assert self.val is not None and self.val_observed is not None
        labels = self.val.dense()
        if rule == "observed":
            labels = self.val_observed.dense()
            if unknown_rule(self.val_observed) == "negative":
                labels = unknown_as_absent(labels)
        value = mean_average_precision(val_scores, labels).value
        return value if np.isfinite(value) else None

    def estimates(self, estimates: Tensor | None) -> dict[str, float] | None:
        """A method's guess of the training labels on the cells it was not told: mAP, precision and recall at 0.5."""
        if estimates is None:
            return None
        guess = estimates.detach().float().cpu().numpy()
        hidden = np.where(self.train_observed.dense() == UNKNOWN, self.train.dense(), UNKNOWN).astype(np.int8)
        picked = (guess >= 0.5) & (hidden != UNKNOWN)
        hits = float((picked & (hidden == PRESENT)).sum())
        out = {
            "mAP": mean_average_precision(guess, self.train.dense()).value,
            "precision": hits / picked.sum() if picked.any() else None,
            "recall": hits / (hidden == PRESENT).sum() if (hidden == PRESENT).any() else None,
            "k": float(guess.sum(axis=1).mean()),
        }
        return {key: value for key, value in out.items() if value is not None and np.isfinite(value)}


def figures(split_scores: Scores, truth: Labels) -> dict[str, Any]:
    """Final metrics, AP per class (None where a class cannot be scored) and the names of such classes."""
    states = truth.dense()
    metrics = summarise(split_scores, states)
    per_class = per_class_ap(split_scores, states)
    return {
        "metrics": {key: value for key, value in metrics.items() if np.isfinite(value)},
        "AP": per_class,
        "unscored": [name for name, ap in zip(truth.classes, per_class, strict=True) if ap is None],
    }


def counts(truth: Labels, observed: Labels | None = None) -> dict[str, Any]:
    out: dict[str, Any] = {"images": len(truth), "present": truth.counts().present.tolist()}
    if observed is not None:
        known = observed.counts()
        out |= {"observed_present": known.present.tolist(), "observed_absent": known.absent.tolist()}
    return out
