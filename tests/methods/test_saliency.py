"""Saliency regularisation: the recorded logits and gradients, and one whole step written out in NumPy."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tacit.functional.batch import mean_over_known
from tacit.functional.partial import known_only
from tacit.functional.saliency import confident_labels, saliency_logits
from tacit.labels import Labels
from tacit.methods.base import Batch, Clock, Method, View
from tacit.methods.parts import HyperParameterError
from tacit.methods.registry import build_method

CLOCK = Clock(0, 0, 1, 0, 1)
STATES = [[1, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]  # the last image has no known label


class GivenMaps(nn.Module):
    """Images are class maps already."""

    def maps(self, images: Tensor) -> Tensor:
        return images


@pytest.mark.parametrize("vector", ["sr_alpha0.5_k5", "sr_alpha0_k5"])
def test_logits_and_gradient_of_the_maps(golden_partial_labels: dict[str, Any], vector: str) -> None:
    recorded = golden_partial_labels[vector]
    expected = recorded["expected"]
    maps = torch.tensor(recorded["inputs"]["A_B_C_H_W"], dtype=torch.float64, requires_grad=True)
    labels = torch.tensor(recorded["inputs"]["target"]).to(torch.int8)
    config = recorded["config"]
    logits = saliency_logits(maps, alpha=config["alpha"], k=config["k"])
    torch.testing.assert_close(logits, torch.tensor(expected["logit"], dtype=torch.float64), rtol=1e-7, atol=1e-9)
    loss = mean_over_known(known_only(logits, labels), labels)
    assert loss.item() == pytest.approx(expected["loss_bn"], rel=1e-7)
    loss.backward()
    torch.testing.assert_close(
        maps.grad, torch.tensor(expected["grad_A_bn"], dtype=torch.float64), rtol=1e-7, atol=1e-10
    )


def world(**options: Any) -> tuple[Method, Batch]:
    observed = Labels.from_dense(STATES, list("abcd"))
    method = build_method("saliency", GivenMaps(), observed, options).double()
    generator = torch.Generator().manual_seed(4)
    maps = [2 * torch.randn(3, 4, 3, 3, generator=generator, dtype=torch.float64) for _ in range(2)]
    views = {name: View(each.requires_grad_()) for name, each in zip(("weak", "strong"), maps, strict=True)}
    return method, Batch(torch.arange(3), torch.tensor(STATES, dtype=torch.int8), views)


def by_hand(batch: Batch, *, alpha: float, k: int, tau: float, supervised_alpha: float, both: bool) -> dict[str, float]:
    """The step of the paper with loops, in NumPy."""
    weak, strong = (batch.views[name].inputs.detach().numpy() for name in ("weak", "strong"))

    def logit(each: np.ndarray, weight: float) -> float:
        flat = np.sort(each.ravel())[::-1]
        return flat.mean() + weight * flat[:k].mean()

    def cost(x: float, state: int) -> float:
        return float(np.log1p(np.exp(-x if state == 1 else x)))

    known, known_count, made, made_count = 0.0, 0, 0.0, 0
    for i, row in enumerate(STATES):
        for c, state in enumerate(row):
            if state:
                for view in (weak, strong) if both else (weak,):
                    known, known_count = known + cost(logit(view[i, c], supervised_alpha), state), known_count + 1
                continue
            p = 1 / (1 + np.exp(-logit(weak[i, c], alpha)))
            guess = int(p >= tau) - int(p <= 1 - tau)
            if guess:
                made, made_count = made + cost(logit(strong[i, c], alpha), guess), made_count + 1
    assert made_count >= 3
    return {"known": known / known_count, "pseudo": made / made_count}


@pytest.mark.parametrize("supervise", ["both", "weak"])
@pytest.mark.parametrize("regularise", ["both", "supervised", "none"])
def test_one_step_by_hand(supervise: str, regularise: str) -> None:
    method, batch = world(alpha=0.5, k=2, tau=0.6, supervise=supervise, regularise=regularise)
    alpha = 0.5 if regularise == "both" else 0.0
    supervised_alpha = 0.0 if regularise == "none" else 0.5
    wanted = by_hand(batch, alpha=alpha, k=2, tau=0.6, supervised_alpha=supervised_alpha, both=supervise == "both")
    terms = method(batch, CLOCK)
    assert {name: term.item() for name, term in terms.items()} == pytest.approx(wanted, rel=1e-12)


def test_the_weak_view_teaches_and_does_not_learn_from_it() -> None:
    method, batch = world()
    method(batch, CLOCK)["pseudo"].backward()
    assert not batch.views["weak"].inputs.grad.any() and batch.views["strong"].inputs.grad.any()
    known = torch.tensor(STATES) != 0
    assert not batch.views["strong"].inputs.grad[known].any()


def test_pseudo_labels_of_one_view() -> None:
    method, batch = world(pseudo="same-view", tau=0.7)
    assert method.views == ("weak",) and method.unknown == "pseudo-labels, tau 0.7"
    maps = batch.views["weak"].inputs
    logits = saliency_logits(maps, alpha=0.5, k=5)
    made = confident_labels(logits.sigmoid(), batch.labels, tau=0.7)
    terms = method(batch, CLOCK)
    assert terms["pseudo"].item() == pytest.approx(mean_over_known(known_only(logits, made), made).item())
    assert (
        build_method("saliency", GivenMaps(), Labels.from_dense(STATES, list("abcd")), {"pseudo": "same-view"}).tau
        == 0.95
    )


def test_s_bce_is_bn_bce_times_the_known_share() -> None:
    (bn, batch), (s, _) = world(pseudo="none"), world(pseudo="none", normalise="cells")
    share = 3 / 12
    assert s(batch, CLOCK)["known"].item() == pytest.approx(share * bn(batch, CLOCK)["known"].item())


def test_a_batch_without_known_labels_costs_nothing() -> None:
    method, batch = world(pseudo="none")
    empty = Batch(batch.index, torch.zeros_like(batch.labels), batch.views)
    loss = method(empty, CLOCK)["known"]
    loss.backward()
    assert loss.item() == 0 and not batch.views["weak"].inputs.grad.any()


def test_predictions_by_either_logit() -> None:
    for option, alpha in (("saliency", 0.5), ("mean", 0.0)):
        method, batch = world(test_logit=option)
        maps = batch.views["weak"].inputs
        torch.testing.assert_close(method.predict(maps), saliency_logits(maps, alpha=alpha, k=5).sigmoid())


def test_labels_at_the_threshold() -> None:
    p = torch.tensor([[0.6, 0.4, 0.5, 0.59]], dtype=torch.float64)
    unknown = torch.zeros(1, 4, dtype=torch.int8)
    assert confident_labels(p, unknown, tau=0.6).tolist() == [[1, -1, 0, 0]]
    assert confident_labels(p, unknown, tau=0.5).tolist() == [[1, -1, 0, 1]]


def test_positives_alone_are_refused_with_the_methods_that_fit() -> None:
    with pytest.raises(HyperParameterError, match=r"saliency: not one label is .* an, ") as refused:
        build_method("saliency", GivenMaps(), Labels.from_dense([[1, 0], [0, 1]], ["a", "b"]))
    assert "saliency" not in str(refused.value).rpartition(": ")[2].split(", ")
    assert "unknown =" not in str(refused.value)  # it has no such hyper-parameter


def test_k_larger_than_the_map() -> None:
    method, batch = world(k=10)
    with pytest.raises(HyperParameterError, match="k = 10 strongest places, and the backbone's maps have 9"):
        method(batch, CLOCK)


@pytest.mark.parametrize(("name", "value"), [("tau", 0.4), ("tau", 1.5), ("alpha", -1.0), ("k", 0)])
def test_out_of_range(name: str, value: Any) -> None:
    with pytest.raises(HyperParameterError, match=f"{name} = "):
        world(**{name: value})
