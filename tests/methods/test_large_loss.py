"""Large loss: which cells are distrusted, exactly how many, and the slips of the published program as an option."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tacit.functional.large_loss import largest, rejected_share
from tacit.methods.base import Clock
from tacit.methods.parts import HyperParameterError


@pytest.mark.parametrize("name", ["ll_r", "ll_ct", "ll_cp"])
@pytest.mark.parametrize("program", ["corrected", "published"])
def test_the_first_epoch_is_plain(partial_step: Callable[..., Any], name: str, program: str) -> None:
    partial_step(name, "ll_epoch1", delta=10.0, program=program).check()


def test_the_share_grows_exactly() -> None:
    """12 cells, 3 x 25 / 3 %: three cells. 1 - (1 - 0.1 - ...) makes four of 3.0000000000000004."""
    assert rejected_share(3, 0.1) * 1000 == 3
    assert rejected_share(0, 5.0) == 0
    exact = [rejected_share(t, 10.0) * 10 for t in range(10)]
    assert exact == list(range(10))
    rounded = [rejected_share(t, 10.0, rounding=True) * 10 for t in range(10)]
    assert [r > e for r, e in zip(rounded, exact, strict=True)].count(True) > 0


def test_equal_losses_are_chosen_together() -> None:
    losses = torch.tensor([[3.0, 2.0, 2.0, 1.0]])
    found = largest(losses, torch.ones(1, 4, dtype=torch.bool), Fraction(1, 2))
    assert found.reached.tolist() == [[True, True, True, False]]
    assert found.above.tolist() == [[True, False, False, False]]


def test_nothing_to_choose_from() -> None:
    losses, nobody = torch.ones(2, 2), torch.zeros(2, 2, dtype=torch.bool)
    assert not largest(losses, nobody, Fraction(1, 2)).reached.any()
    assert not largest(losses, ~nobody, Fraction(0)).reached.any()


@given(st.integers(0, 2**31), st.fractions(0, 1))
def test_the_largest_candidates_and_as_many_as_asked(seed: int, share: Fraction) -> None:
    generator = torch.Generator().manual_seed(seed)
    losses = torch.rand(5, 4, generator=generator, dtype=torch.float64)
    candidates = torch.rand(5, 4, generator=generator) < 0.6
    reached, above = largest(losses, candidates, share)
    asked = -(-share.numerator * 20 // share.denominator)
    assert int(reached.sum()) == min(asked, int(candidates.sum()))
    assert not (reached & ~candidates).any() and not (above & ~reached).any()
    if reached.any() and (candidates & ~reached).any():
        assert losses[reached].min() > losses[candidates & ~reached].max()


@pytest.mark.parametrize("delta", [-1.0, 101.0, float("nan")])
def test_out_of_range(try_step: Callable[..., Any], delta: float) -> None:
    with pytest.raises(HyperParameterError, match="delta = "):
        try_step("large_loss", [[1, 0]], [[0.0, 0.0]], delta=delta)


def test_no_unknown_label_left(try_step: Callable[..., Any]) -> None:
    """Fully known labels have nothing to distrust; the published program rejects all of them."""
    states, logits, late = [[1, -1], [-1, 1]], [[0.0, 1.0], [2.0, 0.5]], Clock(0, 3, 9, 0, 1)
    plain = try_step("bce", states, logits)
    assert try_step("ll_r", states, logits, clock=late, delta=20.0).loss == pytest.approx(plain.loss)
    assert try_step("ll_r", states, logits, clock=late, delta=20.0, program="published").loss == 0
