"""The one loop: stages, epochs, steps. Everything that must survive an interruption is in `State`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
from torch import Tensor

from .data.batches import Batches, Inputs, epoch_address, in_order
from .data.images import subseed
from .errors import UserError
from .labels import Labels
from .methods.base import Clock, Method, Stage, Swept
from .optim import BACKBONE, Optimizer
from .runtime import Runtime
from .step import CapturedStep, Recorder, Step

SWEPT_VIEW = 1000  # number of a swept view in its address: no method trains on so many
CHECK_EVERY = 50  # steps between looks at the loss: each look waits for the device


class Interrupted(UserError):
    """Training stopped on request; its state was saved."""

    exit_code = 130  # as any program that Ctrl-C ends


class Diverged(UserError):
    """A term of the loss is NaN or infinite."""


@dataclass
class State:
    """Where training stands. With the method's and the optimizer's tensors this is all that a checkpoint holds."""

    stage: int = 0  # counted over the whole run
    epoch: int = 0  # inside the stage
    step: int = 0  # inside the epoch: the next step to take
    terms: Tensor | None = None  # [steps, T] values of the terms so far in this epoch
    seconds: float = 0.0  # spent in this epoch so far
    optimizer: dict[str, Tensor] = field(default_factory=dict)  # live tensors while training


@dataclass(frozen=True)
class EpochEnd:
    """What the loop tells about a finished epoch."""

    stage: Stage
    clock: Clock
    terms: dict[str, float]  # means over the epoch, with their sum as "total"
    seconds: float


class Listener(Protocol):
    """Who watches the loop: progress, evaluation, checkpoints."""

    def on_step(self, clock: Clock, terms: dict[str, float]) -> None: ...

    def on_epoch(self, end: EpochEnd, state: State) -> bool:
        """Evaluate, log, save; True ends the stage early (a selection rule that says so)."""

    def interrupted(self, state: State) -> bool:
        """Asked after every step; True once the state has been saved and training should stop."""


def fit(
    method: Method,
    budget: Stage,
    inputs: Inputs,
    observed: Labels,
    listener: Listener,
    *,
    runtime: Runtime,
    seed: int,
    state: State | None = None,
    first_stage: int = 0,
    recorder: Recorder | None = None,
) -> None:
    """Train `method` for one budget of a protocol, from `state` on where one is given."""
    state = state or State(stage=first_stage)
    stages = method.stages(budget)
    for number in range(state.stage - first_stage, len(stages)):
        stage = stages[number]
        trainable(method, stage.trains)
        optimizer = Optimizer(method, stage)
        if state.optimizer:
            optimizer.load(state.optimizer)
        shard = (runtime.rank, runtime.world)
        batches = Batches(
            inputs, observed, stage, first_stage + number, method.views, seed=seed, device=runtime.device, shard=shard
        )
        step = Step(method, optimizer, runtime, recorder)
        for epoch in range(state.epoch, stage.epochs):
            clock = Clock(first_stage + number, epoch, stage.epochs, 0, batches.steps)
            state = replace(state, stage=clock.stage, epoch=epoch, optimizer=optimizer.state())
            if state.step == 0:
                refresh(method, clock, inputs, runtime, seed=seed)
            end = run_epoch(step, batches, clock, state, listener, seed=seed)
            optimizer.settle()
            runtime.align(method)
            state = State(stage=clock.stage, epoch=epoch + 1, optimizer=optimizer.state())
            if listener.on_epoch(end, state):
                break
        optimizer.release()
        state = State(stage=first_stage + number + 1)


def run_epoch(step: Step, batches: Batches, clock: Clock, state: State, listener: Listener, *, seed: int) -> EpochEnd:
    """The steps of one epoch from `state.step` on."""
    step.method.train()
    began = time.perf_counter() - state.seconds
    for done, values in enumerate(_values(step, batches, clock, state.step, seed), state.step + 1):
        if state.terms is None:
            state.terms = torch.zeros(batches.steps, len(values), device=values.device)
        state.terms[done - 1] = values
        state.step, state.seconds = done, time.perf_counter() - began
        if done % CHECK_EVERY == 0 or done == batches.steps:
            so_far = _finite_means(step.runtime.mean(state.terms[:done]), step.names, clock)
            listener.on_step(clock._replace(step=done), so_far)
        if done < batches.steps and listener.interrupted(state):
            raise Interrupted(f"stopped in stage {clock.stage}, epoch {clock.epoch}, after step {done}")
    assert state.terms is not None
    means = _finite_means(step.runtime.mean(state.terms), step.names, clock)
    return EpochEnd(batches.stage, clock, means, state.seconds)


def _values(step: Step, batches: Batches, clock: Clock, start: int, seed: int) -> Iterator[Tensor]:
    """Take the steps; yield each one's terms [T], still on the device."""

    def prepare(number: int) -> None:
        seed_step(seed, clock, number, step.runtime.rank)
        step.optimizer.pace((clock.epoch + number / batches.steps) / clock.epochs)

    if CapturedStep.possible(step, batches):
        captured = CapturedStep(step, batches, clock)
        for number, rows in enumerate(batches.order(clock.epoch)[start:], start):
            prepare(number)
            yield captured(torch.from_numpy(rows).to(batches.device, non_blocking=True))
        return
    for number, batch in enumerate(batches.epoch(clock.epoch, start), start):
        prepare(number)
        yield step(batch, clock._replace(step=number), batches.weight(number, len(batch.index)))


def seed_step(seed: int, clock: Clock, step: int, rank: int = 0) -> None:
    """Dropout and whatever else draws from the global generators becomes a function of the step's address."""
    address = subseed(seed, clock.stage, clock.epoch, step, rank) >> 1
    torch.default_generator.manual_seed(address)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # is_available() asks the driver, every time
        torch.cuda.manual_seed(address)


def _finite_means(terms: Tensor, names: tuple[str, ...], clock: Clock) -> dict[str, float]:
    """Means of the terms so far. A NaN or infinity stops training and is named with the step it first appeared in."""
    bad = ~terms.isfinite()
    if bad.any():
        step = int(bad.any(dim=1).nonzero()[0])
        which = ", ".join(name for name, b in zip(names, bad[step].tolist(), strict=True) if b)
        raise Diverged(
            f"the loss term '{which}' became NaN or infinite in stage {clock.stage}, epoch {clock.epoch}, step {step}. "
            "A smaller learning rate or --precision fp32 usually helps."
        )
    means = dict(zip(names, terms.double().mean(dim=0).tolist(), strict=True))
    return means | {"total": sum(means.values())}


def refresh(method: Method, clock: Clock, inputs: Inputs, runtime: Runtime, *, seed: int) -> None:
    """Let the method renew what it remembers, in evaluation mode and without gradients; the same in every process."""
    method.eval()
    with torch.no_grad():
        method.refresh(clock, sweep_over(method, inputs, runtime, (seed, epoch_address(clock.stage, clock.epoch))))
    runtime.align(method)


def sweep_over(
    method: Method, inputs: Inputs, runtime: Runtime, address: tuple[int, int]
) -> Callable[..., Iterable[Swept]]:
    """Views that draw do so anew in every epoch, and otherwise than the training that follows."""

    def sweep(*, view: str = "plain", features: bool = False) -> Iterator[Swept]:
        for index, chunk in in_order(inputs, runtime.device, view=view, address=(*address, SWEPT_VIEW)):
            with runtime.autocast():
                pooled = method.net.features(chunk) if features and chunk.dim() == 4 else chunk  # type: ignore[operator]
                logits = method.net(pooled if features else chunk)
            yield Swept(index, logits.float(), pooled.float() if features else None)

    return sweep


def trainable(method: Method, what: str) -> None:
    """'head' freezes the backbone: the head and the method's own parameters go on learning."""
    for name, parameter in method.named_parameters():
        parameter.requires_grad_(what == "all" or not name.startswith(BACKBONE))
