"""Choosing cells for pseudo-labels, class by class."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def lowest_of_rows(values: Tensor, quotas: Sequence[int]) -> Tensor:
    """Where the `quotas[r]` lowest values of each row r of [R, N] are: a mask with exactly that many True per row.

    Equal values are taken from the left, so that the choice is a function of the values on every device. One partial
    sort per row.
    """
    rows, length = values.shape
    chosen = torch.zeros(rows, length, dtype=torch.bool, device=values.device)
    for row, quota in enumerate(quotas):
        if not 0 <= quota <= length:
            raise ValueError(f"quota {quota} of row {row}: there are {length} values")
        if quota:
            last = values[row].topk(quota, largest=False, sorted=False).values.max()
            below, equal = values[row] < last, values[row] == last
            chosen[row] = below | (equal & (equal.cumsum(0) <= quota - below.sum()))
    return chosen
