"""Which rows of the training pool are held out for validation: the published split, bit for bit."""

from __future__ import annotations

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from ..errors import UserError

Rows = NDArray[np.int64]
SPLIT_SEED = 1200


class SplitError(UserError, ValueError):
    """A split that leaves nothing to train on, or a share that is none."""


def hold_out(n: int, fraction: float = 0.2, seed: int = SPLIT_SEED) -> tuple[Rows, Rows]:
    """Training and validation rows of a pool of `n`, both ascending.

    Validation takes the last `round(fraction * n)` (half to even) of a legacy permutation. Where that is none, it is
    none: the published slice `[-0:]` would return every row.
    """
    if not 0 <= fraction < 1:
        raise SplitError(f"a validation share of {fraction:g}: give a number from 0 up to, but not including, 1")
    if not 0 <= seed < 2**32:
        raise SplitError(f"split seed {seed}: legacy streams take seeds from 0 to {2**32 - 1}")
    held = round(fraction * n)
    if held >= n:
        raise SplitError(f"holding out {fraction:g} of {n} images leaves none to train on; add images or hold out less")
    order = RandomState(seed).permutation(n).astype(np.int64)
    return np.sort(order[: n - held]), np.sort(order[n - held :])
