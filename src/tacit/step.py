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

RECORDED_TOGETHER = 64  # steps
WARM_UP = 3  # eager steps before capture, so that lazy initialisation is not recorded


class Recorder:
    """Keeps what the classifier said of each row while it was being trained."""

    def __init__(self, method: Method, rows: int, classes: int) -> None:
        self._logits = torch.full((rows, classes), torch.nan, device=next(method.parameters()).device)
        self._last: Tensor | None = None
        self._waiting: list[tuple[Tensor, Tensor]] = []
        method.net.register_forward_hook(self._hear)

    def _hear(self, module: torch.nn.Module, inputs: object, output: Tensor) -> None:
        if module.training:
            self._last = output

    def put(self, index: Tensor) -> None:
        """Keep the last outputs as those of these rows; a method that called its net on other rows is not recorded."""
        if self._last is None or len(self._last) != len(index):
            return
        self._waiting.append((index, self._last.detach()))
        # A captured step reuses its memory: there each is written at once. Otherwise many steps share one write.
        if index.is_cuda or len(self._waiting) == RECORDED_TOGETHER:
            self._write()

    def _write(self) -> None:
        if self._waiting:
            rows, logits = zip(*self._waiting, strict=True)
            self._logits.index_copy_(0, torch.cat(rows), torch.cat(logits).float())
            self._waiting.clear()

    @property
    def logits(self) -> Tensor:
        """[N, C]; NaN where a row was not yet trained on."""
        self._write()
        return self._logits

    def restore(self, logits: Tensor) -> None:
        self._waiting.clear()
        self._logits.copy_(logits)

    def probabilities(self) -> Tensor:
        """[N, C] on the host; NaN where a row was not yet trained on."""
        return self.logits.sigmoid().cpu()


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
        values = (
            total.detach().float()[None]
            if len(terms) == 1
            else torch.stack([t.detach().float() for t in terms.values()])
        )
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
