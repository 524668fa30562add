"""Every method in the folder, put through the same checks. A new file in `methods/` is tested before it has a test."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from tacit.data.batches import Batches
from tacit.methods.base import Batch, Clock, Method, View
from tacit.methods.registry import build_method, describe_method, find_method, method_names, method_options
from tacit.optim import Optimizer
from tacit.runtime import Runtime
from tacit.train import Interrupted, fit, seed_step
from toy_world import BUDGET, CLASSES, ROWS, Listener, ToyInputs, World, build, clock_of, fit_toy, total, train

ROOT = Path(__file__).parents[1]

every_method = pytest.mark.parametrize("name", method_names())


def page_of(name: str) -> str:
    return (ROOT / "docs" / "methods" / f"{describe_method(name).page}.md").read_text()


@every_method
def test_shape_of_the_class(name: str) -> None:
    method, told = find_method(name), describe_method(name)
    assert told.about.strip(), "the first line of the docstring is what `tacit methods` prints"
    assert told.needs, "say in words what observed labels the method fits"
    assert set(method.example_options) == {o.name for o in method_options(name).values() if o.required}
    for option in method_options(name).values():
        assert option.type is not None and option.help, f"{option.name}: annotate it as Annotated[type, 'help']"


@every_method
def test_page_and_test_file(name: str) -> None:
    page = page_of(name)
    assert (ROOT / "tests" / "methods" / f"test_{name}.py").exists()
    assert f"`{name}`" in page or re.match(rf"# .*\b{name}\b", page, re.I), "the page does not mention the name"
    for heading in ("Formula", "Hyper-parameters", "Deviations", "Logged", "Results", "Citation"):
        assert re.search(rf"^## {heading}", page, re.M), f"docs/methods/{name}.md lacks the section {heading}"
    for option in method_options(name):
        assert f"`{option}`" in page, f"docs/methods/{name}.md does not explain {option}"
    assert "@inproceedings" in page or "@article" in page or "@misc" in page


@every_method
def test_terms_are_named_scalars_and_documented(name: str) -> None:
    method, world = build(name)
    terms = method(world.batch(type(method)), clock_of(method))
    page = page_of(name)
    assert terms
    for term, value in terms.items():
        assert term.isidentifier() and term != "total"
        assert value.shape == () and value.is_floating_point() and value.isfinite()
        assert f"`{term}`" in page, f"docs/methods/{name}.md does not explain the logged term {term}"


@every_method
def test_steps_lower_the_loss(name: str) -> None:
    losses = train(*build(name), steps=15)
    assert losses[1] < losses[0] and losses[-1] < 0.97 * losses[0]


@every_method
def test_state_dict_is_the_whole_memory(name: str) -> None:
    (taught, world), (fresh, _) = build(name, seed=0), build(name, seed=1)
    train(taught, world, steps=3)
    batch = world.batch(type(taught))
    assert not torch.equal(total(taught, batch), total(fresh, batch))
    fresh.load_state_dict(taught.state_dict())
    assert torch.equal(total(taught, batch), total(fresh, batch))
    ours, theirs = taught.estimates(), fresh.estimates()
    assert (ours is None) == (theirs is None)
    assert ours is None or torch.equal(ours, theirs)


@every_method
def test_observed_labels_are_never_written(name: str) -> None:
    method, world = build(name)
    before, batch = world.observed.fingerprint(), world.batch(type(method))
    given = batch.labels.clone()
    total(method, batch).backward()
    train(method, world, steps=2)
    assert world.observed.fingerprint() == before
    assert torch.equal(batch.labels, given)


@every_method
def test_sparse_labels_serve_as_well(name: str) -> None:
    method, world = build(name)
    torch.manual_seed(0)
    options = type(method).example_options
    sparse = build_method(name, world.net(method.head), world.observed.to_sparse(), options)
    batch = world.batch(type(method))
    assert torch.equal(total(method, batch), total(sparse, batch))


@every_method
def test_predictions_are_probabilities(name: str) -> None:
    method, world = build(name)
    inputs = world.batch(type(method)).inputs
    for half in (False, True):
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=half):
            scores = method.predict(inputs)
        assert scores.shape == (ROWS, CLASSES) and scores.dtype == torch.float32
        assert ((scores >= 0) & (scores <= 1)).all()


@every_method
def test_estimates_are_probabilities_of_the_training_cells(name: str) -> None:
    method, world = build(name)
    train(method, world, steps=1)
    estimates = method.estimates()
    if estimates is not None:
        assert estimates.shape == world.observed.shape and not estimates.requires_grad
        assert ((estimates >= 0) & (estimates <= 1)).all()


@every_method
def test_a_method_takes_over_from_any_other(name: str) -> None:
    for earlier in method_names():
        before, _ = build(earlier)
        after, world = build(name, seed=1)
        after.hand_over(before)
        assert total(after, world.batch(type(after))).isfinite()


@every_method
def test_unknown_cells_have_a_gradient_exactly_where_the_class_says_so(name: str) -> None:
    method, world = build(name)
    outputs: list[Tensor] = []
    said = method.net.classifier if method.head == "class_maps" else method.net
    said.register_forward_hook(lambda _net, _inputs, output: outputs.append(output))
    batch = world.batch(type(method))
    loss = total(method, batch)
    seen = [output for output in outputs if output.requires_grad]
    gradients = torch.autograd.grad(loss, seen)
    cells = [gradient.flatten(2).abs().amax(2) if gradient.ndim > 2 else gradient for gradient in gradients]
    per_view = [view for cell in cells for view in cell.split(len(batch.labels))]
    unknown = torch.stack([gradient[batch.labels == 0].abs().max() for gradient in per_view])
    assert bool((unknown == 0).all()) == method.ignores_unknown


@every_method
def test_it_says_what_an_unknown_label_is(name: str) -> None:
    method, _ = build(name)
    assert isinstance(method.unknown, str) and 0 < len(method.unknown) <= 40


@every_method
def test_pseudo_labels_are_states_of_unknown_cells(name: str) -> None:
    method, world = build(name)
    method.refresh(clock_of(method, epoch=2), world.sweep(method))
    made = method.pseudo_labels()
    if made is not None:
        assert made.dtype == torch.int8 and made.shape == world.observed.shape
        assert not made[torch.tensor(world.observed.dense()) != 0].any()


@every_method
def test_groups_hold_what_is_trained_once(name: str) -> None:
    method, _ = build(name)
    first = next(method.net.parameters()).requires_grad_(False)
    held = [id(p) for group in method.groups(lr=0.5) for p in group["params"]]
    assert len(held) == len(set(held))
    assert id(first) not in held
    assert set(held) == {id(p) for p in method.parameters() if p.requires_grad}
    for group in method.groups(lr=0.5):
        assert group["lr"] > 0
        assert not group.get("rows") or [len(p) for p in group["params"]] == [ROWS]


class StopGradients(TorchFunctionMode):
    """Records what `detach` and gradient-free blocks yield, then replays it: finite differences, like the gradient,
    must take these for constants."""

    def __init__(self) -> None:
        super().__init__()
        self.tape: list[Tensor] = []
        self.at: int | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not isinstance(result, Tensor) or (func is not Tensor.detach and torch.is_grad_enabled()):
            return result
        if self.at is None:
            self.tape.append(result.clone())
            return result
        self.at += 1
        return self.tape[self.at - 1]


def loss_moved_by(method: Method, batch: Batch, moves: list[tuple[Tensor, Tensor]], constants: StopGradients) -> float:
    for parameter, move in moves:
        parameter.data += move
    constants.at = 0
    with constants:
        loss = total(method, batch)
    for parameter, move in moves:
        parameter.data -= move
    return loss.item()


@every_method
def test_gradient_is_the_slope_in_float64(name: str) -> None:
    method, world = build(name)
    method.double()
    batch = world.batch(type(method), torch.float64)
    method.refresh(clock_of(method), world.sweep(method))
    parameters = [p for p in method.parameters() if p.requires_grad]
    constants = StopGradients()
    with constants:
        loss = total(method, batch)
    gradients = torch.autograd.grad(loss, parameters)
    generator, step = torch.Generator().manual_seed(3), 1e-5
    for _ in range(3):
        moves = [step * torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in parameters]
        ahead = loss_moved_by(method, batch, list(zip(parameters, moves, strict=True)), constants)
        behind = loss_moved_by(method, batch, [(p, -m) for p, m in zip(parameters, moves, strict=True)], constants)
        expected = sum(float((g * m).sum()) for g, m in zip(gradients, moves, strict=True))
        assert (ahead - behind) / 2 == pytest.approx(expected, rel=1e-5, abs=1e-13)


@every_method
@pytest.mark.parametrize("half", [False, True], ids=["float32", "bfloat16"])
def test_finite_on_the_cpu(name: str, half: bool) -> None:
    method, world = build(name)
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        loss = total(method, world.batch(type(method)))
    loss.backward()
    assert loss.isfinite()
    for p in method.parameters():
        assert p.grad is None or p.grad.isfinite().all()


def stays_on_the_device(method: Method, batch: Batch) -> bool:
    """A step on tensors that have shapes but no values: `.item()` and data-dependent shapes have nowhere to go."""
    from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True) as fake:
        blank = fake.from_tensor
        views = {view: View(blank(inputs), blank(geometry)) for view, (inputs, geometry) in batch.views.items()}
        blanks = Batch(blank(batch.index), blank(batch.labels), views)
        try:
            torch.stack(list(method(blanks, clock_of(method)).values())).sum().backward()
        except (DataDependentOutputException, DynamicOutputShapeException):
            return False
    return True


@every_method
def test_a_step_visits_the_host_exactly_where_the_class_says_so(name: str) -> None:
    method, world = build(name)
    assert stays_on_the_device(method, world.batch(type(method))) == type(method).capturable


class _Host(Method):
    def loss(self, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        logits = self.net(batch.inputs)
        return {"host": logits.mean() * float(logits.sum().item())}


class _Shape(Method):
    def loss(self, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        return {"shape": self.net(batch.inputs)[batch.labels == 1].sum()}


@pytest.mark.parametrize("bad", [_Host, _Shape])
def test_the_host_check_can_fail(bad: type[Method]) -> None:
    world = World(images=False)
    assert not stays_on_the_device(bad(world.net(), world.observed), world.batch(bad))


@every_method
def test_a_smaller_last_batch_and_a_single_row(name: str) -> None:
    method, world = build(name)
    for rows in (1, 7):
        assert total(method, world.batch(type(method), rows=rows)).isfinite()


@every_method
def test_oracles_are_said_in_words(name: str) -> None:
    method, _ = build(name)
    oracles = method.oracles()
    assert isinstance(oracles, tuple) and all(isinstance(line, str) and line for line in oracles)
    assert len(oracles) >= len({"k"} & set(type(method).example_options))


@pytest.fixture(params=[False, True], ids=["dense", "by rows"])
def by_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row tables under dense Adam, and under its row-wise twin whatever their size."""
    if request.param:
        monkeypatch.setitem(Optimizer.__init__.__kwdefaults__, "dense_cells", 0)


def plain_loop(name: str) -> dict[str, Tensor]:
    """The loop written out: torch's own Adam over all parameters at once, batches indexed by hand."""
    method, world = build(name)
    for number, stage in enumerate(method.stages(BUDGET)):
        adam = torch.optim.Adam(method.groups(stage.lr), lr=stage.lr)
        order = Batches(
            ToyInputs(world), world.observed, stage, number, method.views, seed=5, device=torch.device("cpu")
        )
        for epoch in range(stage.epochs):
            method.eval()
            with torch.no_grad():
                method.refresh(Clock(number, epoch, stage.epochs, 0, order.steps), world.sweep(method))
            method.train()
            for step, rows in enumerate(order.order(epoch)):
                clock = Clock(number, epoch, stage.epochs, step, order.steps)
                index = torch.from_numpy(rows)
                identity = torch.eye(2, 3).expand(len(rows), 2, 3)
                views = {v: View(world.inputs[index] * (1 - 0.1 * i), identity) for i, v in enumerate(method.views)}
                seed_step(5, clock, step)
                terms = method(Batch(index, torch.from_numpy(world.observed.rows(rows)), views), clock)
                adam.zero_grad()
                torch.stack(list(terms.values())).sum().backward()
                adam.step()
                method.after_step(clock)
    return method.state_dict()


@every_method
def test_the_loop_gives_what_a_plain_loop_gives(name: str, by_rows: None) -> None:
    found = fit_toy(name, Runtime("cpu")).state_dict()
    for key, tensor in plain_loop(name).items():
        torch.testing.assert_close(found[key], tensor, rtol=1e-5, atol=2e-6)


@every_method
@pytest.mark.parametrize("stop_at", [1, 3, 5])
def test_resumed_is_uninterrupted_bit_for_bit(name: str, stop_at: int, by_rows: None) -> None:
    runtime, listener = Runtime("cpu"), Listener(stop_at)
    whole = fit_toy(name, runtime).state_dict()
    stopped: list[Method] = []
    with pytest.raises(Interrupted), pytest.MonkeyPatch.context() as patch:
        patch.setattr("toy_world.fit", lambda method, *a, **k: (stopped.append(method), fit(method, *a, **k)))
        fit_toy(name, runtime, listener)
    kept = {key: tensor.clone() for key, tensor in stopped[0].state_dict().items()}
    torch.rand(3)
    resumed = fit_toy(name, runtime, resume=(kept, listener.kept)).state_dict()
    assert [key for key, tensor in whole.items() if not torch.equal(tensor, resumed[key])] == []


@pytest.mark.gpu
@every_method
def test_same_loss_and_gradient_on_a_gpu(name: str) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    method, world = build(name)
    results = []
    for device in ("cpu", "cuda"):
        method.to(device).zero_grad()
        loss = total(method, world.batch(type(method), device=device))
        loss.backward()
        results.append((loss.detach().cpu(), [p.grad.clone().cpu() for p in method.parameters() if p.grad is not None]))
    torch.testing.assert_close(results[0], results[1], rtol=1e-5, atol=1e-6)


@pytest.mark.gpu
@every_method
def test_a_capturable_step_is_captured(name: str) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    method, world = build(name)
    if not type(method).capturable:
        pytest.skip("the method says that it runs eagerly")
    method.cuda()
    batch = world.batch(type(method), device="cuda")

    def step() -> Tensor:
        loss = torch.stack(list(method(batch, clock_of(method)).values())).sum()
        loss.backward()
        return loss.detach()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        expected = step()
    torch.cuda.current_stream().wait_stream(side)
    method.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    graph.replay()
    torch.testing.assert_close(captured, expected)


def test_toy_has_all_three_states() -> None:
    assert set(np.unique(World(images=False).observed.dense())) == {-1, 0, 1}
