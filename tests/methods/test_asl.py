"""ASL against three published programs; its meanings of an unknown label."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tacit.labels import Labels
from tacit.methods.base import Batch, Clock, View
from tacit.methods.parts import HyperParameterError
from tacit.methods.registry import build_method

CLOCK = Clock(0, 0, 1, 0, 1)
Vectors = dict[str, Any]


def test_single_positives(published_step: Callable[..., Any]) -> None:
    """The program sums over the batch; ours is the mean over cells."""
    step = published_step("asl", "asl_gp0_gn4_m0.05_sum", floor=1e-8)
    assert float(step.terms["asl"]) == pytest.approx(step.recorded["loss_mean_over_BL"], rel=1e-7)
    wanted = torch.tensor(step.recorded["grad_logits"], dtype=torch.float64) / step.grad_logits.numel()
    torch.testing.assert_close(step.grad_logits, wanted, rtol=1e-7, atol=1e-11)


def run(states: Any, logits: Any, **options: Any) -> tuple[float, torch.Tensor]:
    observed = Labels.from_dense(states, [f"class {i}" for i in range(len(states[0]))])
    method = build_method("asl", nn.Identity(), observed, options)
    x = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    rows = torch.arange(len(states))
    loss = method(Batch(rows, torch.from_numpy(observed.rows(rows.numpy())), {"weak": View(x)}), CLOCK)["asl"]
    loss.backward()
    assert x.grad is not None
    return loss.item(), x.grad


@pytest.mark.parametrize(
    ("vector", "options"),
    [
        ("asl_gn4_gp0_clip0.05_detach1", {}),
        ("asl_gn4_gp1_clip0.05_detach1", {"gamma_pos": 1}),
        ("asl_gn4_gp0_clip0.05_detach0", {"detach": False}),
        ("asl_gn0_gp0_clip0_detach1", {"gamma_neg": 0, "clip": 0}),
        ("asl_optimized_gn4_gp1_clip0.05", {"gamma_pos": 1, "detach": False}),
    ],
)
def test_published_programs(golden_partial_labels: Vectors, vector: str, options: dict[str, Any]) -> None:
    recorded = golden_partial_labels[vector]
    loss, gradient = run(recorded["inputs"]["targets01"], recorded["inputs"]["logits"], floor=1e-8, **options)
    cells = gradient.numel()
    assert loss * cells == pytest.approx(recorded["expected"]["loss"], rel=1e-7)
    wanted = torch.tensor(recorded["expected"]["grad_logits"], dtype=torch.float64)
    torch.testing.assert_close(gradient * cells, wanted, rtol=1e-7, atol=1e-9)


def test_ignoring_unknown_labels_as_published(golden_partial_labels: Vectors) -> None:
    recorded = golden_partial_labels["hcp_partial_asl"]
    loss, gradient = run(
        recorded["inputs"]["target"], recorded["inputs"]["logits"], gamma_pos=1, detach=False, unknown="ignore"
    )
    assert loss == pytest.approx(recorded["expected"]["loss"], rel=1e-7)
    wanted = torch.tensor(recorded["expected"]["grad_logits"], dtype=torch.float64)
    torch.testing.assert_close(gradient, wanted, rtol=1e-7, atol=1e-9)


def test_ignoring_needs_a_known_negative() -> None:
    with pytest.raises(HyperParameterError, match=r"asl: unknown = ignore .* an, "):
        run([[1, 0], [0, 1]], [[0.0, 0.0], [0.0, 0.0]], unknown="ignore")


def test_exact_logarithms_teach_however_sure_the_network_is() -> None:
    """Beyond 18.4 the published floor leaves no gradient."""
    for floor, slope in ((0.0, -1.0), (1e-8, 0.0)):
        _, gradient = run([[1, -1]], [[-30.0, 0.0]], floor=floor)
        assert 2 * gradient[0, 0].item() == pytest.approx(slope)


@pytest.mark.parametrize(("name", "value"), [("gamma_neg", -1.0), ("clip", 0.9), ("gamma_pos", float("nan"))])
def test_out_of_range(observed: Labels, name: str, value: float) -> None:
    with pytest.raises(HyperParameterError, match=f"{name} = "):
        build_method("asl", nn.Identity(), observed, {name: value})
