"""Which rows of the training pool are held out for validation, and when: the published split, bit for bit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from ..errors import UserError
from ..labels import Labels
from ..observations import Observation
from .source import Source, Split

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


@dataclass(frozen=True, eq=False)
class Hidden:
    """A split with its truth, and what an observation leaves known of it."""

    split: Split
    observed: Labels


def hide_and_hold_out(
    source: Source, observation: Observation, seed: int, *, val: float, split_seed: int
) -> dict[str, Hidden]:
    """ "train", and "val" unless everything trains, in the published order: labels are hidden on the whole pool, then
    validation is held out. A source that brings a validation split of its own keeps it."""
    pool = source.splits["train"]
    hidden = Hidden(pool, observation(pool.labels, seed, pool.areas))
    if "val" in source.splits and val:
        own = source.splits["val"]
        return {"train": hidden, "val": Hidden(own, observation(own.labels, seed, own.areas))}
    rows, held = hold_out(len(pool), val, split_seed)
    parts = {"train": rows, "val": held} if len(held) else {"train": rows}
    return {name: Hidden(pool.take(part), hidden.observed.take(part)) for name, part in parts.items()}
