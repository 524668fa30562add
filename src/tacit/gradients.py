"""Gradient regimes: how hard a method pushes the logit of a cell, by the probability it has and by its label.

Nothing here knows a formula. The method itself is asked: it is built around a net that hands its inputs through as
logits, given a batch in which one cell of every image is moved through all probabilities, and its loss is
differentiated. What it makes of an unknown label besides (an estimate, a pseudo-label) is set through the same hooks
that training uses.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from .errors import UserError
from .files import read_text
from .functional.batch import alone
from .labels import ABSENT, PRESENT, UNKNOWN, Labels
from .methods.base import Batch, Clock, Method, Stage, Swept, View
from .methods.registry import build_method, find_method, method_options
from .run import RunDirectory

FORMAT = 1
STATES = {PRESENT: "present", UNKNOWN: "unknown", ABSENT: "absent"}
PROBABILITIES = np.arange(1, 200) / 200  # contains 0.01, 0.1, 0.5, 0.75, 0.9 and 0.99
CLASSES = 20  # of the batch, unless a run says its own number; VOC's
REST, OTHER_REST = 0.1, 0.3  # probability of the cells that stand still; the second tells whether they matter
KNOWN_REST = 0.9  # of the image's known positive, where the moved cell is not it
ESTIMATES = (0.1, 0.5, 0.9)  # of an unknown label, for methods that keep estimates
TARGETS = (0.1, 0.3, 0.5)  # of pseudo-labels, for methods that freeze predictions as soft targets
EPOCHS = 20  # of the run in which pseudo-labels are made
SPARE = 4  # further images per moved cell, so that a share of a class's cells includes every moved one
SURE = 0.999  # of cells that should be the last to get a negative pseudo-label
MOVED = 0  # column of the moved cell; the last one holds the image's known positive


class GradientError(UserError):
    """A method whose gradient is no function of a cell's logit."""


@dataclass(frozen=True, eq=False)
class Regime:
    """d loss / d logit at each probability, times the number of cells of the batch: the gradient of one cell's loss."""

    method: str
    options: Mapping[str, Any]
    unknown: str  # what an unknown label is to the method
    probabilities: NDArray[np.float64]
    curves: Mapping[str, NDArray[np.float64]]  # "present", "unknown", "unknown, estimated at 0.1", …
    notes: tuple[str, ...] = ()

    def describe(self) -> dict[str, Any]:
        """As JSON, seven digits."""
        return {
            "format": FORMAT,
            "method": self.method,
            "options": dict(self.options),
            "unknown": self.unknown,
            "probabilities": self.probabilities.tolist(),
            "curves": {name: [float(f"{x:.7g}") for x in curve] for name, curve in self.curves.items()},
            "notes": list(self.notes),
        }


def gradient_regime(
    name: str,
    options: Mapping[str, Any] | None = None,
    *,
    classes: int = CLASSES,
    states: Collection[int] = tuple(STATES),
) -> Regime:
    """Ask the method of this name; a required option that is not given takes the method's example value, and a note
    says so. `states`: which labels to ask about."""
    if find_method(name).needs_images:
        raise GradientError(f"{name} works on images: its loss is not a function of the logits alone.")
    given, notes = _completed(name, options or {})
    with torch.random.fork_rng(devices=[]), alone():
        asked = _Asked(name, given, max(classes, 3))
        curves: dict[str, NDArray[np.float64]] = {}
        for state, curve in asked.plain().items():
            if state in states:
                special = asked.estimated() if state == UNKNOWN else {}
                # Without these the curve would be that of whatever estimates a run happens to start from.
                curves |= special or {STATES[state]: curve}
                curves |= asked.pseudo_labelled() if state == UNKNOWN else {}
        notes += asked.notes()
        unknown = asked.method().unknown
    return Regime(name, given, unknown, PROBABILITIES, curves, tuple(notes))


def write_regime(directory: RunDirectory, observed: Labels) -> None:
    """The regime of the model in a run's directory, for the report: with as many classes as it has, and the kinds of
    labels it was given."""
    model = json.loads(read_text(directory.model_file))
    if find_method(model["method"]).needs_images:
        return
    counts = zip((PRESENT, ABSENT, UNKNOWN), observed.counts(), strict=True)
    given = [state for state, cells in counts if cells.any()]
    regime = gradient_regime(model["method"], model["method_options"], classes=len(observed.classes), states=given)
    directory.write_json(directory.path / "gradients.json", regime.describe())


def _completed(name: str, options: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    example = find_method(name).example_options
    missing = [o.name for o in method_options(name).values() if o.required and o.name not in options]
    filled = {key: example[key] for key in missing if key in example}
    return {**filled, **options}, [f"{key} = {value} is an example value" for key, value in filled.items()]


# --- asking -----------------------------------------------------------------------------------------------------------


class _Asked:
    """A method and the batch it is asked about: for each state of the moved cell, an image per probability.

    Every image has one known positive: the moved cell, or else the last one. All other cells are unknown.
    """

    def __init__(self, name: str, options: Mapping[str, Any], classes: int) -> None:
        self.name, self.options = name, options
        self.points, self.batch = len(PROBABILITIES), len(PROBABILITIES) * len(STATES)
        states = np.full((self.batch + SPARE * self.points, classes), UNKNOWN, np.int8)
        states[self.points :, -1] = PRESENT
        states[: self.batch, MOVED] = np.repeat(list(STATES), self.points)
        self.states = torch.from_numpy(states)
        self.observed = Labels.from_dense(states, [f"class {i}" for i in range(classes)])

    def method(self) -> Method:
        torch.default_generator.manual_seed(0)  # torch.manual_seed would reach into a GPU's stream as well
        return build_method(self.name, _Through(), self.observed, self.options).double()

    def logits(self, rest: float = REST) -> Tensor:
        """[B, C] of the batch."""
        found = torch.full((self.batch, self.states.shape[1]), rest, dtype=torch.float64)
        found[self.states[: self.batch] == PRESENT] = KNOWN_REST
        found[:, MOVED] = torch.from_numpy(np.tile(PROBABILITIES, len(STATES)))
        return found.logit()

    def slopes(self, method: Method, rest: float = REST, epoch: int = 0) -> dict[int, NDArray[np.float64]]:
        """Of the moved cells, by their state."""
        inputs = self.logits(rest).requires_grad_()
        views = {name: View(inputs) for name in method.views}
        batch = Batch(torch.arange(self.batch), self.states[: self.batch], views)
        terms = method(batch, _clock(method, epoch))
        (slopes,) = torch.autograd.grad(reduce(add, terms.values()), inputs)
        moved = (slopes[:, MOVED] * inputs.numel()).numpy().reshape(len(STATES), self.points)
        return dict(zip(STATES, moved, strict=True))

    def plain(self) -> dict[int, NDArray[np.float64]]:
        return self.slopes(self.method())

    def estimated(self) -> dict[str, NDArray[np.float64]]:
        """Of an unknown label that the method holds at some probability, where it can be handed estimates."""
        found = {}
        for estimate in ESTIMATES:
            method = self.method()
            start = method.estimates()
            if start is None:
                return {}
            told = torch.where(self.states == UNKNOWN, estimate, start)
            method.hand_over(_Told(told, self.observed))
            now = method.estimates()
            if now is None or not torch.allclose(now, told, atol=1e-4):
                return {}
            found[f"unknown, estimated at {estimate:g}"] = self.slopes(method)[UNKNOWN]
        return found

    def pseudo_labelled(self) -> dict[str, NDArray[np.float64]]:
        """Of an unknown label whose last prediction became a pseudo-label, where the method makes any."""
        found = {}
        for target in TARGETS:
            method = self.method()
            if method.pseudo_labels() is None:
                return {}
            for epoch in range(EPOCHS):
                method.refresh(_clock(method, epoch), self._sweep(target))
            made = method.pseudo_labels()
            assert made is not None
            if made[: self.batch, MOVED][self.states[: self.batch, MOVED] == UNKNOWN].all():
                last = self.slopes(method, epoch=EPOCHS - 1)
                found[f"unknown, pseudo-label {target:g}"] = last[UNKNOWN]
        return found

    def _sweep(self, target: float) -> Any:
        """A pass over the training images in which the moved cells have the probability of the pseudo-label."""
        said = torch.full(self.states.shape, SURE).logit()
        said[: self.batch, MOVED] = torch.tensor(target).logit()

        def sweep(*, view: str = "plain", features: bool = False) -> Iterator[Swept]:
            yield Swept(torch.arange(len(said)), said, said if features else None)  # the net hands its inputs through

        return sweep

    def notes(self) -> list[str]:
        method = self.method()
        here, there = self.slopes(method), self.slopes(method, OTHER_REST)
        if all(np.allclose(here[state], there[state]) for state in STATES):
            return []
        expected = float(self.logits().sigmoid().sum(1).mean())
        return [
            f"depends on the rest of the batch: its other cells are unknown with p = {REST:g} but for one known "
            f"positive of p = {KNOWN_REST:g}, so that images have {expected:.2f} expected positives"
        ]


def _clock(method: Method, epoch: int) -> Clock:
    """In the last of its stages: those before prepare it."""
    stages = method.stages(Stage("asked", epochs=10**9, batch_size=1, lr=1.0))  # too short for no method
    return Clock(len(stages) - 1, epoch, EPOCHS, 0, 1)


class _Through(nn.Module):
    """A net whose logits are its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(1, 1))  # some methods sum over the weights

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs


class _Told(Method):
    """An earlier phase that estimated the training labels as is said here."""

    def __init__(self, estimates: Tensor, observed: Labels) -> None:
        super().__init__(_Through(), observed)
        self._estimates = estimates

    def estimates(self) -> Tensor:
        return self._estimates
