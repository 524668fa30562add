"""`tacit sweep SOURCE --method NAME --observe known-share:0.1..0.9 --out DIR`: runs along an axis, and their curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tyro.conf import Positional

from ..files import atomic_write
from ..run import RunConfig
from ..tables.axes import Axis, AxisError, Point, check_axes, number_of_points, observation_axis, values_of
from . import console
from .flags import Flag, Group, flags_of, without_none
from .options import Parsed, parse
from .recipe import OptionError, near_matches
from .table import setting_words, tell_failures
from .train import GROUPS, config_of, val_as_number
from .words import gathered

if TYPE_CHECKING:
    from ..tables.runs import Planned, Seeds
    from ..tables.sweeps import Sweep

MANY = 100  # runs; more have to be asked for twice
COMMAND = "tacit sweep"
ABOUT = """Train along an axis, or a grid of axes: a run for each point and seed below --out. Finished runs are kept,
interrupted ones go on, further values and seeds are added. All flags of tacit train hold. Ranges are written 0.1..0.9
(in steps of 0.1; of 1 for whole numbers), 0.1..0.9:0.2, or as values 0.1,0.5. With --draw, sweeps that are there
already are tabulated and drawn together."""
APART = {"seed", "observe_seed", "recipe", "published", "published_where", "tracker"}  # not to be varied


@dataclass(frozen=True)
class SweepCommand(RunConfig):
    source: Positional[str] = ""  # as in tacit train; not needed with --draw
    out: Path | None = None  # folder of the sweep: new, or that of the same sweep; runs lie in OUT/POINT/SEED
    vary: tuple[str, ...] = ()  # further axes: alpha=0.1..0.5 lr=1e-3,1e-4 method=bce,an; several make a grid
    seeds: str | None = None  # training seeds, like 0,1,2; unset: the one of --seed
    observe_seeds: str = "published"  # the same hidden labels for all; paired: anew with each seed; or one per seed
    jobs: int = 0  # processes side by side; 0: one run after another in this process, which keeps data in memory
    collect: bool = False  # run nothing, show what is finished
    yes: bool = False  # run, however many runs it is
    draw: tuple[Path, ...] = ()  # run nothing: folders of sweeps to tabulate and draw together
    report: Path | None = None  # write tables and curves as one self-contained HTML file; .svg: the curves alone
    csv: Path | None = None  # write the figures of every run as CSV


def run(argv: Sequence[str]) -> int:
    words = gathered(gathered(val_as_number(argv), "--vary"), "--draw")
    parsed = _read(words)
    config = parsed.config
    for flag in ("report", "csv"):
        path = getattr(config, flag)
        if path is not None and path.is_dir():
            raise OptionError(f"--{flag} {path}: this is a folder; name the file to write")
    if config.draw:
        return _draw(config)
    _check(config)
    axes = axes_of(config)
    return _sweep(config, axes, words)


def _read(words: Sequence[str]) -> Parsed[SweepCommand]:
    return parse("sweep", SweepCommand, words, groups=GROUPS, about=ABOUT)


def _check(config: SweepCommand) -> None:
    if not config.source:
        raise OptionError("tacit sweep needs SOURCE, as tacit train does; or --draw DIR … to draw finished sweeps")
    if config.out is None:
        raise OptionError("--out DIR is missing: where should the sweep be kept? For example --out runs/shares")
    if config.jobs < 0:
        raise OptionError(f"--jobs {config.jobs}: a number of processes, or 0 to run them in this one")
    if config.seeds is not None and config.seed:
        raise OptionError("--seed and --seeds both say which seeds to train with: give --seeds alone")


def axes_of(config: SweepCommand) -> list[Axis]:
    """The axis in --observe, then those of --vary."""
    observed = observation_axis(config.observe)
    axes = [observed] if observed else []
    axes += [_axis(word, config) for word in config.vary]
    if not axes:
        raise AxisError(
            "a sweep needs an axis: --observe known-share:0.1..0.9, or --vary NAME=VALUES with a setting of tacit "
            "train, such as --vary lr=1e-3,1e-4"
        )
    return axes


def _axis(word: str, config: RunConfig) -> Axis:
    """`alpha=0.1..0.5` -> the axis of that setting; plain names mean what they mean as flags."""
    name, equals, text = word.partition("=")
    name = name.strip().removeprefix("--").replace("-", "_")
    if not name or not equals or not text.strip():
        raise AxisError(f"--vary {word}: write NAME=VALUES, for example alpha=0.1..0.5")
    if name == "observe":
        found = observation_axis(text)
        return found or Axis("observe", "observe", values_of(text, str, f"--vary {word}"))
    flags = _settings(config)
    flag = next((flag for flag in flags if name in (flag.name, flag.key)), None)
    if flag is None:
        raise AxisError(f"--vary {word}: there is no setting '{name}'. {near_matches(name, [f.name for f in flags])}")
    if flag.takes_many:
        raise AxisError(f"--vary {word}: {flag.name} is a list; such settings cannot be varied")
    return Axis(flag.name, flag.key, values_of(text, _kind(flag, text), f"--vary {word}"))


def _kind(flag: Flag, text: str) -> type:
    """A number's type; `val` may also be none."""
    kind = without_none(flag.type)
    return kind if kind in (int, float) and "none" not in text else str


def _settings(config: RunConfig) -> list[Flag]:
    """What can be varied: settings of a run, then options of the method, head and source, then the budget."""
    flags = [flag for flag in flags_of(RunConfig) if not flag.is_table and flag.name not in APART]
    for name, maker in GROUPS.items():
        group = maker if isinstance(maker, Group) else maker(vars(config))
        if group is not None:
            flags += flags_of(group.target, name)
    return flags


# --- running ----------------------------------------------------------------------------------------------------------


def _sweep(config: SweepCommand, axes: Sequence[Axis], words: Sequence[str]) -> int:
    from ..tables.runs import Seeds
    from ..tables.sweeps import claim, in_order, plan, read_sweep, shared_settings

    assert config.out is not None
    seeds = Seeds.read(config.seeds or str(config.seed), config.observe_seeds)
    _check_number(axes, seeds, sure=config.yes or config.collect)
    check_axes(axes)
    planned = plan(axes, lambda point: point_config(words, point), seeds, config.out)
    shared = shared_settings(planned[0][1][0].config, axes)
    failures = []
    if not config.collect:
        claim(config.out, axes, shared, [point for point, _ in planned])
        failures = _run(in_order(planned), config.jobs)
    sweep = read_sweep(config.out, planned)
    _tell([sweep])
    _write(config, [sweep], config.out / "curves.svg")
    tell_failures(failures)
    return 2 if failures else 0


def _run(runs: Sequence[Planned], jobs: int) -> list[Any]:
    from ..tables.runs import run_here, run_side_by_side

    if jobs:
        return run_side_by_side(runs, jobs, console.notice, COMMAND)
    from .live import Live

    return run_here(runs, Live, console.notice, COMMAND)


def _check_number(axes: Sequence[Axis], seeds: Seeds, *, sure: bool) -> None:
    count = number_of_points(axes) * len(seeds.pairs)
    if count > MANY and not sure:
        parts = " x ".join([*(f"{len(axis.values)} of {axis.name}" for axis in axes), f"{len(seeds.pairs)} seeds"])
        raise AxisError(f"these are {count:,} runs ({parts}). Add --yes if that is meant.")


def point_config(words: Sequence[str], point: Point) -> RunConfig:
    """The run at a point: as if its settings had been typed behind the other words."""
    typed = [word for setting in point.settings for word in setting_words(setting)]
    config = config_of(_read(val_as_number([*words, *typed])))
    from ..protocols import budgets

    budgets(config.protocol, config.budget)  # refuses here what every run would refuse later
    return config


# --- showing ----------------------------------------------------------------------------------------------------------


def _draw(config: SweepCommand) -> int:
    from ..tables.sweeps import SweepError, read_sweep

    if config.source or config.vary or config.out:
        raise OptionError("--draw shows sweeps that are there: it goes with --report and --csv, not with a new sweep")
    sweeps = [read_sweep(folder) for folder in config.draw]
    axes = list(dict.fromkeys(sweep.axes[0] for sweep in sweeps))
    if len(axes) > 1:
        raise SweepError(f"these sweeps go along different axes ({', '.join(axes)}), so no drawing can hold them all")
    _tell(sweeps)
    _write(config, sweeps, None)
    return 0


def _tell(sweeps: Sequence[Sweep]) -> None:
    from ..tables.sweep_rows import heading, point_rows, remarks, together_rows

    for sweep in sweeps:
        print(f"{heading(sweep)}: test, percent")
        columns, rows = point_rows(sweep)
        console.table(columns, rows, right=columns)
        for remark in remarks(sweep):
            print(remark)
        print()
    if sum(len(sweep.curves) for sweep in sweeps) > 1:
        columns, rows = together_rows(sweeps)
        print(f"test mAP along {columns[0]}, percent; each average is of its metric alone")
        console.table(columns, rows, right=columns[1:-1])


def _write(config: SweepCommand, sweeps: Sequence[Sweep], picture: Path | None) -> None:
    """Whatever was asked for; the picture of a sweep lies beside its runs."""
    if not any(curve.runs for sweep in sweeps for curve in sweep.curves):
        return
    from ..report.sweeps import draw_file, render_page

    if picture is not None:
        draw_file(sweeps, picture)
    if config.report is not None:
        (draw_file if config.report.suffix == ".svg" else render_page)(sweeps, config.report)
    if config.csv is not None:
        _write_csv(config.csv, sweeps)
    for path in filter(None, (picture, config.report, config.csv)):
        print(f"Written: {path}")


def _write_csv(path: Path, sweeps: Sequence[Sweep]) -> None:
    import csv

    from ..tables.sweeps import csv_rows

    with atomic_write(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(csv_rows(sweeps))
