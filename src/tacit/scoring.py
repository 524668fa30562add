"""A run's model against labels that are known: what `tacit evaluate` computes.

Scores come from the run's own files where they are there, else from the model. Labels may be another table's, with
another order of classes, or fewer: what they do not say is unknown, and masked.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .data.feature_set import stem
from .data.source import Split, load_source
from .errors import UserError
from .label_table import Silence, read_label_table
from .labels import Labels, States
from .metrics.decisions import EmptyClass, decision_scores
from .metrics.intervals import bootstrap
from .metrics.published import Name, Published, published_metrics
from .metrics.ranking import Unscored, Variant, average_precision, mean_average_precision, scoreable
from .metrics.summary import summarise
from .metrics.thresholds import grid_threshold
from .model import BATCH, Decide, Model, Progress, read_description, thresholds_of
from .run import RunDirectory

Scores = NDArray[np.float32]
VARIANTS = {
    "interpolated": "AP interpolated: precision is the best at any higher recall (PASCAL VOC 2010 to 2012)",
    "asl": "AP as published with ASL: ties separated by row order, divided by positives + 1e-8",
}
DECISION_RULES = {
    "zero": "CP, CR, CF1 over all classes, 0/0 = 0 (as published with ASL)",
    "hcp": "CP, CR, CF1 as published with HCP: a class never predicted counts one wrong prediction",
}


class ScoringError(UserError):
    """Labels and scores that do not belong together."""


@dataclass(frozen=True)
class Question:
    """Which images, and which labels. Nothing set: the run's own test split."""

    source: str | None = None
    split: str = "test"  # "all": every image of the source
    data: Path | None = None
    source_options: Mapping[str, Any] = field(default_factory=dict)
    labels: Path | None = None
    silence: Silence | None = None
    features: Path | None = None


@dataclass(frozen=True, eq=False)
class Scored:
    """Scores [N, C] and known labels [N, C] of the same images, columns in the model's order of classes."""

    run: Path
    where: str
    classes: tuple[str, ...]
    images: tuple[str, ...]
    scores: Scores
    labels: States
    thresholds: NDArray[np.float32]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Report:
    """Metrics as fractions (NaN: nothing to score), and every rule that is not the house's."""

    metrics: dict[str, float]
    per_class: list[float]
    interval: tuple[float, float] | None
    unscored: list[str]
    threshold: float | list[float]
    rules: list[str]
    oracles: list[str]
    published: dict[Name, Published] = field(default_factory=dict)  # the same scores under whole conventions


# --- scores -----------------------------------------------------------------------------------------------------------


def score(
    run: Path,
    question: Question,
    *,
    device: str = "auto",
    weights: str | None = None,
    batch_size: int = BATCH,
    progress: Progress | None = None,
    decide: Decide = "half",
) -> Scored:
    """Scores of the images that are asked about, beside what is known of them."""
    described = read_description(run)
    classes, thresholds = tuple(described["classes"]), thresholds_of(described, run, decide)
    found = None if question.source or question.features else _kept(run, question.split, classes)
    where = f"{question.source or RunDirectory(run).config().source}, split {question.split}"
    notes: list[str] = []
    if found is None:
        split, problems = _split(run, question)
        notes += problems
        states = aligned(split.labels, classes, where, notes) if question.labels is None else None
        model = Model.load(run, device=device, weights=weights)
        features = question.features or (Path(described["features"]) if described["features"] else None)
        scores = _predict(model, split, features, batch_size, progress)
        images = split.images
    else:
        images, scores, states = found
    if question.labels is not None:
        rows, states = _labels_of(question, images, classes, notes)
        images, scores, where = tuple(images[row] for row in rows), scores[rows], f"{where}, labels {question.labels}"
    assert states is not None
    return Scored(run, where, classes, images, scores, states, thresholds, tuple(notes))


def _kept(run: Path, split: str, classes: Sequence[str]) -> tuple[tuple[str, ...], Scores, States] | None:
    """What the run wrote down when it ended, if it did for this split."""
    file = run / f"scores-{split}.npz"
    if not file.is_file():
        return None
    try:
        with np.load(file, allow_pickle=False) as held:
            images, scores, truth = held["images"], held["scores"], held["truth"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ScoringError(f"{file} is damaged ({error}). Remove it: the model is then asked again.") from error
    if scores.shape != (len(images), len(classes)) or truth.shape != scores.shape:
        raise ScoringError(
            f"{file} holds scores of shape {list(scores.shape)} for {len(images)} images, and model.json has "
            f"{len(classes)} classes: they belong to different runs. Remove the file: the model is then asked again."
        )
    return tuple(images.tolist()), scores, truth


def _split(run: Path, question: Question) -> tuple[Split, list[str]]:
    """The images asked about; the run's own splits are drawn again as the run drew them."""
    if question.source is None:
        from .assemble import assemble

        bench = assemble(RunDirectory(run).config())
        splits, problems = bench.splits, bench.source.problems
    else:
        source = load_source(question.source, question.data, **question.source_options)
        splits, problems = dict(source.splits), source.problems
    if question.split == "all":
        return joined(list(splits.values())), list(map(str, problems))
    if question.split not in splits:
        raise ScoringError(f"there is no split '{question.split}': choose one of {', '.join(splits)}, or all")
    return splits[question.split], list(map(str, problems))


def joined(splits: Sequence[Split]) -> Split:
    """Several splits one after the other."""
    first = splits[0]
    return Split(
        tuple(name for split in splits for name in split.images),
        Labels.stack([split.labels for split in splits]),
        None if first.files is None else tuple(file for split in splits for file in split.files or ()),
        None if first.pixels is None else np.concatenate([s.pixels for s in splits if s.pixels is not None]),
    )


def _predict(
    model: Model, split: Split, features: Path | None, batch_size: int, progress: Callable[[int, int], None] | None
) -> Scores:
    if model.inputs == "features" and features is not None:
        from .assemble import brought_features

        return model.predict(brought_features(str(features)).for_images(split.images), progress=progress)
    if split.pixels is not None:
        return model.predict(split.pixels, batch_size=batch_size, progress=progress)
    if split.files is None:
        raise ScoringError("this source has labels but no images. Give it the folder of its images.")
    return model.predict(split.files, batch_size=batch_size, progress=progress)


# --- labels -----------------------------------------------------------------------------------------------------------


def aligned(labels: Labels, classes: Sequence[str], where: str, notes: list[str]) -> States:
    """States in the model's order of classes; classes that these labels do not know are unknown."""
    position = {name: at for at, name in enumerate(classes)}
    strange = [name for name in labels.classes if name not in position]
    if strange:
        near = get_close_matches(strange[0], classes, n=1)
        hint = f" Did its author mean '{near[0]}'?" if near else ""
        raise ScoringError(
            f"{where}: {len(strange)} of its {len(labels.classes)} classes are not the model's: "
            f"{', '.join(strange[:5])}{', …' * (len(strange) > 5)}.{hint} The model knows {', '.join(classes[:8])}"
            f"{', …' * (len(classes) > 8)}."
        )
    lacking = [name for name in classes if name not in labels.classes]
    if lacking:
        notes.append(f"{len(lacking)} of the model's classes are not in these labels, so unknown: {_few(lacking)}")
    out = np.zeros((len(labels), len(classes)), np.int8)
    out[:, [position[name] for name in labels.classes]] = labels.dense()
    return out


def _labels_of(
    question: Question, images: Sequence[str], classes: Sequence[str], notes: list[str]
) -> tuple[NDArray[np.int64], States]:
    """Rows of `images` that the table of --labels has, and what it says of them."""
    assert question.labels is not None
    table = read_label_table(question.labels, silence=question.silence)
    states = aligned(table.labels, classes, str(question.labels), notes)
    row_of = _rows_by_name(table.images, images)
    rows = np.array([at for at, image in enumerate(images) if image in row_of], np.int64)
    if not len(rows):
        raise ScoringError(
            f"{question.labels} has labels of none of these {len(images)} images: they are named like "
            f"{_few(images, 2)}, the table's like {_few(table.images, 2)}."
        )
    if len(rows) < len(images):
        notes.append(f"{len(images) - len(rows)} of {len(images)} images have no row in {question.labels}: left out")
    if len(rows) < len(table):
        notes.append(f"{len(table) - len(rows)} rows of {question.labels} are about other images: not used")
    return rows, states[[row_of[images[row]] for row in rows]]


def _rows_by_name(table: Sequence[str], images: Sequence[str]) -> dict[str, int]:
    """Row in the table of each image it has: by exact name, or, where none matches, without folder and suffix."""
    exact = {name: row for row, name in enumerate(table)}
    found = {image: exact[image] for image in images if image in exact}
    if found:
        return found
    stems = {stem(name): row for row, name in enumerate(table)}
    unique = len(stems) == len(table) and len({stem(image) for image in images}) == len(images)
    return {image: stems[stem(image)] for image in images if stem(image) in stems} if unique else {}


# --- figures ----------------------------------------------------------------------------------------------------------


def judge(
    scored: Scored,
    *,
    threshold: float | None = None,
    oracle: Literal["OF1", "CF1"] | None = None,
    variant: Variant = "grouped",
    empty: Unscored = "nan",
    decisions: EmptyClass = "skip",
    resamples: int = 1000,
    published: Sequence[Name] = (),
) -> Report:
    """All metrics under the house's rules, or under named published ones; beside them those of whole `published`
    conventions, which heed none of the other arguments."""
    scores, labels = scored.scores, scored.labels
    limit: float | NDArray[np.float32] = scored.thresholds if threshold is None else threshold
    oracles = []
    if oracle is not None:
        limit, best = oracle_threshold(scores, labels, oracle, decisions)
        oracles.append(f"threshold {limit:.2f} chosen on these very labels, for the best {oracle} ({100 * best:.2f})")
    metrics = summarise(scores, labels, threshold=limit)
    decided = decision_scores(scores, labels, threshold=limit, empty=decisions)._asdict()
    metrics |= {name: decided[name] for name in decided if name != "unscored"}
    metrics["mAP"] = mean_average_precision(scores, labels, variant=variant, empty=empty).value
    rules = [VARIANTS[variant]] if variant != "grouped" else []
    if empty == "zero":
        rules.append("classes that cannot be scored count in mAP as published: 0 without a positive")
    if decisions != "skip":
        rules.append(DECISION_RULES[decisions])
    return Report(
        metrics=metrics,
        per_class=average_precision(scores, labels, variant=variant, empty=empty).tolist(),
        interval=_interval(scored, variant, empty, resamples) if resamples else None,
        unscored=[name for name, fine in zip(scored.classes, scoreable(labels), strict=True) if not fine],
        threshold=limit if isinstance(limit, float) else limit.tolist(),
        rules=rules,
        oracles=oracles,
        published={name: published_metrics(name, scores, labels) for name in published},
    )


def _interval(scored: Scored, variant: Variant, empty: Unscored, resamples: int) -> tuple[float, float]:
    def published(scores: NDArray[Any], labels: States) -> float:
        return mean_average_precision(scores, labels, variant=variant, empty=empty).value

    usual = variant == "grouped" and empty == "nan"
    found = bootstrap(scored.scores, scored.labels, metric=None if usual else published, resamples=resamples)
    return found.low, found.high


def oracle_threshold(
    scores: Scores, labels: States, metric: Literal["OF1", "CF1"], empty: EmptyClass = "skip"
) -> tuple[float, float]:
    """(threshold, value): the one threshold of a grid of 99 that these labels like best; the lowest of equals."""
    return grid_threshold(scores, labels, metric=metric, empty=empty)


def _few(names: Sequence[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f", … ({len(names) - most} more)" if len(names) > most else "")
