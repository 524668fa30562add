"""L1R: AN and the sum of absolute weights."""

import pytest
import torch
from torch import nn

from tacit.labels import Labels
from tacit.methods.base import Batch, Clock, View
from tacit.methods.parts import HyperParameterError
from tacit.methods.registry import build_method

CLOCK = Clock(0, 0, 1, 0, 1)


def test_weights_are_counted_and_biases_are_not(observed: Labels) -> None:
    net = nn.Linear(2, 3)
    net.weight.data = torch.tensor([[1.0, -2.0], [0.5, 0.0], [0.0, -0.5]])
    net.bias.data.fill_(7.0)
    batch = Batch(torch.arange(2), torch.from_numpy(observed.rows([0, 1])), {"weak": View(torch.zeros(2, 2))})
    terms = build_method("l1r", net, observed, {"l1": 0.01})(batch, CLOCK)
    assert terms["l1"].item() == pytest.approx(0.04)
    assert terms["bce"].item() == pytest.approx(build_method("an", net, observed)(batch, CLOCK)["bce"].item())
    assert list(build_method("l1r", net, observed, {"l1": 0})(batch, CLOCK)) == ["bce"]


def test_frozen_weights_do_not_count(observed: Labels) -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 3))
    net[0].requires_grad_(False)
    batch = Batch(torch.arange(2), torch.from_numpy(observed.rows([0, 1])), {"weak": View(torch.zeros(2, 2))})
    assert build_method("l1r", net, observed, {"l1": 1.0})(batch, CLOCK)["l1"].item() == pytest.approx(
        net[1].weight.abs().sum().item()
    )


@pytest.mark.parametrize("value", [-1e-6, 2.0, float("nan")])
def test_out_of_range(observed: Labels, value: float) -> None:
    with pytest.raises(HyperParameterError, match=r"l1 = .* between 0 and 1"):
        build_method("l1r", nn.Identity(), observed, {"l1": value})
