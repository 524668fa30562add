"""`tacit evaluate RUN [SOURCE] [--split test] [--labels table]`: a run's model against known labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from . import console
from .options import parse, source_group
from .recipe import OptionError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..metrics.groups import ClassGroup
    from ..metrics.published import Name, Published
    from ..scoring import Report, Scored

ABOUT = """Score a run's model on a split whose labels are known: the run's own test split, another SOURCE, or labels
from a table. Unknown labels are masked; classes that cannot be scored are named."""
DECISIONS = ("OP", "OR", "OF1", "CP", "CR", "CF1", "micro_F1", "macro_F1", "hamming_loss")


@dataclass(frozen=True)
class Evaluate:
    run: tyro.conf.Positional[Path]  # the run's directory
    source: tyro.conf.Positional[str | None] = None  # other images: a source or a label table; unset: the run's own
    split: str = "test"  # train, val or test of the source; all: every image it has
    labels: Path | None = None  # a label table to score against, instead of the source's labels; images match by name
    labels_silence: Literal["unknown", "absent"] | None = None  # what it means that --labels leaves a class out
    data: Path | None = None  # folder of the source's files, unless SOURCE says it after a colon
    features: Path | None = None  # features of these images, for a model on features that were brought in
    weights: str | None = None  # the backbone's weights, where a model on features cannot find them again
    threshold: float | None = None  # a class is present from this score on; unset: as --thresholds says
    thresholds: Literal["half", "one", "per-class"] = "half"  # 0.5; one chosen on validation; each class's own
    oracle_threshold: Literal["OF1", "CF1"] | None = None  # the one threshold that is best on these labels: an oracle
    ap: Literal["grouped", "interpolated", "asl"] = "grouped"  # equal scores together; VOC 2010; as published with ASL
    empty: Literal["nan", "zero"] = "nan"  # AP of a class that cannot be scored: left out, or 0 as some published
    decisions: Literal["skip", "zero", "hcp"] = "skip"  # classes without positives in CP, CR, CF1
    # beside these figures, those that a published program would print: hcp asl dualcoop pumlc csl
    metrics: tuple[Literal["hcp", "asl", "dualcoop", "pumlc", "csl"], ...] = ()
    bootstrap: int = 1000  # resamples of the images for the interval of mAP; 0: none
    groups: int = 0  # mAP of so many groups of classes, from the rarest in training to the most annotated; 0: none
    per_class: bool = False  # AP and number of positives of each class
    json: bool = False  # for programs
    batch_size: int = 64  # images at a time
    device: str = "auto"  # auto, cpu, cuda, cuda:1


def run(argv: Sequence[str]) -> int:
    parsed = parse("evaluate", Evaluate, argv, groups={"source": source_group}, about=ABOUT, recipes=False)
    config = parsed.config
    _check(config)
    from ..scoring import Question, judge, score

    question = Question(
        config.source,
        config.split,
        config.data,
        parsed.chosen("source"),
        config.labels,
        config.labels_silence,
        config.features,
    )
    with console.on_demand("predicting") as progress:
        scored = score(
            config.run,
            question,
            device=config.device,
            weights=config.weights,
            batch_size=config.batch_size,
            progress=progress,
            decide=config.thresholds,
        )
    for note in scored.notes:
        console.warn(note)
    report = judge(
        scored,
        threshold=config.threshold,
        oracle=config.oracle_threshold,
        variant=config.ap,
        empty=config.empty,
        decisions=config.decisions,
        resamples=config.bootstrap,
        published=config.metrics,
    )
    groups = _groups(scored, report, config.groups)
    if config.json:
        console.print_json(as_json(scored, report, groups))
    else:
        tell(scored, report, config, groups)
    return 0


def _check(config: Evaluate) -> None:
    if config.thresholds != "half" and (config.threshold is not None or config.oracle_threshold is not None):
        raise OptionError("--thresholds goes with neither --threshold nor --oracle-threshold: say which to use")
    if config.threshold is not None and config.oracle_threshold is not None:
        raise OptionError("--threshold and --oracle-threshold exclude each other: one is given, the other is searched")
    if config.threshold is not None and not 0 <= config.threshold <= 1:
        raise OptionError(f"--threshold {config.threshold:g}: scores are probabilities, give a number from 0 to 1")
    if config.bootstrap < 0:
        raise OptionError(f"--bootstrap {config.bootstrap}: a number of resamples, such as 1000, or 0 for none")
    if config.groups < 0:
        raise OptionError(f"--groups {config.groups}: a number of groups, such as 5, or 0 for none")
    if config.batch_size < 1:
        raise OptionError(f"--batch-size {config.batch_size}: must be at least 1")
    if config.labels_silence and config.labels is None:
        raise OptionError("--labels-silence says how to read the table of --labels, which is not given")


def _groups(scored: Scored, report: Report, number: int) -> list[ClassGroup]:
    from ..class_groups import groups_of_run

    return groups_of_run(scored.run, scored.classes, report.per_class, number) if number else []


def as_json(scored: Scored, report: Report, groups: Sequence[ClassGroup] = ()) -> dict[str, Any]:
    per_class = {
        name: {"AP": _json_number(ap), "present": present, "absent": absent}
        for name, ap, present, absent in zip(scored.classes, report.per_class, *_known(scored), strict=True)
    }
    return {
        "run": str(scored.run),
        "where": scored.where,
        "images": len(scored.images),
        "rules": report.rules,
        "threshold": report.threshold,
        "oracles": report.oracles,
        "metrics": {name: _json_number(value) for name, value in report.metrics.items()},
        "interval": None if report.interval is None else [_json_number(limit) for limit in report.interval],
        "published": {name: _published_json(name, found) for name, found in report.published.items()},
        "per_class": per_class,
        "groups": [_group_json(scored, group) for group in groups],
        "unscored": report.unscored,
        "notes": scored.notes,
    }


def _published_json(name: Name, found: Published) -> dict[str, Any]:
    from ..metrics.published import CONVENTIONS

    convention = CONVENTIONS[name]
    return {
        "programs": convention.programs,
        "rules": convention.rules,
        "flatters": convention.flatters,
        "metrics": {key: _json_number(value) for key, value in found.metrics.items()},
        "oracles": found.oracles,
        "notes": found.notes,
    }


def _group_json(scored: Scored, group: ClassGroup) -> dict[str, Any]:
    classes = [scored.classes[c] for c in group.classes]
    return {**group._asdict(), "mAP": _json_number(group.mAP), "classes": classes}


def _json_number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def tell(scored: Scored, report: Report, config: Evaluate, groups: Sequence[ClassGroup] = ()) -> None:
    known = sum(map(sum, _known(scored)))
    share = known / max(len(scored.images) * len(scored.classes), 1)
    size = f"{len(scored.images):,} images, {len(scored.classes)} classes"
    print(f"{scored.where}: {size}, {100 * share:.0f} % of labels known")
    interval = "" if report.interval is None else "  95 % interval {} to {} (bootstrap over images)"
    limits = () if report.interval is None else tuple(map(_percent, report.interval))
    print(f"mAP {_percent(report.metrics['mAP'])}{interval.format(*limits)}")
    console.table(DECISIONS, [[_percent(report.metrics[name]) for name in DECISIONS]], right=DECISIONS)
    rest = [name for name in report.metrics if name not in ("mAP", *DECISIONS)]
    if rest:
        console.table(rest, [[_percent(report.metrics[name]) for name in rest]], right=rest)
    print(f"in percent; a class counts as present from {_limits(report.threshold)}")
    for line in (*report.rules, *(f"oracle: {oracle}" for oracle in report.oracles)):
        print(line)
    if report.unscored:
        why = "no known positive, or no known negative"
        print(f"{len(report.unscored)} classes cannot be scored ({why}): {_listed(report.unscored)}")
    if report.published:
        _tell_published(report)
    if groups:
        print("\nclasses in groups, by their number of training labels")
        told = [[g.name, len(g.classes), g.scored, f"{g.fewest} to {g.most}", _percent(g.mAP)] for g in groups]
        head = ("group", "classes", "scored", "labels per class", "mAP")
        console.table(head, told, right=head[1:])
    if config.per_class:
        rows = zip(scored.classes, map(_percent, report.per_class), *_known(scored), strict=True)
        console.table(("class", "AP", "present", "absent"), list(rows), right=("AP", "present", "absent"))


def _tell_published(report: Report) -> None:
    """The honest figures above those of the programs; then whose they are, their rules and what these flatter."""
    from ..metrics.published import CONVENTIONS

    names = list(dict.fromkeys(key for found in report.published.values() for key in found.metrics))
    told = {"tacit": report.metrics} | {str(name): found.metrics for name, found in report.published.items()}
    nothing = float("nan")
    rows = [[who, *(_percent(metrics.get(key, nothing)) for key in names)] for who, metrics in told.items()]
    print("\nas published programs compute them, on the same scores and labels")
    console.table(("rules", *names), rows, right=names)
    for name, found in report.published.items():
        convention = CONVENTIONS[name]
        print(f"{name}: {convention.programs}. {convention.rules}. Flatters {convention.flatters}.")
        for line in (*(f"oracle: {oracle}" for oracle in found.oracles), *found.notes):
            print(f"  {line}")


def _limits(threshold: float | Sequence[float]) -> str:
    given = {threshold} if isinstance(threshold, float) else set(threshold)
    if len(given) == 1:
        return f"a score of {given.pop():.2g} on"
    return f"its own score on ({min(given):.2f} to {max(given):.2f}, class by class)"


def _known(scored: Scored) -> tuple[list[int], list[int]]:
    labels: NDArray[np.int8] = scored.labels
    return (labels == 1).sum(axis=0).tolist(), (labels == -1).sum(axis=0).tolist()


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.2f}"


def _listed(names: Sequence[str], most: int = 20) -> str:
    more = f", … ({len(names) - most} more)" if len(names) > most else ""
    return ", ".join(names[:most]) + more
