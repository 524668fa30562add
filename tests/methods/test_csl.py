"""CSL: the authors' numbers in each mode, the temporary model's stage, and what it leaves behind."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from small_runs import linear, run, small_machine, table
from tacit.functional.csl import selected
from tacit.labels import Labels
from tacit.methods.base import Batch, Clock, Stage, View
from tacit.methods.csl import ClassAwareSelectiveLoss
from tacit.methods.parts import HyperParameterError, NoKnownNegative
from tacit.methods.registry import build_method
from tacit.runtime import Runtime
from tacit.train import Interrupted, fit
from toy_world import Listener, fit_toy

__all__ = ["small_machine", "table"]
PRIOR, MAIN = Clock(0, 0, 2, 0, 1), Clock(1, 0, 2, 0, 1)


@pytest.mark.parametrize(
    ("vector", "options"),
    [
        ("csl_None", {"unknown": "negative"}),
        ("csl_ignore", {"unknown": "ignore"}),
        ("csl_ignore_normalize_classes", {"unknown": "ignore", "by_count": True}),
        ("csl_selective", {"top": 1, "prior": "none"}),
    ],
)
def test_published_program(partial_step: Callable[..., Any], vector: str, options: dict[str, Any]) -> None:
    partial_step("csl", vector, **options).check(summed=True)


def test_published_program_with_a_prior(
    partial_step: Callable[..., Any], golden_partial_labels: dict[str, Any]
) -> None:
    def tell(method: ClassAwareSelectiveLoss) -> None:
        method.said.copy_(7 * torch.tensor(golden_partial_labels["csl_selective_prior"]["config"]["prior"]))
        method.steps_heard.fill_(7)

    partial_step("csl", "csl_selective_prior", MAIN, tell, top=1).check(summed=True)


def test_the_temporary_model_learns_from_known_labels_alone(partial_step: Callable[..., Any]) -> None:
    partial_step("csl", "csl_ignore", PRIOR, top=1).check(summed=True)


def test_what_is_left_out_is_counted_over_the_whole_batch() -> None:
    logits = torch.tensor([[9.0, 8.0, -1.0], [9.0, 7.0, -2.0]])
    labels = torch.tensor([[1, 0, 0], [-1, 0, 0]], dtype=torch.int8)
    assert selected(logits, labels, top=1).tolist() == [[1, 0, 1], [1, 0, 1]]
    assert selected(logits, labels, top=0).all()
    common = torch.tensor([True, False, True])  # common cells are counted among the most probable all the same
    assert selected(logits, labels, top=1, common=common).tolist() == [[1, 0, 0], [1, 0, 0]]
    assert selected(logits, labels, top=9).tolist() == [[1, 0, 0], [1, 0, 0]]  # known cells always take part


def test_weights_and_exponents_by_state(try_step: Callable[..., Any]) -> None:
    """At p = 1/2 a cell costs alpha 2^-gamma log 2."""
    options = {"alpha_pos": 2.0, "alpha_neg": 3.0, "alpha_unknown": 5.0, "gamma_pos": 1.0, "gamma_neg": 2.0}
    log2 = 0.6931471805599453
    for column, wanted in enumerate((2 / 2, 3 / 4, 5 / 16)):
        states = [[1, -1, 0]]
        logits = [[0.0 if c == column else (60.0 if c == 0 else -60.0) for c in range(3)]]
        step = try_step("csl", states, logits, unknown="negative", **options)
        assert step.loss == pytest.approx(wanted * log2 / 3)


def observed() -> Labels:
    return Labels.from_dense([[1, -1, 0], [1, 0, -1], [-1, 1, 0], [1, -1, -1]], list("abc"))


def made(net: nn.Module, **options: Any) -> ClassAwareSelectiveLoss:
    method = build_method("csl", net, observed(), {"top": 1, **options})
    assert isinstance(method, ClassAwareSelectiveLoss)
    return method


def step(method: ClassAwareSelectiveLoss, inputs: Tensor, clock: Clock) -> None:
    rows = torch.arange(4)
    labels = torch.from_numpy(observed().rows(rows.numpy()))
    (loss,) = method(Batch(rows, labels, {"weak": View(inputs)}), clock).values()
    loss.backward()
    with torch.no_grad():
        for parameter in method.net.parameters():
            parameter -= 0.5 * parameter.grad  # type: ignore[operator]
            parameter.grad = None
    method.after_step(clock)


def test_a_stage_of_its_own_whose_epochs_are_no_result() -> None:
    budget = Stage("linear", epochs=5, batch_size=2, lr=1.0)
    prior, main = made(nn.Identity()).stages(budget)
    assert (prior.name, prior.epochs, prior.prepares) == ("linear-prior", 5, True)
    assert main == budget
    assert made(nn.Identity(), prior_epochs=2).stages(budget)[0].epochs == 2
    for options in ({"prior": "observed"}, {"prior": "none"}, {"unknown": "negative"}, {"unknown": "ignore"}):
        assert made(nn.Identity(), **options).stages(budget) == [budget]


def test_nothing_of_the_temporary_model_is_left_but_the_prior() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    method, before = made(net), {key: value.clone() for key, value in net.state_dict().items()}
    inputs, heard = torch.randn(4, 2), []
    method.refresh(PRIOR, None)  # type: ignore[arg-type]
    for _ in range(3):
        with torch.no_grad():
            normalised = nn.functional.batch_norm(net[0](inputs), None, None, net[1].weight, net[1].bias, training=True)
        heard.append(normalised.sigmoid().mean(0))
        step(method, inputs, PRIOR)
    prior = method.class_prior()
    assert prior is not None
    torch.testing.assert_close(prior.float(), torch.stack(heard).mean(0))
    assert any(not torch.equal(value, before[key]) for key, value in net.state_dict().items())
    method.refresh(MAIN, None)  # type: ignore[arg-type]
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    step(method, inputs, MAIN)
    method.refresh(MAIN._replace(epoch=1), None)  # type: ignore[arg-type]  # later epochs go on
    assert not torch.equal(net[0].weight, before["0.weight"])
    assert torch.equal(method.class_prior(), prior)  # type: ignore[arg-type]


def test_the_prior_of_observed_labels() -> None:
    prior = made(nn.Identity(), prior="observed").class_prior()
    assert prior is not None
    assert prior.tolist() == pytest.approx([3 / 4, 1 / 3, 0])
    assert made(nn.Identity(), prior="none").class_prior() is None


def test_unknown_labels_of_common_classes_are_left_out() -> None:
    for eta, pushed in ((0.2, False), (0.5, True)):
        method = made(nn.Identity(), prior="observed", eta=eta, top=0)
        x = torch.zeros(4, 3, requires_grad=True)
        rows = torch.arange(4)
        batch = Batch(rows, torch.from_numpy(observed().rows(rows.numpy())), {"weak": View(x)})
        method(batch, PRIOR)["csl"].backward()
        assert x.grad is not None
        assert bool(x.grad[1, 1] > 0) == pushed  # class b: one present, two absent
        assert x.grad[0, 2] > 0  # class c was never seen present


@pytest.mark.parametrize("stop_at", [12, 13, 18])
def test_resumed_in_the_main_stage(stop_at: int) -> None:
    """The prior stage has twelve steps; then the net is what it was."""
    runtime, listener = Runtime("cpu"), Listener(stop_at)
    whole = fit_toy("csl", runtime).state_dict()
    stopped: list[Any] = []
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr("toy_world.fit", lambda method, *a, **k: (stopped.append(method), fit(method, *a, **k)))
        fit_toy("csl", runtime, listener)
    kept = {key: tensor.clone() for key, tensor in stopped[0].state_dict().items()}
    resumed = fit_toy("csl", runtime, resume=(kept, listener.kept)).state_dict()
    assert [key for key, tensor in whole.items() if not torch.equal(tensor, resumed[key])] == []


def test_by_default_few_classes_are_not_all_left_out() -> None:
    few = build_method("csl", nn.Identity(), Labels.from_dense([[1, -1, 0, 0, 0]], list("abcde")))
    many = build_method("csl", nn.Identity(), Labels.from_dense([[1, -1] + [0] * 78], [str(i) for i in range(80)]))
    assert (few.top, many.top) == (1, 5)


@pytest.mark.parametrize("value", [-1, 3])
def test_top_out_of_range(value: int) -> None:
    with pytest.raises(HyperParameterError, match=f"top = {value} .* fewer than the 3 classes"):
        made(nn.Identity(), top=value)


@pytest.mark.parametrize(
    ("name", "value"), [("eta", 2.0), ("gamma_unknown", -1.0), ("alpha_neg", float("nan")), ("clip", 0.9)]
)
def test_out_of_range(name: str, value: float) -> None:
    with pytest.raises(HyperParameterError, match=f"{name} = "):
        made(nn.Identity(), **{name: value})


def test_by_count_needs_known_labels_alone() -> None:
    with pytest.raises(HyperParameterError, match=r"by_count .* unknown = ignore"):
        made(nn.Identity(), by_count=True)


def test_positives_only() -> None:
    positives = Labels.from_dense([[1, 0, 0]], list("abc"))
    for options in ({}, {"prior": "observed"}, {"unknown": "ignore"}):
        with pytest.raises(NoKnownNegative, match=r"csl: .* an, "):
            build_method("csl", nn.Identity(), positives, options)
    assert build_method("csl", nn.Identity(), positives, {"prior": "none"}).unknown.startswith("negative")


def test_no_epoch_of_the_temporary_model_is_selected(table: Path, tmp_path: Path) -> None:
    """Its twelve epochs are far better than the single one of the main stage."""
    options = {"prior_epochs": 12, "unknown": "selective"}
    config = linear(table, method="csl", method_options=options, observe="known-share:0.5", select="clean")
    result = run(replace(config, budget={"epochs": 1, "batch_size": 7, "lr": 0.02}), tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [(line["stage"], line["epoch"]) for line in lines] == [
        *(("linear-prior", e) for e in range(12)),
        ("linear", 0),
    ]
    assert lines[11]["selection"] > lines[12]["selection"]
    assert (result["selected"]["stage"], result["selected"]["epoch"]) == ("linear", 0)
