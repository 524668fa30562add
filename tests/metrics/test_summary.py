"""All metrics of one split under the names of result.json."""

import json

import numpy as np
import pytest

from tacit.metrics import (
    at_k,
    average_precision,
    decision_scores,
    example_scores,
    mean_average_precision,
    per_class_ap,
    summarise,
)

RANKING = ["one_error", "coverage", "ranking_loss", "LRAP"]
NAMES = ["mAP", "OP", "OR", "OF1", "CP", "CR", "CF1", "micro_F1", "macro_F1", "hamming_loss", *RANKING]


def problem() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    truth = generator.random((60, 6)) < 0.3
    states = np.where(truth, 1, -1).astype(np.int8)
    states[generator.random(truth.shape) < 0.1] = 0
    states[:, 2] = -1
    return (generator.random(truth.shape) + truth) / 2, states


def test_names_and_values_are_those_of_the_single_metrics() -> None:
    scores, states = problem()
    found = summarise(scores, states, threshold=0.6, ks=(1, 2))
    assert list(found) == [*NAMES, "precision@1", "recall@1", "precision@2", "recall@2"]
    assert found["mAP"] == mean_average_precision(scores, states).value
    decided, examples, top = (
        decision_scores(scores, states, threshold=0.6),
        example_scores(scores, states),
        at_k(scores, states),
    )
    assert (found["CF1"], found["hamming_loss"]) == (decided.CF1, decided.hamming_loss)
    assert (found["coverage"], found["LRAP"]) == (examples.coverage, examples.LRAP)
    assert (found["precision@1"], found["recall@1"]) == top[1][:2]
    assert all(type(value) is float and 0 <= value <= 1 for value in found.values())


def test_a_perfect_ranking() -> None:
    """Every image has one positive, so precision@2 is 1/2 and everything else is at its best."""
    states = np.where(np.eye(4), 1, -1).astype(np.int8)
    found = summarise(np.where(np.eye(4), 0.9, 0.1), states, ks=(1, 2))
    losses = {"hamming_loss", "one_error", "coverage", "ranking_loss"}
    for name, value in found.items():
        assert value == pytest.approx(0.5 if name == "precision@2" else 0 if name in losses else 1), name


def test_per_class_ap_fits_json() -> None:
    scores, states = problem()
    found = per_class_ap(scores, states)
    assert found[2] is None
    assert json.loads(json.dumps(found)) == found
    wanted = average_precision(scores, states)
    assert [ap for ap in found if ap is not None] == wanted[~np.isnan(wanted)].tolist()
