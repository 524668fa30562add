"""Many runs, of a table or a sweep: where each lives, and how all get done, one after another or side by side."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UserError
from ..observations import parse_observation
from ..run import RunConfig, RunDirectory
from .spec import Cell, Table, TableError

if TYPE_CHECKING:
    from ..trial import Screen

OUTPUT = "output.txt"  # of a run in a process of its own
Say = Callable[[str], None]


@dataclass(frozen=True)
class Planned:
    """One run of a cell of a table, or of a point of a sweep."""

    label: str  # the cell's recipe, the point
    config: RunConfig
    out: Path

    @property
    def name(self) -> str:
        return f"{self.label}, {self.out.name}"


@dataclass(frozen=True)
class Failure:
    run: Planned
    reason: str


@dataclass(frozen=True)
class Seeds:
    """Seeds of training, each with its observation seed; None: the published one, of the recipe or its observation."""

    pairs: tuple[tuple[int, int | None], ...]
    drawn_anew: bool = False  # the published observation seed plus the training seed

    @classmethod
    def read(cls, seeds: str, observe_seeds: str) -> Seeds:
        """`0,1,2` with `published`, `paired` or one observation seed per seed."""
        training = _numbers("--seeds", seeds)
        if observe_seeds in ("published", "paired"):
            return cls(tuple((seed, None) for seed in training), observe_seeds == "paired")
        drawn = _numbers("--observe-seeds", observe_seeds)
        if len(drawn) != len(training):
            raise TableError(
                f"--observe-seeds {observe_seeds}: {len(drawn)} for the {len(training)} of --seeds {seeds}. Write one "
                "per seed, or published (the same hidden labels for all), or paired (hidden anew with each seed)."
            )
        return cls(tuple(zip(training, drawn, strict=True)))

    def for_observation(self, observe: str, published: int | None = None) -> list[tuple[int, int]]:
        """Full labels hide nothing: their runs keep the published seed, whatever the others draw."""
        if published is None:
            published = parse_observation(observe).published_seed
        if observe == "full":
            return [(seed, published) for seed, _ in self.pairs]
        anew = int(self.drawn_anew)
        return [(seed, published + anew * seed if given is None else given) for seed, given in self.pairs]


def _numbers(flag: str, text: str) -> list[int]:
    try:
        found = [int(word) for word in text.split(",")]
    except ValueError:
        raise TableError(f"{flag} takes whole numbers with commas between them, like 0,1,2; not '{text}'") from None
    if len(set(found)) < len(found) or min(found) < 0:
        raise TableError(f"{flag} {text}: every seed once, none below 0")
    return found


def plan(table: Table, configs: Mapping[Cell, RunConfig], seeds: Seeds, out: Path) -> list[Planned]:
    """Seed by seed, so that an interrupted table has whole columns of rows to compare."""
    planned = []
    for at in range(len(seeds.pairs)):
        for cell, config in configs.items():
            seed, drawn = seeds.for_observation(config.observe, config.observe_seed)[at]
            where = out / table.runs / cell.recipe / folder_of(seed, drawn)
            planned.append(Planned(cell.recipe, replace(config, seed=seed, observe_seed=drawn), where))
    return planned


def folder_of(seed: int, observe_seed: int) -> str:
    return f"seed{seed}-observe{observe_seed}"


def run_here(
    runs: Sequence[Planned],
    screen: Callable[[str], AbstractContextManager[Screen]],
    say: Say,
    command: str = "tacit table",
) -> list[Failure]:
    """One after another in this process, which keeps data and decoded images for the next run.

    `command` is what the user typed, and would type again to go on.
    """
    from ..conduct import conduct
    from ..train import Interrupted

    failures: list[Failure] = []
    for number, run in enumerate(runs, 1):
        if not _to_do(run, failures):
            continue
        say(f"[{number}/{len(runs)}] {run.name}")
        try:
            with screen(f"[{number}/{len(runs)}] ") as shown:
                conduct(run.config, run.out, shown, resume=True)
        except Interrupted as stop:
            raise Interrupted(
                f"stopped in {run.name}, saved. The same `{command}` command goes on from there."
            ) from stop
        except UserError as error:
            failures.append(Failure(run, str(error)))
        except Exception as error:  # one run's bug must not cost the others; its traceback is kept
            kept = run.out.parent / f"{run.out.name}.error.txt"
            kept.write_text(traceback.format_exc())
            failures.append(Failure(run, f"{type(error).__name__}: {error} (traceback in {kept})"))
        if failures and failures[-1].run is run:
            say(f"failed: {failures[-1].reason}")
    return failures


def _to_do(run: Planned, failures: list[Failure]) -> bool:
    """Make or enter the run's directory. A finished run is passed over, one of other settings is a failure."""
    run.out.parent.mkdir(parents=True, exist_ok=True)
    try:
        directory = RunDirectory.claim(run.out, run.config, resume=True)
    except UserError as error:
        failures.append(Failure(run, str(error)))
        return False
    return not directory.finished


def run_side_by_side(runs: Sequence[Planned], jobs: int, say: Say, command: str = "tacit table") -> list[Failure]:
    """Each run in a process of its own, `jobs` at a time, with one thread each unless OMP_NUM_THREADS says else.

    Ctrl-C is handed to every process once: each saves its state, and the same command goes on later.
    """
    failures: list[Failure] = []
    waiting = [run for run in runs if _to_do(run, failures)]
    crew = _Crew()
    with ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(crew.train, run): run for run in waiting}
        try:
            for number, future in enumerate(as_completed(futures), 1):
                reason = future.result()
                say(f"[{number}/{len(waiting)}] {futures[future].name}: {reason or 'done'}")
                if reason:
                    failures.append(Failure(futures[future], reason))
        except KeyboardInterrupt:
            crew.stop()
            pool.shutdown(wait=True, cancel_futures=True)
            raise TableError(f"stopped; every run under way was saved. The same `{command}` command goes on.") from None
    return failures


class _Crew:
    """The processes under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._working: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def train(self, run: Planned) -> str:
        """Why the run failed; nothing where it did not."""
        words = ["train", "--config", str(run.out / "config.toml"), "--out", str(run.out), "--resume"]
        environment = {"OMP_NUM_THREADS": "1", **os.environ}
        output = run.out / OUTPUT
        with output.open("wb") as file:
            with self._lock:
                if self._stopped:
                    return "not started"
                # A session of its own: a terminal's Ctrl-C would reach it twice, and the second one does not save.
                process = subprocess.Popen(
                    [sys.executable, "-m", "tacit.tables.member", *words],
                    stdin=subprocess.PIPE, stdout=file, stderr=subprocess.STDOUT,
                    env=environment, start_new_session=True,
                )  # fmt: skip
                self._working.add(process)
            code = process.wait()
            assert process.stdin is not None
            process.stdin.close()  # open until now: its end would stop the run
        with self._lock:
            self._working.discard(process)
        return "" if code == 0 else f"{_last_message(output)} (all of it in {output})"

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            for process in self._working:
                process.send_signal(signal.SIGINT)


def _last_message(output: Path) -> str:
    """The sentences `tacit train` ended with."""
    text = "\n" + output.read_text(errors="replace").strip()
    _, mark, said = text.rpartition("\ntacit:")
    return " ".join((said if mark else text[-300:]).split())
