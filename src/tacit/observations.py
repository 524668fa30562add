"""Observations by name: the list that the command line shows, and from a word such as 'known-share:0.1' to a model.

Here are arguments, published seeds and the one file an observation may need (class weights); the models themselves are
pure functions in `tacit.observe`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from numpy.random import RandomState
from numpy.typing import ArrayLike

from .class_weights import read_class_weights, weights_in_order
from .labels import Labels
from .observe import (
    ObservationError,
    check_share,
    class_quota,
    frequent_positive,
    full,
    known_share,
    labelled_share,
    largest_positive,
    positive_share,
    positives,
    weighted_positive,
)

Model = Callable[[Labels, RandomState, ArrayLike | None], Labels]


@dataclass(frozen=True)
class Observation:
    """A model with its argument, ready to be called; every call starts a fresh stream, as each published split does.

    `published_seed` is the seed a call takes when it is given none: the published program's. The quotas, published
    unseeded, and the biased single positives have none; theirs is ours.
    """

    spec: str
    published_seed: int
    describe: str
    needs_areas: bool = False
    _model: Model = field(repr=False, compare=False, kw_only=True)

    def __call__(self, truth: Labels, seed: int | None = None, areas: ArrayLike | None = None) -> Labels:
        chosen = self.published_seed if seed is None else seed
        if not 0 <= chosen < 2**32:
            raise ObservationError(f"observation seed {chosen}: legacy streams take seeds from 0 to {2**32 - 1}")
        return self._model(truth, RandomState(chosen), areas)


@dataclass(frozen=True)
class ObservationKind:
    """One entry of the list: what may be written before and after the colon."""

    name: str
    sentence: str  # {} stands for the argument
    published_seed: int
    build: Callable[[str], tuple[str, Model]] = field(repr=False, compare=False)  # argument -> (canonical, model)
    argument: str = ""  # as the help shows it
    needs_areas: bool = False

    @property
    def usage(self) -> str:
        return f"{self.name}:{self.argument}" if self.argument else self.name

    @property
    def describe(self) -> str:
        return self.sentence.format(self.argument)


def observations() -> tuple[ObservationKind, ...]:
    """Every observation there is, in the order a reader wants them."""
    kind, share, weighed = ObservationKind, "SHARE", "one positive per image, in proportion to the class weights in {}"
    return (
        kind("full", "all true labels", 0, _plain(full)),
        kind("single-positive", "one positive per image, drawn evenly", 1200, _plain(positives)),
        kind("one-positive-one-negative", "one positive and one negative per image", 1200, _plain(_one_and_one)),
        kind("one-positive-all-negatives", "one positive, all true negatives: an oracle", 1200, _plain(_one_and_all)),
        kind("known-share", "every label known with probability {}", 0, _share(known_share), share),
        kind("positive-share", "positives known with probability {}, no negatives", 0, _share(positive_share), share),
        kind("labelled-share", "all labels of a share {} of the images", 1, _share(labelled_share), share),
        kind("class-quota", "per class at most {} of each (seed 0 is ours)", 0, _quota, "POSITIVES,NEGATIVES"),
        kind("single-positive-weights", weighed, 1200, _weights, "FILE"),
        kind(
            "single-positive-frequent", "each image's most frequent class; ties drawn", 1200, _plain(frequent_positive)
        ),
        kind("single-positive-largest", "each image's largest object; ties drawn", 1200, _largest, needs_areas=True),
    )


def parse_observation(spec: str) -> Observation:
    """'known-share:0.1' -> the observation; its `spec` comes back in one canonical spelling."""
    name, colon, argument = spec.strip().partition(":")
    kinds = {kind.name: kind for kind in observations()}
    if name not in kinds:
        near = difflib.get_close_matches(name, kinds, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        everything = ", ".join(kind.usage for kind in kinds.values())
        raise ObservationError(f"no observation named '{name}'.{hint} There are: {everything}.")
    kind = kinds[name]
    if bool(argument) != bool(kind.argument):
        wanted = f"needs an argument: {kind.usage}" if kind.argument else f"takes no argument: write '{name}'"
        raise ObservationError(f"observation '{spec}': '{name}' {wanted}")
    if colon and not argument:
        raise ObservationError(f"observation '{spec}' ends in a colon: write '{name}'")
    canonical, model = kind.build(argument)
    return Observation(
        f"{name}:{canonical}" if canonical else name,
        kind.published_seed,
        kind.sentence.format(canonical),
        kind.needs_areas,
        _model=model,
    )


def _one_and_one(truth: Labels, rng: RandomState) -> Labels:
    return positives(truth, rng, 1, 1)


def _one_and_all(truth: Labels, rng: RandomState) -> Labels:
    return positives(truth, rng, 1, -1)


def _plain(model: Callable[[Labels, RandomState], Labels]) -> Callable[[str], tuple[str, Model]]:
    return lambda argument: ("", lambda truth, rng, areas: model(truth, rng))


def _share(model: Callable[[Labels, RandomState, float], Labels]) -> Callable[[str], tuple[str, Model]]:
    def build(argument: str) -> tuple[str, Model]:
        try:
            share = float(argument)
        except ValueError:
            raise ObservationError(f"'{argument}' is not a share: give a number above 0 and at most 1") from None
        check_share(share)
        return repr(share), lambda truth, rng, areas: model(truth, rng, share)

    return build


def _quota(argument: str) -> tuple[str, Model]:
    parts = [part.strip() for part in argument.split(",")]
    if len(parts) != 2 or not all(part.isdecimal() for part in parts):
        raise ObservationError(
            f"'{argument}' are not two quotas: write class-quota:POSITIVES,NEGATIVES, as in 1000,1000"
        )
    most = int(parts[0]), int(parts[1])
    return f"{most[0]},{most[1]}", lambda truth, rng, areas: class_quota(truth, rng, *most)


def _weights(argument: str) -> tuple[str, Model]:
    weights = read_class_weights(Path(argument))
    return argument, lambda truth, rng, areas: weighted_positive(truth, rng, weights_in_order(weights, truth.classes))


def _largest(argument: str) -> tuple[str, Model]:
    return "", largest_positive
