"""`tacit demo`: the embedded scenes from end to end: several methods, several seeds, a table and a report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..run import RunConfig, RunDirectory, RunError
from . import console
from .options import parse
from .recipe import OptionError

if TYPE_CHECKING:
    from ..methods.base import Clock
    from ..report.compare import Comparison, Group

ABOUT = """Draw small scenes, hide all but one label of each, train five methods on what is left (and one on all
labels), and compare them: under three minutes on two cores, no download. Run it again to go on where it stopped."""
PUBLISHED_OBSERVE_SEED = 1200  # plus the seed: labels are hidden anew for each seed, alike for all methods
BUDGET = {"epochs": 12, "batch_size": 64, "lr": 2e-3}
POSITIVES = 3.14  # true mean number of classes per training scene: ROLE is told it, an oracle


class Row(NamedTuple):
    """One method of the demo; `recipe` is also the name of its folder and of recipes/scenes/<recipe>.toml."""

    recipe: str
    says: str
    method: str
    observe: str = "single-positive"
    options: tuple[tuple[str, Any], ...] = ()


ROWS = (
    Row("bce_full", "BCE with all labels", "bce", "full"),
    Row("an", "AN", "an"),
    Row("an_ls", "AN-LS", "an_ls"),
    Row("wan", "WAN", "wan"),
    Row("role", "ROLE", "role", options=(("k", POSITIVES),)),
)


@dataclass(frozen=True)
class Demo:
    out: Path = Path("runs/demo")  # folder of the runs and of report.html
    seeds: str = "0,1"  # each seed also draws anew which labels are hidden
    epochs: int | None = None  # of every run; unset: the demo's own number


def run(argv: Sequence[str]) -> int:
    config = parse("demo", Demo, argv, about=ABOUT, recipes=False).config
    planned = plan(config)
    _check_out(config.out)
    results = _train(planned, config)
    comparison = _report(results, config.out)
    print(sentence(comparison))
    _say_what_next(planned[-1].out, config.out)
    return 0


# --- what is run ------------------------------------------------------------------------------------------------------


class Planned(NamedTuple):
    name: str  # "ROLE, seed 1"
    out: Path
    config: RunConfig


def config_of(row: Row) -> RunConfig:
    """The settings of a row, as its recipe has them."""
    return RunConfig(
        "scenes",
        method=row.method,
        observe=row.observe,
        protocol="finetune",
        recipe=f"scenes/{row.recipe}",
        method_options=dict(row.options),
        budget=dict(BUDGET),
    )


def plan(config: Demo) -> list[Planned]:
    """Every run, seed by seed, so that an interrupted demo has whole seeds to show."""
    seeds = _seeds(config.seeds)
    if config.epochs is not None and config.epochs < 1:
        raise OptionError(f"--epochs {config.epochs}: must be at least 1")
    changes = {} if config.epochs is None else {"epochs": config.epochs}
    return [
        Planned(f"{row.says}, seed {seed}", config.out / f"{row.recipe}-seed{seed}", _seeded(row, seed, changes))
        for seed in seeds
        for row in ROWS
    ]


def _seeded(row: Row, seed: int, changes: dict[str, int]) -> RunConfig:
    base = config_of(row)
    return replace(base, seed=seed, observe_seed=PUBLISHED_OBSERVE_SEED + seed, budget=base.budget | changes)


def _seeds(text: str) -> list[int]:
    try:
        seeds = [int(word) for word in text.split(",")]
    except ValueError:
        raise OptionError(f"--seeds {text}: whole numbers with commas between them, such as 0,1,2") from None
    if min(seeds) < 0 or max(seeds) > 10**6:
        raise OptionError(f"--seeds {text}: a seed is a whole number from 0 to 1000000")
    if len(set(seeds)) < len(seeds):
        raise OptionError(f"--seeds {text}: a seed that is named twice would be the same run twice")
    return seeds


def _check_out(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise OptionError(f"--out {out}: this is a file; name a folder")
    if (out / "config.toml").is_file():
        raise OptionError(f"--out {out}: this is the directory of a single run; name another folder")


# --- training ---------------------------------------------------------------------------------------------------------


def _train(planned: Sequence[Planned], config: Demo) -> list[Path]:
    """Conduct what is not finished yet; every run ends up finished."""
    for run in planned:
        _refuse_other_settings(run)
    waiting = [run for run in planned if not RunDirectory(run.out).finished]
    if len(waiting) < len(planned):
        console.notice(f"{len(planned) - len(waiting)} of {len(planned)} runs are finished already, in {config.out}")
    if waiting:
        epochs = waiting[0].config.budget["epochs"]
        with console.progress("demo", len(waiting) * epochs, "epochs") as bar:
            screen = _Screen(bar)
            for number, run in enumerate(waiting):
                screen.begin(number * epochs, f"run {number + 1} of {len(waiting)}: {run.name}")
                _conduct(run, screen, config)
            bar.to(len(waiting) * epochs, note="done")
    return [run.out for run in planned]


def _conduct(run: Planned, screen: _Screen, config: Demo) -> None:
    from ..conduct import conduct
    from ..train import Interrupted

    try:
        result = conduct(run.config, run.out, screen, resume=(run.out / "config.toml").is_file())
    except Interrupted as stop:
        raise Interrupted(f"stopped in {screen.place}. All is saved; go on with:\n  {again(config)}") from stop
    percent = 100 * result["metrics"]["test"]["mAP"]
    console.notice(f"{screen.place}: test mAP {percent:.1f}, {console.duration(result['seconds'])}")


def _refuse_other_settings(run: Planned) -> None:
    """A folder with runs of other settings (of an older version, of other --epochs) cannot be gone on with."""
    if not (run.out / "config.toml").is_file():
        return
    try:
        RunDirectory.claim(run.out, run.config, resume=True)
    except RunError as error:
        raise RunError(
            f"{run.out} holds a run of other settings than this demo's. Give --out another folder, or remove this one. "
            f"({error})"
        ) from error


def again(config: Demo) -> str:
    """The command that goes on where this one stopped."""
    words = ["tacit demo"]
    if config.out != Demo.out:
        words.append(f"--out {config.out}")
    if config.seeds != Demo.seeds:
        words.append(f"--seeds {config.seeds}")
    if config.epochs is not None:
        words.append(f"--epochs {config.epochs}")
    return " ".join(words)


class _Screen:
    """A Screen (tacit.trial) that moves the demo's one bar, counted in epochs of all runs."""

    def __init__(self, bar: console.Bar) -> None:
        self.bar, self.start, self.place, self.last = bar, 0, "", ""
        self.heard: set[str] = set()

    def begin(self, start: int, place: str) -> None:
        self.start, self.place, self.last = start, place, ""
        self.bar.to(start, note=place)

    def say(self, text: str) -> None:
        """Ten runs on the same scenes have the same to warn of: once is enough."""
        if text.startswith("warning: ") and text not in self.heard:
            self.heard.add(text)
            console.warn(text.removeprefix("warning: "))

    def step(self, clock: Clock, terms: dict[str, float]) -> None:
        loss = f", loss {terms['total']:.3f}"
        self.bar.to(self.start + clock.epoch, note=f"{self.place}, epoch {clock.epoch + 1}{loss}{self.last}")

    def epoch(self, line: dict[str, Any]) -> None:
        self.last = f", val {100 * line['selection']:.1f}"
        self.bar.to(self.start + line["epoch"] + 1)

    def decoding(self, done: int, of: int) -> None:
        pass


# --- the end ----------------------------------------------------------------------------------------------------------


def _report(runs: Sequence[Path], out: Path) -> Comparison:
    from ..report.compare import compare
    from ..report.page import render_html
    from ..report.read import read_runs
    from ..report.write import print_table

    notices: list[str] = []
    comparison = compare(read_runs(runs, notice=notices.append), notices)
    print_table(comparison, console.rich_stdout())
    render_html(comparison, out / "report.html")
    return comparison


def sentence(comparison: Comparison) -> str:
    """What the table shows, from its own numbers."""
    means = {group.first.run.recipe: _mean(group) for group in comparison.groups}
    full, plain = means["scenes/bce_full"], means["scenes/an"]
    better = {row.says: means[f"scenes/{row.recipe}"] for row in ROWS[2:]}
    name, best = max(better.items(), key=lambda pair: pair[1])
    start = f"With one label per scene, taking every other label for absent (AN) reaches {plain:.1f} mAP, against "
    start += f"{full:.1f} with all labels;"
    if best > plain and full > plain:
        return f"{start} {name} closes {100 * (best - plain) / (full - plain):.0f} % of that gap ({best:.1f})."
    return f"{start} here none of the others does better."


def _mean(group: Group) -> float:
    mean = group.spread("mAP").mean
    return math.nan if math.isnan(mean) else 100 * mean


def _say_what_next(last: Path, out: Path) -> None:
    print("(Scenes are drawn so that hidden labels hurt: a demonstration, never evidence.)")
    print(f"\nReport: {out / 'report.html'}")
    print("Next:")
    print(f"  tacit evaluate {last} --per-class")
    print("  tacit train scenes --method role --k 3 --protocol finetune --lr 2e-3 --out runs/mine")
