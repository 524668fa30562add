"""L2R: AN and the sum of squared weights."""

import pytest
import torch
from torch import nn

from tacit.labels import Labels
from tacit.methods.base import Batch, Clock, View
from tacit.methods.registry import build_method


def test_squares_of_weights(observed: Labels) -> None:
    net = nn.Linear(2, 3)
    net.weight.data = torch.tensor([[1.0, -2.0], [0.5, 0.0], [0.0, -0.5]])
    batch = Batch(torch.arange(2), torch.from_numpy(observed.rows([0, 1])), {"weak": View(torch.zeros(2, 2))})
    terms = build_method("l2r", net, observed, {"l2": 0.01})(batch, Clock(0, 0, 1, 0, 1))
    assert terms["l2"].item() == pytest.approx(0.055)
    assert list(terms) == ["bce", "l2"]
