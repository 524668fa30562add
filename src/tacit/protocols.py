"""How long, how fast, on what inputs, and which epoch is kept: `linear`, `finetune` and `linear_init`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from .errors import UserError
from .methods.base import Stage
from .schedules import schedule


class ProtocolError(UserError):
    """A protocol, budget or search that does not exist or cannot be read."""


@dataclass(frozen=True)
class Protocol:
    """A list of stage budgets; the last one's selected epoch is the result, earlier ones hand over theirs."""

    name: str
    about: str
    budgets: tuple[Stage, ...]


# Published settings where one value serves all data sets; what differs per data set lives in recipes/.
LINEAR = Stage("linear", epochs=25, batch_size=16, lr=1e-3, trains="head", inputs="features")
FINETUNE = Stage("finetune", epochs=10, batch_size=16, lr=1e-5, trains="all", inputs="images")
PROTOCOLS = {
    p.name: p
    for p in (
        Protocol("linear", "a linear classifier on cached features", (LINEAR,)),
        Protocol("finetune", "every weight, on images", (FINETUNE,)),
        Protocol("linear_init", "linear first, then every weight from there", (LINEAR, FINETUNE)),
    )
}
PUBLISHED_GRID = "batch_size=8,16 lr=1e-2,1e-3,1e-4,1e-5"


@dataclass(frozen=True)
class Budget:
    """What may be changed about a protocol; None leaves the protocol's value."""

    epochs: int | None = None  # of the protocol's last budget
    batch_size: int | None = None  # rows per step, over all processes together
    lr: float | None = None  # learning rate of Adam
    weight_decay: float | None = None  # 0 unless said
    optimizer: Literal["adam", "sgd"] | None = None  # adam unless said
    momentum: float | None = None  # of sgd: 0.9 unless said
    schedule: str | None = None  # of the learning rate: constant, cosine, onecycle, onecycle:LENGTH, step:EPOCH,EPOCH
    head_lr: float | None = None  # times lr, for the head and the method's own parameters; 1 unless said
    drop_last: bool | None = None  # leave the last partial batch of an epoch out, as the published programs do
    augment: str | None = None  # views in place of the method's own, in their order: crop; crop,strong_crop for two
    linear_epochs: int | None = None  # linear_init: of its linear phase
    linear_batch_size: int | None = None  # linear_init: of its linear phase
    linear_lr: float | None = None  # linear_init: of its linear phase
    linear_drop_last: bool | None = None  # linear_init: in its linear phase


def budgets(protocol: str, changes: Mapping[str, Any]) -> tuple[Stage, ...]:
    """The protocol's budgets with `changes` (fields of Budget) applied."""
    if protocol not in PROTOCOLS:
        raise ProtocolError(f"no protocol named '{protocol}'. Protocols: {', '.join(PROTOCOLS)}")
    stages = list(PROTOCOLS[protocol].budgets)
    given = {key: value for key, value in changes.items() if value is not None}
    first = {key.removeprefix("linear_"): value for key, value in given.items() if key.startswith("linear_")}
    last = {key: value for key, value in given.items() if not key.startswith("linear_")}
    if first and len(stages) == 1:
        raise ProtocolError(f"linear_{next(iter(first))} belongs to protocol linear_init; {protocol} has one phase")
    stages[0] = replace(stages[0], **first)
    stages[-1] = replace(stages[-1], **last)
    for stage in stages:
        _check(stage)
    return tuple(stages)


def _check(stage: Stage) -> None:
    for name in ("epochs", "batch_size", "lr", "head_lr"):
        if not 0 < getattr(stage, name) < math.inf:
            raise ProtocolError(f"{name} of the {stage.name} budget must be above 0, not {getattr(stage, name)}")
    if not 0 <= stage.weight_decay < math.inf:
        raise ProtocolError(f"weight_decay must not be below 0 nor infinite, not {stage.weight_decay}")
    if not 0 <= stage.momentum < 1:
        raise ProtocolError(f"momentum must be at least 0 and below 1, not {stage.momentum}")
    if stage.optimizer not in ("adam", "sgd"):
        raise ProtocolError(f"no optimizer named '{stage.optimizer}': there are adam and sgd")
    schedule(stage.schedule, stage.epochs)
    if stage.augment and stage.inputs == "features":
        raise ProtocolError(
            f"--augment {stage.augment}: the {stage.name} protocol trains on cached features, which cannot be "
            "augmented. Use --protocol finetune."
        )


SEARCHED = ("batch_size", "lr", "epochs", "weight_decay")


def search_grid(text: str, options: Mapping[str, type] | None = None) -> list[dict[str, Any]]:
    """'published' or 'batch_size=8,16 lr=1e-3,1e-4' -> every combination, as changes of the last budget.

    `options` are the method's numeric hyper-parameters and their types: they can be searched as well.
    """
    if text and not text.strip():
        raise ProtocolError("--search is blank: write published, or name=value,value …, or leave it out")
    kinds = {"batch_size": int, "lr": float, "epochs": int, "weight_decay": float, **(options or {})}
    axes: list[list[tuple[str, Any]]] = []
    for word in (PUBLISHED_GRID if text == "published" else text).split():
        name, _, values = word.partition("=")
        if name not in kinds or not values:
            raise ProtocolError(
                f"--search: cannot read '{word}'. Write published, or name=value,value … with {', '.join(kinds)}; "
                f"published means '{PUBLISHED_GRID}'"
            )
        if name in dict(axis[0] for axis in axes):
            raise ProtocolError(f"--search names {name} twice")
        try:
            axes.append([(name, kinds[name](value)) for value in values.split(",")])
        except ValueError as error:
            wanted = "whole numbers" if kinds[name] is int else "numbers"
            raise ProtocolError(f"--search: {name} takes {wanted}, not '{values}'") from error
        for _, value in axes[-1]:
            if name in SEARCHED:
                _check(replace(LINEAR, name="searched", **{name: value}))
    return [dict(point) for point in itertools.product(*axes)] if axes else []


def of_budget(point: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a search point that changes the budget; the rest are hyper-parameters of the method."""
    return {name: value for name, value in point.items() if name in SEARCHED}


def of_method(point: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in point.items() if name not in SEARCHED}
