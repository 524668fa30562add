"""BCE serves BCE, IU and IUN: the observation decides."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Run = Callable[..., Any]


def test_full_labels_are_the_published_bce(published_step: Run, truth: Tensor) -> None:
    published_step("bce", "bce_full", labels=truth).check()


def test_one_positive_one_negative_is_iu(published_step: Run) -> None:
    published_step("bce", "iu_1p1n").check()


def test_one_positive_all_negatives_is_iun(published_step: Run, truth: Tensor) -> None:
    single = torch.tensor([[1, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 1], [0, 1, 0, 0, 0]])
    observed = torch.where(truth == -1, -1, single)
    published_step("bce", "iun_role_repo_with_pm1_true", labels=observed).check()


def test_single_positives_are_iun_as_released(published_step: Run) -> None:
    """The released mask finds no negative, which leaves cross-entropy on positives alone."""
    published_step("bce", "iun_role_repo_as_released_BUG").check()
