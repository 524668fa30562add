"""Metrics of each image's ranking of its classes: one-error, coverage, ranking loss, LRAP; unknown cells are masked.

Equal scores never help: a positive tied with negatives ranks below them (as in scikit-learn), and a tied top class
counts by the share of positives in the tie. So no number here depends on the order of classes.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..labels import PRESENT, UNKNOWN, States
from .inputs import Scores, checked, choice

EmptyExample = Literal["skip", "sklearn"]
Vector = NDArray[np.float64]

_CELLS_PER_BLOCK = 1 << 20  # images are ranked in blocks of this many cells: bounded memory for large vocabularies


class ImageRanking(NamedTuple):
    """Per image [N]; each is NaN where it is not defined.

    one_error     share of classes tied for the highest score that are absent (0 or 1 without ties)
    depth         how far down the ranking all positives are covered, in classes (scikit-learn's coverage error)
    ranking_loss  share of (positive, negative) pairs not ordered strictly
    lrap          label ranking average precision
    known         known classes of the image
    """

    one_error: Vector
    depth: Vector
    ranking_loss: Vector
    lrap: Vector
    known: NDArray[np.int64]


class ExampleScores(NamedTuple):
    """Means over images; `coverage` is (depth - 1) / known classes, `coverage_depth` scikit-learn's coverage error."""

    one_error: float
    coverage: float
    coverage_depth: float
    ranking_loss: float
    LRAP: float
    unscored: int


def example_scores(scores: ArrayLike, labels: ArrayLike, *, empty: EmptyExample = "skip") -> ExampleScores:
    """Means over images of `image_ranking`.

    skip     an image counts where its number is defined: a known positive, and for ranking loss and LRAP also a known
             negative. `unscored` is the number of images without a known positive.
    sklearn  all images count: LRAP 1 and ranking loss 0 without a positive or without a negative, depth 0 without a
             positive (so coverage is -1 / classes there, as published), one-error 1 without a positive.
    """
    choice("empty", empty, get_args(EmptyExample))
    ranking = image_ranking(scores, labels)
    error, depth, loss, lrap, known = ranking
    unscored = int(np.isnan(depth).sum())
    if empty == "sklearn":
        error, depth = np.nan_to_num(error, nan=1.0), np.nan_to_num(depth, nan=0.0)
        loss, lrap = np.nan_to_num(loss, nan=0.0), np.nan_to_num(lrap, nan=1.0)
    share = (depth - 1) / np.maximum(known, 1)
    return ExampleScores(_mean(error), _mean(share), _mean(depth), _mean(loss), _mean(lrap), unscored)


def one_error(scores: ArrayLike, labels: ArrayLike, *, empty: EmptyExample = "skip") -> float:
    """Share of images whose highest class is absent."""
    return example_scores(scores, labels, empty=empty).one_error


def coverage(scores: ArrayLike, labels: ArrayLike, *, empty: EmptyExample = "skip") -> float:
    """Mean of (classes to read until all positives are seen - 1) / known classes: a fraction in [0, 1)."""
    return example_scores(scores, labels, empty=empty).coverage


def ranking_loss(scores: ArrayLike, labels: ArrayLike, *, empty: EmptyExample = "skip") -> float:
    """Mean share of (positive, negative) pairs of an image that are not ordered strictly."""
    return example_scores(scores, labels, empty=empty).ranking_loss


def label_ranking_average_precision(scores: ArrayLike, labels: ArrayLike, *, empty: EmptyExample = "skip") -> float:
    """LRAP: for each positive of an image, the share of positives among classes ranked at or above it."""
    return example_scores(scores, labels, empty=empty).LRAP


def image_ranking(scores: ArrayLike, labels: ArrayLike) -> ImageRanking:
    """The four numbers of every image, from one sort of its classes."""
    values, states = checked(scores, labels)
    rows = max(1, _CELLS_PER_BLOCK // values.shape[1])
    blocks = [_rank_rows(values[i : i + rows], states[i : i + rows]) for i in range(0, len(values), rows)]
    return ImageRanking(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))


def _rank_rows(scores: Scores, states: States) -> ImageRanking:
    known = (states != UNKNOWN).sum(axis=1)
    positives = (states == PRESENT).sum(axis=1)
    negatives = known - positives
    positive, hits, flagged = _read_down(scores, states)
    precision = np.where(positive, hits / flagged, 0).sum(axis=1)
    misordered = np.where(positive, flagged - hits, 0).sum(axis=1)
    some, pairs = positives > 0, positives * negatives
    nowhere = np.full(len(scores), np.nan)
    return ImageRanking(
        one_error=np.where(some, 1 - hits[:, 0] / flagged[:, 0], np.nan),
        depth=np.where(some, np.where(positive, flagged, 0).max(axis=1), np.nan),
        ranking_loss=np.divide(misordered, pairs, out=nowhere.copy(), where=pairs > 0),
        lrap=np.divide(precision, positives, out=nowhere, where=pairs > 0),
        known=known,
    )


def _read_down(scores: Scores, states: States) -> tuple[NDArray[np.bool_], NDArray[np.intp], NDArray[np.intp]]:
    """Each image's classes from the highest score down [B, C]: is it positive; positives, and classes, at or above it.

    Unknown classes become NaN, which sorts last and ties with nothing: no known class counts them.
    """
    falling = np.where(states == UNKNOWN, np.nan, -scores).astype(scores.dtype)
    order = np.argsort(falling, axis=1)
    ranked = np.take_along_axis(falling, order, axis=1)
    positive = np.take_along_axis(states == PRESENT, order, axis=1)
    place = np.arange(scores.shape[1])
    last_of_tie = np.ones(scores.shape, np.bool_)
    np.not_equal(ranked[:, 1:], ranked[:, :-1], out=last_of_tie[:, :-1])
    end = np.where(last_of_tie, place, scores.shape[1])
    end = np.minimum.accumulate(end[:, ::-1], axis=1)[:, ::-1]
    return positive, np.take_along_axis(positive.cumsum(axis=1), end, axis=1), end + 1


def _mean(values: Vector) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")
