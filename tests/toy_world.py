"""A toy world for the checks that every method goes through: 24 rows, 5 classes, and a net small enough for finite
differences. Every image has one known positive and one known negative; a method that needs images, several views or a
sweep gets them here too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tacit.labels import Labels
from tacit.methods.base import Batch, Clock, Method, Stage, Swept, View
from tacit.methods.registry import build_method, find_method
from tacit.runtime import Runtime
from tacit.train import SWEPT_VIEW, EpochEnd, State, fit

ROWS, CLASSES, WIDTH = 24, 5, 6
CLOCK = Clock(stage=0, epoch=0, epochs=3, step=0, steps=10)
BUDGET = Stage("toy", epochs=3, batch_size=7, lr=0.02)  # steps of 7, 7, 7 and 3 rows


def clock_of(method: Method, epoch: int = 0) -> Clock:
    """In the last of its stages: those before prepare it."""
    return CLOCK._replace(stage=len(method.stages(BUDGET)) - 1, epoch=epoch)


class MapNet(nn.Module):
    """A net with class maps, for methods that ask for them."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Tanh())
        self.classifier = nn.Conv2d(4, CLASSES, 1)

    def maps(self, images: Tensor) -> Tensor:
        return self.classifier(self.body(images))

    def forward(self, images: Tensor) -> Tensor:
        return self.maps(images).mean((2, 3))


class World:
    """One toy data set and everything a method may ask of the loop about it."""

    def __init__(self, images: bool) -> None:
        generator = torch.Generator().manual_seed(5)
        shape = (ROWS, 3, 4, 4) if images else (ROWS, WIDTH)
        self.inputs = torch.randn(shape, generator=generator)
        scores = self.inputs.flatten(1)[:, :CLASSES]
        states = torch.zeros(ROWS, CLASSES, dtype=torch.int8)
        states.scatter_(1, scores.argmax(1, keepdim=True), 1).scatter_(1, scores.argmin(1, keepdim=True), -1)
        self.observed = Labels.from_dense(states.numpy(), [f"class {i}" for i in range(CLASSES)])

    def net(self, head: str = "linear") -> nn.Module:
        if head == "class_maps":
            return MapNet()
        width = self.inputs[0].numel()
        return nn.Sequential(nn.Flatten(), nn.Linear(width, 4), nn.Tanh(), nn.Linear(4, CLASSES))

    def batch(
        self, method: Method | type[Method], dtype: torch.dtype = torch.float32, device: str = "cpu", rows: int = ROWS
    ) -> Batch:
        index = torch.arange(rows).flip(0)
        inputs = self.inputs[index].to(device, dtype)
        identity = torch.eye(2, 3, dtype=dtype, device=device).expand(rows, 2, 3)
        views = {view: View(inputs * (1 - 0.1 * i), identity) for i, view in enumerate(method.views)}
        labels = torch.from_numpy(self.observed.rows(index.numpy()))
        return Batch(index.to(device), labels.to(device), views)

    def sweep(self, method: Method) -> Any:
        def run(*, view: str = "plain", features: bool = False) -> Iterator[Swept]:
            with torch.no_grad():
                inputs = self.inputs.to(next(method.net.parameters()))
                pooled = inputs.flatten(1) if features else None
                for chunk in torch.arange(ROWS).split(10):
                    yield Swept(chunk, method.net(inputs[chunk]), None if pooled is None else pooled[chunk])

        return run


class ToyInputs:
    """The toy images or features as the loop wants them served (tacit.data.batches.Inputs)."""

    resident, chunk = True, 10

    def __init__(self, world: World, device: str = "cpu") -> None:
        self.table = world.inputs.to(device)

    def __len__(self) -> int:
        return len(self.table)

    def rows(self, index: Tensor) -> Tensor:
        return self.table.index_select(0, index)

    def stream(self, order: Sequence[NDArray[np.int64]]) -> Iterator[Tensor]:
        for index in order:
            yield self.rows(torch.from_numpy(index).to(self.table.device))

    def view(self, name: str, raw: Tensor, index: Tensor, address: tuple[int, int, int]) -> View:
        identity = torch.eye(2, 3, device=raw.device).expand(len(raw), 2, 3)
        return View(raw if address[2] == SWEPT_VIEW else raw * (1 - 0.1 * address[2]), identity)


class Listener:
    """Watches the loop; stops it after `stop_at` steps where that is said, keeping what a checkpoint would hold."""

    def __init__(self, stop_at: int = 0) -> None:
        self.asked, self.stop_at, self.kept = 0, stop_at, State()

    def on_step(self, clock: Clock, terms: dict[str, float]) -> None: ...

    def on_epoch(self, end: EpochEnd, state: State) -> bool:
        return False

    def interrupted(self, state: State) -> bool:
        self.asked += 1
        if self.asked == self.stop_at:
            self.kept = replace(state, optimizer={name: tensor.clone() for name, tensor in state.optimizer.items()})
        return self.asked == self.stop_at


def fit_toy(
    name: str, runtime: Runtime, listener: Listener | None = None, resume: tuple[Any, State] | None = None
) -> Method:
    """Train a method on its toy world through the real loop; `resume`: a state dict and where it stood."""
    method, world = build(name)
    method.to(runtime.device)
    state = None
    if resume is not None:
        method.load_state_dict(resume[0])
        state = resume[1]
    inputs = ToyInputs(world, str(runtime.device))
    fit(method, BUDGET, inputs, world.observed, listener or Listener(), runtime=runtime, seed=5, state=state)
    return method


def build(name: str, seed: int = 0) -> tuple[Method, World]:
    method_class = find_method(name)
    world = World(method_class.needs_images)
    torch.manual_seed(seed)
    return build_method(name, world.net(method_class.head), world.observed, method_class.example_options), world


def total(method: Method, batch: Batch) -> Tensor:
    torch.manual_seed(11)  # for methods that draw inside a step
    return torch.stack([term.double() for term in method(batch, clock_of(method)).values()]).sum()


def train(method: Method, world: World, steps: int) -> list[float]:
    optimizer = torch.optim.Adam(method.groups(lr=0.02))
    method.refresh(clock_of(method), world.sweep(method))
    losses = []
    for _ in range(steps):
        loss = total(method, world.batch(type(method)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        method.after_step(clock_of(method))
        losses.append(loss.item())
    return losses
