"""The contract between a method and everything that carries it (docs/design.md, section 4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from ..functional.partial import wide
from ..labels import Labels


class View(NamedTuple):
    """One augmented copy of the batch's images (or their features)."""

    inputs: Tensor  # [B, 3, H, W] normalised pixels, or [B, D] features
    geometry: Tensor | None = None  # [B, 2, 3] affine map from the original image to this view, where one exists


@dataclass(frozen=True, slots=True)
class Batch:
    """What a step sees. There is no truth in it."""

    index: Tensor  # [B] int64: row in the training split
    labels: Tensor  # [B, C] int8: 1 present, 0 unknown, -1 absent
    views: Mapping[str, View]
    part: Tensor | None = None  # [B] int64: which Part of the stage a row was drawn for; None where there is one

    @property
    def inputs(self) -> Tensor:
        """The first view's images or features."""
        return next(iter(self.views.values())).inputs


STAGES_OF_A_BUDGET = 100  # between the first stages of two budgets of a protocol: more than a method splits one into


class Clock(NamedTuple):
    """Where training stands; schedules are pure functions of it. All counts start at 0."""

    stage: int
    epoch: int  # inside the stage
    epochs: int  # of the stage
    step: int  # inside the epoch
    steps: int  # of an epoch

    @property
    def own_stage(self) -> int:
        """The stage among those that the method split its budget into."""
        return self.stage % STAGES_OF_A_BUDGET


@dataclass(frozen=True)
class Part:
    """Rows that contribute a fixed number of places to every batch of a stage."""

    name: str
    rows: NDArray[np.int64]
    batch_size: int


@dataclass(frozen=True)
class Stage:
    """A stretch of training with its own optimizer. A protocol's budget is a Stage; a method may split it."""

    name: str
    epochs: int
    batch_size: int
    lr: float
    weight_decay: float = 0.0
    optimizer: str = "adam"  # "adam" or "sgd"
    momentum: float = 0.9  # of sgd
    schedule: str = "constant"  # of the learning rate: see tacit.schedules
    head_lr: float = 1.0  # times lr, for everything but the backbone
    trains: str = "all"  # "all", or "head": only the head's and the method's own parameters
    inputs: str = "images"  # "images" or "features"
    augment: str | None = None  # how the method's views are made, in order: see data.views.kinds_of
    drop_last: bool = False  # the published programs drop the last partial batch
    prepares: bool = False  # a method's preparation: no rule selects an epoch of it
    parts: tuple[Part, ...] = ()  # empty: one part with every training row


@dataclass(frozen=True, slots=True)
class Swept:
    """A chunk of a gradient-free pass over the training images, in row order."""

    index: Tensor  # [b] int64
    logits: Tensor  # [b, C]
    features: Tensor | None  # [b, D] where the net has them


class Sweep(Protocol):
    """Given to `refresh`: iterate over the training images without gradients, evaluation mode, row order."""

    def __call__(self, *, view: str = "plain", features: bool = False) -> Iterable[Swept]: ...


class Net(Protocol):
    """What a method may ask of a net: logits, and features where it wants them."""

    def __call__(self, inputs: Tensor) -> Tensor: ...


class Method(nn.Module):
    """A net, its objective and everything the objective remembers.

    Subclasses take `(net, observed, *, typed keyword hyper-parameters)`; the keywords become command-line flags.
    Memory is a parameter, buffer or submodule. `loss` must not call `.item()`, build data-dependent shapes or visit
    the host, or the class says `capturable = False` and runs eagerly on a GPU.
    """

    views: tuple[str, ...] = ("weak",)  # an instance may need fewer than its class
    capturable: ClassVar[bool] = True
    needs_images: ClassVar[bool] = False  # True: cannot run on cached features
    needs_negatives: ClassVar[bool] = False  # True: as it stands, refuses labels of which none is known to be absent
    head: ClassVar[str] = "linear"  # of the net, unless a run names another
    needs: ClassVar[str] = ""  # in words, what observed labels it fits: printed by `tacit methods`
    example_options: ClassVar[Mapping[str, Any]] = {}  # values of the required keywords, for checks and examples

    unknown: str  # what an unknown label is to this method, in a few words: printed with every run and in every table
    ignores_unknown: bool = False  # True: an unknown cell gives its logit no gradient; checked for every method
    net: nn.Module

    def __init__(self, net: nn.Module, observed: Labels) -> None:
        super().__init__()
        self.net = net

    def oracles(self) -> tuple[str, ...]:
        """Scalars of the truth this configuration was given, in words; printed and stored with the run."""
        return ()

    def stages(self, budget: Stage) -> list[Stage]:
        return [budget]

    def groups(self, lr: float) -> list[dict[str, Any]]:
        """Optimizer parameter groups. A group with `rows: True` holds one [N, C] table visited by `batch.index`."""
        return [{"params": [p for p in self.parameters() if p.requires_grad], "lr": lr}]

    def refresh(self, clock: Clock, sweep: Sweep) -> None:
        """Before each epoch: renew pseudo-labels or statistics held in buffers."""

    def loss(self, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        """Named scalar terms; the loop sums them."""
        raise NotImplementedError

    def after_step(self, clock: Clock) -> None:
        """After each optimizer step, e.g. move an averaged teacher."""

    def estimates(self) -> Tensor | None:
        """Current guess of the training labels as probabilities [N, C], for diagnosis."""
        return None

    def pseudo_labels(self) -> Tensor | None:
        """The labels it made up so far, int8 [N, C]: 1, -1, and 0 where it made none; for diagnosis."""
        return None

    def hand_over(self, previous: Method) -> None:
        """Take over what an earlier phase of the same run learned about these training labels.

        Called once, before the phase's first stage, on a freshly built method. The protocol itself copies weights of
        the net; this hook is for memory, such as label estimates.
        """

    def predict(self, inputs: Tensor) -> Tensor:
        """Probabilities [B, C], float32 at least: in bfloat16 sure predictions would tie."""
        return wide(self.net(inputs)).sigmoid()

    def forward(self, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        return self.loss(batch, clock)
