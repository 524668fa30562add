"""PLCL: every strategy by hand, rounds that start over, and labels that stay out of Labels."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tacit.functional.curriculum import entropy_of_mean, sure_scores, top_share
from tacit.functional.normalised import partial_bce
from tacit.gradients import gradient_regime
from tacit.labels import Labels
from tacit.methods.base import Batch, Clock, Stage, Swept, View
from tacit.methods.parts import HyperParameterError, NoKnownNegative
from tacit.methods.plcl import THRESHOLDS, CurriculumLabelling
from tacit.methods.registry import build_method
from tacit.nets.class_maps import ClassMapsHead
from tacit.nets.net import Net

OBSERVED = Labels.from_dense([[1, 0, 0, 0], [0, -1, 0, 0]], list("abcd"))
SCORES = [[-9.0, 2.0, -2.0, 5.0], [1.9, 9.0, -6.0, 0.0]]  # known cells are scored against their labels


def made(net: nn.Module | None = None, **options: Any) -> CurriculumLabelling:
    method = build_method("plcl", net or nn.Identity(), OBSERVED, options)
    assert isinstance(method, CurriculumLabelling)
    return method


def sweep_of(scores: Any) -> Any:
    logits = torch.tensor(scores)

    def sweep(*, view: str = "plain", features: bool = False) -> Iterator[Swept]:
        for index in torch.arange(len(logits)).split(1):
            yield Swept(index, logits[index], logits[index] if features else None)

    return sweep


def at(epoch: int, epochs: int = 6) -> Clock:
    return Clock(0, epoch, epochs, 0, 1)


def labels_of(method: CurriculumLabelling) -> Any:
    return method.pseudo_labels().tolist()


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, [[0, 1, -1, 1], [0, 0, -1, 0]]),
        ({"threshold": 1.0}, [[0, 1, -1, 1], [1, 0, -1, 0]]),
        ({"strategy": "positive_only"}, [[0, 0, 0, 1], [0, 0, 0, 0]]),
        # Three unknown cells are positive, two negative: two of the former and one of the latter at 80 %.
        ({"strategy": "proportion"}, [[0, 1, 0, 1], [0, 0, -1, 0]]),
        ({"strategy": "proportion", "threshold": 1.0}, [[0, 1, -1, 1], [1, 0, -1, 0]]),
        ({"strategy": "ensemble"}, [[0, 1, -1, 1], [0, 0, -1, 0]]),
    ],
)
def test_strategies_by_hand(options: dict[str, Any], wanted: list[list[int]]) -> None:
    method = made(**options)
    method.refresh(at(2), sweep_of(SCORES))
    assert labels_of(method) == wanted


def test_every_round_starts_over() -> None:
    method = made()
    method.refresh(at(2), sweep_of(SCORES))
    method.refresh(at(4), sweep_of([[0.0, -3.0, 0.0, 1.0], [3.0, 0.0, 0.0, 0.0]]))
    assert labels_of(method) == [[0, -1, 0, 0], [1, 0, 0, 0]]


def test_the_ensemble_is_the_mean_of_all_rounds() -> None:
    method = made(strategy="ensemble")
    method.refresh(at(2), sweep_of([[0.0, 3.0, 0.0, 9.0], [0.0] * 4]))
    method.refresh(at(4), sweep_of([[0.0, 3.0, 0.0, -6.0], [0.0, 0.0, 0.0, -4.0]]))
    assert labels_of(method) == [[0, 1, 0, 0], [0, 0, 0, -1]]


def test_when_rounds_are() -> None:
    def rounds(epochs: int, **options: Any) -> list[int]:
        found = []
        for epoch in range(epochs):
            method = made(**options)
            method.refresh(at(epoch, epochs), sweep_of(SCORES))
            found += [epoch] if method.pseudo_labels().any() else []
        return found

    assert rounds(10) == [4, 8]
    assert rounds(6) == [2, 4]
    assert rounds(1) == []
    assert rounds(7, every=3) == [3, 6]


def test_dropout_leaves_the_sure_ones() -> None:
    """The net passes its features on: dropped ones are 0 and say p = 1/2, the others say twice their score."""
    method = made(strategy="uncertainty", samples=400, threshold=0.5)
    method.refresh(at(2), sweep_of([[0.0, 60.0, -60.0, 0.1], [60.0, 60.0, 0.0, 0.1]]))
    assert not method.pseudo_labels().any()  # p is 1/2 or 1 at even odds: entropy of 3/4 is 0.56
    method = made(strategy="uncertainty", samples=400, threshold=0.6)
    method.refresh(at(2), sweep_of([[0.0, 60.0, -60.0, 0.1], [60.0, 60.0, 0.0, 0.1]]))
    assert labels_of(method) == [[0, 1, -1, 0], [1, 0, 0, 0]]


def test_draws_of_dropout_have_an_address() -> None:
    def scores_heard(seed: int, epoch: int) -> list[float]:
        heard: list[float] = []
        net = nn.Identity()
        net.register_forward_hook(lambda _net, _inputs, out: heard.extend(out.flatten().tolist()))
        torch.manual_seed(seed)
        method = made(net, strategy="uncertainty", every=1)
        torch.rand(epoch + 3)  # what else was drawn does not matter
        method.refresh(at(epoch), sweep_of(SCORES))
        return heard

    assert scores_heard(1, 2) == scores_heard(1, 2)
    assert scores_heard(1, 2) != scores_heard(2, 2)
    assert scores_heard(1, 2) != scores_heard(1, 3)


def test_labels_that_were_made_count_as_known() -> None:
    method = made()
    method.refresh(at(2), sweep_of(SCORES))
    states = torch.from_numpy(OBSERVED.rows([1, 0]))
    logits = torch.tensor([[0.5, -1.0, 0.3, 2.0], [0.1, 0.2, 0.3, -0.4]], dtype=torch.float64, requires_grad=True)
    loss = method(Batch(torch.tensor([1, 0]), states, {"weak": View(logits)}), at(2))["bce"]
    now = torch.tensor([[0, -1, -1, 0], [1, 1, -1, 1]], dtype=torch.int8)
    wanted = partial_bce(logits, now, alpha=-4.45, beta=5.45, gamma=1.0).mean()
    assert loss.item() == pytest.approx(wanted.item())
    loss.backward()
    assert logits.grad is not None
    assert torch.equal(logits.grad != 0, now != 0)


def test_entropy() -> None:
    found = entropy_of_mean(torch.tensor([0.0, 0.5, 1.0, 0.25]))
    assert found.tolist() == pytest.approx([0, math.log(2), 0, 0.25 * math.log(4) + 0.75 * math.log(4 / 3)])


def test_a_score_of_nothing_says_nothing() -> None:
    assert sure_scores(torch.tensor([-1.0, 0.0, 1.0]), 0.0).tolist() == [-1, 0, 1]


@given(st.integers(0, 2**31), st.floats(0, 1))
def test_the_highest_and_lowest_share(seed: int, share: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(-4, 5, (7, 5), generator=generator).float()
    candidates = torch.rand(7, 5, generator=generator) < 0.7
    states = top_share(scores, candidates, share)
    for sign in (1, -1):
        sided = candidates & (sign * scores > 0)
        chosen = states == sign
        assert int(chosen.sum()) == math.floor(share * int(sided.sum()))
        assert not (chosen & ~sided).any()
        if chosen.any() and (sided & ~chosen).any():
            assert (sign * scores)[chosen].min() >= (sign * scores)[sided & ~chosen].max()


@pytest.mark.parametrize(
    ("name", "value"),
    [("threshold", -1.0), ("every", 0), ("samples", 0), ("dropout", 1.0), ("gamma", float("nan"))],
)
def test_out_of_range(name: str, value: Any) -> None:
    with pytest.raises(HyperParameterError, match=f"{name} = "):
        made(**{name: value})


@pytest.mark.parametrize(("strategy", "value"), [("proportion", 80.0), ("uncertainty", 0.7)])
def test_thresholds_of_another_kind(strategy: str, value: float) -> None:
    with pytest.raises(HyperParameterError, match=r"threshold = .* (share|entropy)"):
        made(strategy=strategy, threshold=value)


def test_no_epoch_left_for_a_round() -> None:
    budget = Stage("linear", epochs=5, batch_size=2, lr=1.0)
    with pytest.raises(HyperParameterError, match=r"every = 5 .* linear phase has 5 epochs, .* partial_bce"):
        made(every=5).stages(budget)
    assert made(every=4).stages(budget) == [budget]
    with pytest.raises(HyperParameterError, match="linear phase has one"):
        made().stages(Stage("linear", epochs=1, batch_size=2, lr=1.0))


def test_dropout_needs_pooled_features() -> None:
    net = Net(None, ClassMapsHead(6, 4), head_name="class_maps")
    with pytest.raises(HyperParameterError, match=r"uncertainty .* --head linear"):
        made(net, strategy="uncertainty")
    assert made(net).strategy == "score"


def test_positives_only_are_refused() -> None:
    with pytest.raises(NoKnownNegative, match="plcl: not one label is known to be absent"):
        build_method("plcl", nn.Identity(), Labels.from_dense([[1, 0]], ["a", "b"]))


@pytest.mark.parametrize("strategy", sorted(THRESHOLDS))
def test_gradient_curves_of_every_strategy(strategy: str) -> None:
    """An unknown label pushes nothing, one that was made pushes as a known one."""
    regime = gradient_regime("plcl", {"strategy": strategy}, classes=5)
    assert not regime.curves["unknown"].any()
    assert (regime.curves["absent"] > 0).all()


def test_gradient_of_a_label_that_was_made() -> None:
    """At a last prediction of 0.1, a logit of -2.2, the cell is a negative; at 0.3 it is left open."""
    regime = gradient_regime("plcl", {"threshold": 2.0}, classes=5)
    made = regime.curves["unknown, pseudo-label 0.1"]
    assert np.allclose(made / regime.probabilities, made[0] / regime.probabilities[0])
    assert "unknown, pseudo-label 0.3" not in regime.curves
