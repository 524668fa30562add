"""The report: one self-contained HTML page of a comparison."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from ..files import atomic_write
from .calibration import calibration_table, reliability_figure
from .class_figures import class_figure, histogram_figure, thirds_figure
from .compare import BASELINE, Comparison, Group, display_name
from .curves import share_figure
from .figures import Figure, curve_figures, estimates_figure, loss_figure, seeds_figure
from .gallery import IMAGES, METHODS, THRESHOLD, gallery
from .landscapes import landscape_figures
from .map_grid import map_section
from .positives import count_positives, positives_figures, positives_table
from .protocol import short_hash
from .regimes import regimes_figure
from .separation import separation_section
from .style import Look, looks, theme_css
from .tables import all_metrics, all_runs, best_of, frequency_thirds, headline, other_selections, per_class


@dataclass(frozen=True)
class Recipe:
    """How to run a group again: its settings as TOML, and a command per run."""

    group: int
    file: str
    toml: str
    commands: tuple[str, ...]


def render_html(comparison: Comparison, out: str | Path, *, density_class: str | None = None) -> Path:
    """Write the page and return its path. `density_class`: the class whose densities it shows (unset: it chooses)."""
    path = Path(out)
    with atomic_write(path) as temporary:
        temporary.write_text(page(comparison, density_class=density_class), encoding="utf-8")
    return path


def page(comparison: Comparison, *, density_class: str | None = None) -> str:
    """The page as text. Everything from the runs is escaped; nothing is fetched from anywhere."""
    template = templates().get_template("page.html")
    styled = group_looks(comparison)
    separation = separation_section(comparison, styled, density_class)
    positives = count_positives(comparison)
    drawn = [*_figures(comparison, styled), *separation.figures, *positives_figures(comparison, styled, positives)]
    return template.render(
        comparison=comparison,
        title=title(comparison),
        facts=facts(comparison),
        runs=sum(len(group.runs) for group in comparison.groups),
        first=comparison.groups[0].first,
        groups=list(zip(comparison.groups, styled, strict=True)),
        looks=styled,
        summary=summary(comparison),
        tables={
            "headline": headline(comparison),
            "metrics": all_metrics(comparison),
            "selections": other_selections(comparison),
            "thirds": frequency_thirds(comparison),
            "classes": per_class(comparison),
            "runs": all_runs(comparison),
            "calibration": calibration_table(comparison),
            "positives": positives_table(comparison, positives),
        },
        figures={figure.name: figure for figure in drawn},
        separation=separation,
        pictures=gallery(comparison),
        looked=map_section(comparison),
        gallery_limits={"images": IMAGES, "methods": METHODS, "threshold": THRESHOLD},
        recipes=recipes(comparison),
        unscored=unscored(comparison),
        fingerprints=fingerprints(comparison),
        light=theme_css(False),
        dark=theme_css(True),
    )


def group_looks(comparison: Comparison) -> list[Look]:
    """Colour, marker and dash of each group."""
    groups = comparison.groups
    return looks([g.is_full for g in groups], [g.first.run.method == BASELINE and not g.is_full for g in groups])


def title(comparison: Comparison) -> str:
    """What is compared on what."""
    sources = list(dict.fromkeys(group.first.run.source for group in comparison.groups))
    first = comparison.groups[0].first.run
    what = "Comparison" if len(comparison.groups) > 1 else f"{display_name(first.method)}, {first.observe}"
    return f"{what} on {', '.join(sources)}"


def facts(comparison: Comparison) -> str:
    """Sizes and settings that all rows share, in one line."""
    first = comparison.groups[0].first
    parts = [f"{len(first.classes):,} classes"]
    for split, name in (("train", "training"), ("test", "test")):
        if split in first.counts:
            parts.append(f"{first.counts[split].images:,} {name} images")
    for what in ("protocol", "backbone"):
        values = list(dict.fromkeys(str(getattr(group.first.run, what)) for group in comparison.groups))
        parts.append(f"{what} {', '.join(values)}")
    observed = list(dict.fromkeys(group.first.run.observe for group in comparison.groups))
    return " · ".join([*parts, f"labels observed: {', '.join(observed)}"])


def summary(comparison: Comparison) -> str:
    """One or two sentences: the best method that saw only part of the labels, and what that is worth."""
    metric = comparison.metric
    best = best_of(comparison.groups, metric)
    if not comparison.comparable or best is None or len(comparison.groups) < 2:
        return ""
    spread = best.spread(metric)
    sd = f" ± {100 * spread.sd:.2f}" if spread.n > 1 else ""
    value = f"{100 * spread.mean:.2f}{sd} percent ({_seeds(spread.n)})"
    text = f"Highest test {metric} without full labels: {best.label}, {value}."
    baseline, full, share = comparison.baseline_of(best), comparison.reference_of(best), comparison.gap_closed(best)
    if baseline is not None and baseline is not best and full is not None and not math.isnan(share):
        text += (
            f" {baseline.label}, the plain baseline, reaches {100 * baseline.spread(metric).mean:.2f} and full labels "
            f"reach {100 * full.spread(metric).mean:.2f}: {best.label} closes {100 * share:.0f} % of that gap."
        )
    return text


def recipes(comparison: Comparison) -> list[Recipe]:
    """Settings and commands of each group."""
    found = []
    for position, group in enumerate(comparison.groups):
        stem = "-".join(_words(f"{group.first.run.method} {group.first.run.observe} {position}"))
        commands = tuple(_command(group, run.run.seed, at, stem) for at, run in enumerate(group.runs))
        found.append(Recipe(position, f"{stem}.toml", group.first.config_text.strip(), commands))
    return found


def unscored(comparison: Comparison) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Classes that could not be scored: (split, class names, labels of the groups), groups of like lists together."""
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for group in comparison.groups:
        for split in dict.fromkeys(split for run in group.runs for split in run.unscored):
            names = tuple(dict.fromkeys(name for run in group.runs for name in run.unscored.get(split, ())))
            if names:
                found.setdefault((split, names), []).append(group.label)
    return [(split, names, tuple(labels)) for (split, names), labels in found.items()]


def fingerprints(comparison: Comparison) -> list[tuple[str, str, tuple[str, ...]]]:
    """(short, full, labels with seeds) of each protocol fingerprint."""
    found: dict[str, dict[str, list[str]]] = {}
    for group in comparison.groups:
        for run in group.runs:
            found.setdefault(run.fingerprint, {}).setdefault(group.label, []).append(str(run.run.seed))
    return [
        (short_hash(whole), whole, tuple(f"{label} ({_seed_list(seeds)})" for label, seeds in labels.items()))
        for whole, labels in found.items()
    ]


def _seed_list(seeds: Sequence[str]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {', '.join(seeds)}"


def _figures(comparison: Comparison, styled: Sequence[Look]) -> list[Figure]:
    found = [seeds_figure(comparison, styled), *curve_figures(comparison, styled)]
    builders = (loss_figure, estimates_figure, class_figure, thirds_figure, histogram_figure, reliability_figure)
    found += [figure for build in builders if (figure := build(comparison, styled)) is not None]
    found += [shares] if (shares := share_figure(comparison)) is not None else []
    regimes = regimes_figure(comparison, styled)
    return [*found, *([regimes] if regimes else []), *landscape_figures(comparison, styled)]


def _command(group: Group, seed: int, at: int, stem: str) -> str:
    run = group.runs[at].run
    flags = {"--seed": seed, "--observe-seed": run.observe_seed, "--split-seed": run.split_seed}
    told = " ".join(f"{flag} {value}" for flag, value in flags.items())
    return f"tacit train --config {shlex.quote(stem + '.toml')} {told} --out {shlex.quote(f'runs/{stem}-{at}')}"


def _words(text: str) -> list[str]:
    return "".join(char if char.isascii() and char.isalnum() else " " for char in text).split()


def _seeds(n: int) -> str:
    return "one seed" if n == 1 else f"{n} seeds"


def templates() -> Environment:
    """The templates of this room; everything that is put into them is escaped."""
    folder = files(__package__) / "templates"
    texts = {item.name: item.read_text(encoding="utf-8") for item in folder.iterdir() if item.is_file()}
    environment = Environment(
        loader=DictLoader(texts), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["plain_file"] = lambda name: Markup(texts[name])  # our own style and script, never a run's text
    return environment
