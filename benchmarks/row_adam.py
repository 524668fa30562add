"""Where dense fused Adam and RowAdam cross: time of one step on an [N, C] table, by its number of cells.

Both are what `tacit.optim.Optimizer` does with a table of that size (`dense_cells` forces the choice): visit, gradient
of 16 rows, step, gradients dropped; the dense one also pays for its [N, C] gradient. Gradients are given, not computed
from the values: nothing converges to where Adam divides noise by noise, and the tables must agree. The crossing is
interpolated between the sizes around it; `DENSE_CELLS` in src/tacit/optim.py should lie near it, within a factor of
two: around the crossing either choice costs about the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tacit.labels import Labels
from tacit.methods.base import Method, Stage
from tacit.methods.parts import RowTable
from tacit.optim import DENSE_CELLS, Optimizer
from timing import Claim, arguments, interleaved, report

BATCH, LR, STEPS = 16, 1e-2, 100
CLASSES = (20, 80, 312)  # VOC, COCO, CUB
CELLS = tuple(2**power * 1000 for power in range(5, 13))  # 32,000 to 4,096,000


class Table(Method):
    """A method that is nothing but its row table, beside a net without gradients: both sides call Adam for it."""

    def __init__(self, initial: Tensor) -> None:
        super().__init__(torch.nn.Linear(1, 1), Labels.from_dense(np.ones((1, 1), np.int8), ["any"]))
        self.theta = RowTable(initial.clone())

    def groups(self, lr: float) -> list[dict[str, Any]]:
        return [
            {"params": list(self.net.parameters()), "lr": lr},
            {"params": [self.theta.weight], "lr": lr, "rows": True},
        ]


class Walk:
    """Optimizer steps on one table over given batches of rows, with the given gradients of each row."""

    def __init__(self, initial: Tensor, gradients: Tensor, batches: list[Tensor], *, dense: bool) -> None:
        self.method, self.gradients, self.batches = Table(initial), gradients, batches
        self.optimizer = Optimizer(self.method, Stage("table", 1, BATCH, LR), dense_cells=1 << 62 if dense else 0)
        self.taken = 0

    def steps(self, count: int) -> None:
        for _ in range(count):
            index = self.batches[self.taken % len(self.batches)]
            self.taken += 1
            self.optimizer.visit(index)
            (self.method.theta.rows(index) * self.gradients.index_select(0, index)).mean().backward()
            self.optimizer.step()
            self.optimizer.zero_grad()

    def values(self) -> Tensor:
        return self.method.theta.all()


@dataclass(frozen=True)
class CrossingClaim(Claim):
    """`ratio` is dense over RowAdam on the largest table; `cells` where the two are equal, by number of classes."""

    dense_cells: int = DENSE_CELLS
    cells: dict[str, int] | None = None


def measure(cells: int, classes: int, *, rounds: int, steps: int) -> tuple[float, float, float]:
    """Median seconds of a step, dense and RowAdam, and the largest difference of the tables afterwards."""
    rows = max(BATCH, cells // classes)
    generator = torch.Generator().manual_seed(0)
    initial, gradients = (torch.randn(rows, classes, generator=generator) for _ in range(2))
    batches = list(torch.randperm(rows, generator=generator).split(BATCH))[: rows // BATCH]
    walks = {name: Walk(initial, gradients, batches, dense=name == "dense") for name in ("dense", "rows")}

    def step(name: str) -> Callable[[], None]:
        return lambda: walks[name].steps(steps)

    seconds = interleaved({name: step(name) for name in walks}, rounds=rounds)
    error = float((walks["dense"].values() - walks["rows"].values()).abs().max())
    return seconds["dense"] / steps, seconds["rows"] / steps, error


def crossing(ratios: dict[int, float]) -> int:
    """Cells at which dense / RowAdam is 1: interpolated in logarithms, or the nearest end of what was measured."""
    sizes = sorted(ratios)
    if ratios[sizes[0]] >= 1:
        return sizes[0]
    for small, large in pairwise(sizes):
        if ratios[large] >= 1:
            low, high = math.log(ratios[small]), math.log(ratios[large])
            return round(small * (large / small) ** (low / (low - high)))
    return sizes[-1]


def main() -> None:
    args = arguments(__doc__.splitlines()[0], rounds=5)
    sizes, steps = (CELLS, STEPS) if not args.tiny else ((1000, 4000), 2)
    torch.set_num_threads(1)  # as `tacit train` does for features
    found: dict[str, int] = {}
    errors = []
    print(f"{'classes':>8}{'cells':>12}{'dense us':>10}{'RowAdam us':>12}{'ratio':>8}{'max error':>12}")
    for classes in CLASSES:
        ratios = {}
        for cells in sizes:
            dense, rows, error = measure(cells, classes, rounds=args.rounds, steps=steps)
            ratios[cells] = dense / rows
            errors.append(error)
            print(f"{classes:8}{cells:12,}{dense * 1e6:10.1f}{rows * 1e6:12.1f}{dense / rows:8.2f}{error:12.1e}")
        found[str(classes)] = crossing(ratios)
        print(f"{classes} classes: equal at about {found[str(classes)]:,} cells (DENSE_CELLS is {DENSE_CELLS:,})")
        if classes == 80:
            largest = ratios[sizes[-1]]
    report(
        CrossingClaim(
            claim=f"a step of Adam on {sizes[-1]:,} cells (80 classes), batch {BATCH}, by rows",
            peer=f"dense fused Adam, PyTorch {torch.__version__}",
            ratio=round(largest, 1),
            wanted=1.0,
            error=float(f"{max(errors):.1e}"),
            cells=found,
        ),
        args.json,
    )


if __name__ == "__main__":
    main()
