"""The loop: what it calls when, what it says of a loss, and that it does nothing a plain loop would not do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tacit.data.batches import Batches, FeatureInputs
from tacit.labels import Labels
from tacit.methods.base import Batch, Clock, Method, Part, Stage, Sweep
from tacit.methods.bce import BCE
from tacit.nets.net import Net, make_net
from tacit.runtime import Runtime
from tacit.step import Recorder
from tacit.train import CHECK_EVERY, Diverged, EpochEnd, Interrupted, State, fit, seed_step, trainable

ROWS, WIDTH, CLASSES = 22, 5, 3
STAGE = Stage("linear", epochs=2, batch_size=4, lr=0.01, trains="head", inputs="features")


class Notes:
    """A listener that writes down what it is told."""

    def __init__(self, stop_at: int | None = None, enough: int | None = None) -> None:
        self.steps: list[tuple[Clock, dict[str, float]]] = []
        self.ends: list[EpochEnd] = []
        self.states: list[State] = []
        self.asked, self.stop_at, self.enough = 0, stop_at, enough

    def on_step(self, clock: Clock, terms: dict[str, float]) -> None:
        self.steps.append((clock, terms))

    def on_epoch(self, end: EpochEnd, state: State) -> bool:
        self.ends.append(end)
        self.states.append(state)
        return len(self.ends) == self.enough

    def interrupted(self, state: State) -> bool:
        self.asked += 1
        return self.asked == self.stop_at


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    torch.set_num_threads(1)
    return Runtime("cpu")


def world(rows: int = ROWS) -> tuple[FeatureInputs, Labels]:
    draw = np.random.RandomState(0)
    states = np.zeros((rows, CLASSES), np.int8)
    states[np.arange(rows), draw.randint(0, CLASSES, rows)] = 1
    features = FeatureInputs(draw.randn(rows, WIDTH).astype(np.float16), torch.device("cpu"))
    return features, Labels.from_dense(states, list("abc"))


def trained(method: type[Method], runtime: Runtime, listener: Notes | None = None, stage: Stage = STAGE, **more: Any):
    inputs, observed = world()
    torch.manual_seed(0)
    built = method(make_net(None, CLASSES, width=WIDTH), observed)
    fit(built, stage, inputs, observed, listener or Notes(), runtime=runtime, seed=3, **more)
    return built


class AN(BCE):
    def __init__(self, net: nn.Module, observed: Labels) -> None:
        super().__init__(net, observed, unknown="negative")


class Diary(Method):
    """Writes down every call."""

    def __init__(self, net: nn.Module, observed: Labels) -> None:
        super().__init__(net, observed)
        self.diary: list[str] = []
        self.modes: set[bool] = set()

    def stages(self, budget: Stage) -> list[Stage]:
        rows = np.arange(ROWS)
        parts = (Part("first", rows[:10], 2), Part("rest", rows[10:], 4))
        return [Stage("warm", 1, 8, 0.1, inputs="features"), Stage("main", 2, 6, 0.1, inputs="features", parts=parts)]

    def refresh(self, clock: Clock, sweep: Sweep) -> None:
        assert not torch.is_grad_enabled() and not self.training
        seen = torch.cat([swept.index for swept in sweep()])
        assert torch.equal(seen, torch.arange(ROWS))
        self.diary.append(f"refresh {clock.stage}.{clock.epoch}")

    def loss(self, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        assert torch.is_grad_enabled() and self.training
        assert (batch.part is None) == (clock.stage == 0)
        self.diary.append(f"loss {clock.stage}.{clock.epoch}.{clock.step}/{clock.steps}")
        return {"a": self.net(batch.inputs).square().mean(), "b": self.net(batch.inputs).mean()}

    def after_step(self, clock: Clock) -> None:
        assert not torch.is_grad_enabled()
        self.diary.append(f"after {clock.stage}.{clock.epoch}.{clock.step}")


def test_what_is_called_when(runtime: Runtime) -> None:
    notes = Notes()
    told = trained(Diary, runtime, notes).diary
    expected = []
    for stage, epochs, steps in ((0, 1, 3), (1, 2, 5)):
        for epoch in range(epochs):
            expected.append(f"refresh {stage}.{epoch}")
            for step in range(steps):
                expected += [f"loss {stage}.{epoch}.{step}/{steps}", f"after {stage}.{epoch}.{step}"]
    assert told == expected
    assert [(end.stage.name, end.clock.epoch) for end in notes.ends] == [("warm", 0), ("main", 0), ("main", 1)]
    assert all(set(end.terms) == {"a", "b", "total"} for end in notes.ends)
    assert notes.asked == 2 + 4 + 4  # after every step but an epoch's last


def test_the_last_step_of_an_epoch_is_always_told(runtime: Runtime) -> None:
    notes = Notes()
    trained(AN, runtime, notes, Stage("linear", 1, 1, 0.01, inputs="features"))
    assert [clock.step for clock, _ in notes.steps] == [ROWS] and ROWS < CHECK_EVERY


def test_terms_are_means_over_the_steps(runtime: Runtime) -> None:
    notes, values = Notes(), []

    class Told(AN):
        def loss(self, batch: Batch, clock: Clock) -> dict[str, Tensor]:
            terms = super().loss(batch, clock)
            values.append(float(terms["bce"].detach()))
            return terms

    trained(Told, runtime, notes)
    first = values[: len(values) // 2]
    assert notes.ends[0].terms["bce"] == pytest.approx(np.mean(first), rel=1e-6)
    assert notes.ends[0].terms["total"] == notes.ends[0].terms["bce"]


def test_a_listener_may_end_a_stage(runtime: Runtime) -> None:
    notes = Notes(enough=1)
    trained(AN, runtime, notes)
    assert len(notes.ends) == 1


def test_an_interruption_says_where(runtime: Runtime) -> None:
    with pytest.raises(Interrupted, match="stage 0, epoch 1, after step 3"):
        trained(AN, runtime, Notes(stop_at=5 + 3))


class TestPlainLoop:
    """The same steps written out, in float32, with torch's own Adam."""

    def plain(self, drop_last: bool) -> dict[str, Tensor]:
        inputs, observed = world()
        torch.manual_seed(0)
        net = make_net(None, CLASSES, width=WIDTH)
        method = AN(net, observed)
        adam = torch.optim.Adam(net.parameters(), lr=0.01)
        order = Batches(inputs, observed, STAGE, 0, ("weak",), seed=3, device=torch.device("cpu"))
        for epoch in range(2):
            for rows in order.order(epoch):
                if drop_last and len(rows) < 4:
                    continue
                index = torch.from_numpy(rows)
                logits = net(inputs.table[index].float())
                targets = (torch.from_numpy(observed.rows(rows)) == 1).float()
                loss = nn.functional.binary_cross_entropy_with_logits(logits, targets)
                adam.zero_grad()
                loss.backward()
                adam.step()
        return method.state_dict()

    @pytest.mark.parametrize("drop_last", [False, True])
    def test_same_seed_same_weights(self, runtime: Runtime, drop_last: bool) -> None:
        stage = Stage("linear", 2, 4, 0.01, inputs="features", drop_last=drop_last)
        found = trained(AN, runtime, stage=stage).state_dict()
        for name, tensor in self.plain(drop_last).items():
            torch.testing.assert_close(found[name], tensor, rtol=0, atol=1e-6)


class Poisoned(AN):
    """A term that is not finite in one step."""

    value = float("nan")

    def loss(self, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        terms = super().loss(batch, clock)
        bad = self.value if (clock.epoch, clock.step) == (1, 2) else 0.0
        return {**terms, "penalty": terms["bce"] * 0 + bad}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_is_named(runtime: Runtime, value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Poisoned, "value", value)
    with pytest.raises(Diverged, match="'penalty' became NaN or infinite in stage 0, epoch 1, step 2"):
        trained(Poisoned, runtime)


def test_randomness_inside_a_step_is_a_function_of_its_address() -> None:
    def drawn(*address: Any) -> float:
        seed_step(*address)
        return float(torch.rand(()))

    clock = Clock(1, 2, 5, 0, 9)
    first = drawn(7, clock, 3)
    torch.rand(5)
    assert drawn(7, clock._replace(step=8), 3) == first
    others = [drawn(8, clock, 3), drawn(7, clock, 4), drawn(7, clock._replace(epoch=3), 3), drawn(7, clock, 3, 1)]
    assert len({first, *others, drawn(7, clock._replace(stage=0), 3)}) == 6


def test_seeds_of_any_size() -> None:
    for seed in (0, 2**31, 2**63 - 1):
        seed_step(seed, Clock(199, 10**6, 1, 0, 1), 10**7)


def test_a_frozen_backbone_does_not_move(runtime: Runtime) -> None:
    from small_runs import TinyBackbone

    method = AN(make_net(TinyBackbone(), CLASSES), world()[1])
    trainable(method, "head")
    assert {name for name, p in method.named_parameters() if p.requires_grad} == {"net.head.weight", "net.head.bias"}
    assert isinstance(method.net, Net) and not method.train().net.backbone.training
    trainable(method, "all")
    assert all(p.requires_grad for p in method.parameters())


def test_the_recorder_keeps_what_training_saw(runtime: Runtime) -> None:
    inputs, observed = world()
    torch.manual_seed(0)
    method = AN(make_net(None, CLASSES, width=WIDTH), observed)
    start = method.predict(inputs.table.float()).detach()
    recorder = Recorder(method, ROWS, CLASSES)
    stage = Stage("linear", 1, ROWS, 0.01, inputs="features")
    fit(method, stage, inputs, observed, Notes(), runtime=runtime, seed=0, recorder=recorder)
    torch.testing.assert_close(recorder.probabilities(), start)  # one step: recorded before it was taken
    method.eval()
    method.predict(inputs.table.float())
    torch.testing.assert_close(recorder.probabilities(), start)


def test_the_loop_stays_readable() -> None:
    import tacit.train

    assert len(Path(tacit.train.__file__).read_text().splitlines()) <= 200
