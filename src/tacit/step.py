"""One optimizer step, run eagerly or captured once and replayed as a CUDA graph.

At batch 16 a GPU spends its time waiting for kernel launches; a captured step is launched as one. The method is the
same either way: capture records what an eager step does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add

import torch
from torch import Tensor

from .data.batches import Batches
from .methods.base import Batch, Clock, Method
from .optim import Optimizer
from .runtime import Runtime

WARM_UP = 3  # eager steps before capture, so that lazy initialisation is not recorded


class Recorder:
    """Keeps the probabilities that the classifier gave to each row while it was being trained."""

    def __init__(self, method: Method, rows: int, classes: int) -> None:
        self.table = torch.full((rows, classes), torch.nan)
        self._last: Tensor | None = None
        method.net.register_forward_hook(self._hear)

    def _hear(self, module: torch.nn.Module, inputs: object, output: Tensor) -> None:
        if module.training:
            self._last = output.detach()

    def put(self, index: Tensor) -> None:
        if self._last is not None and len(self._last) == len(index):
            self.table = self.table.to(index.device)
            self.table.index_copy_(0, index, self._last.float().sigmoid())


class Step:
    """visit, loss, backward, optimizer, after_step; returns the named terms' values [T] on the device.

    With several processes a value is this one's share: their mean is the term over the whole step.
    """

    def __init__(
        self, method: Method, optimizer: Optimizer, runtime: Runtime, recorder: Recorder | None = None
    ) -> None:
        self.method, self.optimizer, self.runtime, self.recorder = method, optimizer, runtime, recorder
        self.forward: Callable[[Batch, Clock], dict[str, Tensor]] = runtime.wrap(method)
        self.names: tuple[str, ...] = ()

    def __call__(self, batch: Batch, clock: Clock, weight: float = 1.0) -> Tensor:
        self.optimizer.visit(batch.index)
        with self.runtime.autocast():
            terms = self.forward(batch, clock)
        self.names = tuple(terms)
        total = reduce(add, terms.values())
        (total if weight == 1.0 else total * weight).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.optimizer.zero_grad()
        with torch.no_grad():
            if self.recorder is not None:
                self.recorder.put(batch.index)
            self.method.after_step(clock)
        values = torch.stack([term.detach().float() for term in terms.values()])
        return values if weight == 1.0 else values * weight


class CapturedStep:
    """`Step` on a CUDA graph: the batch is assembled from resident tensors inside it, only row numbers go in.

    What the loss reads from the clock is frozen at capture, so a graph serves one epoch; a method whose loss depends on
    `clock.step` says `capturable = False`.
    """

    def __init__(self, step: Step, batches: Batches, clock: Clock) -> None:
        self.step, self.batches, self.clock = step, batches, clock
        self.rows = torch.zeros(batches.stage.batch_size, dtype=torch.int64, device=batches.device)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.seen = 0

    @staticmethod
    def possible(step: Step, batches: Batches) -> bool:
        return (
            batches.device.type == "cuda"
            and step.method.capturable
            and step.runtime.world == 1
            and batches.inputs.resident
            and batches.states is not None
            and len(batches.parts) == 1
        )

    def __call__(self, index: Tensor) -> Tensor:
        if len(index) != len(self.rows):
            return self._run(index)
        if self.seen < WARM_UP:
            self.seen += 1
            return self._on_side_stream(index)
        self.rows.copy_(index)
        if self.graph is None:
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.out = self._run(self.rows)
        self.graph.replay()
        return self.out

    def _run(self, index: Tensor) -> Tensor:
        batch = self.batches.assemble(index, self.batches.inputs.rows(index), self.clock.epoch)
        return self.step(batch, self.clock)

    def _on_side_stream(self, index: Tensor) -> Tensor:
        """Capture needs its warm-up on a stream of its own (CUDA graphs' rule)."""
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            out = self._run(index)
        torch.cuda.current_stream().wait_stream(side)
        return out
