"""Every metric of one split under the names that `result.json` uses."""

from __future__ import annotations

import math
from collections.abc import Iterable

from numpy.typing import ArrayLike

from .at_k import at_k
from .decisions import decision_scores
from .examples import example_scores
from .inputs import checked
from .ranking import average_precision, mean_average_precision


def summarise(
    probabilities: ArrayLike, labels: ArrayLike, *, threshold: ArrayLike = 0.5, ks: Iterable[int] = (1, 3, 5)
) -> dict[str, float]:
    """All metrics, as fractions, over known cells; what cannot be scored is left out of means (NaN if nothing remains).

    The house rules, throughout: a class counts with a known positive and a known negative, an image with a known
    positive. Published rules are options of the single functions.
    """
    scores, states = checked(probabilities, labels)
    decided = decision_scores(scores, states, threshold=threshold)._asdict()
    examples = example_scores(scores, states)
    del decided["unscored"]
    out = {"mAP": mean_average_precision(scores, states).value, **decided}
    out |= {
        "one_error": examples.one_error,
        "coverage": examples.coverage,
        "ranking_loss": examples.ranking_loss,
        "LRAP": examples.LRAP,
    }
    for k, found in at_k(scores, states, ks).items():
        out |= {f"precision@{k}": found.precision, f"recall@{k}": found.recall}
    return out


def per_class_ap(scores: ArrayLike, labels: ArrayLike) -> list[float | None]:
    """AP per class as JSON can hold it: None where a class cannot be scored."""
    return [None if math.isnan(ap) else ap for ap in average_precision(scores, labels).tolist()]
