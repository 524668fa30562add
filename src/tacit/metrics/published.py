"""Figures as the published programs of this field compute them: for comparison with their tables, never a default.

Each convention is a bundle of rules of this package, and says what it flatters. Two things are not reproduced: test
images that a loader with `drop_last` leaves out (HCP, PU-MLC), and PU-MLC's maximum over epochs and over raw and
averaged weights. Read in HCP-MLR-PL d9fd300, ASL 8c9e0bd, DualCoOp 49e71d7, PU-MLC 5c54d37, PartialLabelingCSL 534f3ce.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from ..labels import PRESENT, States
from .calibration import checked_probabilities
from .decisions import DecisionScores, EmptyClass, decision_scores
from .inputs import Scores, choice
from .ranking import Unscored, Variant, mean_average_precision
from .thresholds import grid_threshold

Name = Literal["hcp", "asl", "dualcoop", "pumlc", "csl"]
OVERALL, BY_CLASS = ("OP", "OR", "OF1"), ("CP", "CR", "CF1")
SIX = OVERALL + BY_CLASS
TOP = 3


@dataclass(frozen=True)
class Convention:
    """Whose rules these are, and in whose favour."""

    programs: str
    rules: str
    flatters: str
    ap: Variant
    empty: Unscored  # a class that cannot be scored, in mAP
    decisions: EmptyClass | None = None  # None: the program reports no decisions
    threshold: float | None = 0.5  # None: searched on the labels that are scored
    strict: bool = False  # a probability has to exceed the threshold
    top_threshold: float | None = None  # what the three highest classes have to reach; None: not reported


CONVENTIONS: dict[Name, Convention] = {
    "hcp": Convention(
        "HCP-MLR-PL (SST, HST, SARB)",
        "interpolated AP; present from logit 0 on; a class never predicted counts one wrong prediction, in OP as well; "
        "top-3: of the three highest classes those from logit 0 on",
        "mAP: interpolation never lowers an AP. OP and CP it lowers, where a class is never predicted",
        "interpolated",
        "nan",
        "hcp",
        top_threshold=0.5,
    ),
    "asl": Convention(
        "ASL",
        "AP with equal scores in the order of rows; present above 0.8, the script's default; 0/0 = 0",
        "precision: a threshold of 0.8 gives up recall for it. A class without a positive lowers mAP: it counts 0",
        "asl",
        "zero",
        "zero",
        threshold=0.8,
        strict=True,
    ),
    "dualcoop": Convention(
        "DualCoOp",
        "as ASL, but present above 0.5",
        "nothing but the order of equal scores",
        "asl",
        "zero",
        "zero",
        strict=True,
    ),
    "pumlc": Convention(
        "PU-MLC",
        "AP as ASL; OF1 and CF1 each at the best of the thresholds 0.01 to 0.99; decisions counted as HCP; top-3: the "
        "three highest classes, whatever their probability",
        "OF1 and CF1: each has the threshold that these very labels like best, which a user cannot have",
        "asl",
        "zero",
        "hcp",
        threshold=None,
        top_threshold=0.0,
    ),
    "csl": Convention(
        "CSL (AP_partial)",
        "AP as ASL, over annotated cells and classes with a positive and a negative; no decisions",
        "nothing but the order of equal scores; few annotated negatives make every AP high",
        "asl",
        "nan",
    ),
}


class Published(NamedTuple):
    """Fractions by name (those of the three highest classes end in `@3`), and how to read them."""

    metrics: dict[str, float]
    oracles: tuple[str, ...]
    notes: tuple[str, ...]


def published_metrics(name: Name, probabilities: ArrayLike, labels: ArrayLike, *, top: int = TOP) -> Published:
    """mAP, OP to CF1 and, where the program has them, those of the `top` highest classes, under a published convention.

    Unknown cells are masked, as everywhere: the programs were written for complete test labels. Where HCP and PU-MLC
    divide by zero (a class without a positive), the class is left out of decisions.
    """
    choice("convention", name, get_args(Name))
    rules = CONVENTIONS[name]
    scores, states = checked_probabilities(probabilities, labels)
    metrics = {"mAP": mean_average_precision(scores, states, variant=rules.ap, empty=rules.empty).value}
    notes = ["unknown labels are masked, which the program does not do"] if not states.all() and name != "csl" else []
    oracles: tuple[str, ...] = ()
    if rules.decisions is not None:
        if rules.decisions == "hcp":
            scores, states = _with_positives(scores, states, notes)
        found, oracles = _decisions(rules, scores, states)
        metrics |= found
        if rules.top_threshold is not None:
            of_top = decision_scores(scores, states, threshold=rules.top_threshold, top=top, empty=rules.decisions)
            metrics |= {f"{key}@{top}": value for key, value in _six(of_top).items()}
    return Published(metrics, oracles, tuple(notes))


def _with_positives(scores: Scores, states: States, notes: list[str]) -> tuple[Scores, States]:
    found = (states == PRESENT).any(axis=0)
    if found.all() or not found.any():
        return scores, states
    notes.append(
        f"{int((~found).sum())} classes without a positive are left out of decisions: the program divides by 0"
    )
    return scores[:, found], states[:, found]


def _decisions(rules: Convention, scores: Scores, states: States) -> tuple[dict[str, float], tuple[str, ...]]:
    """OP to CF1, and what was looked up in the labels for them."""
    empty = rules.decisions
    assert empty is not None
    if rules.threshold is not None:
        limit: Any = np.asarray(rules.threshold, scores.dtype)
        if rules.strict:
            limit = np.nextafter(limit, scores.dtype.type(np.inf))
        return _six(decision_scores(scores, states, threshold=limit, empty=empty)), ()
    if not (states == PRESENT).any():
        return dict.fromkeys(SIX, float("nan")), ()
    metrics: dict[str, float] = {}
    oracles = []
    for metric, names in (("OF1", OVERALL), ("CF1", BY_CLASS)):
        best = grid_threshold(scores, states, metric="OF1" if metric == "OF1" else "CF1", empty=empty)
        six = _six(decision_scores(scores, states, threshold=best.threshold, empty=empty))
        metrics |= {key: six[key] for key in names}
        oracles.append(
            f"{', '.join(names)} at threshold {best.threshold:.2f}, chosen on these very labels for {metric}"
        )
    return metrics, tuple(oracles)


def _six(found: DecisionScores) -> dict[str, float]:
    return {key: getattr(found, key) for key in SIX}
