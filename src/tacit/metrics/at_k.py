"""Precision, recall and hits among the k highest classes of each image."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..labels import PRESENT, UNKNOWN
from .inputs import MetricError, Scores, checked, choice

EmptyRow = Literal["skip", "zero"]


class AtK(NamedTuple):
    """Means over images: hits / k, hits / positives, and the share of images with at least one hit."""

    precision: float
    recall: float
    top: float


def at_k(
    scores: ArrayLike, labels: ArrayLike, ks: Iterable[int] = (1, 3, 5), *, empty: EmptyRow = "skip"
) -> dict[int, AtK]:
    """For each k, the metrics of the k highest *known* classes per image; unknown cells take no part in the ranking.

    Precision divides by k even where fewer classes exist or are known (as published). An image without a known
    positive is left out under `empty="skip"` and counts 0 under `empty="zero"` (Cole et al. 2021).
    """
    choice("empty", empty, get_args(EmptyRow))
    values, states = checked(scores, labels)
    known = states != UNKNOWN
    if not known.all():
        values = np.where(known, np.maximum(values, np.finfo(values.dtype).min), -np.inf).astype(values.dtype)
    positive = states == PRESENT
    positives = positive.sum(axis=1)
    counted = positives > 0
    images = int(counted.sum()) if empty == "skip" else len(values)
    rows, ranks = _ranks_of_positives(values, positive)
    out = {}
    for k in ks:
        _at_least_one(k)
        hits = np.bincount(rows[ranks < k], minlength=len(values))[counted]
        if images == 0:
            out[k] = AtK(float("nan"), float("nan"), float("nan"))
            continue
        recall = float((hits / positives[counted]).sum() / images)
        out[k] = AtK(float(hits.sum() / (k * images)), recall, float((hits > 0).sum() / images))
    return out


_CELLS_AT_A_TIME = 2**22


def _ranks_of_positives(scores: Scores, positive: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The row of every positive cell, and how many cells of its row go before it (the order of `top_mask`).

    Positives are few: comparing each with its row costs less than ordering rows, and serves every k.
    """
    rows, columns = np.nonzero(positive)
    ranks = np.empty(len(rows), np.intp)
    step = max(1, _CELLS_AT_A_TIME // scores.shape[1])
    later = np.arange(scores.shape[1])
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        others, own = scores[rows[some]], scores[rows[some], columns[some], None]
        before = (others > own) | ((others == own) & (later > columns[some, None]))
        ranks[some] = np.count_nonzero(before, axis=1)
    return rows, ranks


def _at_least_one(k: int) -> None:
    if k < 1:
        raise MetricError(f"the k of a top-k metric counts classes, so it is at least 1, not {k}")


def top_mask(scores: Scores, k: int) -> NDArray[np.bool_]:
    """True for the k highest scores of each row [N, C]; among equal scores the later class goes first.

    That is the order of a reversed stable ascending sort, which the published programs use on short rows.
    """
    classes = scores.shape[1]
    _at_least_one(k)
    if k >= classes:
        return np.ones(scores.shape, np.bool_)
    lowest = np.partition(scores, classes - k, axis=1)[:, classes - k, None]
    chosen: NDArray[np.bool_] = scores >= lowest
    crowded = np.flatnonzero(chosen.sum(axis=1) > k)
    if len(crowded):
        rows, edge = scores[crowded], lowest[crowded]
        above, tied = rows > edge, rows == edge
        room = k - above.sum(axis=1, keepdims=True)
        from_the_end = tied[:, ::-1].cumsum(axis=1)[:, ::-1]
        chosen[crowded] = above | (tied & (from_the_end <= room))
    return chosen
