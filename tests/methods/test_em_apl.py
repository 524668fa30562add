"""EM+APL: the published loss, and rounds of pseudo-labels by hand."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from tacit.functional.partial import PUBLISHED_EPS
from tacit.labels import Labels
from tacit.methods.base import Batch, Clock, Method, Stage, Swept, View
from tacit.methods.em_apl import EntropyMaximisationAPL
from tacit.methods.parts import HyperParameterError
from tacit.methods.registry import build_method

SOFT = {(0, 2): 0.12, (0, 4): 0.03, (1, 0): 0.31, (3, 3): 0.0005}  # pseudo-labels of the recorded step


def sweep_of(probabilities: list[list[float]]) -> Any:
    """A sweep that finds these probabilities, three rows at a time."""
    logits = torch.tensor(probabilities, dtype=torch.float64).logit().float()

    def sweep(*, view: str = "plain", features: bool = False) -> Iterator[Swept]:
        for index in torch.arange(len(logits)).split(3):
            yield Swept(index, logits[index], None)

    return sweep


def clock(epoch: int, epochs: int = 4) -> Clock:
    return Clock(0, epoch, epochs, 0, 1)


def made_by(observed: Labels, **options: Any) -> EntropyMaximisationAPL:
    method = build_method("em_apl", nn.Identity(), observed, options)
    assert isinstance(method, EntropyMaximisationAPL)
    return method


def test_published_program(golden_single_positive: dict[str, Any]) -> None:
    inputs = golden_single_positive["inputs"]
    recorded = golden_single_positive["losses"]["em_apl_alpha0.2_beta0.4"]
    encoded = torch.tensor(inputs["obs_apl_soft"])
    observed = Labels.from_dense((encoded > 0).numpy(), [f"class {i}" for i in range(5)])
    method = made_by(observed, alpha=0.2, beta=0.4, eps=PUBLISHED_EPS).double()
    for (row, column), target in SOFT.items():
        assert encoded[row, column] == -target or encoded[row, column].item() == pytest.approx(-target)
        method.soft[row, column] = target
    logits = torch.tensor(inputs["logits"], dtype=torch.float64, requires_grad=True)
    batch = Batch(torch.arange(4), torch.from_numpy(observed.rows(range(4))), {"weak": View(logits)})
    loss = torch.stack(list(method(batch, clock(0)).values())).sum()
    loss.backward()
    assert loss.item() == pytest.approx(recorded["loss"], rel=1e-7)
    assert logits.grad is not None
    wanted = torch.tensor(recorded["grad_logits"], dtype=torch.float64)
    torch.testing.assert_close(logits.grad, wanted, rtol=1e-7, atol=1e-11)


def test_two_rounds_by_hand() -> None:
    """Four epochs, warm-up 2, share 0.9: two rounds. Class a has 5 unknown labels: floor(0.9 * 5 / 2) = 2 each; class b
    has 3 (one image is known to lack it): floor(0.9 * 3 / 2) = 1 each."""
    observed = Labels.from_dense([[1, 0], [0, 1], [0, 0], [0, -1], [0, 1], [0, 0]], ["a", "b"])
    method = made_by(observed, share=0.9, warm_up=2)
    first = [[0.9, 0.3], [0.4, 0.9], [0.1, 0.5], [0.2, 0.01], [0.3, 0.8], [0.5, 0.4]]
    method.refresh(clock(1), sweep_of(first))
    assert not method.pseudo_labels().any()  # still warming up
    method.refresh(clock(2), sweep_of(first))
    assert method.pseudo_labels().tolist() == [[0, -1], [0, 0], [-1, 0], [-1, 0], [0, 0], [0, 0]]
    second = [[0.9, 0.6], [0.05, 0.9], [0.7, 0.2], [0.7, 0.01], [0.3, 0.8], [0.04, 0.25]]
    method.refresh(clock(3), sweep_of(second))
    assert method.pseudo_labels().tolist() == [[0, -1], [-1, 0], [-1, -1], [-1, 0], [0, 0], [-1, 0]]
    frozen = method.soft[method.soft > 0]
    assert frozen.tolist() == pytest.approx([0.3, 0.05, 0.1, 0.2, 0.2, 0.04])  # those of the first round as they were


def loss_of(method: Method, observed: Labels, logits: Tensor) -> dict[str, float]:
    rows = torch.arange(len(observed))
    batch = Batch(rows, torch.from_numpy(observed.rows(rows.numpy())), {"weak": View(logits)})
    return {name: term.item() for name, term in method(batch, clock(0)).items()}


def test_three_terms_share_the_cells() -> None:
    observed = Labels.from_dense([[1, -1, 0, 0]], list("abcd"))
    method = made_by(observed, alpha=0.5, beta=0.25)
    method.soft[0, 2] = 0.2
    terms = loss_of(method, observed, torch.tensor([[0.0, 0.0, math.log(3), 0.0]]))
    assert terms["known"] == pytest.approx(2 * math.log(2) / 4)
    assert terms["entropy"] == pytest.approx(-0.5 * math.log(2) / 4)
    assert terms["pseudo"] == pytest.approx(0.25 * (0.2 * math.log(4 / 3) + 0.8 * math.log(4)) / 4)


def test_before_any_round_it_is_em(published_step: Callable[..., Any]) -> None:
    published_step("em_apl", "em_alpha0.2", alpha=0.2).check()


def test_equal_scores_are_taken_from_the_first_rows() -> None:
    observed = Labels.from_dense([[1, 0]] + [[0, 0]] * 5, ["a", "b"])
    method = made_by(observed, share=1.0, warm_up=1)
    method.refresh(clock(1, epochs=3), sweep_of([[0.5, 0.5]] * 6))
    assert method.pseudo_labels().tolist() == [[0, -1], [-1, -1], [-1, -1], [0, 0], [0, 0], [0, 0]]
    method.refresh(clock(2, epochs=3), sweep_of([[0.5, 0.5]] * 6))
    assert method.pseudo_labels().tolist() == [[0, -1], [-1, -1], [-1, -1], [-1, -1], [-1, -1], [0, -1]]


def test_a_class_without_unknown_labels_is_left_alone() -> None:
    observed = Labels.from_dense([[1, 1], [0, -1], [0, 1]], ["a", "b"])
    method = made_by(observed, share=1.0, warm_up=1)
    method.refresh(clock(1, epochs=2), sweep_of([[0.5, 0.1]] * 3))
    assert method.pseudo_labels().tolist() == [[0, 0], [-1, 0], [-1, 0]]


def test_a_round_beyond_the_last_candidate_touches_nothing_else() -> None:
    method = made_by(Labels.from_dense([[1], [0], [0], [-1]], ["a"]), share=1.0, warm_up=1)
    for _ in range(2):
        method.refresh(clock(1, epochs=2), sweep_of([[0.9], [0.3], [0.4], [0.1]]))
    assert method.soft[[1, 2], 0].tolist() == pytest.approx([0.3, 0.4])
    assert method.pseudo_labels().tolist() == [[0], [-1], [-1], [0]]


def test_a_probability_of_exactly_zero_stays_a_candidate() -> None:
    """As in the published program, where minus zero is still zero."""
    method = made_by(Labels.from_dense([[0], [0], [1]], ["a"]), share=1.0, warm_up=1)
    method.refresh(clock(1, epochs=2), sweep_of([[0.0], [0.4], [0.9]]))
    assert method.pseudo_labels().tolist() == [[0], [-1], [0]]


@given(st.integers(0, 2**31), st.floats(0.05, 1.0), st.integers(2, 6))
def test_every_round_takes_its_quota_of_the_least_probable(seed: int, share: float, epochs: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    states = torch.randint(-1, 2, (20, 3), generator=generator).to(torch.int8)
    observed = Labels.from_dense(states.numpy(), list("abc"))
    method = made_by(observed, share=share, warm_up=1)
    for epoch in range(1, epochs):
        before = method.pseudo_labels()
        said = (torch.randint(1, 8, (20, 3), generator=generator) / 10).tolist()
        method.refresh(clock(epoch, epochs), sweep_of(said))
        new, left = (method.pseudo_labels() != before), (states == 0) & (method.pseudo_labels() == 0)
        for column in range(3):
            quota = math.floor(share * int((states[:, column] == 0).sum()) / (epochs - 1))
            assert int(new[:, column].sum()) == quota
            taken = method.soft[new[:, column], column]
            kept = -method.soft[left[:, column], column]
            assert not len(taken) or not len(kept) or taken.max() <= kept.min()


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5, float("nan")])
def test_share_out_of_range(observed: Labels, share: float) -> None:
    with pytest.raises(HyperParameterError, match=r"share = .* above 0 and at most 1"):
        made_by(observed, share=share)


@pytest.mark.parametrize(("name", "value"), [("beta", -1.0), ("alpha", float("nan")), ("warm_up", -1)])
def test_out_of_range(observed: Labels, name: str, value: Any) -> None:
    with pytest.raises(HyperParameterError, match=f"{name} = "):
        made_by(observed, **{name: value})


def test_a_warm_up_as_long_as_the_run_is_refused(observed: Labels) -> None:
    budget = Stage("linear", epochs=5, batch_size=2, lr=1.0)
    with pytest.raises(HyperParameterError, match=r"warm_up = 5 leaves no epoch .* linear phase has 5 epochs"):
        made_by(observed, warm_up=5).stages(budget)
    assert made_by(observed, warm_up=4).stages(budget) == [budget]


def test_one_epoch_is_refused(observed: Labels) -> None:
    with pytest.raises(HyperParameterError, match="made between epochs"):
        made_by(observed).stages(Stage("linear", epochs=1, batch_size=2, lr=1.0))


def test_half_of_the_epochs_unless_said() -> None:
    method = made_by(Labels.from_dense([[1], [0], [0]], ["a"]), share=1.0)
    method.refresh(clock(4, epochs=10), sweep_of([[0.5]] * 3))
    assert not method.pseudo_labels().any()
    method.refresh(clock(9, epochs=10), sweep_of([[0.5]] * 3))
    assert not method.pseudo_labels().any()  # floor(2 / 5) is nobody
    method.refresh(clock(2, epochs=4), sweep_of([[0.5]] * 3))
    assert method.pseudo_labels().sum() == -1
