"""Pieces that several methods are made of."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class RowTable(nn.Module):
    """One free value per training cell, visited a batch of rows at a time (ROLE's label estimates).

    Dense Adam moves every row at every step, visited or not, because its moments outlive the gradient. On large tables
    the optimizer (tacit.optim.RowAdam) lets rows fall behind and catches them up, exactly, when they are next needed:
    it then sets `behind`, takes each visited row's gradient from `visited`, and brings all rows up to date on `settle`.
    Read the whole table through `all()`, never through `weight`.
    """

    def __init__(self, initial: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(initial)
        self.behind = False
        self.visited: Tensor | None = None
        self.settle: Callable[[], None] | None = None

    def rows(self, index: Tensor) -> Tensor:
        if not self.behind:
            return F.embedding(index, self.weight)
        self.visited = self.weight.detach().index_select(0, index).requires_grad_(torch.is_grad_enabled())
        return self.visited

    @torch.no_grad()
    def all(self) -> Tensor:
        """The whole table as dense Adam would have it by now, detached."""
        if self.settle is not None:
            self.settle()
        return self.weight.detach()

    @torch.no_grad()
    def assign(self, values: Tensor) -> None:
        self.weight.copy_(values)
