"""LL-Cp: positives for good, in a buffer of its own; and as the published program really runs."""

from collections.abc import Callable
from typing import Any

import torch

from tacit.methods.base import Batch, Clock, View

SECOND, THIRD = Clock(0, 1, 9, 0, 1), Clock(0, 2, 9, 0, 1)


def test_as_from_the_published_command_line(partial_step: Callable[..., Any]) -> None:
    step = partial_step("ll_cp", "ll_Cp_as_from_cli_cr0.8", THIRD, delta=10.0, program="published")
    step.check()
    assert step.method.unknown == "negative, positive where loss is large"
    assert step.method.pseudo_labels() is None


def test_strictly_above_the_threshold_is_positive_for_good(try_step: Callable[..., Any]) -> None:
    """Eight cells at 25 %: k = 2, the threshold is the second largest loss, so that only the first is kept."""
    states, logits = [[1, 0, 0, 0], [0, 0, -1, 0]], [[0.0, 3.0, -1.0, -2.0], [2.0, -3.0, 5.0, -4.0]]
    step = try_step("ll_cp", states, logits, clock=SECOND, delta=25.0)
    assert [[s < 0 for s in row] for row in step.grad_logits.tolist()] == [
        [True, True, False, False],
        [True, False, False, False],
    ]
    method = step.method
    assert not method.pseudo_labels().any()  # type: ignore[union-attr]
    method.after_step(SECOND)
    assert method.pseudo_labels().tolist() == [[0, 1, 0, 0], [0, 0, 0, 0]]  # type: ignore[union-attr]


def test_the_share_stays_and_what_is_kept_is_no_candidate(try_step: Callable[..., Any]) -> None:
    """With the largest loss already positive, the two largest among the rest are turned, in any later epoch."""
    states, logits = [[1, 0, 0, 0], [0, 0, -1, 0]], [[0.0, 3.0, -1.0, -2.0], [2.0, -3.0, 5.0, -4.0]]
    late = Clock(0, 7, 9, 0, 1)
    method = try_step("ll_cp", states, logits, clock=SECOND, delta=25.0).method
    method.after_step(SECOND)
    x = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    (loss,) = method(Batch(torch.arange(2), torch.tensor(states, dtype=torch.int8), {"weak": View(x)}), late).values()
    loss.backward()
    assert x.grad is not None
    assert [[s < 0 for s in row] for row in x.grad.tolist()] == [[True, True, True, False], [True, False, False, False]]
    method.after_step(late)
    assert method.pseudo_labels().tolist() == [[0, 1, 0, 0], [1, 0, 0, 0]]  # type: ignore[union-attr]
