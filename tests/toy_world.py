"""A toy world for the checks that every method goes through: 24 rows, 5 classes, and a net small enough for finite
differences. Every image has one known positive and one known negative; a method that needs images, several views or a
sweep gets them here too.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from tacit.labels import Labels
from tacit.methods.base import Batch, Clock, Method, Swept, View
from tacit.methods.registry import build_method, find_method

ROWS, CLASSES, WIDTH = 24, 5, 6
CLOCK = Clock(stage=0, epoch=0, epochs=3, step=0, steps=10)


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

    def net(self) -> nn.Module:
        width = self.inputs[0].numel()
        return nn.Sequential(nn.Flatten(), nn.Linear(width, 4), nn.Tanh(), nn.Linear(4, CLASSES))

    def batch(
        self, method: type[Method], dtype: torch.dtype = torch.float32, device: str = "cpu", rows: int = ROWS
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


def build(name: str, seed: int = 0) -> tuple[Method, World]:
    method_class = find_method(name)
    world = World(method_class.needs_images)
    torch.manual_seed(seed)
    return build_method(name, world.net(), world.observed, method_class.example_options), world


def total(method: Method, batch: Batch) -> Tensor:
    torch.manual_seed(11)  # for methods that draw inside a step
    return torch.stack([term.double() for term in method(batch, CLOCK).values()]).sum()


def train(method: Method, world: World, steps: int) -> list[float]:
    optimizer = torch.optim.Adam(method.groups(lr=0.02))
    method.refresh(CLOCK, world.sweep(method))
    losses = []
    for _ in range(steps):
        loss = total(method, world.batch(type(method)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        method.after_step(CLOCK)
        losses.append(loss.item())
    return losses
