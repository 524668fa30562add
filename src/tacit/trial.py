"""One training of one configuration: evaluation after every epoch, the best epoch per rule, checkpoints, interruption.

A run without a search is one trial; a search is several, compared on validation only.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from .assemble import Bench, set_threads
from .checkpoint import CheckpointError, load, named, save, snapshot, under
from .data.batches import Inputs
from .errors import UserError
from .evaluate import scores, scores_train
from .labels import Labels
from .methods.base import STAGES_OF_A_BUDGET, Clock, Method, Stage
from .metrics.ranking import mean_average_precision
from .run import STOP, Rule, RunDirectory
from .runtime import Runtime
from .step import Recorder
from .train import CHECK_EVERY, Diverged, EpochEnd, Interrupted, State, fit

TRACKED = ("val", "train", "estimates", "pseudo_labels")  # parts of an epoch's line that trackers are told, too
CHECKPOINT_SECONDS = 60.0  # between checkpoints at the end of epochs; an interruption always writes one


class Screen(Protocol):
    """Where a run tells what it is doing."""

    def say(self, text: str) -> None: ...

    def step(self, clock: Clock, terms: dict[str, float]) -> None: ...

    def epoch(self, line: dict[str, Any]) -> None: ...

    def decoding(self, done: int, of: int) -> None: ...


class Silent:
    """The screen of processes other than the first."""

    def say(self, text: str) -> None: ...

    def step(self, clock: Clock, terms: dict[str, float]) -> None: ...

    def epoch(self, line: dict[str, Any]) -> None: ...

    def decoding(self, done: int, of: int) -> None: ...


@dataclass
class Best:
    """The epoch that a rule prefers so far; equal values keep the earlier one, as published."""

    value: float | None
    stage: str
    epoch: int
    state: dict[str, Tensor]
    closed: bool = False  # the rule stops early, and an epoch was no better: later ones are not looked at

    def facts(self) -> dict[str, Any]:
        return {"value": self.value, "stage": self.stage, "epoch": self.epoch, "closed": self.closed}


@dataclass
class Interruption:
    """Set from outside (Ctrl-C, a test): stop after the current step."""

    requested: bool = False


class Trial:
    """Listens to the loop. `best` is what it is for."""

    def __init__(
        self,
        bench: Bench,
        directory: RunDirectory,
        budgets: Sequence[Stage],
        runtime: Runtime,
        screen: Screen,
        interruption: Interruption,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.bench, self.directory, self.budgets = bench, directory, tuple(budgets)
        self.options = dict(options or {})  # hyper-parameters of the method that a search sets
        self.runtime, self.screen, self.interruption = runtime, screen, interruption
        self.rules: tuple[Rule, ...] = bench.config.selections
        self.best: dict[Rule, Best] = {}
        self.budget = 0  # which budget of the protocol is running
        self.method: Method
        self.inputs: dict[str, Inputs]
        self.recorder: Recorder | None = None
        self.lines = 0
        self.saved_at = time.perf_counter()

    def run(self) -> dict[Rule, Best]:
        """Train through all budgets, from the checkpoint on where there is one."""
        story, tensors = self._open_checkpoint()
        state: State | None = None
        previous: Method | None = None
        for number in range(story.get("budget", 0), len(self.budgets)):
            self.budget = number
            budget = self.budgets[number]
            set_threads(self.bench.config, budget)
            self.inputs = self.bench.inputs(budget.inputs, self.runtime, self.screen.decoding)
            self._build(budget, previous)
            if tensors:
                state = self._restore(story, tensors)
                tensors = {}
            if not self._stopped():  # stopped early, and interrupted before that was put to use
                self._fit(budget, state)
            state = None
            if number + 1 < len(self.budgets):
                previous = self._take_best_back()
        return self.best

    def _fit(self, budget: Stage, state: State | None) -> None:
        try:
            fit(
                self.method,
                budget,
                self.inputs["train"],
                self.bench.observed,
                self,
                runtime=self.runtime,
                seed=self.bench.config.seed,
                state=state,
                first_stage=STAGES_OF_A_BUDGET * self.budget,
                recorder=self.recorder,
            )
        except Diverged as error:
            where = self.directory.checkpoint_file
            kept = f"The last checkpoint is {where}." if where.is_file() else "There was no checkpoint yet."
            raise Diverged(f"{error} {kept}") from error

    def _build(self, budget: Stage, previous: Method | None) -> None:
        """A fresh method for this budget; what an earlier budget learned is handed over."""
        torch.manual_seed(self.bench.config.seed)
        net = self.bench.net(budget.inputs, self.inputs).to(self.runtime.device)
        if previous is not None:
            _take_head(net.head, previous.net.head)  # type: ignore[arg-type]
        self.method = self.bench.method(net, self.runtime, self.options)
        if previous is not None:
            self.method.hand_over(previous)
        rows, classes = self.bench.observed.shape
        accumulated = self.bench.config.train_scores == "accumulated" and scores_train(self.bench.observed)
        self.recorder = Recorder(self.method, rows, classes) if accumulated else None

    def _take_best_back(self) -> Method:
        """The method as its selected epoch left it."""
        self.method.load_state_dict(self.best[self.rules[0]].state)
        self.best = {}
        return self.method

    # --- what the loop calls ------------------------------------------------------------------------------------

    def on_step(self, clock: Clock, terms: dict[str, float]) -> None:
        self.screen.step(clock, terms)

    def interrupted(self, state: State) -> bool:
        if self.runtime.world > 1 and state.step % CHECK_EVERY:
            return False  # processes have to stop at the same step, and asking each other costs time
        if stop := self.runtime.any(self.interruption.requested):
            self._save(state)
        return stop

    def on_epoch(self, end: EpochEnd, state: State) -> bool:
        line = {"stage": end.stage.name, "epoch": end.clock.epoch, "terms": end.terms, "seconds": end.seconds}
        line |= {"lr": end.stage.lr} | self._evaluate(end)
        if self.runtime.is_main:
            self.directory.append(self.directory.metrics_file, line)
        self.lines += 1
        self.screen.epoch(line)
        self._track(line)
        if self._stopped():
            return True
        stop = self.runtime.any(self.interruption.requested)
        if stop or self.runtime.any(time.perf_counter() - self.saved_at > CHECKPOINT_SECONDS):
            self._save(state)
        if stop:
            raise Interrupted(f"stopped after epoch {end.clock.epoch} of {end.stage.name}")
        return False

    def _evaluate(self, end: EpochEnd) -> dict[str, Any]:
        """Validation scores, what each rule makes of them, and diagnoses against the truth."""
        judge, out = self.bench.judge, dict[str, Any]()
        val = scores(self.method, self.inputs["val"], self.runtime) if "val" in self.inputs else None
        values = {rule: judge.selection(rule, val) for rule in self.rules}
        for rule, value in values.items():
            self._prefer(rule, value, end)
        if val is not None:
            out["val"] = {"mAP": values["clean"] if "clean" in values else judge.selection("clean", val)}
            out["selection"] = values[self.rules[0]]
        if (recovery := self._label_recovery(end)) is not None:
            out["train"] = {"mAP": recovery}
        if (guess := judge.estimates(self.method.estimates())) is not None:
            out["estimates"] = guess
        if (made := judge.pseudo_labels(self.method.pseudo_labels())) is not None:
            out["pseudo_labels"] = made
        return out

    def _prefer(self, rule: Rule, value: float | None, end: EpochEnd) -> None:
        """Keep this epoch where the rule likes it better than all before; a stopping rule then has seen enough at the
        first that is no better (patience 0). Earlier budgets of a protocol run to their end."""
        if end.stage.prepares:
            return
        held = self.best.get(rule)
        if held is None or (not held.closed and (value is None or held.value is None or value > held.value)):
            self.best[rule] = Best(value, end.stage.name, end.clock.epoch, snapshot(self.method))
        elif rule.endswith(STOP) and self.budget + 1 == len(self.budgets):
            held.closed = True

    def _stopped(self) -> bool:
        """Whether no rule would look at another epoch."""
        return bool(self.best) and all(best.closed for best in self.best.values())

    def _label_recovery(self, end: EpochEnd) -> float | None:
        """mAP of the classifier on its own training images against the truth."""
        when = self.bench.config.train_scores
        truth: Labels = self.bench.judge.train
        if not scores_train(truth):
            return None
        if self.recorder is not None:
            told = self.recorder.probabilities().numpy()
            seen = np.isfinite(told).all(axis=1)
            if not seen.any():  # the method has other ways to ask its net: no pass was recorded
                return None
            return _or_none(mean_average_precision(told[seen], truth.dense()[seen]).value)
        if when == "end" or (when == "auto" and end.stage.inputs == "images"):
            return None
        train = scores(self.method, self.inputs["train"], self.runtime)
        return _or_none(mean_average_precision(train, truth.dense()).value)

    def _track(self, line: dict[str, Any]) -> None:
        if self.bench.config.tracker:
            flat = {f"terms/{k}": v for k, v in line["terms"].items()}
            flat |= {f"{part}/{k}": v for part in TRACKED for k, v in line.get(part, {}).items()}
            self.runtime.accelerator.log(flat, step=self.lines)

    # --- checkpoints --------------------------------------------------------------------------------------------

    def _identity(self) -> dict[str, Any]:
        """What a checkpoint belongs to."""
        config = self.bench.config
        return {
            "method": config.method,
            "classes": list(self.bench.source.classes),
            "observed": self.bench.observed.fingerprint(),
            "budgets": [{**asdict(b), "parts": []} for b in self.budgets],
        }

    def _save(self, state: State) -> None:
        terms = None if state.terms is None else self.runtime.mean(state.terms)
        if self.runtime.is_main:
            story = {
                **self._identity(),
                "budget": self.budget,
                "state": {"stage": state.stage, "epoch": state.epoch, "step": state.step, "seconds": state.seconds},
                "best": {rule: best.facts() for rule, best in self.best.items()},
                "lines": self.lines,
            }
            tensors = named(self.method.state_dict(), "method") | named(state.optimizer, "optimizer")
            for rule, best in self.best.items():
                tensors |= named(best.state, f"best.{rule}")
            if terms is not None:
                tensors["terms"] = terms
            if self.recorder is not None:
                tensors["recorded"] = self.recorder.logits
            save(self.directory.checkpoint_file, tensors, story)
        self.saved_at = time.perf_counter()
        self.runtime.wait()

    def _open_checkpoint(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        file = self.directory.checkpoint_file
        if not file.is_file():
            if self.runtime.is_main:
                self.directory.metrics_file.unlink(missing_ok=True)
            return {}, {}
        tensors, story = load(file)
        for key, mine in self._identity().items():
            if story.get(key) != mine:
                raise CheckpointError(
                    f"{file} belongs to another {'class list' if key == 'classes' else key}: "
                    f"{_short(story.get(key))} there, {_short(mine)} here. Give --out another folder, or delete it."
                )
        if self.runtime.is_main:
            kept = self.directory.lines(self.directory.metrics_file)[: story["lines"]]
            self.directory.rewrite_lines(self.directory.metrics_file, kept)
        self.lines = story["lines"]
        return story, tensors

    def _restore(self, story: dict[str, Any], tensors: dict[str, Tensor]) -> State:
        self.method.load_state_dict(under(tensors, "method"))
        self.best = {rule: Best(**facts, state=under(tensors, f"best.{rule}")) for rule, facts in story["best"].items()}
        if self.recorder is not None and "recorded" in tensors:
            self.recorder.restore(tensors["recorded"])
        at = State(**story["state"], optimizer=under(tensors, "optimizer"))
        self.screen.say(f"resuming at epoch {at.epoch}, step {at.step}")
        return replace(at, terms=tensors["terms"].to(self.runtime.device) if "terms" in tensors else None)


def _take_head(head: nn.Module, earlier: nn.Module) -> None:
    """The earlier phase's classifier, where it was trained on features as wide as the backbone's."""
    mine, theirs = head.state_dict(), earlier.state_dict()
    widths = {name: (tuple(theirs[name].shape), tuple(t.shape)) for name, t in mine.items() if name in theirs}
    if wrong := [pair for pair in widths.values() if pair[0] != pair[1]]:
        raise UserError(
            f"the linear phase trained on features of {wrong[0][0][-1]} numbers, and the backbone makes "
            f"{wrong[0][1][-1]}: --features must be those of --backbone. Leave --features out, and they are computed."
        )
    head.load_state_dict(theirs)


def _or_none(value: float) -> float | None:
    """None where no class could be scored: JSON has no NaN."""
    return value if math.isfinite(value) else None


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) < 80 else text[:77] + "…"


def discard(path: Path) -> None:
    """A checkpoint that is no longer needed."""
    path.unlink(missing_ok=True)
    if path.parent.is_dir() and not any(path.parent.iterdir()):
        path.parent.rmdir()
