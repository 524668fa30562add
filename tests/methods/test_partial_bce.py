"""Partial BCE: recorded values, images without known labels, and weights that must not be negative."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tacit.functional.normalised import known_share_weight
from tacit.methods.parts import HyperParameterError, NoKnownNegative


@pytest.mark.parametrize(
    ("vector", "options"),
    [
        ("durand_paper", {}),
        ("durand_exact_g0.1=5_g1=1", {"alpha": -40 / 9, "beta": 49 / 9}),
        ("durand_g=1/p", {"alpha": 1, "beta": 0, "gamma": -1}),
    ],
)
def test_recorded_values(partial_step: Callable[..., Any], vector: str, options: dict[str, Any]) -> None:
    partial_step("partial_bce", vector, **options).check(of="loss_mean_over_batch")


def test_the_weight_of_an_image(golden_partial_labels: dict[str, Any]) -> None:
    recorded = golden_partial_labels["durand_paper"]
    labels = torch.tensor(recorded["inputs"]["target"], dtype=torch.int8)
    weight = known_share_weight(labels, alpha=-4.45, beta=5.45, gamma=1.0)
    assert weight.tolist() == pytest.approx(recorded["expected"]["g"])


def test_fully_known_labels_are_plain_cross_entropy(try_step: Callable[..., Any]) -> None:
    states, logits = [[1, -1], [-1, -1]], [[0.3, 2.0], [0.1, -1.0]]
    ours, plain = try_step("partial_bce", states, logits), try_step("bce", states, logits)
    assert ours.loss == pytest.approx(plain.loss)


@pytest.mark.parametrize("gamma", [1.0, -1.0])
def test_an_image_without_known_labels(try_step: Callable[..., Any], gamma: float) -> None:
    options = {"alpha": 1.0, "beta": 0.5, "gamma": gamma}
    step = try_step("partial_bce", [[0, 0], [1, -1]], [[5.0, 9.0]], rows=[0], **options)
    assert step.loss == 0
    assert not step.grad_logits.any()


@pytest.mark.parametrize(
    "options", [{"beta": 4.0}, {"alpha": -1.0, "beta": 0.0, "gamma": -1.0}, {"alpha": float("nan")}, {"gamma": -1e5}]
)
def test_weights_out_of_range(try_step: Callable[..., Any], options: dict[str, float]) -> None:
    with pytest.raises(HyperParameterError, match=r"out of range|the weight"):
        try_step("partial_bce", [[1, -1, 0]], [[0.0, 0.0, 0.0]], **options)


def test_positives_only_are_refused(try_step: Callable[..., Any]) -> None:
    with pytest.raises(NoKnownNegative, match="partial_bce: not one label is known to be absent"):
        try_step("partial_bce", [[1, 0]], [[0.0, 0.0]])
