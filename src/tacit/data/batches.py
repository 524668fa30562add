"""From rows to batches. Where the data fits, it lives where the arithmetic is and a batch is a slice of it.

Order and augmentation are functions of (seed, stage, epoch, row): never of a worker, a process or what came before, so
that resuming at any step, with any number of workers, continues bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import UserError
from ..labels import Labels
from ..methods.base import Batch, Part, Stage, View
from .images import PixelStore, Preprocessing, uniforms
from .views import kinds_of, make_view, view_kind

RESIDENT_LABEL_CELLS = 2**31
WIDENED_BYTES = 2**30  # features up to this size are held as float32 on a CPU: a batch is then a plain gather
# Rows at a time in passes without gradients. Features on a CPU: a chunk widened to float32 is then reused memory in
# the cache; of 8192 rows it was a fresh 64 MB mapping each time, and seven times slower per row.
FEATURE_CHUNK, CPU_FEATURE_CHUNK, IMAGE_CHUNK = 8192, 512, 64


class Inputs(Protocol):
    """Images or features of a split, served by row."""

    @property
    def resident(self) -> bool:
        """True: `rows` is a slice of a tensor on the device, capturable as part of a CUDA graph."""

    @property
    def chunk(self) -> int: ...

    def __len__(self) -> int: ...

    def rows(self, index: Tensor) -> Tensor: ...

    def stream(self, order: Sequence[NDArray[np.int64]]) -> Iterator[Tensor]: ...

    def view(self, name: str, raw: Tensor, index: Tensor, address: tuple[int, int, int]) -> View: ...


class FeatureInputs:
    """Cached features as one resident tensor: float16 until a batch needs them, or widened once where that is small."""

    resident = True

    def __init__(self, features: NDArray[np.float16], device: torch.device) -> None:
        self.chunk = CPU_FEATURE_CHUNK if device.type == "cpu" else FEATURE_CHUNK
        self.table = torch.from_numpy(np.ascontiguousarray(features)).to(device)
        if device.type == "cpu" and 4 * features.size <= WIDENED_BYTES:
            self.table = self.table.float()

    def __len__(self) -> int:
        return len(self.table)

    def rows(self, index: Tensor) -> Tensor:
        return self.table.index_select(0, index).float()

    def stream(self, order: Sequence[NDArray[np.int64]]) -> Iterator[Tensor]:
        for index in order:
            if len(index) > 1 and index[-1] - index[0] == len(index) - 1 and (np.diff(index) == 1).all():
                yield self.table[int(index[0]) : int(index[-1]) + 1].float()  # in row order: nothing to gather
            else:
                yield self.rows(torch.from_numpy(index).to(self.table.device))

    def view(self, name: str, raw: Tensor, index: Tensor, address: tuple[int, int, int]) -> View:
        return View(raw)  # features cannot be augmented


class ImageInputs:
    """Images as uint8, augmented and normalised on the device; resident where they fit, decoded on demand otherwise."""

    chunk = IMAGE_CHUNK

    def __init__(self, store: PixelStore, preprocessing: Preprocessing, device: torch.device) -> None:
        self.store, self.preprocessing, self.device = store, preprocessing, device
        held = store.tensor
        if held is not None and device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(device)
            held = held.to(device) if held.nbytes < free / 2 else None
        self.table = held

    @property
    def resident(self) -> bool:
        return self.table is not None

    def __len__(self) -> int:
        return len(self.store)

    def rows(self, index: Tensor) -> Tensor:
        if self.table is not None:
            return self.table.index_select(0, index)
        return self.store.rows(index.cpu().numpy()).to(self.device, non_blocking=True)

    def stream(self, order: Sequence[NDArray[np.int64]]) -> Iterator[Tensor]:
        if self.table is not None:
            for index in order:
                yield self.table.index_select(0, torch.from_numpy(index).to(self.device))
        else:
            for pixels in self.store.loader(order):
                yield pixels.to(self.device, non_blocking=True)

    def view(self, name: str, raw: Tensor, index: Tensor, address: tuple[int, int, int]) -> View:
        seed, epoch, number = address
        draws = uniforms(seed, epoch, index, number, view_kind(name).draws)
        return make_view(name, raw, draws, self.preprocessing)


def epoch_address(stage: int, epoch: int) -> int:
    """One number for an epoch of a stage, as views take it."""
    return epoch + 1_000_003 * stage


def permutation(n: int, *address: int) -> NDArray[np.int64]:
    """A shuffle of n rows that depends on its address (seed, stage, epoch, part) alone."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(address))).permutation(n)


def parts_of(stage: Stage, rows: int) -> tuple[Part, ...]:
    return stage.parts or (Part("all", np.arange(rows), stage.batch_size),)


def steps_of(stage: Stage, rows: int) -> int:
    """Steps of an epoch over so many training rows; refused where there would be none."""
    rounds = [len(part.rows) / part.batch_size for part in parts_of(stage, rows)]
    steps = int(max(np.floor(r) if stage.drop_last else np.ceil(r) for r in rounds))
    if not steps:
        raise UserError(
            f"{rows} training images do not fill a batch of {stage.batch_size}, and drop_last leaves out "
            "what does not: nothing is left to train on. Use a smaller --batch-size, or --no-drop-last."
        )
    return steps


class Batches:
    """The batches of one stage."""

    def __init__(
        self,
        inputs: Inputs,
        labels: Labels,
        stage: Stage,
        number: int,
        views: Sequence[str],
        *,
        seed: int,
        device: torch.device,
        shard: tuple[int, int] = (0, 1),
    ) -> None:
        self.inputs, self.labels, self.stage, self.number = inputs, labels, stage, number
        self.kinds, self.seed, self.device, self.shard = kinds_of(views, stage.augment), seed, device, shard
        self.parts = parts_of(stage, len(labels))
        resident = labels.shape[0] * labels.shape[1] <= RESIDENT_LABEL_CELLS
        self.states = torch.tensor(labels.dense()).to(device) if resident else None
        self.steps = steps_of(stage, len(labels))

    def order(self, epoch: int) -> list[NDArray[np.int64]]:
        """Rows of every step of an epoch: one pass over the longest part, the shorter ones start over."""
        drawn = [self._part_order(number, epoch) for number in range(len(self.parts))]
        return [np.concatenate(step) for step in zip(*drawn, strict=True)] if len(drawn) > 1 else drawn[0]

    def _part_order(self, number: int, epoch: int) -> list[NDArray[np.int64]]:
        part = self.parts[number]
        rows: list[NDArray[np.int64]] = []
        lap = 0
        while len(rows) < self.steps:
            mixed = part.rows[permutation(len(part.rows), self.seed, self.number, epoch, number, lap)]
            rows += np.split(mixed, np.arange(part.batch_size, len(mixed), part.batch_size))
            lap += 1
        return rows[: self.steps]

    def sizes(self, step: int) -> list[int]:
        """Rows that each part contributes to a step: its batch size, less where a pass over it ends."""
        out = []
        for part in self.parts:
            at = step % -(-len(part.rows) // part.batch_size) * part.batch_size
            out.append(min(part.batch_size, len(part.rows) - at))
        return out

    def mine(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """This process's share of a step. A step with fewer rows than processes is seen by all of them."""
        rank, world = self.shard
        return rows if world == 1 or len(rows) < world else np.array_split(rows, world)[rank]

    def weight(self, step: int, local: int) -> float:
        """What a process's mean loss counts for, so that the average over processes is the mean over the step."""
        if (world := self.shard[1]) == 1:
            return 1.0
        rows = sum(self.sizes(step))
        return 1.0 if rows < world else local * world / rows

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from step `start` on."""
        order = [self.mine(rows) for rows in self.order(epoch)[start:]]
        for step, (rows, raw) in enumerate(zip(order, self.inputs.stream(order), strict=True), start):
            yield self.assemble(torch.from_numpy(rows).to(self.device), raw, epoch, self._part_of(step))

    def assemble(self, index: Tensor, raw: Tensor, epoch: int, part: Tensor | None = None) -> Batch:
        """Rows and their inputs to a batch, without a host round trip where the labels are resident."""
        if self.states is not None:
            labels = self.states.index_select(0, index)
        else:
            labels = torch.from_numpy(self.labels.rows(index.cpu().numpy())).to(self.device)
        when = epoch_address(self.number, epoch)
        views = {
            name: self.inputs.view(kind, raw, index, (self.seed, when, number))
            for number, (name, kind) in enumerate(self.kinds.items())
        }
        return Batch(index, labels, views, part)

    def _part_of(self, step: int) -> Tensor | None:
        if len(self.parts) == 1:
            return None
        numbers = np.repeat(np.arange(len(self.parts)), self.sizes(step))
        return torch.from_numpy(self.mine(numbers)).to(self.device)


def in_order(
    inputs: Inputs,
    device: torch.device,
    *,
    view: str = "plain",
    rows: range | None = None,
    address: tuple[int, int, int] = (0, 0, 0),
) -> Iterator[tuple[Tensor, Tensor]]:
    """(index, inputs) over all rows (or a range of them) in row order: for scores and sweeps, never for training.
    `address` (seed, epoch, view number) is where a view that draws takes its randomness from."""
    wanted = np.arange(len(inputs)) if rows is None else np.arange(rows.start, rows.stop)
    order = np.split(wanted, np.arange(inputs.chunk, len(wanted), inputs.chunk))
    for chosen, raw in zip(order, inputs.stream(order), strict=True):
        index = torch.from_numpy(chosen).to(device)
        yield index, inputs.view(view, raw, index, address).inputs
