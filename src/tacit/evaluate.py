"""Scores of a split, and what they are worth against the truth: the only reader of the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .data.batches import Inputs, in_order
from .errors import UserError
from .labels import ABSENT, PRESENT, UNKNOWN, Labels, States
from .methods.base import Method
from .metrics.calibration import BINS, calibration
from .metrics.decisions import decision_scores
from .metrics.inputs import MetricError, unknown_as_absent
from .metrics.ranking import mean_average_precision
from .metrics.summary import per_class_ap, summarise
from .metrics.thresholds import best_threshold, best_thresholds
from .run import STOP, Rule
from .runtime import Runtime

Scores = NDArray[np.float32]
TRAIN_CELLS = 2**28  # scores of training images, a gigabyte of them; of more images x classes, none are computed
HELD_CELLS = 2**32  # scores of validation or test images, 16 GB: they are needed, so more are refused


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


def scores_train(train: Labels) -> bool:
    """Whether training images are scored besides: it decides nothing, and of millions of them it is out of reach."""
    return train.shape[0] * train.shape[1] <= TRAIN_CELLS


def check_held(split: str, labels: Labels) -> None:
    """Refuse to judge by more images than a machine can hold the scores of."""
    images, classes = labels.shape
    if images * classes > HELD_CELLS:
        less = "Hold out less (--val 0.01), or bring a validation split" if split == "val" else "Judge by fewer images"
        raise UserError(
            f"the scores of {images:,} images of split '{split}' and {classes:,} classes would take "
            f"{4 * images * classes / 1e9:.0f} GB. {less}."
        )


def labels_of(rule: Rule) -> Literal["observed", "clean", "last"]:
    """Which validation labels a rule looks at, whether or not it stops early."""
    return cast("Literal['observed', 'clean', 'last']", rule.removesuffix(STOP))


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
        rule = labels_of(rule)
        if rule == "last" or val_scores is None:
            return None
        labels, _ = self._val_labels(rule)
        value = mean_average_precision(val_scores, labels).value
        return value if np.isfinite(value) else None

    def thresholds(self, rule: Rule, val_scores: Scores | None) -> dict[str, Any]:
        """The thresholds that validation likes best, on the labels that the rule selects by (`last` selects by none:
        the observed ones): one for all classes with the highest OF1, and the one of each class's highest F1. Or
        `absent`: why there are none."""
        if val_scores is None:
            return {"absent": "no images were held out for validation"}
        looked_at: Rule = "clean" if labels_of(rule) == "clean" else "observed"
        labels, unknown = self._val_labels(looked_at)
        try:
            one = best_threshold(val_scores, labels, metric="OF1").threshold
        except MetricError as error:
            return {"absent": f"on validation, {error}"}
        each = best_thresholds(val_scores, labels, fallback=one)
        return {
            "labels": looked_at,
            "unknown": unknown,
            "metric": "OF1",
            "one": one,
            "per_class": each.thresholds.tolist(),
            "fallback": [self.train.classes[c] for c in each.fallback],
        }

    def _val_labels(self, rule: Rule) -> tuple[States, Literal["masked", "negative"]]:
        """Validation labels as a rule looks at them, and what an unknown one counts as."""
        assert self.val is not None and self.val_observed is not None
        if rule == "clean":
            return self.val.dense(), "masked"
        unknown = unknown_rule(self.val_observed)
        labels = self.val_observed.dense()
        return (unknown_as_absent(labels) if unknown == "negative" else labels), unknown

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

    def pseudo_labels(self, made: Tensor | None) -> dict[str, float] | None:
        """How many labels a method made up, and which share of them is wrong; a share of nothing is left out."""
        if made is None:
            return None
        labels, truth = made.cpu().numpy(), self.train.dense()
        out = dict[str, float]()
        for name, state in (("present", PRESENT), ("absent", ABSENT)):
            of_them = truth[labels == state]
            out[name] = len(of_them)
            if judged := int((of_them != UNKNOWN).sum()):
                out[f"{name}_wrong"] = float((of_them == -state).sum()) / judged
        return out


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


def decisions(split_scores: Scores, truth: Labels, chosen: dict[str, Any]) -> dict[str, dict[str, float]]:
    """CF1, OF1 and their like at 0.5 and, where validation chose any, under the one threshold and under each class's
    own."""
    limits: dict[str, Any] = {"half": 0.5} | {which: chosen[which] for which in ("one", "per_class") if which in chosen}
    states = truth.dense()
    found = {which: decision_scores(split_scores, states, threshold=limit) for which, limit in limits.items()}
    return {
        which: {name: value for name, value in scored._asdict().items() if name != "unscored" and np.isfinite(value)}
        for which, scored in found.items()
    }


def calibration_figures(split_scores: Scores, truth: Labels) -> dict[str, Any]:
    """Calibration errors and Brier scores with bins of equal width, the errors with bins of equal mass (`*_mass`), and
    the error per class (None: no known cell). Or `absent`: why there are none."""
    states = truth.dense()
    try:
        width = calibration(split_scores, states)
    except MetricError as error:
        return {"absent": str(error)}
    mass = calibration(split_scores, states, binning="mass")
    pooled = ("ECE", "MCE", "brier", "class_ECE", "class_MCE", "class_brier")
    found = {name: getattr(width, name) for name in pooled}
    found |= {f"{name}_mass": getattr(mass, name) for name in pooled if "brier" not in name}
    per_class = [value if np.isfinite(value) else None for value in width.per_class_ECE.tolist()]
    return {"bins": BINS} | {k: v for k, v in found.items() if np.isfinite(v)} | {"per_class_ECE": per_class}


def counts(truth: Labels, observed: Labels | None = None) -> dict[str, Any]:
    out: dict[str, Any] = {"images": len(truth), "present": truth.counts().present.tolist()}
    if observed is not None:
        known = observed.counts()
        out |= {"observed_present": known.present.tolist(), "observed_absent": known.absent.tolist()}
    return out
