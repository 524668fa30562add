"""The linear protocol against the published way: one synthetic problem, both sides on it in turn, one epoch at a time.

An epoch, on both sides, is what the published programs do in one: a training pass whose own predictions are kept, a
pass over validation and one over test, and mAP with precision and recall at 1, 3 and 5 of each pass, against the truth
and against the observed labels. Our side is the ordinary path with its defaults: `tacit.train.fit` with a listener that
scores through `tacit.evaluate` and `tacit.metrics`, on the threads that `tacit train` sets for features. Both sides
start from the same values and see the same batches in the same order. That they do the same is shown by a further,
untimed epoch of ours with the published log(p + 1e-5) (`--eps 1e-5` of every method): what it has learned, and every
metric, must agree with the peer's first epoch, and the largest difference is printed.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import published_way
from published_way import Peer, Seconds
from tacit.data.batches import Batches, FeatureInputs
from tacit.data.splits import hold_out
from tacit.evaluate import scores
from tacit.labels import Labels
from tacit.methods.base import Clock, Method, Stage
from tacit.methods.registry import build_method
from tacit.metrics import at_k, mean_average_precision, summarise, unknown_as_absent
from tacit.nets.net import make_net
from tacit.observations import parse_observation
from tacit.runtime import Runtime
from tacit.step import Recorder
from tacit.train import EpochEnd, State, fit
from timing import Claim

SEED, EPS = 0, 1e-5
OUR_THREADS = 1  # what `tacit train` sets for steps on features


# --- the problem ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Size:
    pool: int  # divided into train and validation, 80 / 20, by the published split
    test: int
    width: int
    classes: int
    positives: float  # expected per image

    def __str__(self) -> str:
        return f"{self.pool:,} + {self.test:,} rows x {self.width:,} x {self.classes}"


COCO = Size(pool=82_081, test=40_137, width=2048, classes=80, positives=2.9)
VOC = Size(pool=5_717, test=5_823, width=2048, classes=20, positives=1.5)
TINY = Size(pool=200, test=90, width=24, classes=7, positives=1.6)


@dataclass(frozen=True)
class Problem:
    """Features (float16, as cached), truth and observed labels by split."""

    size: Size
    features: dict[str, NDArray[np.float16]]
    truth: dict[str, Labels]
    observed: dict[str, Labels]

    def as_published(self) -> dict[str, published_way.Split]:
        """The same in float32 and 0 / 1."""
        return {
            name: published_way.Split(
                self.features[name].astype(np.float32),
                (self.truth[name].dense() == 1).astype(np.float32),
                (self.observed[name].dense() == 1).astype(np.float32),
            )
            for name in self.features
        }


def make_problem(size: Size) -> Problem:
    """Non-negative features, as a ReLU leaves them, that a linear classifier can learn from, not perfectly."""
    generator = torch.Generator().manual_seed(SEED)
    directions = torch.randn(size.classes, size.width, generator=generator)
    pool, truth = _draw(size.pool, size, directions, generator)
    test, test_truth = _draw(size.test, size, directions, generator)
    hidden = parse_observation("single-positive")(truth, seed=1200)
    rows, held = hold_out(size.pool, 0.2, 1200)
    return Problem(
        size,
        {"train": pool[rows], "val": pool[held], "test": test},
        {"train": truth.take(rows), "val": truth.take(held), "test": test_truth},
        {
            "train": hidden.take(rows),
            "val": hidden.take(held),
            "test": parse_observation("single-positive")(test_truth, seed=1200),
        },
    )


def _draw(
    rows: int, size: Size, directions: Tensor, generator: torch.Generator, block: int = 4096
) -> tuple[NDArray[np.float16], Labels]:
    present = torch.rand(rows, size.classes, generator=generator) < (size.positives - 1) / size.classes
    present[torch.arange(rows), torch.randint(size.classes, (rows,), generator=generator)] = True
    features = np.empty((rows, size.width), np.float16)
    for start in range(0, rows, block):
        some = present[start : start + block].float()
        noise = torch.randn(len(some), size.width, generator=generator)
        features[start : start + block] = (0.25 * some @ directions + noise).clamp_(min=0).mul_(0.5).numpy()
    states = np.where(present.numpy(), 1, -1).astype(np.int8)
    return features, Labels.from_dense(states, [f"class {i}" for i in range(size.classes)])


# --- our side ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """What is trained, named as on the command line."""

    method: str
    options: Mapping[str, Any]
    objective: published_way.Objective
    batch_size: int = 16
    lr: float = 1e-3
    probe: int = 40  # steps of the stretches by which the peer's threads and workers are chosen
    everything: bool = False  # every metric that a run reports, not the published ones alone


def an_work(**changes: Any) -> Work:
    return replace(Work("an", {}, published_way.assume_negative), **changes)


def role_work(k: float, **changes: Any) -> Work:
    return replace(Work("role", {"k": k}, published_way.role(k), probe=10), **changes)


class Ours:
    """Listens to `fit`: after each epoch the metrics, the clock, and then the other side's turn (`between`)."""

    def __init__(self, problem: Problem, work: Work, device: str, rounds: int) -> None:
        self.problem, self.work, self.rounds = problem, work, rounds
        self.runtime = Runtime(device)
        self.inputs = {name: FeatureInputs(f, self.runtime.device) for name, f in problem.features.items()}
        observed = problem.observed["train"]
        torch.manual_seed(SEED)
        net = make_net(None, problem.size.classes, width=problem.size.width).to(self.runtime.device)
        self.method: Method = build_method(work.method, net, observed, work.options).to(self.runtime.device)
        self.stage = Stage("linear", rounds, work.batch_size, work.lr, trains="head", inputs="features")
        self.recorder = Recorder(self.method, *observed.shape)
        self.seconds: list[Seconds] = []
        self.metrics: dict[str, dict[str, float]] = {}
        self.between: Callable[[int], None] = lambda epoch: None

    def run(self) -> None:
        torch.set_num_threads(OUR_THREADS)
        self.began = self._now()
        fit(
            self.method,
            self.stage,
            self.inputs["train"],
            self.problem.observed["train"],
            self,
            runtime=self.runtime,
            seed=SEED,
            recorder=self.recorder,
        )

    def order(self, epoch: int) -> list[int]:
        """The rows of an epoch as `fit` draws them."""
        args = self.inputs["train"], self.problem.observed["train"], self.stage, 0, self.method.views
        batches = Batches(*args, seed=SEED, device=torch.device("cpu"))
        return [int(row) for rows in batches.order(epoch) for row in rows]

    def learned(self) -> dict[str, Tensor]:
        return {name: p.detach().cpu().clone() for name, p in self.method.named_parameters()}

    def on_step(self, clock: Clock, terms: dict[str, float]) -> None: ...

    def interrupted(self, state: State) -> bool:
        return False

    def on_epoch(self, end: EpochEnd, state: State) -> bool:
        trained = self._now()
        told = {"train": self.recorder.probabilities().numpy()}
        told |= {name: scores(self.method, self.inputs[name], self.runtime) for name in ("val", "test")}
        predicted = self._now()
        self.metrics = {name: self._score(name, told[name]) for name in told}
        scored = self._now()
        self.seconds.append(Seconds(trained - self.began, predicted - trained, scored - predicted))
        self.between(end.clock.epoch)
        torch.set_num_threads(OUR_THREADS)
        self.began = self._now()
        return False

    def _score(self, name: str, told: NDArray[np.float32]) -> dict[str, float]:
        observed = unknown_as_absent(self.problem.observed[name].dense())
        against = {"clean": self.problem.truth[name].dense(), "observed": observed}
        out = {}
        if self.work.everything:
            out = {f"clean {metric}": value for metric, value in summarise(told, against.pop("clean")).items()}
        for labels, states in against.items():
            out[f"{labels} mAP"] = mean_average_precision(told, states, empty="zero").value
            for k, found in at_k(told, states, empty="zero").items():
                out |= {f"{labels} precision@{k}": found.precision, f"{labels} recall@{k}": found.recall}
        return out

    def _now(self) -> float:
        if self.runtime.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()


# --- both sides in turn -----------------------------------------------------------------------------------------------


@dataclass
class Duel:
    """Seconds per epoch of both sides, and how far apart they are after one epoch of the same arithmetic."""

    setting: str  # the peer's fastest
    ours: list[Seconds] = field(default_factory=list)
    peer: list[Seconds] = field(default_factory=list)
    learned: dict[str, float] = field(default_factory=dict)  # largest difference of a value, by parameter
    metrics: float = 0.0  # largest difference of a metric, as a fraction

    def ratio(self, part: Callable[[Seconds], float]) -> float:
        return statistics.median(map(part, self.peer)) / statistics.median(map(part, self.ours))


def duel(problem: Problem, work: Work, *, rounds: int, peer_rounds: int = 1, device: str = "cpu") -> Duel:
    """Our epoch, the peer's epoch, ours again and so on; the peer may leave after `peer_rounds`.

    Before that the peer's threads and loader workers are chosen, on a copy of it.
    """
    ours = Ours(problem, work, device, rounds)
    same = Ours(problem, replace(work, options={**work.options, "eps": EPS}), device, rounds=1)
    same.run()
    start = ours.learned()
    splits = problem.as_published()
    initial = {
        "weight": start["net.head.weight"],
        "bias": start["net.head.bias"],
        "theta": start.get("theta.weight"),
    }

    def peer_with(workers: int) -> Peer:
        return Peer(
            splits,
            work.objective,
            **initial,
            lr=work.lr,
            batch_size=work.batch_size,
            device=device,
            workers=workers,
            everything=work.everything,
        )

    threads, workers = fastest(peer_with, ours.order(0), work)
    out = Duel(f"{threads} thread{'s' * (threads > 1)}, {workers} loader workers", ours.seconds)
    peer = peer_with(workers)

    def take_turns(epoch: int) -> None:
        if epoch >= peer_rounds:
            return
        torch.set_num_threads(threads)
        out.peer.append(peer.epoch(ours.order(epoch)))
        if epoch > 0:
            return
        theirs = {"net.head.weight": peer.net.weight, "net.head.bias": peer.net.bias, "theta.weight": peer.theta}
        out.learned = {name: gap(value, theirs[name]) for name, value in same.learned().items()}
        out.metrics = max(
            abs(value - peer.metrics[split][name])
            for split, found in same.metrics.items()
            for name, value in found.items()
        )

    ours.between = take_turns
    ours.run()
    return out


def gap(ours: Tensor, theirs: Tensor | None) -> float:
    assert theirs is not None
    return float((ours - theirs.detach().cpu()).abs().max())


def fastest(peer_with: Callable[[int], Peer], order: list[int], work: Work) -> tuple[int, int]:
    """The peer's best (threads, loader workers), by the median of three stretches of training each."""
    settings = list(itertools.product((1, 2), (0, 2)))
    peers = {workers: peer_with(workers) for workers in (0, 2)}
    # Starting worker processes costs once per pass: only a longer stretch weighs it as an epoch does.
    rows = work.probe * work.batch_size
    stretches = {0: order[:rows], 2: order[: 10 * rows]}
    seconds: dict[tuple[int, int], list[float]] = {setting: [] for setting in settings}
    for threads, workers in settings * (3 if len(order) > rows else 1):
        torch.set_num_threads(threads)
        began = time.perf_counter()
        peers[workers].train(stretches[workers])
        seconds[threads, workers].append((time.perf_counter() - began) / len(stretches[workers]))
    return min(settings, key=lambda setting: statistics.median(seconds[setting]))


# --- what is said about it --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LinearClaim(Claim):
    """`ratio` is that of the whole epoch; `error` the largest difference of a learned value or metric."""

    without_metrics: float = 0.0  # ratio of the three passes alone
    training: float = 0.0  # ratio of the training pass alone
    seconds: float = 0.0  # median epoch, ours
    peer_seconds: float = 0.0
    device: str = "cpu"


def whole(seconds: Seconds) -> float:
    return seconds.total


def passes(seconds: Seconds) -> float:
    return seconds.train + seconds.predict


def training(seconds: Seconds) -> float:
    return seconds.train


def conclude(title: str, found: Duel, wanted: float, device: str = "cpu") -> LinearClaim:
    """Print where the time went, and make the claim."""
    print(f"{title}; peer with {found.setting}")
    print(f"{'':14}{'epochs':>8}{'training s':>12}{'predict s':>11}{'metrics s':>11}{'epoch s':>10}")
    for name, side in (("published way", found.peer), ("tacit", found.ours)):
        parts = [statistics.median(getattr(s, part) for s in side) for part in ("train", "predict", "metrics", "total")]
        print(f"{name:14}{len(side):8}{parts[0]:12.3f}{parts[1]:11.3f}{parts[2]:11.3f}{parts[3]:10.3f}")
    print(
        f"ratio: {found.ratio(whole):.1f} whole epoch, {found.ratio(passes):.1f} without metrics, "
        f"{found.ratio(training):.1f} training pass"
    )
    apart = {**found.learned, "metrics": found.metrics}
    print(
        "largest differences after one epoch of the same arithmetic: "
        + ", ".join(f"{k} {v:.1e}" for k, v in apart.items())
    )
    return LinearClaim(
        claim=title,
        peer=f"published way, PyTorch {torch.__version__}, {published_way.metrics_library()} ({found.setting})",
        ratio=round(found.ratio(whole), 1),
        wanted=wanted,
        error=float(f"{max(apart.values()):.1e}"),
        without_metrics=round(found.ratio(passes), 1),
        training=round(found.ratio(training), 1),
        seconds=round(statistics.median(map(whole, found.ours)), 3),
        peer_seconds=round(statistics.median(map(whole, found.peer)), 3),
        device=device if device == "cpu" else torch.cuda.get_device_name(),
    )
