"""The published validation split."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.data.splits import SplitError, hold_out


def test_published_splits(golden_single_positive: dict[str, Any]) -> None:
    golden = golden_single_positive["split"]
    for n, want in golden["cases"].items():
        train, val = hold_out(int(n), golden["val_frac"], golden["seed"])
        assert (len(train), len(val)) == (want["train_size"], want["val_size"])
        assert train[:10].tolist() == want["train_first10"]
        assert val[:10].tolist() == want["val_first10"]
        assert int(val.sum()) == want["val_index_sum"]


@given(st.integers(1, 300), st.floats(0, 0.99), st.integers(0, 2**32 - 1))
def test_every_row_goes_to_one_side(n: int, fraction: float, seed: int) -> None:
    held = round(fraction * n)
    if held == n:
        with pytest.raises(SplitError, match="leaves none to train on"):
            hold_out(n, fraction, seed)
        return
    train, val = hold_out(n, fraction, seed)
    assert len(val) == held
    assert sorted([*train, *val]) == list(range(n))
    assert (np.diff(train) > 0).all()
    assert (np.diff(val) > 0).all()


def test_holding_out_nothing_is_nothing() -> None:
    train, val = hold_out(7, 0.0)
    assert train.tolist() == list(range(7))
    assert val.tolist() == []
    assert len(hold_out(2, 0.2)[1]) == 0


def test_halves_round_to_even() -> None:
    assert len(hold_out(10, 0.25)[1]) == 2
    assert len(hold_out(30, 0.05)[1]) == 2


@pytest.mark.parametrize("fraction", [-0.1, 1.0, float("nan")])
def test_strange_fractions_are_refused(fraction: float) -> None:
    with pytest.raises(SplitError, match="validation share"):
        hold_out(10, fraction)


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_seeds_that_legacy_streams_do_not_take(seed: int) -> None:
    with pytest.raises(SplitError, match=f"split seed {seed}"):
        hold_out(10, 0.2, seed)
