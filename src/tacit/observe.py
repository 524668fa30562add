"""Observation models: how the truth about a training split is hidden.

Each model is a pure function `(truth, rng, …) -> Labels`: it only ever removes knowledge, so an unknown cell of the
truth stays unknown, and the truth itself is never written. Oracles are observations too ("one positive, all true
negatives"). Streams are NumPy's legacy `RandomState`, drawn in the order of the published programs, so that their masks
come out bit for bit. How they are named on the command line, and their seeds: `tacit.observations`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray

from .errors import UserError
from .labels import ABSENT, PRESENT, Labels

Ints = NDArray[np.int64]
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
    check_share(share)
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
    check_share(share)
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
    silent = int((np.bincount(rows, minlength=len(observed)) == 0).sum())
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


def check_share(share: float) -> None:
    if not 0 < share <= 1:
        raise ObservationError(f"a share of {share:g}: give a number above 0 and at most 1, such as 0.1")
