"""RowAdam against torch's dense Adam, and the optimizer that chooses between the two."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tacit.methods.base import Stage
from tacit.methods.parts import RowTable
from tacit.methods.registry import build_method
from tacit.optim import DenseAdam, DenseSGD, Optimizer, Rate, RowAdam
from toy_world import CLOCK, ROWS, World, build, total

LR = 0.03


def constant(lr: float) -> Rate:
    return Rate(lr, torch.device("cpu"), moves=False)


class Twins:
    """The same table under dense Adam and under RowAdam; the gradient of a cell depends on where the cell is."""

    def __init__(self, rows: int, classes: int = 3, dtype: torch.dtype = torch.float64, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        start = torch.randn(rows, classes, generator=generator, dtype=dtype)
        self.goal = torch.randn(rows, classes, generator=generator, dtype=dtype) * 3
        self.table = RowTable(start.clone())
        self.rows = RowAdam(self.table, LR)
        self.weight = nn.Parameter(start.clone())
        self.dense = torch.optim.Adam([self.weight], lr=LR)

    def step(self, index: Tensor) -> None:
        self.rows.visit(index)
        self._loss(self.table.rows(index), index).backward()
        self.rows.step()
        self.dense.zero_grad(set_to_none=False)
        self._loss(self.weight[index], index).backward()
        self.dense.step()

    def _loss(self, values: Tensor, index: Tensor) -> Tensor:
        return (torch.sigmoid(values - self.goal[index]) - 0.3).square().sum() + 0.01 * (
            values * self.goal[index]
        ).sum()

    def gap(self) -> float:
        return float((self.table.all() - self.weight.detach()).abs().max())


def test_equals_dense_adam_over_epochs() -> None:
    twins, draw = Twins(403), np.random.RandomState(0)
    for _ in range(20):  # 51 steps each
        for index in np.split(draw.permutation(403), range(8, 403, 8)):
            twins.step(torch.from_numpy(index))
        assert twins.gap() < 1e-9


@pytest.mark.parametrize("missed", [1, 2, 7, 100, 349, 350, 351, 1000, 5000])
def test_a_revisit_after_missed_steps(missed: int) -> None:
    twins = Twins(6)
    twins.step(torch.tensor([0, 1]))
    twins.step(torch.tensor([1, 2]))
    for _ in range(missed):
        twins.step(torch.tensor([4]))
    twins.step(torch.tensor([0, 2]))
    assert twins.gap() < 1e-9
    for _ in range(3):
        twins.step(torch.tensor([2]))
    assert twins.gap() < 1e-9


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=4), min_size=1, max_size=30), st.data())
def test_any_visits(visits: list[list[int]], data: st.DataObject) -> None:
    """Rows listed twice in a step, settling at any moment, rows never visited."""
    twins = Twins(7)
    settled = data.draw(st.sets(st.integers(0, len(visits) - 1)))
    for number, index in enumerate(visits):
        twins.step(torch.tensor(index))
        if number in settled:
            twins.rows.settle(chunk=3)
            assert twins.gap() < 1e-12
    assert twins.gap() < 1e-9


def test_a_row_listed_twice_catches_up_once() -> None:
    twins = Twins(3)
    twins.step(torch.tensor([1, 1]))
    for _ in range(20):
        twins.step(torch.tensor([0]))
    twins.step(torch.tensor([1, 1, 1]))
    assert twins.gap() < 1e-12


def test_rows_never_visited_stay() -> None:
    twins = Twins(5)
    before = twins.table.weight.detach().clone()
    for _ in range(50):
        twins.step(torch.tensor([0, 3]))
    assert torch.equal(twins.table.all()[[1, 2, 4]], before[[1, 2, 4]])


def test_settled_twice_is_settled_once() -> None:
    twins = Twins(5)
    for row in (0, 1, 2, 3):
        twins.step(torch.tensor([row]))
    once = twins.table.all().clone()
    assert torch.equal(twins.table.all(), once)


def test_float32_within_rounding() -> None:
    twins, draw = Twins(200, dtype=torch.float32), np.random.RandomState(1)
    for _ in range(400):
        twins.step(torch.from_numpy(draw.choice(200, 8, replace=False)))
    assert twins.gap() < 2e-5  # after 400 steps of up to 0.03


def test_state_continues_bit_for_bit() -> None:
    twins, other = Twins(12), Twins(12)
    for row in range(9):
        twins.step(torch.tensor([row, 11]))
    other.table.weight.data.copy_(twins.table.weight.data)
    other.weight.data.copy_(twins.weight.data)
    other.dense.load_state_dict(twins.dense.state_dict())
    for name, tensor in other.rows.state().items():
        tensor.copy_(twins.rows.state()[name])
    for both in (twins, other):
        for row in range(5):
            both.step(torch.tensor([row]))
    assert torch.equal(twins.table.all(), other.table.all())


def trained_role(dense_cells: int, weight_decay: float = 0.0, steps: int = 60) -> tuple[dict[str, Tensor], Optimizer]:
    world = World(images=False)
    torch.manual_seed(0)
    method = build_method("role", world.net(), world.observed, {"k": 1.5}).double()
    optimizer = Optimizer(method, Stage("toy", 1, 1, 0.01, weight_decay), dense_cells=dense_cells)
    batch = world.batch(type(method), torch.float64)
    for start in range(steps):
        index = torch.arange(start, start + 5) % ROWS
        labels = torch.from_numpy(world.observed.rows(index.numpy()))
        views = {"weak": batch.views["weak"]._replace(inputs=world.inputs[index].double())}
        optimizer.visit(index)
        total(method, type(batch)(index, labels, views)).backward()
        optimizer.step()
        optimizer.zero_grad()
        method.after_step(CLOCK)
    optimizer.settle()
    return {name: tensor.detach().clone() for name, tensor in method.state_dict().items()}, optimizer


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_role_is_the_same_run_dense_or_by_rows(weight_decay: float) -> None:
    dense, chosen_dense = trained_role(10**9, weight_decay)
    rows, chosen_rows = trained_role(0, weight_decay)
    assert not chosen_dense.row_tables and len(chosen_rows.row_tables) == 1
    for name, tensor in dense.items():
        torch.testing.assert_close(rows[name], tensor, rtol=0, atol=1e-9)


def test_size_decides() -> None:
    world = World(images=False)
    method = build_method("role", world.net(), world.observed, {"k": 1.5})
    cells = method.theta.weight.numel()
    assert not Optimizer(method, Stage("toy", 1, 1, 0.01, 0.0), dense_cells=cells).row_tables
    assert Optimizer(method, Stage("toy", 1, 1, 0.01, 0.0), dense_cells=cells - 1).row_tables


def test_release_makes_the_table_ordinary() -> None:
    world = World(images=False)
    method = build_method("role", world.net(), world.observed, {"k": 1.5})
    optimizer = Optimizer(method, Stage("toy", 1, 1, 0.01, 0.0), dense_cells=0)
    assert method.theta.behind and not method.theta.weight.requires_grad
    optimizer.release()
    assert not method.theta.behind and method.theta.weight.requires_grad and method.theta.settle is None


def test_a_learning_rate_per_group_and_no_decay_of_label_estimates() -> None:
    world = World(images=False)
    method = build_method("role", world.net(), world.observed, {"k": 1.5})
    net, theta = Optimizer(method, Stage("toy", 1, 1, 0.01, 0.5)).dense
    assert (net.lr.value, theta.lr.value) == (0.01, 0.1)
    assert (net.weight_decay, theta.weight_decay) == (0.5, 0.0)


class TestDenseAdam:
    @pytest.mark.parametrize("weight_decay", [0.0, 0.1])
    def test_is_torchs_adam_bit_for_bit(self, weight_decay: float) -> None:
        torch.manual_seed(0)
        ours = [nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.randn(2)), nn.Parameter(torch.randn(5))]
        theirs = [nn.Parameter(p.detach().clone()) for p in ours]
        adam = torch.optim.Adam(theirs, lr=LR, weight_decay=weight_decay, fused=True)
        mine = DenseAdam(list(ours), constant(LR), weight_decay)
        for step in range(30):
            for both in zip(ours, theirs, strict=True):
                gradient = torch.randn(both[0].shape)
                for p in both:
                    p.grad = gradient.clone()
            if step % 3:  # a parameter that this step's loss does not reach
                ours[1].grad = theirs[1].grad = None
            mine.step()
            adam.step()
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))

    def test_unknown_keys_of_a_group_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        method, _ = build("an")
        params = list(method.parameters())
        monkeypatch.setattr(type(method), "groups", lambda *_: [{"params": params, "lr": 0.1, "momentum": 0.9}])
        with pytest.raises(TypeError, match="momentum"):
            Optimizer(method, Stage("toy", 1, 1, 0.1, 0.0))


class TestDenseSGD:
    @pytest.mark.parametrize(("momentum", "weight_decay"), [(0.9, 1e-2), (0.9, 0.0), (0.0, 0.1)])
    def test_is_torchs_sgd(self, momentum: float, weight_decay: float) -> None:
        torch.manual_seed(0)
        ours = [nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.randn(2))]
        theirs = [nn.Parameter(p.detach().clone()) for p in ours]
        sgd = torch.optim.SGD(theirs, lr=LR, momentum=momentum, weight_decay=weight_decay)
        rate = Rate(LR, torch.device("cpu"), moves=True)
        mine = DenseSGD(list(ours), rate, weight_decay, momentum)
        for step in range(30):
            rate.move(1 - step / 30)
            sgd.param_groups[0]["lr"] = LR * (1 - step / 30)
            for both in zip(ours, theirs, strict=True):
                gradient = torch.randn(both[0].shape)
                for p in both:
                    p.grad = gradient.clone()
            if step % 3 == 1:
                ours[1].grad = theirs[1].grad = None
            mine.step()
            sgd.step()
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)

    def test_its_memory_goes_into_a_checkpoint(self) -> None:
        method, _ = build("an")
        state = Optimizer(method, Stage("toy", 1, 1, 0.1, optimizer="sgd")).state()
        assert state and all(name.endswith("momentum_buffer") for name in state)


def test_the_head_may_learn_faster_than_the_backbone() -> None:
    method, _ = build("an")
    method.net.backbone = nn.Linear(2, 2)
    slow, fast = Optimizer(method, Stage("toy", 1, 1, 0.1, head_lr=10.0)).dense
    assert (slow.lr.value, fast.lr.value) == (0.1, 1.0)
    assert {id(p) for p in slow.params} == {id(p) for p in method.net.backbone.parameters()}


def test_a_schedule_keeps_tables_dense() -> None:
    """Catching up assumes one rate for all missed steps."""
    world = World(images=False)
    method = build_method("role", world.net(), world.observed, {"k": 1.5})
    assert not Optimizer(method, Stage("toy", 1, 1, 0.01, schedule="cosine"), dense_cells=0).row_tables


@pytest.mark.parametrize("dense_cells", [0, 10**9])
def test_the_optimizers_state_is_complete(dense_cells: int) -> None:
    _, optimizer = trained_role(dense_cells, steps=7)
    _, other = trained_role(dense_cells, steps=3)
    assert set(other.state()) == set(optimizer.state())
    other.load(optimizer.state())
    for name, tensor in optimizer.state().items():
        assert torch.equal(other.state()[name], tensor)
    with pytest.raises(KeyError, match="differs"):
        other.load({"adam.0.step": torch.zeros(())})


def test_state_has_one_shape_at_any_step() -> None:
    _, fresh = trained_role(0, steps=0)
    _, used = trained_role(0, steps=2)
    assert {k: v.shape for k, v in fresh.state().items()} == {k: v.shape for k, v in used.state().items()}
