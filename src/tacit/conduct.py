"""A run from configuration to result: trials, the choice on validation, one look at the test split, the files."""

from __future__ import annotations

import resource
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .assemble import Bench, assemble, backbone_name, check_fit, search_points
from .checkpoint import load, named, save, under
from .data.batches import ImageInputs, Inputs
from .data.source import Split
from .errors import UserError
from .evaluate import Scores, calibration_figures, counts, decisions, figures, scores
from .files import alone_in, atomic_write
from .gradients import write_regime
from .label_table import LabelTable, write_label_table
from .labels import Labels
from .methods.base import Method, Stage
from .model import Extractor, write_model
from .protocols import budgets, of_budget, of_method
from .result import describe_choices, describe_oracles, protocol_parts, write_result
from .run import Rule, RunConfig, RunDirectory
from .runtime import Runtime
from .thumbnails import thumbnails
from .train import Diverged, Interrupted
from .trial import Best, Interruption, Screen, Silent, Trial, discard


@dataclass(frozen=True)
class Winner:
    """The best epoch of the best trial under a rule."""

    rule: Rule
    point: dict[str, Any]  # the search's choice; empty without a search
    stage: str
    epoch: int
    value: float | None
    state: dict[str, Tensor]

    @property
    def place(self) -> tuple[Any, ...]:
        """Which weights these are."""
        return self.point, self.stage, self.epoch


def conduct(config: RunConfig, out: Path, screen: Screen, *, resume: bool = False) -> dict[str, Any]:
    """Run `config` into the directory `out`; returns the content of result.json."""
    stages = budgets(config.protocol, config.budget)
    check_fit(config, stages)
    search_points(config)
    runtime = Runtime(config.device, config.precision, trackers=config.tracker, project=out)
    screen = screen if runtime.is_main else Silent()
    with alone_in(out) if runtime.is_main else nullcontext():
        directory = _claim(out, config, runtime, resume=resume)
        if directory.finished:
            result = directory.result()
            screen.say(f"{out} is finished already.")
            return result
        return _conduct(config, directory, stages, runtime, screen)


def _claim(out: Path, config: RunConfig, runtime: Runtime, *, resume: bool) -> RunDirectory:
    """The first process claims the directory; the others then find it."""
    directory = RunDirectory.claim(out, config, resume=resume) if runtime.is_main else RunDirectory(out)
    runtime.wait()
    return directory


def _conduct(
    config: RunConfig, directory: RunDirectory, stages: tuple[Stage, ...], runtime: Runtime, screen: Screen
) -> dict[str, Any]:
    began = time.perf_counter()
    try:
        bench = assemble(config)
        rehearsed = bench.rehearse(stages, search_points(config))
    except UserError:
        if runtime.is_main:
            directory.leave_untouched()
        raise
    for warning in (*(str(p) for p in bench.source.problems), *bench.warnings):
        screen.say(f"warning: {warning}")
    screen.say(f"{config.method}: unknown labels are {rehearsed.unknown}")
    if config.tracker:
        runtime.accelerator.init_trackers("tacit", config={k: str(v) for k, v in vars(config).items()})
    if runtime.is_main:
        _write_observed(directory, bench)
    with _stop_on_ctrl_c() as interruption:
        try:
            tried = _train(bench, directory, stages, runtime, screen, interruption)
        except Interrupted as stop:
            words = ("--config", directory.config_file, "--out", directory.path, "--resume")
            again = shlex.join(["tacit", "train", *map(str, words)])
            raise Interrupted(f"{stop}. Everything is saved; go on with:\n  {again}") from stop
    try:
        result = _finish(bench, directory, stages, runtime, screen, tried, time.perf_counter() - began)
    except torch.cuda.OutOfMemoryError as error:
        raise _out_of_memory(config, stages[-1]) from error
    if config.tracker:
        runtime.accelerator.end_training()
    return result


# --- training: one trial, or a search ---------------------------------------------------------------------------------


def _train(
    bench: Bench,
    directory: RunDirectory,
    stages: tuple[Stage, ...],
    runtime: Runtime,
    screen: Screen,
    interruption: Interruption,
) -> list[dict[str, Any]]:
    """Every point of the search (one, where there is none); the winners' states end up in the directory."""
    points = search_points(bench.config)
    tried = directory.lines(directory.search_file)
    for number, point in enumerate(points):
        if any(line["point"] == point for line in tried):
            continue
        where = RunDirectory(directory.path / "search" / _name(point)) if bench.config.search else directory
        where.path.mkdir(parents=True, exist_ok=True)
        if bench.config.search:
            screen.say(f"search {number + 1} of {len(points)}: {_name(point)}")
        last = replace(stages[-1], **of_budget(point))
        trial = Trial(bench, where, (*stages[:-1], last), runtime, screen, interruption, of_method(point))
        try:
            best = trial.run()
        except torch.cuda.OutOfMemoryError as error:
            raise _out_of_memory(bench.config, trial.budgets[trial.budget]) from error
        except Diverged as error:
            if not bench.config.search:
                raise
            screen.say(f"warning: {_name(point)} left out: {error}")
            best = {}
        line = {"point": point, "best": {rule: b.facts() for rule, b in best.items()}}
        if runtime.is_main:
            for rule, b in best.items():
                _keep_if_better(directory, rule, point, b, tried)
            directory.append(directory.search_file, line)
            discard(where.checkpoint_file)
        tried.append(line)
        runtime.wait()
    if not any(line["best"] for line in tried):
        raise Diverged("every point of the search diverged: the loss became NaN or infinite. Search smaller lr.")
    return tried


def _name(point: dict[str, Any]) -> str:
    return "-".join(f"{key}={value:g}" for key, value in point.items())


def _winner_file(directory: RunDirectory, rule: Rule) -> Path:
    return directory.path / "checkpoint" / f"best-{rule}.safetensors"


def _keep_if_better(
    directory: RunDirectory, rule: Rule, point: dict[str, Any], best: Best, tried: list[dict[str, Any]]
) -> None:
    """First maximum in the order of the grid, as for epochs."""
    earlier = [line["best"][rule]["value"] for line in tried if rule in line["best"]]
    if not earlier or best.value is None or best.value > max(earlier):
        save(_winner_file(directory, rule), named(best.state, "method"), {"point": point, **best.facts()})


def _winner(directory: RunDirectory, rule: Rule) -> Winner:
    tensors, story = load(_winner_file(directory, rule))
    return Winner(rule, story["point"], story["stage"], story["epoch"], story["value"], under(tensors, "method"))


# --- the result -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """What the chosen epoch is worth; the method then carries its weights."""

    main: Winner
    told: dict[str, Scores]  # split -> scores
    measured: dict[str, dict[str, Any]]  # split -> figures
    also: dict[str, dict[str, Any]]  # the other selection rules of the same run, with their metrics
    thresholds: dict[str, Any]  # chosen on validation


def _finish(
    bench: Bench,
    directory: RunDirectory,
    stages: tuple[Stage, ...],
    runtime: Runtime,
    screen: Screen,
    tried: list[dict[str, Any]],
    seconds: float,
) -> dict[str, Any]:
    """Score every split with the chosen epoch (the test split for the first time) and write the files."""
    inputs = bench.inputs(stages[-1].inputs, runtime, screen.decoding)
    torch.manual_seed(bench.config.seed)
    net = bench.net(stages[-1].inputs, inputs).to(runtime.device)
    method = bench.method(net, runtime, of_method(_winner(directory, bench.config.selection).point))
    verdict = _judge(bench, directory, method, inputs, runtime)
    if not runtime.is_main:
        runtime.wait()
        return directory.result()
    if bench.config.search:
        chosen = RunDirectory(directory.path / "search" / _name(verdict.main.point))
        shutil.copyfile(chosen.metrics_file, directory.metrics_file)
    _write_model(directory, bench, method, inputs, verdict)
    write_regime(directory, bench.observed)
    for name in verdict.told:
        _write_scores(directory, name, bench, verdict.told[name])
    _write_examples(directory, bench.splits["test"])
    facts = {
        "seconds": seconds,
        "peak_memory_mb": _peak_memory(runtime),
        "device": _device_name(runtime),
        "threads": torch.get_num_threads(),
    }
    result = write_result(directory, bench, method, _content(bench, stages, method, verdict, tried) | facts)
    for rule in bench.config.selections:
        discard(_winner_file(directory, rule))
    runtime.wait()
    return result


def _judge(
    bench: Bench, directory: RunDirectory, method: Method, inputs: dict[str, Inputs], runtime: Runtime
) -> Verdict:
    also: dict[str, dict[str, Any]] = {}
    place: tuple[Any, ...] | None = None
    for rule in reversed(bench.config.selections):  # the main rule last: its weights stay in the method
        winner = _winner(directory, rule)
        if winner.place != place:  # two rules often choose the same epoch
            method.load_state_dict(winner.state)
            told = {name: scores(method, inputs[name], runtime) for name in inputs}
            measured = {name: figures(told[name], bench.splits[name].labels) for name in told}
        place = winner.place
        also[rule] = _selected(winner, measured)
    del also[bench.config.selection]
    return Verdict(winner, told, measured, also, bench.judge.thresholds(bench.config.selection, told.get("val")))


def _content(
    bench: Bench, stages: tuple[Stage, ...], method: Method, verdict: Verdict, tried: list[dict[str, Any]]
) -> dict[str, Any]:
    """What result.json says of the outcome."""
    config, main, measured = bench.config, verdict.main, verdict.measured
    return {
        "options": _options(config, stages, main.point),
        "protocol": protocol_parts(bench, stages),
        "fingerprints": {
            "observed": bench.observed.fingerprint(),
            **{name: split.labels.fingerprint() for name, split in bench.splits.items()},
        },
        "classes": list(bench.source.classes),
        "counts": {
            name: counts(split.labels, bench.observed if name == "train" else None)
            for name, split in bench.splits.items()
        },
        "selected": {"stage": main.stage, "epoch": main.epoch, "value": main.value, "point": main.point},
        "metrics": {name: m["metrics"] for name, m in measured.items()},
        "per_class": {name: {"AP": m["AP"]} for name, m in measured.items()},
        "unscored": {name: m["unscored"] for name, m in measured.items()},
        "thresholds": verdict.thresholds,
        "decisions": {
            name: decisions(told, bench.splits[name].labels, verdict.thresholds)
            for name, told in verdict.told.items()
            if name != "train"
        },
        "calibration": {"test": calibration_figures(verdict.told["test"], bench.splits["test"].labels)},
        "estimates": bench.judge.estimates(method.estimates()),
        "also": verdict.also,
        "oracles": describe_oracles(bench, method),
        "choices": describe_choices(bench, stages, main.point),
        "images": len(bench.splits["train"]),
        "search": _search_lines(tried, config.selection) if config.search else None,
    }


def _selected(winner: Winner, measured: dict[str, dict[str, Any]]) -> dict[str, Any]:
    facts = {"point": winner.point, "stage": winner.stage, "epoch": winner.epoch, "value": winner.value}
    return facts | {"metrics": {name: m["metrics"] for name, m in measured.items()}}


def _options(config: RunConfig, stages: tuple[Stage, ...], point: dict[str, Any]) -> dict[str, Any]:
    names = ("epochs", "batch_size", "lr", "weight_decay", "drop_last")
    last = replace(stages[-1], **of_budget(point))
    budget = {name: getattr(last, name) for name in names}
    if len(stages) > 1:
        budget |= {f"linear_{name}": getattr(stages[0], name) for name in names}
    return {"method": config.method_options, "source": config.source_options, "budget": budget}


def _search_lines(tried: list[dict[str, Any]], rule: Rule) -> list[dict[str, Any]]:
    """The search as the report shows it: each point, its best epoch and value under the main rule."""
    kept = [line for line in tried if rule in line["best"]]
    return [{**line["point"], **{k: line["best"][rule][k] for k in ("epoch", "value")}} for line in kept]


def _write_observed(directory: RunDirectory, bench: Bench) -> None:
    """What the method was told, and what validation could see."""
    images, split = list(bench.splits["train"].images), ["train"] * len(bench.observed)
    parts: list[Labels] = [bench.observed]
    if bench.judge.val_observed is not None:
        images += bench.splits["val"].images
        split += ["val"] * len(bench.judge.val_observed)
        parts.append(bench.judge.val_observed)
    write_label_table(directory.labels_file, LabelTable(tuple(images), Labels.stack(parts), tuple(split)))


def _write_model(
    directory: RunDirectory, bench: Bench, method: Method, inputs: dict[str, Inputs], verdict: Verdict
) -> None:
    test = inputs["test"]
    config = replace(bench.config, method_options={**bench.config.method_options, **of_method(verdict.main.point)})
    on_images = isinstance(test, ImageInputs)
    write_model(
        directory,
        method,
        config,
        bench.source.classes,
        preprocessing=test.preprocessing if isinstance(test, ImageInputs) else None,
        extractor=None if on_images or config.features else Extractor.of(config, backbone_name(config)),
        chosen=verdict.thresholds,
    )


def _write_scores(directory: RunDirectory, name: str, bench: Bench, told: Scores) -> None:
    split = bench.splits[name]
    arrays: dict[str, Any] = {"images": np.array(split.images), "scores": told, "truth": split.labels.dense()}
    observed = {"train": bench.observed, "val": bench.judge.val_observed}.get(name)
    if observed is not None:
        arrays["observed"] = observed.dense()
    _write_arrays(directory.path / f"scores-{name}.npz", **arrays)


def _write_examples(directory: RunDirectory, test: Split) -> None:
    """Thumbnails of some test images for the report's grid, where the source has images."""
    index, pixels = thumbnails(test)
    if len(index):
        _write_arrays(directory.path / "examples-test.npz", index=index, pixels=pixels)


def _write_arrays(path: Path, **arrays: Any) -> None:
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)


# --- the machine ------------------------------------------------------------------------------------------------------


@contextmanager
def _stop_on_ctrl_c() -> Iterator[Interruption]:
    """The first Ctrl-C asks the loop to save and stop; the second one ends at once."""
    interruption = Interruption()

    def ask(signum: int, frame: object) -> None:
        if interruption.requested:
            raise KeyboardInterrupt
        interruption.requested = True
        print("\nstopping after this step (Ctrl-C again: at once, without saving)", file=sys.stderr)

    try:
        before = signal.signal(signal.SIGINT, ask)
    except ValueError:  # not the main thread: whoever runs us there handles signals
        yield interruption
        return
    try:
        yield interruption
    finally:
        signal.signal(signal.SIGINT, before)


def _out_of_memory(config: RunConfig, stage: Stage) -> UserError:
    size = f", --image-size {config.image_size}" if config.image_size else ""
    return UserError(
        f"the GPU is out of memory with --batch-size {stage.batch_size}{size}. Try a smaller --batch-size, a "
        "smaller --image-size, or --precision bf16; other processes may also be using this GPU (nvidia-smi)."
    )


def _peak_memory(runtime: Runtime) -> float:
    if runtime.device.type == "cuda":
        return torch.cuda.max_memory_allocated(runtime.device) / 2**20
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes / 1024 if sys.platform != "darwin" else kilobytes / 2**20


def _device_name(runtime: Runtime) -> str:
    return torch.cuda.get_device_name(runtime.device) if runtime.device.type == "cuda" else "cpu"
