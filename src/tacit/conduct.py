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
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from .artifacts import write_examples, write_maps, write_model_of, write_observed, write_scores
from .assemble import Bench, assemble, check_fit, search_points
from .data.batches import Inputs
from .errors import UserError
from .evaluate import figures, scores, scores_train
from .files import alone_in
from .gradients import write_regime
from .methods.base import Method, Stage
from .protocols import budgets, of_budget, of_method
from .result import Verdict, described, outcome, write_result
from .run import RunConfig, RunDirectory
from .runtime import Runtime
from .train import Diverged, Interrupted
from .trial import Interruption, Screen, Silent, Trial, discard
from .winners import keep_if_better, winner_file, winner_of


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
        unknown = bench.rehearse(stages, search_points(config))
    except UserError:
        if runtime.is_main:
            directory.leave_untouched()
        raise
    for warning in (*(str(p) for p in bench.source.problems), *bench.warnings):
        screen.say(f"warning: {warning}")
    screen.say(f"{config.method}, unknown labels: {unknown}")
    if config.tracker:
        runtime.accelerator.init_trackers("tacit", config={k: str(v) for k, v in vars(config).items()})
    if runtime.is_main:
        write_observed(directory, bench)
    with _stop_on_ctrl_c() as interruption:
        try:
            tried = _train(bench, directory, stages, runtime, screen, interruption)
        except Interrupted as stop:
            words = ("--config", directory.config_file, "--out", directory.path, "--resume")
            again = shlex.join(["tacit", "train", *map(str, words)])
            raise Interrupted(f"{stop}. Everything is saved; go on with:\n  {again}") from stop
        except UserError:  # often about the inputs, which are opened late
            if runtime.is_main:
                directory.leave_untouched()
            raise
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
                keep_if_better(directory, rule, point, b, tried)
            directory.append(directory.search_file, line)
            discard(where.checkpoint_file)
        tried.append(line)
        runtime.wait()
    if not any(line["best"] for line in tried):
        raise Diverged("every point of the search diverged: the loss became NaN or infinite. Search smaller lr.")
    return tried


def _name(point: dict[str, Any]) -> str:
    """Every digit: two points never share a folder."""
    return "-".join(f"{key}={value!r}" for key, value in point.items())


# --- the result -------------------------------------------------------------------------------------------------------


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
    method = bench.method(net, runtime, of_method(winner_of(directory, bench.config.selection).point))
    verdict = _judge(bench, directory, method, inputs, runtime)
    if not runtime.is_main:
        runtime.wait()
        return directory.result()
    if bench.config.search:
        chosen = RunDirectory(directory.path / "search" / _name(verdict.main.point))
        shutil.copyfile(chosen.metrics_file, directory.metrics_file)
    write_model_of(directory, bench, method, inputs, verdict)
    write_regime(directory, bench.observed)
    for name in verdict.told:
        write_scores(directory, name, bench, verdict.told[name])
    examples = write_examples(directory, bench.splits["test"])
    write_maps(directory, bench, method, inputs, verdict, examples, runtime)
    facts = {
        "seconds": seconds,
        "peak_memory_mb": _peak_memory(runtime),
        "device": _device_name(runtime),
        "threads": torch.get_num_threads(),
    }
    result = write_result(directory, bench, method, outcome(bench, stages, method, verdict, tried) | facts)
    for rule in bench.config.selections:
        discard(winner_file(directory, rule))
    runtime.wait()
    return result


def _judge(
    bench: Bench, directory: RunDirectory, method: Method, inputs: dict[str, Inputs], runtime: Runtime
) -> Verdict:
    also: dict[str, dict[str, Any]] = {}
    place: tuple[Any, ...] | None = None
    scored = [name for name in inputs if name != "train" or scores_train(bench.judge.train)]
    for rule in reversed(bench.config.selections):  # the main rule last: its weights stay in the method
        winner = winner_of(directory, rule)
        if winner.place != place:  # two rules often choose the same epoch
            method.load_state_dict(winner.state)
            told = {name: scores(method, inputs[name], runtime) for name in scored}
            measured = {name: figures(told[name], bench.splits[name].labels) for name in told}
        place = winner.place
        also[rule] = described(winner, measured)
    del also[bench.config.selection]
    return Verdict(winner, told, measured, also, bench.judge.thresholds(bench.config.selection, told.get("val")))


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
