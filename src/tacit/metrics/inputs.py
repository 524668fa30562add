"""What every metric is given: scores [N, C] and states [N, C] (1 present, 0 unknown = masked, -1 absent)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import UserError
from ..labels import ABSENT, PRESENT, UNKNOWN, States

Scores = NDArray[np.floating[Any]]


class MetricError(UserError, ValueError):
    """Scores or labels that no honest number can be computed from."""


def states_from_truth(truth: ArrayLike) -> States:
    """Complete 0/1 (or boolean) truth as states: 1 stays present, 0 becomes absent."""
    matrix = np.asarray(truth)
    if not ((matrix == 0) | (matrix == 1)).all():
        strange = sorted({float(x) for x in np.unique(matrix) if x not in (0, 1)})[:5]
        raise MetricError(f"complete truth is 0 or 1; found {strange}. States (1, 0, -1) need no conversion.")
    return np.where(matrix == 1, PRESENT, ABSENT).astype(np.int8)


def unknown_as_absent(labels: ArrayLike) -> States:
    """The rule "unknown counts as negative", as a deliberate step: no metric applies it on its own."""
    states = _states(labels)
    return np.where(states == UNKNOWN, ABSENT, states).astype(np.int8)


def checked(scores: ArrayLike, labels: ArrayLike) -> tuple[Scores, States]:
    """Both as matrices of one shape: float32 or float64 scores without NaN (infinities rank as usual), int8 states."""
    values, states = np.asarray(scores), _states(labels)
    if values.ndim != 2 or values.shape != states.shape:
        raise MetricError(
            f"scores of shape {values.shape} and labels of shape {states.shape}: both must be [images, classes]"
        )
    if values.size == 0:
        raise MetricError(f"nothing to score: {values.shape[0]} images x {values.shape[1]} classes")
    if not np.issubdtype(values.dtype, np.floating):
        if not np.issubdtype(values.dtype, np.integer):
            raise MetricError(f"scores are real numbers, not {values.dtype}")
        values = values.astype(np.float64)
    elif values.dtype not in (np.float32, np.float64):
        values = values.astype(np.float32 if values.dtype.itemsize < 4 else np.float64)
    if np.isnan(values.min()):
        _refuse_nan(values)
    return values, states


def choice(name: str, value: str, allowed: Sequence[str]) -> None:
    """Refuse a rule that does not exist, naming those that do."""
    if value not in allowed:
        raise MetricError(f"{name}={value!r} is not a rule of this metric; choose one of {', '.join(allowed)}")


def _states(labels: ArrayLike) -> States:
    matrix = np.asarray(labels)
    if matrix.dtype == np.bool_:
        raise MetricError(
            "labels are states (1 present, 0 unknown, -1 absent), not booleans; complete truth goes "
            "through states_from_truth first"
        )
    if matrix.dtype != np.int8:
        if matrix.dtype.kind not in "iuf":
            raise MetricError(f"labels are 1 (present), 0 (unknown) or -1 (absent), not {matrix.dtype}")
        with np.errstate(invalid="ignore"):
            small = matrix.astype(np.int8)
        if not (small == matrix).all():
            raise MetricError("labels are 1 (present), 0 (unknown) or -1 (absent); found values that are none of these")
        matrix = small
    if matrix.size and (matrix.min() < ABSENT or matrix.max() > PRESENT):
        raise MetricError(
            f"labels are 1 (present), 0 (unknown) or -1 (absent); found values from {matrix.min()} to {matrix.max()}"
        )
    return matrix


def _refuse_nan(scores: Scores) -> None:
    per_class = np.isnan(scores).sum(axis=0)
    worst = np.argsort(-per_class, kind="stable")[:5]
    named = ", ".join(f"class {c}: {per_class[c]}" for c in worst if per_class[c])
    raise MetricError(
        f"{int(per_class.sum())} scores of {scores.size} are NaN, in {int((per_class > 0).sum())} of "
        f"{scores.shape[1]} classes ({named}); a model that predicts NaN has diverged: look at its losses, or lower "
        "its learning rate"
    )
