"""Figures as published programs print them: their vectors, values by hand, and what each convention flatters."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tacit.errors import UserError
from tacit.metrics import (
    CONVENTIONS,
    decision_scores,
    grid_threshold,
    mean_average_precision,
    published_metrics,
    states_from_truth,
    summarise,
)

SIX = ("OP", "OR", "OF1", "CP", "CR", "CF1")
GRID = np.arange(1, 100) / 100
few = [np.float32(value).item() for value in (0, 0.01, 0.3, 0.5, 0.501, 0.79, 0.8, 1)]
probabilities = hnp.arrays(np.float32, (9, 3), elements=st.sampled_from(few))
truths = hnp.arrays(np.int8, (9, 3), elements=st.sampled_from([-1, 1])).filter(lambda t: (t == 1).any(0).all())
masked = hnp.arrays(np.int8, (9, 3), elements=st.sampled_from([-1, 0, 1]))


@pytest.fixture
def small(golden_partial_labels: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Probabilities of the recorded logits, labels, and what the official functions returned."""
    vector = golden_partial_labels["metrics_small"]
    logits = np.array(vector["inputs"]["scores"])
    return 1 / (1 + np.exp(-logits)), states_from_truth(vector["inputs"]["gt01"]), vector["expected"]


def test_hcp_as_recorded(small: Any) -> None:
    scores, states, expected = small
    found = published_metrics("hcp", scores, states, top=2).metrics
    np.testing.assert_allclose([found[name] for name in SIX], expected["OP_OR_OF1_CP_CR_CF1"], atol=1e-9)
    topped = [found[f"{name}@2"] for name in SIX]
    np.testing.assert_allclose(topped, expected["topk2_OP_OR_OF1_CP_CR_CF1"], atol=1e-9)
    assert found["mAP"] == pytest.approx(expected["mAP_VOC2012_interpolated"], abs=1e-9)


@pytest.mark.parametrize("name", ["asl", "dualcoop", "pumlc", "csl"])
def test_average_precision_as_recorded(small: Any, name: Any) -> None:
    scores, states, expected = small
    found = published_metrics(name, scores, states).metrics["mAP"]
    assert 100 * found == pytest.approx(expected["mAP_asl_style_percent"], abs=1e-6)


def test_ties_as_recorded(golden_partial_labels: dict[str, Any]) -> None:
    vector = golden_partial_labels["ap_ties_pos_first"]
    scores = np.array(vector["inputs"]["scores"])[:, None]
    states = states_from_truth(np.array(vector["inputs"]["gt01"])[:, None])
    expected = vector["expected"]["official_argsort_reversed"]
    assert published_metrics("csl", scores, states).metrics["mAP"] == pytest.approx(expected, abs=1e-9)


def test_the_search_on_test_labels_by_hand() -> None:
    """Positives at 0.35 and 0.9, negatives at 0.2 and 0.4. From 0.21 to 0.35 three are flagged, two of them rightly."""
    scores = np.array([[0.2], [0.35], [0.4], [0.9]], np.float32)
    states = np.array([[-1], [1], [-1], [1]], np.int8)
    assert grid_threshold(scores, states, metric="OF1") == (pytest.approx(0.21), pytest.approx(0.8))
    found = published_metrics("pumlc", scores, states)
    assert found.metrics["OF1"] == pytest.approx(0.8)
    assert found.metrics["CF1"] == pytest.approx(0.8)
    assert found.oracles[0] == "OP, OR, OF1 at threshold 0.21, chosen on these very labels for OF1"


def test_each_metric_has_its_own_threshold() -> None:
    """OF1 counts cells, so the common class decides; CF1 gives the rare one half a say.

    Class 0: eight positives at 0.9, three negatives at 0.4. Class 1: its one positive at 0.3, the others at 0.1.
    """
    scores = np.array([[0.9, 0.1]] * 7 + [[0.9, 0.3]] + [[0.4, 0.1]] * 3)
    states = np.array([[1, -1]] * 7 + [[1, 1]] + [[-1, -1]] * 3, np.int8)
    found = published_metrics("pumlc", scores, states)
    assert found.metrics["OF1"] == pytest.approx(2 * 8 / (8 + 1 + 9))  # above 0.4: a class never predicted costs one
    assert found.metrics["CF1"] == pytest.approx(2 * (19 / 22) / (1 + 19 / 22))  # from 0.3 on: CP (8/11 + 1) / 2, CR 1
    assert [text.split("threshold ")[1][:4] for text in found.oracles] == ["0.41", "0.11"]


@given(probabilities, masked, st.sampled_from(["OF1", "CF1"]), st.sampled_from(["skip", "zero", "hcp"]))
def test_the_search_equals_deciding_at_every_threshold(scores: Any, states: Any, metric: Any, empty: Any) -> None:
    values = [getattr(decision_scores(scores, states, threshold=t, empty=empty), metric) for t in GRID]
    if np.isnan(values).all():
        with pytest.raises(UserError, match=f"{metric} is not defined on these labels"):
            grid_threshold(scores, states, metric=metric, empty=empty)
    else:
        found = grid_threshold(scores, states, metric=metric, empty=empty)
        assert found == (GRID[np.nanargmax(values)], np.nanmax(values))


@given(probabilities, truths)
def test_what_they_say_they_flatter(scores: Any, states: Any) -> None:
    honest = summarise(scores, states)
    hcp, pumlc = (published_metrics(name, scores, states).metrics for name in ("hcp", "pumlc"))
    assert np.isnan(honest["mAP"]) or hcp["mAP"] >= honest["mAP"] - 1e-12
    assert hcp["OP"] <= honest["OP"]
    for name in ("OF1", "CF1"):
        assert pumlc[name] >= hcp[name] - 1e-12


def test_thresholds_that_have_to_be_exceeded() -> None:
    """ASL and DualCoOp say >, HCP and the house say >=; 0.8 is float32's 0.8 where scores are float32."""
    scores, states = np.array([[0.8], [0.5]], np.float32), np.array([[1], [1]], np.int8)
    assert published_metrics("asl", scores, states).metrics["OR"] == 0
    assert published_metrics("asl", np.nextafter(scores, np.float32(1)), states).metrics["OR"] == 0.5
    assert published_metrics("dualcoop", scores, states).metrics["OR"] == 0.5
    assert published_metrics("hcp", scores, states).metrics["OR"] == 1


def test_top_three_keeps_three_of_probabilities_and_fewer_of_logits() -> None:
    scores, states = np.array([[0.9, 0.4, 0.3, 0.2]]), np.array([[1, 1, 1, 1]], np.int8)
    assert published_metrics("hcp", scores, states).metrics["OR@3"] == 1 / 4
    assert published_metrics("pumlc", scores, states).metrics["OR@3"] == 3 / 4


def test_unknown_cells_and_classes_without_positives() -> None:
    scores = np.array([[0.9, 0.9, 0.2], [0.1, 0.8, 0.4]])
    states = np.array([[1, -1, 1], [-1, -1, 0]], np.int8)
    hcp, asl, csl = (published_metrics(name, scores, states) for name in ("hcp", "asl", "csl"))
    assert csl.metrics == {"mAP": pytest.approx(1, abs=1e-7)}  # class 0 alone has both; csl's masks are the house's
    assert csl.notes == ()
    assert asl.metrics["mAP"] == pytest.approx(2 / 3, abs=1e-7)  # class 1 counts 0, class 2 counts 1
    assert hcp.metrics["OR"] == 1 / 2
    assert any("1 classes without a positive are left out of decisions" in note for note in hcp.notes)
    assert all("unknown labels are masked" in found.notes[0] for found in (hcp, asl))


def test_nothing_to_find() -> None:
    states = -np.ones((2, 2), np.int8)
    for name in CONVENTIONS:
        found = published_metrics(name, np.full((2, 2), 0.5), states).metrics
        assert all(np.isnan(value) or value == 0 for value in found.values())


def test_bad_input() -> None:
    with pytest.raises(UserError, match=r"convention='voc'.*hcp, asl, dualcoop, pumlc, csl"):
        published_metrics("voc", [[0.1]], [[1]])  # type: ignore[arg-type]
    with pytest.raises(UserError, match="not probabilities"):
        published_metrics("hcp", [[2.0]], [[1]])


def test_by_the_same_rules_as_the_single_functions() -> None:
    generator = np.random.default_rng(0)
    scores, states = generator.random((60, 5)).astype(np.float32), generator.choice([-1, 1], (60, 5)).astype(np.int8)
    wanted = mean_average_precision(scores, states, variant="asl", empty="zero").value
    assert published_metrics("asl", scores, states).metrics["mAP"] == wanted
