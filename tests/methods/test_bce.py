"""BCE serves BCE, IU and IUN: the observation decides."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tacit.labels import Labels
from tacit.methods.parts import HyperParameterError
from tacit.methods.registry import MethodError, build_method

Run = Callable[..., Any]


def test_full_labels_are_the_published_bce(published_step: Run, truth: Tensor) -> None:
    published_step("bce", "bce_full", labels=truth).check()


def test_one_positive_one_negative_is_iu(published_step: Run) -> None:
    published_step("bce", "iu_1p1n").check()


def test_one_positive_all_negatives_is_iun(published_step: Run, truth: Tensor) -> None:
    single = torch.tensor([[1, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 1], [0, 1, 0, 0, 0]])
    observed = torch.where(truth == -1, -1, single)
    published_step("bce", "iun_role_repo_with_pm1_true", labels=observed).check()


def test_positives_alone_are_refused_with_the_methods_that_fit() -> None:
    single = Labels.from_dense([[1, 0], [0, 1]], ["cat", "dog"])
    for name in ("bce", "bce_ls"):
        with pytest.raises(HyperParameterError, match=f"{name}: unknown = ignore .* known to be absent") as refused:
            build_method(name, nn.Identity(), single)
        fitting = str(refused.value).rpartition(": ")[2].rstrip(".").split(", ")
        assert {"an", "dw", "em", "em_apl", "asl", "role"} <= set(fitting) and not {"bce", "bce_ls"} & set(fitting)
    assert build_method("bce", nn.Identity(), single, {"unknown": "negative"}).unknown == "negative"


def test_a_meaning_that_does_not_exist(observed: Labels) -> None:
    with pytest.raises(MethodError, match="unknown must be"):
        build_method("bce", nn.Identity(), observed, {"unknown": "absent"})


def test_smoothing_what_is_left_out_is_a_contradiction(observed: Labels) -> None:
    with pytest.raises(HyperParameterError, match=r"smoothed = unknown .* unknown = ignore leaves them out"):
        build_method("bce", nn.Identity(), observed, {"smoothed": "unknown", "smoothing": 0.1})
