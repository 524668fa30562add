"""ROLE: both halves of its objective, its memory, and what LinearInit hands over."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tacit.labels import Labels
from tacit.methods.base import Batch, Clock, View
from tacit.methods.parts import HyperParameterError
from tacit.methods.role import ROLE
from tacit.methods.wan import WeakAssumeNegative

CLOCK = Clock(0, 0, 1, 0, 1)


def test_published_program(published_step: Callable[..., Any]) -> None:
    step = published_step("role", "role_k2.0", k=2.0)
    step.check()
    grad_theta = torch.tensor(step.recorded["grad_g_logits"], dtype=torch.float64)
    torch.testing.assert_close(step.method.theta.weight.grad, grad_theta, rtol=1e-7, atol=1e-11)
    assert set(step.terms) == {"classifier", "estimator", "expected_positives"}
    assert float(step.terms["expected_positives"]) == pytest.approx(step.recorded["reg"], rel=1e-7)


def test_a_step_reads_and_teaches_only_its_rows() -> None:
    observed = Labels.from_dense([[1, 0]] * 6, ["cat", "dog"])
    method = ROLE(nn.Linear(3, 2), observed, k=1.2)
    index = torch.tensor([4, 1])
    terms = method(Batch(index, torch.from_numpy(observed.rows([4, 1])), {"weak": View(torch.randn(2, 3))}), CLOCK)
    torch.stack(list(terms.values())).sum().backward()
    touched = method.theta.weight.grad.abs().sum(1) > 0
    assert touched.tolist() == [False, True, False, False, True, False]


def test_estimates_start_near_what_is_known(observed: Labels) -> None:
    estimates = ROLE(nn.Identity(), observed, k=1.0).estimates()
    known = torch.tensor(observed.dense())
    torch.testing.assert_close(estimates[known == 1], torch.full((2,), 0.995))
    torch.testing.assert_close(estimates[known == -1], torch.full((1,), 0.005))
    unknown = estimates[known == 0]
    assert ((unknown >= 0.4) & (unknown <= 0.6)).all()


def test_estimates_come_from_the_global_generator(observed: Labels) -> None:
    draws = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        draws.append(ROLE(nn.Identity(), observed, k=1.0).estimates())
    assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])


def test_estimates_learn_ten_times_faster_in_a_group_of_rows(observed: Labels) -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
    net[0].requires_grad_(False)
    method = ROLE(net, observed, k=1.0)
    classifier, estimator = method.groups(lr=0.01)
    assert classifier == {"params": list(net[1].parameters()), "lr": 0.01}
    assert estimator["params"][0] is method.theta.weight
    assert estimator["lr"] == pytest.approx(0.1) and estimator["rows"] is True


def test_hand_over_clips_the_estimates(observed: Labels) -> None:
    earlier, later = (ROLE(nn.Identity(), observed, k=1.0) for _ in range(2))
    earlier.theta.assign(torch.tensor([[40.0, -40.0, 0.5], [11.0, -11.0, 0.0]]))
    later.hand_over(earlier)
    expected = torch.tensor([[11.5116, -11.512915, 0.5], [11.0, -11.0, 0.0]])
    torch.testing.assert_close(later.theta.all(), expected, rtol=0, atol=2e-3)
    torch.testing.assert_close(later.theta.all()[0, :2], expected[0, :2], rtol=1e-5, atol=0)


def test_hand_over_from_a_method_without_estimates_changes_nothing(observed: Labels) -> None:
    later = ROLE(nn.Identity(), observed, k=1.0)
    before = later.theta.all().clone()
    later.hand_over(WeakAssumeNegative(nn.Identity(), observed))
    assert torch.equal(later.theta.all(), before)


def test_hand_over_between_different_rows_is_refused(observed: Labels) -> None:
    other = ROLE(nn.Identity(), Labels.from_dense([[1, 0, 0]], observed.classes), k=1.0)
    with pytest.raises(HyperParameterError, match="same rows and classes"):
        ROLE(nn.Identity(), observed, k=1.0).hand_over(other)


def test_the_oracle_is_said(observed: Labels) -> None:
    assert "k = 2" in ROLE(nn.Identity(), observed, k=2.0).oracles()[0]
