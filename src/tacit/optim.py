"""Adam and SGD for ordinary parameters, and Adam's exact row-wise twin for tables visited a few rows at a time."""

from __future__ import annotations

from collections import defaultdict

import torch
import torch.distributed as dist
from torch import Tensor

from .methods.base import Method, Stage
from .methods.parts import RowTable
from .schedules import schedule

BETA1, BETA2, EPS = 0.9, 0.999, 1e-8
# A missed step weighs 0.9 of the one before: what these leave out is below the rounding of the sum.
HORIZON = {torch.float32: 160, torch.float64: 350}
# Rows that `settle` brings up to date at once: temporaries that stay in a CPU's cache, or few launches on a GPU.
SETTLE_ROWS = defaultdict(lambda: 4096, cpu=32)
# Below about this many cells one fused dense step is faster than gathering, catching up and scattering rows: at batch
# 16 the two cross near 0.25 million cells of 20 classes, 0.53 of 80 and 0.93 of 312 (benchmarks/row_adam.py).
DENSE_CELLS = 500_000
BACKBONE = "net.backbone."  # names of its parameters start so


class RowAdam:
    """Dense Adam on an [N, C] table at the cost of the visited rows.

    In dense Adam a row keeps moving after its visit on decaying moments: missed step s (counted from the start) adds
    -lr * (m 0.9^j / (1 - 0.9^s)) / (sqrt(v 0.999^j / (1 - 0.999^s)) + eps), j steps after the visit. `visit` adds these
    terms for the rows a step is about to read, `settle` for all rows; both leave the table as dense Adam would have it.
    What a step calls has fixed shapes and stays on the device, so that it can be captured as a CUDA graph.
    """

    def __init__(self, table: RowTable, lr: float) -> None:
        weight = table.weight
        self.table, self.lr = table, lr
        self.m, self.v = torch.zeros_like(weight), torch.zeros_like(weight)
        self.last = torch.zeros(len(weight), dtype=torch.int64, device=weight.device)
        self.time = torch.zeros((), dtype=torch.int64, device=weight.device)
        self.lags = torch.arange(1, HORIZON[weight.dtype] + 1, device=weight.device)
        self.decay1, self.decay2 = BETA1 ** self.lags.double(), BETA2 ** self.lags.double()
        self.index: Tensor | None = None
        weight.requires_grad_(False)
        table.behind, table.settle = True, self.settle

    @torch.no_grad()
    def visit(self, index: Tensor) -> None:
        """Bring these rows up to date; remember them for `step`."""
        self.index = _everyones(index)
        self._catch_up(self.index)

    @torch.no_grad()
    def settle(self, chunk: int | None = None) -> None:
        """Bring every row up to date, `chunk` at a time. No part of a step: it asks the host which rows are behind."""
        behind = (self.last < self.time).nonzero().squeeze(1)
        for rows in torch.split(behind, chunk or SETTLE_ROWS[self.last.device.type]):
            self._catch_up(rows)

    def _catch_up(self, rows: Tensor) -> None:
        last = self.last.index_select(0, rows)
        missed = self.time - last
        m, v = self.m.index_select(0, rows), self.v.index_select(0, rows)
        past = last[:, None].double()
        pull = self.decay1 / (1 - BETA1**past * self.decay1)
        pull = torch.where(self.lags <= missed[:, None], pull, 0.0).to(v.dtype)
        drag = (self.decay2 / (1 - BETA2**past * self.decay2)).sqrt().to(v.dtype)
        # Divided and summed in place: as a batched product with `pull` the sum took four times as long on a CPU.
        scale = (v.sqrt()[:, :, None] * drag[:, None, :]).add_(EPS)
        terms = torch.div(pull[:, None, :], scale, out=scale).sum(2)
        decay = missed[:, None].double()
        # Copied, not added in place: a row that is listed twice moves once.
        weight = self.table.weight.data
        weight.index_copy_(0, rows, weight.index_select(0, rows).addcmul_(m, terms, value=-self.lr))
        self.m.index_copy_(0, rows, m * (BETA1**decay).to(m.dtype))
        self.v.index_copy_(0, rows, v * (BETA2**decay).to(v.dtype))
        self.last.index_copy_(0, rows, self.time.expand(len(rows)))

    @torch.no_grad()
    def step(self) -> None:
        visited = self.table.visited
        assert self.index is not None and visited is not None and visited.grad is not None
        rows, grad = self.index, _everyones(visited.grad) / _world()
        self.table.visited = None
        # A row drawn twice in one batch gets the sum of its gradients, and both copies write the same result.
        grad = (rows[:, None] == rows[None, :]).to(grad.dtype) @ grad
        self.time += 1
        time = self.time.double()
        m = self.m.index_select(0, rows).lerp_(grad, 1 - BETA1)
        v = self.v.index_select(0, rows).mul_(BETA2).addcmul_(grad, grad, value=1 - BETA2)
        bias1, bias2 = (1 - BETA1**time).to(m.dtype), (1 - BETA2**time).sqrt().to(v.dtype)
        moved = self.table.weight.data.index_select(0, rows) - self.lr / bias1 * m / (v.sqrt() / bias2 + EPS)
        self.m.index_copy_(0, rows, m)
        self.v.index_copy_(0, rows, v)
        self.table.weight.data.index_copy_(0, rows, moved)
        self.last.index_copy_(0, rows, self.time.expand(len(rows)))

    def state(self) -> dict[str, Tensor]:
        return {"m": self.m, "v": self.v, "last": self.last, "time": self.time}


class DenseAdam:
    """torch's fused Adam on one parameter group.

    It calls the kernel that `torch.optim.Adam(fused=True)` ends in: at batch 16 the bookkeeping on the way there
    (profiling ranges, hooks, grouping by device, lists built anew) takes longer than the arithmetic; tests hold the two
    equal bit for bit. State exists from the start, so that a checkpoint has one shape at any step.
    """

    name = "adam"

    def __init__(self, params: list[Tensor], lr: Rate, weight_decay: float) -> None:
        self.params, self.lr, self.weight_decay = params, lr, weight_decay
        self.steps = [torch.zeros((), dtype=torch.float32, device=p.device) for p in params]
        self.m, self.v = [torch.zeros_like(p) for p in params], [torch.zeros_like(p) for p in params]

    @torch.no_grad()
    def step(self) -> None:
        live = [i for i, p in enumerate(self.params) if p.grad is not None]
        whole = len(live) == len(self.params)
        params, m, v, steps = (
            each if whole else [each[i] for i in live] for each in (self.params, self.m, self.v, self.steps)
        )
        if not params:
            return
        torch._foreach_add_(steps, 1)
        torch._fused_adam_(
            params,
            [p.grad for p in params],  # type: ignore[misc]
            m,
            v,
            [],
            steps,
            lr=self.lr.value,  # type: ignore[arg-type]  # a number or a tensor
            beta1=BETA1,
            beta2=BETA2,
            weight_decay=self.weight_decay,
            eps=EPS,
            amsgrad=False,
            maximize=False,
        )

    def kept(self) -> list[dict[str, Tensor]]:
        """What is remembered of each parameter."""
        each = zip(self.steps, self.m, self.v, strict=True)
        return [{"step": step, "exp_avg": m, "exp_avg_sq": v} for step, m, v in each]


class DenseSGD:
    """torch's fused SGD on one parameter group: buffer = momentum x buffer + gradient + decay x weight."""

    name = "sgd"

    def __init__(self, params: list[Tensor], lr: Rate, weight_decay: float, momentum: float) -> None:
        self.params, self.lr, self.weight_decay, self.momentum = params, lr, weight_decay, momentum
        self.buffers = [torch.zeros_like(p) for p in params]

    @torch.no_grad()
    def step(self) -> None:
        live = [i for i, p in enumerate(self.params) if p.grad is not None]
        if not live:
            return
        torch._fused_sgd_(
            [self.params[i] for i in live],
            [self.params[i].grad for i in live],  # type: ignore[misc]
            [self.buffers[i] for i in live] if self.momentum else [],
            weight_decay=self.weight_decay,
            momentum=self.momentum,
            lr=self.lr.value,  # type: ignore[arg-type]
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=False,  # buffers start at zero, which comes to the same
        )

    def kept(self) -> list[dict[str, Tensor]]:
        return [{"momentum_buffer": buffer} for buffer in self.buffers]


class Rate:
    """A learning rate that a schedule may move. On a GPU it is then a tensor: a captured step reads it anew."""

    def __init__(self, base: float, device: torch.device, *, moves: bool) -> None:
        self.base = base
        self.value: float | Tensor = torch.tensor(base, device=device) if moves and device.type == "cuda" else base

    def move(self, factor: float) -> None:
        if isinstance(self.value, Tensor):
            self.value.fill_(self.base * factor)
        else:
            self.value = self.base * factor


class Optimizer:
    """All parameter groups of a stage: dense ones, and RowAdam for large row tables that Adam trains at one rate."""

    def __init__(self, method: Method, stage: Stage, *, dense_cells: int = DENSE_CELLS) -> None:
        tables = {id(m.weight): m for m in method.modules() if isinstance(m, RowTable)}
        backbone = {id(p) for name, p in method.named_parameters() if name.startswith(BACKBONE)}
        self.schedule = schedule(stage.schedule, stage.epochs)
        row_adam_serves = stage.optimizer == "adam" and self.schedule.is_constant
        self.dense: list[DenseAdam | DenseSGD] = []
        self.row_tables: list[RowAdam] = []
        for group in method.groups(stage.lr):
            if unknown := set(group) - {"params", "lr", "weight_decay", "rows"}:
                raise TypeError(f"parameter groups have params, lr, weight_decay and rows, not {', '.join(unknown)}")
            by_row, rate = group.get("rows", False), group.get("lr", stage.lr)
            every = [p for p in group["params"] if p.requires_grad]
            if by_row and every and every[0].numel() > dense_cells and row_adam_serves:
                self.row_tables.append(RowAdam(tables[id(every[0])], rate))
                continue
            # Decay would pull estimates of labels towards 1/2; RowAdam has none, whatever the table's size.
            decay = 0.0 if by_row else group.get("weight_decay", stage.weight_decay)
            if by_row or stage.head_lr == 1:
                self._add(every, rate, decay, stage)
            else:
                self._add([p for p in every if id(p) in backbone], rate, decay, stage)
                self._add([p for p in every if id(p) not in backbone], rate * stage.head_lr, decay, stage)

    def _add(self, params: list[Tensor], lr: float, decay: float, stage: Stage) -> None:
        if not params:
            return
        rate = Rate(lr, params[0].device, moves=not self.schedule.is_constant)
        if stage.optimizer == "sgd":
            self.dense.append(DenseSGD(params, rate, decay, stage.momentum))
        else:
            self.dense.append(DenseAdam(params, rate, decay))

    def pace(self, done: float) -> None:
        """Learning rates for the next step, this share of the stage's steps being done."""
        if self.schedule.is_constant:
            return
        for group in self.dense:
            group.lr.move(self.schedule.factor(done))

    def visit(self, index: Tensor) -> None:
        for table in self.row_tables:
            table.visit(index)

    def step(self) -> None:
        for group in self.dense:
            group.step()
        for table in self.row_tables:
            table.step()

    def zero_grad(self) -> None:
        for group in self.dense:
            for parameter in group.params:
                parameter.grad = None

    def settle(self) -> None:
        for table in self.row_tables:
            table.settle()

    def release(self) -> None:
        """End of a stage: tables are up to date and ordinary again."""
        for rows in self.row_tables:
            rows.settle()
            rows.table.behind, rows.table.settle = False, None
            rows.table.weight.requires_grad_(True)

    def state(self) -> dict[str, Tensor]:
        """Every tensor the optimizer remembers, by name; the tensors themselves, not copies."""
        out: dict[str, Tensor] = {}
        kept = [(group.name, tensors) for group in self.dense for tensors in group.kept()]
        for i, (name, tensors) in enumerate(kept):
            out |= {f"{name}.{i}.{key}": tensor for key, tensor in tensors.items()}
        for i, rows in enumerate(self.row_tables):
            out |= {f"rows.{i}.{key}": value for key, value in rows.state().items()}
        return out

    @torch.no_grad()
    def load(self, state: dict[str, Tensor]) -> None:
        mine = self.state()
        if set(mine) != set(state):
            raise KeyError(f"optimizer state differs: {sorted(set(mine) ^ set(state))[:3]}")
        for name, tensor in mine.items():
            tensor.copy_(state[name])


def _world() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def _everyones(rows: Tensor) -> Tensor:
    """The same rows of all data-parallel processes, one after the other; shares of a last batch differ in length."""
    if (world := _world()) == 1:
        return rows
    mine = torch.tensor([len(rows)], device=rows.device)
    lengths = [torch.empty_like(mine) for _ in range(world)]
    dist.all_gather(lengths, mine)
    longest = max(int(length) for length in lengths)
    padded = torch.cat([rows, rows.new_zeros((longest - len(rows), *rows.shape[1:]))])
    parts = [torch.empty_like(padded) for _ in range(world)]
    dist.all_gather(parts, padded)
    return torch.cat([part[: int(length)] for part, length in zip(parts, lengths, strict=True)])
