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
