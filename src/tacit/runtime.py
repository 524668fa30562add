"""Where the arithmetic happens: device, precision, processes (Accelerate underneath)."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .errors import UserError


class Runtime:
    """One process's view of the machine. Build it once per command."""

    def __init__(
        self,
        device: str = "auto",
        precision: str = "fp32",
        *,
        trackers: tuple[str, ...] = (),
        project: Path | None = None,
    ) -> None:
        _check_device(device)
        # Bit-exact resumption needs deterministic kernels; cuBLAS reads this before its first call.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        from accelerate import Accelerator
        from accelerate.state import AcceleratorState

        if int(os.environ.get("WORLD_SIZE", 1)) == 1:
            # Accelerate keeps the first device and precision of a process for good; each run has its own.
            AcceleratorState._reset_state(reset_partial_state=True)
        self.accelerator = Accelerator(
            cpu=device == "cpu",
            mixed_precision="bf16" if precision == "bf16" else "no",
            log_with=_check_trackers(trackers) or None,
            project_dir=str(project) if project else None,
        )
        self.device = torch.device(device) if ":" in device else self.accelerator.device
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device.index or 0)
        self.precision = precision
        self.rank, self.world = self.accelerator.process_index, self.accelerator.num_processes
        if self.world > 1:
            atexit.unregister(_leave)  # once, however many runs this process makes
            atexit.register(_leave)
        torch.use_deterministic_algorithms(True, warn_only=True)
        # No result here depends on fresh memory; overwriting all of it with NaN costs more than it could find.
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        torch.backends.cudnn.benchmark = False

    @property
    def is_main(self) -> bool:
        return bool(self.rank == 0)

    def autocast(self) -> AbstractContextManager[Any]:
        if self.precision != "bf16":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def wrap(self, method: nn.Module) -> Callable[..., dict[str, Tensor]]:
        """The method as the loop calls it: itself, or behind DDP when there are several processes."""
        if self.world == 1:
            return method
        prepared: nn.Module = self.accelerator.prepare_model(method)
        # `align` sends buffers when they change. DDP would at every step, and EM+APL's table of all cells is one:
        # 16 ms a step instead of 2 for a linear layer on 65,665 x 80 cells, two CPU processes.
        prepared.broadcast_buffers = False  # type: ignore[assignment]
        return prepared

    def share(self, total: int) -> range:
        """This process's contiguous share of `total` rows."""
        start = self.rank * total // self.world
        return range(start, (self.rank + 1) * total // self.world)

    def gather(self, rows: Tensor, total: int) -> Tensor:
        """Every process's `share` of `total` rows, put together again."""
        if self.world == 1:
            return rows
        padded = self.accelerator.pad_across_processes(rows, dim=0)
        every = self.accelerator.gather(padded).chunk(self.world)
        cuts = [rank * total // self.world for rank in range(self.world + 1)]
        return torch.cat([part[: cuts[i + 1] - cuts[i]] for i, part in enumerate(every)])

    def mean(self, values: Tensor) -> Tensor:
        """The mean over processes."""
        return values if self.world == 1 else self._sum(values.clone()) / self.world

    def any(self, mine: bool) -> bool:
        """Whether it holds in any process: all of them then do the same."""
        return mine if self.world == 1 else bool(self._sum(torch.tensor([float(mine)], device=self.device)) > 0)

    def _sum(self, values: Tensor) -> Tensor:
        torch.distributed.all_reduce(values)
        return values

    def align(self, method: nn.Module) -> None:
        """The first process's buffers for all: each saw the batch statistics of its own images, and may be another make
        of machine, on which scores near each other rank otherwise."""
        if self.world > 1:
            for buffer in method.buffers():
                torch.distributed.broadcast(buffer, 0)

    def wait(self) -> None:
        if self.world > 1:
            self.accelerator.wait_for_everyone()


def _leave() -> None:
    """Close the connections to the other processes: left to the end of Python, their threads now and then abort it."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _check_device(device: str) -> None:
    kind, _, number = device.partition(":")
    if device not in ("auto", "cpu", "cuda") and not (kind == "cuda" and number.isdecimal()):
        raise UserError(f"--device {device}: unknown. Devices: auto, cpu, cuda, or one of several GPUs as in cuda:1.")
    if kind != "cuda":
        return
    if not torch.cuda.is_available():
        raise UserError(
            f"--device {device}: no CUDA device is available here. Use --device cpu (or auto), or start on a machine "
            "with a GPU and a CUDA build of torch."
        )
    if number and int(number) >= torch.cuda.device_count():
        raise UserError(f"--device {device}: this machine has {torch.cuda.device_count()} GPU(s), counted from cuda:0.")


def _check_trackers(names: tuple[str, ...]) -> list[str]:
    from importlib.util import find_spec

    for name in names:
        if name not in ("tensorboard", "wandb", "mlflow"):
            raise UserError(f"--tracker {name}: unknown. Trackers: tensorboard, wandb, mlflow.")
        if find_spec(name) is None:
            raise UserError(f"--tracker {name}: not installed. Install it with: pip install 'tacit-labels[{name}]'")
    return list(names)
