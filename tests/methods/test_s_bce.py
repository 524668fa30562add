"""S-BCE: BN-BCE times the share of known labels in the batch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tacit.methods.registry import MethodError


def test_it_shrinks_with_the_known_share(try_step: Callable[..., Any]) -> None:
    states, logits = [[1, 0, -1, 0], [0, 0, 0, 1]], [[0.3, 2.0, 0.1, -1.0], [0.5, -0.5, 1.5, -2.0]]
    ours, normalised = try_step("s_bce", states, logits), try_step("bn_bce", states, logits)
    assert ours.loss == pytest.approx(normalised.loss * 3 / 8)
    torch.testing.assert_close(ours.grad_logits, normalised.grad_logits * 3 / 8)


def test_unknown_labels_cannot_be_negatives_under_this_name(try_step: Callable[..., Any]) -> None:
    with pytest.raises(MethodError, match="s_bce has no hyper-parameter 'unknown'"):
        try_step("s_bce", [[1, -1]], [[0.0, 0.0]], unknown="negative")
