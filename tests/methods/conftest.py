"""Methods against the recorded numbers of the published program: the method's net is a table of the recorded logits."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from tacit.functional.partial import PUBLISHED_EPS
from tacit.labels import Labels
from tacit.methods.base import Batch, Clock, Method, View
from tacit.methods.registry import build_method, method_options

CLOCK = Clock(0, 0, 1, 0, 1)


class Step(NamedTuple):
    """One evaluated step beside what the published program recorded."""

    method: Method
    terms: dict[str, Tensor]
    grad_logits: Tensor
    recorded: dict[str, Any]

    def check(self) -> None:
        wanted = torch.tensor(self.recorded["grad_logits"], dtype=torch.float64)
        assert float(sum(self.terms.values())) == pytest.approx(self.recorded["loss"], rel=1e-7)
        torch.testing.assert_close(self.grad_logits, wanted, rtol=1e-7, atol=1e-11)


@pytest.fixture
def published_step(golden_single_positive: dict[str, Any]) -> Callable[..., Step]:
    """(method, vector, options, labels): `labels` replaces the vector's observed labels; eps is the published one."""
    inputs = golden_single_positive["inputs"]

    def run(name: str, vector: str, labels: Tensor | None = None, **options: Any) -> Step:
        recorded = golden_single_positive["losses"][vector]
        states = torch.tensor(inputs[recorded["inputs"]["obs"]]) if labels is None else labels
        observed = Labels.from_dense(states.numpy(), [f"class {i}" for i in range(states.shape[1])])
        if "eps" in method_options(name):
            options["eps"] = PUBLISHED_EPS
        method = build_method(name, nn.Identity(), observed, options).double()
        if "g_logits" in recorded["inputs"]:
            method.theta.assign(torch.tensor(inputs["g_logits"]))
        logits = torch.tensor(inputs["logits"], dtype=torch.float64, requires_grad=True)
        rows = torch.arange(len(states))
        terms = method(Batch(rows, torch.from_numpy(observed.rows(rows.numpy())), {"weak": View(logits)}), CLOCK)
        torch.stack(list(terms.values())).sum().backward()
        return Step(method, {k: v.detach() for k, v in terms.items()}, logits.grad, recorded)

    return run


@pytest.fixture
def truth(golden_single_positive: dict[str, Any]) -> Tensor:
    """True labels of the recorded inputs, as fully known states."""
    return torch.tensor(golden_single_positive["inputs"]["true_labels_01"]).mul(2).sub(1).to(torch.int8)


@pytest.fixture
def observed() -> Labels:
    return Labels.from_dense([[1, 0, 0], [0, 1, -1]], ["cat", "dog", "owl"])


class PartialStep(NamedTuple):
    """One step on a recorded vector of partial labels."""

    method: Method
    loss: float
    grad_logits: Tensor
    expected: dict[str, Any]

    def check(self, *, of: str = "loss", summed: bool = False) -> None:
        """`summed`: the program sums over all cells, and ours is their mean."""
        times = self.grad_logits.numel() if summed else 1
        assert self.loss * times == pytest.approx(self.expected[of], rel=1e-7, abs=1e-9)
        wanted = torch.tensor(self.expected["grad_logits"], dtype=torch.float64)
        torch.testing.assert_close(self.grad_logits * times, wanted, rtol=1e-7, atol=2e-9)


def states_of(inputs: dict[str, Any]) -> Tensor:
    """Labels of a vector in our encoding, from whichever the program had."""
    if "targets_1_0_unknown-1" in inputs:
        told = torch.tensor(inputs["targets_1_0_unknown-1"])
        return torch.where(told == 1, 1, torch.where(told == 0, -1, 0)).to(torch.int8)
    key = next(key for key in ("target", "targets01", "label_obs") if key in inputs)
    return torch.tensor(inputs[key]).to(torch.int8)


@pytest.fixture
def partial_step(golden_partial_labels: dict[str, Any]) -> Callable[..., PartialStep]:
    """(method, vector, clock, prepare, options): `prepare` sees the method before the step."""

    def run(
        name: str, vector: str, clock: Clock = CLOCK, prepare: Callable[[Any], object] = id, **options: Any
    ) -> PartialStep:
        inputs, expected = (golden_partial_labels[vector][key] for key in ("inputs", "expected"))
        states = states_of(inputs)
        observed = Labels.from_dense(states.numpy(), [f"class {i}" for i in range(states.shape[1])])
        method = build_method(name, nn.Identity(), observed, options).double()
        prepare(method)
        logits = torch.tensor(inputs["logits"], dtype=torch.float64, requires_grad=True)
        (loss,) = method(Batch(torch.arange(len(states)), states, {"weak": View(logits)}), clock).values()
        loss.backward()
        assert logits.grad is not None
        return PartialStep(method, loss.item(), logits.grad, expected)

    return run


class Tried(NamedTuple):
    """One step on labels and logits written down in a test."""

    method: Method
    loss: float
    grad_logits: Tensor


@pytest.fixture
def try_step() -> Callable[..., Tried]:
    """(method, states, logits, rows, clock, options): `rows` of the observed labels `states` make the batch; all where
    none is said."""

    def run(
        name: str,
        states: Any,
        logits: Any,
        rows: list[int] | None = None,
        clock: Clock = CLOCK,
        **options: Any,
    ) -> Tried:
        observed = Labels.from_dense(states, [f"class {i}" for i in range(len(states[0]))])
        method = build_method(name, nn.Identity(), observed, options).double()
        index = torch.tensor(rows if rows is not None else list(range(len(states))))
        x = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
        batch = Batch(index, torch.from_numpy(observed.rows(index.numpy())), {"weak": View(x)})
        (loss,) = method(batch, clock).values()
        loss.backward()
        assert x.grad is not None
        return Tried(method, loss.item(), x.grad)

    return run
