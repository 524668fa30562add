"""The training loss around a run's solution, on the plane of two random directions.

Directions are filter-normalised (Li et al., "Visualizing the Loss Landscape of Neural Nets", NeurIPS 2018, arXiv
1712.09913): every filter of a direction, which is a weight tensor's first index, has the norm of that filter of the
solution. Two networks may then be compared although their weights differ in scale. Biases and the parameters of
normalisation stay put; batch statistics are those of training, dropout is off.

A surface is a file in the run's directory. It is written row by row, so that what is computed is kept whatever stops
it, and the same call goes on where it stopped.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from .assemble import Bench, assemble, set_threads
from .checkpoint import CheckpointError, load
from .data.batches import Inputs
from .data.images import subseed
from .data.source import parse_spec
from .errors import UserError
from .files import alone_in, atomic_write, why_unreadable
from .methods.base import Batch, Clock, Method, Stage
from .methods.registry import build_method
from .model import read_description
from .nets.net import build_net
from .protocols import budgets
from .run import RunDirectory
from .runtime import Runtime
from .train import Interrupted

FORMAT = 1
TINY = 1e-10  # keeps a filter of zeros at zero
Progress = Callable[[int, int], None]  # (points done, of)
Rows = NDArray[np.int64]


class LandscapeError(UserError):
    """A surface that cannot be computed, or is another one than asked for."""


@dataclass(frozen=True)
class Plane:
    """Which surface: where it is looked at, on which training images, under which loss."""

    grid: int = 21  # points along each direction; odd, so that the solution is one of them
    span: float = 1.0  # of each direction, to both sides; 1 moves every filter by its own norm
    images: int = 512  # training images that the loss is the mean of
    seed: int = 0  # draws the images
    direction_seed: int = 0  # draws the directions
    loss: str | None = None  # a method's name; None: the run's own
    loss_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.grid < 3 or self.grid % 2 == 0:
            raise LandscapeError(f"a grid of {self.grid}: give an odd number from 3 on, so that its middle is the run")
        if not 0 < self.span <= 100:
            raise LandscapeError(
                f"a span of {self.span:g}: give a number above 0, up to 100 (1 moves weights by their own norm)"
            )
        if self.images < 1:
            raise LandscapeError(f"{self.images} images: the loss needs at least 1")
        for seed in (self.seed, self.direction_seed):
            if not 0 <= seed < 2**63:
                raise LandscapeError(f"seed {seed}: give a whole number from 0 to {2**63 - 1}")

    @property
    def steps(self) -> NDArray[np.float64]:
        half = self.grid // 2
        return np.asarray(self.span * np.arange(-half, half + 1) / half)

    def file(self, directory: RunDirectory) -> Path:
        return directory.path / ("landscape.npz" if self.loss is None else f"landscape-{self.loss}.npz")


@dataclass(frozen=True)
class Place:
    """Where a run's inputs are now, if they are no longer where they were; and where to compute."""

    data: str | None = None
    features: str | None = None
    device: str = "auto"


@dataclass(frozen=True, eq=False)
class Surface:
    """The loss [G, G] at steps [G] along the first direction (rows) and the second one (columns)."""

    steps: NDArray[np.float64]
    loss: NDArray[np.float64]
    done: NDArray[np.bool_]  # [G] rows that are computed
    story: Mapping[str, Any]  # what it was computed with

    def write(self, path: Path) -> None:
        with atomic_write(path) as temporary, temporary.open("wb") as file:
            story = np.array(json.dumps(self.story, sort_keys=True))
            np.savez_compressed(file, steps=self.steps, loss=self.loss, done=self.done, story=story)

    @classmethod
    def read(cls, path: Path) -> Surface:
        try:
            with np.load(path, allow_pickle=False) as file:
                found = cls(file["steps"], file["loss"], file["done"], json.loads(str(file["story"])))
            found.check()
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            why = why_unreadable(error)
            raise LandscapeError(f"{path} cannot be read ({why}); compute it again with --again.") from None
        return found

    def check(self) -> None:
        """Refuse arrays that do not belong together, as a damaged or edited file has them."""
        size = len(self.steps) if self.steps.ndim == 1 else -1
        if self.loss.shape != (size, size) or self.done.shape != (size,) or self.done.dtype != bool:
            raise ValueError(f"a surface of {self.loss.shape} at {self.steps.shape} steps, {self.done.shape} rows done")
        if not isinstance(self.story, dict):
            raise ValueError("its story is no table")


def landscape(
    run: Path, plane: Plane, place: Place | None = None, *, again: bool = False, progress: Progress | None = None
) -> Surface:
    """Compute, or finish computing, a surface of a run and write it into the run's directory. `again` forgets an
    earlier one."""
    directory, place = RunDirectory(run), place or Place()
    described = read_description(run)
    if not directory.finished:
        raise LandscapeError(f"{run} has no result.json, so it is not known which epoch it kept; finish it first.")
    with alone_in(run):
        bench, stage = _bench(directory, place)
        runtime = Runtime(place.device)
        set_threads(bench.config, stage)
        rows = drawn_rows(len(bench.observed), plane)
        method = solution(directory, described, bench, plane).to(runtime.device).eval()
        clock = Clock(0, directory.result()["selected"]["epoch"], stage.epochs, 0, 1)
        loss = Objective(method, _inputs(bench, stage, rows, runtime), bench, rows, clock)
        story = _story(directory, described, bench, plane, rows)
        return _filled(_begun(plane, directory, story, again), plane.file(directory), method.net, loss, progress)


# --- the solution, as the run left it ---------------------------------------------------------------------------------


def _bench(directory: RunDirectory, place: Place) -> tuple[Bench, Stage]:
    config = directory.config()
    moved = {key: value for key in ("data", "features") if (value := getattr(place, key)) is not None}
    if place.data is not None:
        moved["source"] = _moved(config.source, place.data)
    config = replace(config, device=place.device, **moved)
    bench = assemble(config)
    kept = directory.result().get("fingerprints", {}).get("observed")
    if kept is not None and kept != bench.observed.fingerprint():
        raise LandscapeError(
            f"{directory.path}: the labels hidden here are not those that the run was trained on; are the source's "
            "files another version? Say with --data where the run's own are."
        )
    return bench, budgets(config.protocol, config.budget)[-1]


def _moved(source: str, data: str) -> str:
    """The source as it is named where its files lie in `data` now: a path inside the name would win over it."""
    name, variant, inside = parse_spec(source)
    if inside is None:
        return source
    return str(Path(data) / inside.name) if name == "table" else f"{name}{variant}"


def solution(directory: RunDirectory, described: Mapping[str, Any], bench: Bench, plane: Plane) -> Method:
    """The run's net under the loss asked for. A loss that remembers what the run did not keep is refused."""
    try:
        kept, _ = load(directory.weights_file)
    except CheckpointError as error:
        raise LandscapeError(
            f"{directory.weights_file}: the run's model is missing or damaged. Restore it from a copy, or run again."
        ) from error
    net = build_net(described["net"], len(bench.source.classes))
    if plane.loss is None:
        method = build_method(described["method"], net, bench.observed, described["method_options"])
    else:
        method = build_method(plane.loss, net, bench.observed, plane.loss_options)
        kept = {name: tensor for name, tensor in kept.items() if name.startswith("net.")}
    name = plane.loss or described["method"]
    lost = method.load_state_dict(kept, strict=False)
    forgotten = [key for key in lost.missing_keys if not key.startswith("net.")]
    if forgotten:
        raise LandscapeError(
            f"{directory.path}: the loss of {name} depends on what it remembers of each training image "
            f"({', '.join(forgotten[:3])}), which a finished run does not keep. Look at its solution under a loss "
            "without memory, for example --loss an or --loss em."
        )
    return method


def drawn_rows(total: int, plane: Plane) -> Rows:
    """Training rows in ascending order; all of them where fewer are there than asked for."""
    generator = np.random.Generator(np.random.Philox(plane.seed))
    return np.sort(generator.permutation(total)[: plane.images]).astype(np.int64)


def _inputs(bench: Bench, stage: Stage, rows: Rows, runtime: Runtime) -> Inputs:
    """The images of these rows, or their features: nothing else is decoded."""
    few = replace(bench, splits={"train": bench.splits["train"].take(rows)}, _held={})
    return few.inputs(stage.inputs, runtime)["train"]


class Objective:
    """The mean loss of some training rows at the weights that the method has when it is called."""

    def __init__(self, method: Method, inputs: Inputs, bench: Bench, rows: Rows, clock: Clock) -> None:
        self.method, self.inputs, self.clock = method, inputs, clock
        device = next(method.parameters()).device
        places = [
            torch.arange(at, min(at + inputs.chunk, len(rows)), device=device)
            for at in range(0, len(rows), inputs.chunk)
        ]
        states = torch.from_numpy(bench.observed.rows(rows)).to(device)
        index = torch.from_numpy(rows).to(device)
        self.parts = [(index[at], states[at], inputs.rows(at)) for at in places]
        self.rows = len(rows)

    @torch.no_grad()
    def __call__(self) -> float:
        total = torch.zeros((), dtype=torch.float64)
        for index, states, raw in self.parts:
            plain = self.inputs.view("plain", raw, index, (0, 0, 0))
            terms = self.method(Batch(index, states, dict.fromkeys(self.method.views, plain)), self.clock)
            total += reduce(add, terms.values()).double().cpu() * len(index) / self.rows
        return float(total)


# --- the plane --------------------------------------------------------------------------------------------------------


def filter_normalised(weights: Mapping[str, Tensor], seed: int) -> dict[str, Tensor]:
    """A random direction for the tensors that have filters; those with one dimension (biases, normalisation) get none.

    The draws depend on the seed and the shapes alone: nets of one architecture go the same way, rescaled to their own
    filters.
    """
    generator = torch.Generator().manual_seed(seed >> 1)
    found = {}
    for name, weight in weights.items():
        if weight.dim() < 2:
            continue
        drawn = torch.randn(weight.shape, generator=generator).to(weight.device, weight.dtype)
        scale = _filter_norms(weight) / (_filter_norms(drawn) + TINY)
        found[name] = drawn * scale.view(-1, *[1] * (weight.dim() - 1))
    return found


def _filter_norms(weight: Tensor) -> Tensor:
    norms: Tensor = weight.detach().flatten(1).norm(dim=1)
    return norms


def _filled(surface: Surface, path: Path, net: nn.Module, loss: Objective, progress: Progress | None) -> Surface:
    """Computes the rows that are missing; each is written as it is finished."""
    weights = {name: parameter for name, parameter in net.named_parameters() if parameter.dim() > 1}
    solution = {name: weight.detach().clone() for name, weight in weights.items()}
    first, second = (filter_normalised(solution, subseed(surface.story["direction_seed"], axis)) for axis in range(2))
    size = len(surface.steps)
    try:
        for row in np.flatnonzero(~surface.done):
            for column in range(size):
                _move(weights, solution, (first, second), (surface.steps[row], surface.steps[column]))
                surface.loss[row, column] = loss()
                if progress is not None:
                    progress(int(surface.done.sum()) * size + column + 1, size * size)
            surface.done[row] = True
            surface.write(path)
    except KeyboardInterrupt:
        raise Interrupted(
            f"stopped after {surface.done.sum()} of {size} rows of {path}. They are kept: the same command goes on."
        ) from None
    finally:
        _move(weights, solution, (first, second), (0.0, 0.0))
    return surface


@torch.no_grad()
def _move(
    weights: Mapping[str, Tensor],
    solution: Mapping[str, Tensor],
    directions: Sequence[Mapping[str, Tensor]],
    steps: tuple[float, float],
) -> None:
    """Always from the solution, never from the last point: a resumed surface is the same bit for bit."""
    for name, weight in weights.items():
        weight.copy_(solution[name])
        for direction, step in zip(directions, steps, strict=True):
            weight.add_(direction[name], alpha=float(step))


def _begun(plane: Plane, directory: RunDirectory, story: Mapping[str, Any], again: bool) -> Surface:
    """An earlier surface of the same story, to be finished; else an empty one."""
    path = plane.file(directory)
    if path.is_file() and not again:
        earlier = Surface.read(path)
        changed = [key for key in story if earlier.story.get(key) != story[key]]
        if changed:
            was = ", ".join(f"{key} was {earlier.story.get(key)!r}, now {story[key]!r}" for key in changed[:3])
            raise LandscapeError(f"{path} holds another surface: {was}. Compute it anew with --again.")
        return earlier
    size = plane.grid
    return Surface(plane.steps, np.full((size, size), np.nan), np.zeros(size, bool), story)


def _story(
    directory: RunDirectory, described: Mapping[str, Any], bench: Bench, plane: Plane, rows: Rows
) -> dict[str, Any]:
    selected = directory.result()["selected"]
    return {
        "format": FORMAT,
        "method": described["method"],
        "loss": plane.loss or described["method"],
        "own": plane.loss is None,
        "options": dict(described["method_options"] if plane.loss is None else plane.loss_options),
        "grid": plane.grid,
        "span": plane.span,
        "images": len(rows),
        "seed": plane.seed,
        "direction_seed": plane.direction_seed,
        "epoch": selected["epoch"],
        "observed": bench.observed.fingerprint(),
    }
