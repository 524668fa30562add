"""Observation models: how the truth about a training split is hidden.

Each model is a pure function `(truth, rng, …) -> Labels`: it only ever removes knowledge, so an unknown cell of the
truth stays unknown, and the truth itself is never written. Oracles are observations too ("one positive, all true
negatives"). Streams are NumPy's legacy `RandomState`, drawn in the order of the published programs, so that their masks
come out bit for bit; the seeds are those of the published tables.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray

from .class_weights import read_class_weights, weights_in_order
from .errors import UserError
from .labels import ABSENT, PRESENT, Labels

Ints = NDArray[np.int64]
Model = Callable[[Labels, RandomState, ArrayLike | None], Labels]
LISTED = 200  # names a warning spells out before it only counts
CELLS_AT_ONCE = 1 << 22  # uniform numbers drawn at a time: 32 MB


class ObservationError(UserError, ValueError):
    """An observation that does not exist or cannot be made from this truth."""


# ------------------------------------------------------------------------------------------------ models


def full(truth: Labels, rng: RandomState) -> Labels:
    """Nothing is hidden."""
    return truth


def positives(truth: Labels, rng: RandomState, num_pos: int = 1, num_neg: int = 0) -> Labels:
    """At most `num_pos` positives and `num_neg` negatives of each image, drawn evenly; -1 means all of them.

    The published generator shuffles an image's positives, then its negatives, both also where their number is 0 or
    "all"; so one seed picks the same positives whatever `num_neg` is. Lists of one element draw nothing.
    """
    if num_pos < -1 or num_neg < -1:
        raise ObservationError(f"{num_pos} positives and {num_neg} negatives per image: give 0 or more, or -1 for all")
    rows, columns, states = truth.cells()
    sides = [(rows[states == state], columns[states == state]) for state in (PRESENT, ABSENT)]
    _shuffle_each_row(rng, len(truth), sides)
    kept = []
    for (row, column), num, state in zip(sides, (num_pos, num_neg), (PRESENT, ABSENT), strict=True):
        first = _rank_in_group(row) < (num if num >= 0 else truth.shape[1])
        kept.append((row[first], column[first], np.full(int(first.sum()), state, np.int8)))
    (rows_pos, columns_pos, states_pos), (rows_neg, columns_neg, states_neg) = kept
    return _stored_like(
        truth,
        np.concatenate([rows_pos, rows_neg]),
        np.concatenate([columns_pos, columns_neg]),
        np.concatenate([states_pos, states_neg]),
    )


def known_share(truth: Labels, rng: RandomState, share: float) -> Labels:
    """Every cell is known with probability `share`, independently; one seed gives nested masks across shares.

    One uniform number per cell in row-major order, known where it is below `share` (strictly), as published. Sparse
    truth draws them all the same: the mask does not depend on how labels are stored.
    """
    _check_share(share)
    rows, columns, states = truth.cells()
    kept = np.zeros(len(rows), bool)
    classes = truth.shape[1]
    step = max(1, CELLS_AT_ONCE // max(classes, 1))
    for first in range(0, len(truth), step):
        count = min(step, len(truth) - first)
        known = rng.random_sample((count, classes)) < share
        here = slice(*np.searchsorted(rows, (first, first + count)))
        kept[here] = known[rows[here] - first, columns[here]]
    return _stored_like(truth, rows[kept], columns[kept], states[kept])


def positive_share(truth: Labels, rng: RandomState, share: float) -> Labels:
    """The positives that `known_share` keeps from the same stream, and not one negative."""
    rows, columns, states = known_share(truth, rng, share).cells()
    kept = states == PRESENT
    return _stored_like(truth, rows[kept], columns[kept], states[kept])


def labelled_rows(length: int, rng: RandomState, share: float) -> tuple[Ints, Ints]:
    """Labelled and unlabelled rows in the published order: a permutation, cut after `int(share * length)`."""
    _check_share(share)
    order = rng.permutation(length).astype(np.int64)
    cut = int(share * length)
    return order[:cut], order[cut:]


def labelled_share(truth: Labels, rng: RandomState, share: float) -> Labels:
    """A share of the images keeps all its labels, the others keep none."""
    labelled, _ = labelled_rows(len(truth), rng, share)
    rows, columns, states = truth.cells()
    chosen = np.zeros(len(truth), bool)
    chosen[labelled] = True
    kept = chosen[rows]
    return _stored_like(truth, rows[kept], columns[kept], states[kept])


def class_quota(truth: Labels, rng: RandomState, positives: int, negatives: int) -> Labels:
    """At most so many positives and negatives of each class, drawn evenly; one seed gives nested quotas."""
    rows, columns, states = truth.cells()
    group = columns * 2 + (states == PRESENT)
    order = np.lexsort((rng.random_sample(len(rows)), group))
    quota = np.where(states[order] == PRESENT, positives, negatives)
    kept = np.sort(order[_rank_in_group(group[order]) < quota])
    return _stored_like(truth, rows[kept], columns[kept], states[kept])


def weighted_positive(truth: Labels, rng: RandomState, weights: ArrayLike) -> Labels:
    """One positive per image, drawn in proportion to its class's weight; a class of weight 0 is never observed.

    The smallest of exponential times divided by their weights falls on a class in proportion to its weight.
    """
    rows, columns = _present(truth)
    weight = np.asarray(weights, np.float64)[columns]
    times = rng.standard_exponential(len(rows))
    possible = weight > 0
    return _best_positive(truth, rows[possible], columns[possible], (-times[possible] / weight[possible],))


def frequent_positive(truth: Labels, rng: RandomState) -> Labels:
    """Of each image the positive whose class has most positives in this truth; equals are drawn."""
    rows, columns = _present(truth)
    often = np.bincount(columns, minlength=truth.shape[1])[columns]
    return _best_positive(truth, rows, columns, (often, rng.random_sample(len(rows))))


def largest_positive(truth: Labels, rng: RandomState, areas: ArrayLike | None) -> Labels:
    """Of each image the positive with the largest object; one without a box counts as area 0; equals are drawn."""
    if areas is None:
        raise ObservationError(
            "'single-positive-largest' needs the area of each class's largest object, and this source has no boxes. "
            "Use a source with boxes (voc with Annotations, coco), or another observation."
        )
    area = np.nan_to_num(np.asarray(areas, np.float64))
    if area.shape != truth.shape:
        raise ObservationError(f"areas of shape {area.shape} do not fit labels of shape {truth.shape}")
    rows, columns = _present(truth)
    return _best_positive(truth, rows, columns, (area[rows, columns], rng.random_sample(len(rows))))


# ------------------------------------------------------------------------------------------------ by name


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


def warnings_for(observed: Labels) -> list[str]:
    """What a person should know before training on these labels; empty where nothing stands out."""
    found = []
    counts = observed.counts()
    bare = [name for name, count in zip(observed.classes, counts.present, strict=True) if count == 0]
    if bare:
        shown = ", ".join(bare[:LISTED]) + (f", … ({len(bare) - LISTED} more)" if len(bare) > LISTED else "")
        found.append(
            f"{len(bare)} of {len(observed.classes)} classes have no known positive, and cannot be learned: "
            f"{shown}. Observe more, or leave these classes out."
        )
    rows, _, _ = observed.cells()
    silent = len(observed) - len(np.unique(rows))
    if silent:
        found.append(f"{silent} of {len(observed)} images have no known label at all.")
    return found


# ------------------------------------------------------------------------------------------------ parts


def _stored_like(truth: Labels, rows: Ints, columns: Ints, states: NDArray[np.int8]) -> Labels:
    if truth.is_sparse:
        return Labels.from_cells(len(truth), truth.classes, rows, columns, states)
    matrix = np.zeros(truth.shape, np.int8)
    matrix[rows, columns] = states
    return Labels.from_dense(matrix, truth.classes)


def _present(truth: Labels) -> tuple[Ints, Ints]:
    rows, columns, states = truth.cells()
    return rows[states == PRESENT], columns[states == PRESENT]


def _rank_in_group(groups: Ints) -> Ints:
    """Position of each element inside its run of equal values."""
    opens = np.flatnonzero(np.diff(groups, prepend=groups[:1] - 1))
    lengths = np.diff(opens, append=len(groups))
    return np.arange(len(groups)) - np.repeat(opens, lengths)


def _shuffle_each_row(rng: RandomState, length: int, sides: list[tuple[Ints, Ints]]) -> None:
    """Shuffles, in place and row by row, each side's columns: the published order of draws."""
    (rows_a, a), (rows_b, b) = sides
    shuffle = rng.shuffle
    from_a = from_b = 0
    for to_a, to_b in zip(
        np.cumsum(np.bincount(rows_a, minlength=length)).tolist(),
        np.cumsum(np.bincount(rows_b, minlength=length)).tolist(),
        strict=True,
    ):
        if to_a - from_a > 1:
            shuffle(a[from_a:to_a])
        if to_b - from_b > 1:
            shuffle(b[from_b:to_b])
        from_a, from_b = to_a, to_b


def _best_positive(truth: Labels, rows: Ints, columns: Ints, scores: tuple[NDArray[Any], ...]) -> Labels:
    """Of each row the cell with the highest score; later scores decide between equals."""
    order = np.lexsort((*(-score for score in reversed(scores)), rows))
    best = order[_rank_in_group(rows[order]) == 0]
    return _stored_like(truth, rows[best], columns[best], np.full(len(best), PRESENT, np.int8))


def _check_share(share: float) -> None:
    if not 0 < share <= 1:
        raise ObservationError(f"a share of {share:g}: give a number above 0 and at most 1, such as 0.1")


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
        _check_share(share)
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
