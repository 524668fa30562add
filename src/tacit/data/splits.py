"""Which rows of the training pool are held out for validation: the published split, bit for bit."""

from __future__ import annotations

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from ..errors import UserError

Rows = NDArray[np.int64]
SPLIT_SEED = 1200
SUBSAMPLE_SEED = 999


class SplitError(UserError, ValueError):
    """A split that leaves nothing to train on, or a share that is none."""


def hold_out(n: int, fraction: float = 0.2, seed: int = SPLIT_SEED) -> tuple[Rows, Rows]:
    """Training and validation rows of a pool of `n`, both ascending.

    Validation takes the last `round(fraction * n)` (half to even) of a legacy permutation. Where that is none, it is
    none: the published slice `[-0:]` would return every row.
    """
    if not 0 <= fraction < 1:
        raise SplitError(f"a validation share of {fraction:g}: give a number from 0 up to, but not including, 1")
    held = round(fraction * n)
    if held >= n:
        raise SplitError(f"holding out {fraction:g} of {n} images leaves none to train on; add images or hold out less")
    order = RandomState(seed).permutation(n).astype(np.int64)
    return np.sort(order[: n - held]), np.sort(order[n - held :])


def subsample(
    train: Rows, val: Rows, train_fraction: float = 1.0, val_fraction: float = 1.0, seed: int = SUBSAMPLE_SEED
) -> tuple[Rows, Rows]:
    """A share of each, in their old order; one stream, first for training, then for validation rows, as published."""
    rng = RandomState(seed)
    return _thin(train, train_fraction, rng), _thin(val, val_fraction, rng)


def _thin(rows: Rows, fraction: float, rng: RandomState) -> Rows:
    if not 0 < fraction <= 1:
        raise SplitError(f"a share of {fraction:g} of the rows: give a number above 0 and at most 1")
    return rows[np.sort(rng.permutation(len(rows))[: round(fraction * len(rows))])]
