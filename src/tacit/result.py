"""result.json: the final figures with everything a reader must know to believe or doubt them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any

from . import __version__
from .assemble import Bench, backbone_name
from .evaluate import Scores, calibration_figures, counts, decisions, labels_of, scores_train, unknown_rule
from .methods.base import Method, Stage
from .methods.registry import method_options
from .protocols import budgets, of_budget
from .run import STOP, Rule, RunConfig, RunDirectory
from .winners import Winner

BUDGETED = ("epochs", "batch_size", "lr", "weight_decay", "optimizer", "momentum", "schedule", "head_lr")


@dataclass(frozen=True)
class Verdict:
    """What the chosen epoch is worth; the method then carries its weights."""

    main: Winner
    told: dict[str, Scores]  # split -> scores
    measured: dict[str, dict[str, Any]]  # split -> figures
    also: dict[str, dict[str, Any]]  # the other selection rules of the same run, with their metrics
    thresholds: dict[str, Any]  # chosen on validation


def outcome(
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
        "pseudo_labels": bench.judge.pseudo_labels(method.pseudo_labels()),
        "also": verdict.also,
        "oracles": describe_oracles(bench, method),
        "choices": describe_choices(bench, stages, main.point),
        "images": len(bench.splits["train"]),
        "search": _search_lines(tried, config.selection) if config.search else None,
    }


def described(winner: Winner, measured: dict[str, dict[str, Any]]) -> dict[str, Any]:
    facts = {"point": winner.point, "stage": winner.stage, "epoch": winner.epoch, "value": winner.value}
    return facts | {"metrics": {name: m["metrics"] for name, m in measured.items()}}


def _options(config: RunConfig, stages: tuple[Stage, ...], point: dict[str, Any]) -> dict[str, Any]:
    names = (*BUDGETED, "drop_last")
    last = replace(stages[-1], **of_budget(point))
    budget = {name: getattr(last, name) for name in names}
    if len(stages) > 1:
        budget |= {f"linear_{name}": getattr(stages[0], name) for name in names}
    if last.augment:
        budget["augment"] = last.augment
    own = {"method": config.method_options, "head": config.head_options, "source": config.source_options}
    return {**own, "budget": budget}


def _search_lines(tried: list[dict[str, Any]], rule: Rule) -> list[dict[str, Any]]:
    """The search as the report shows it: each point, its best epoch and value under the main rule."""
    kept = [line for line in tried if rule in line["best"]]
    return [{**line["point"], **{k: line["best"][rule][k] for k in ("epoch", "value")}} for line in kept]


def protocol_parts(bench: Bench, stages: tuple[Stage, ...]) -> dict[str, Any]:
    """What must agree before two figures may be compared. Method, its options, learning rate, observation and seeds
    may differ: they are what is being compared, or drawn anew."""
    config = bench.config
    return {
        "classes": list(bench.source.classes),
        "test": bench.splits["test"].labels.fingerprint(),
        "train": bench.splits["train"].labels.fingerprint() if not config.val else None,
        "pool": len(bench.splits["train"]) + (len(bench.splits["val"]) if "val" in bench.splits else 0),
        "val": config.val,
        "split_seed": config.split_seed if config.val else None,
        "protocol": config.protocol,
        "epochs": [stage.epochs for stage in stages],
        "inputs": inputs_name(bench),
        "image_size": config.image_size if stages[-1].inputs == "images" else None,
        "selection": config.selection,
        "metrics": "AP grouped by ties, unknown cells masked, classes without a known positive and negative left out",
    }


def inputs_name(bench: Bench) -> str:
    config = bench.config
    if config.features:
        return "features:" + config.features.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".npz")
    return backbone_name(config)


def describe_oracles(bench: Bench, method: Method) -> list[str]:
    """Every use of the truth beyond the observed labels."""
    out = list(method.oracles())
    if labels_of(bench.config.selection) == "clean" and bench.config.observe != "full":
        out.append("epoch, hyper-parameters and thresholds selected on clean validation labels")
    return out


def describe_choices(bench: Bench, stages: tuple[Stage, ...], point: dict[str, Any]) -> list[str]:
    """Every departure from a default, in words."""
    config, out = bench.config, []
    defaults = method_options(config.method)
    for name, value in config.method_options.items():
        if name in defaults and not defaults[name].required and defaults[name].default != value:
            out.append(f"{config.method}: {name} = {value} (default {defaults[name].default})")
    for mine, usual in zip(stages, budgets(config.protocol, {}), strict=True):
        changed = (n for n in BUDGETED if getattr(mine, n) != getattr(usual, n) and n not in point)
        out += [f"{mine.name}: {n} = {getattr(mine, n)} (protocol {getattr(usual, n)})" for n in changed]
        if mine.drop_last:
            out.append(f"{mine.name}: the last partial batch of each epoch is dropped, as published")
        if mine.augment:
            out.append(f"{mine.name}: trained on the views {mine.augment} in place of the method's own")
    if config.head != "auto":
        told = ", ".join(f"{name} = {value}" for name, value in config.head_options.items())
        out.append(f"head {config.head}" + (f" with {told}" if told else ""))
    for name, value in config.source_options.items():
        out.append(f"source: {name} = {value}")
    if config.val != 0.2:
        out.append(f"{config.val:g} of the training images held out for validation (published 0.2)")
    if config.selection.endswith(STOP):
        out.append("training stops after the first epoch that is no better on validation, as published")
    if config.val == 0:
        out.append("no validation: the last epoch is reported")
    if not scores_train(bench.judge.train):
        out.append("training images are not scored: there are too many of them and classes")
    if config.precision != "fp32":
        out.append(f"precision {config.precision}")
    if config.train_scores == "accumulated":
        out.append("label recovery per epoch accumulated during the training pass, as published")
    return out


def write_result(directory: RunDirectory, bench: Bench, method: Method, content: dict[str, Any]) -> dict[str, Any]:
    config = bench.config
    observed_val = bench.judge.val_observed
    read = labels_of(config.selection)
    rule = unknown_rule(observed_val) if read == "observed" and observed_val is not None else "masked"
    result = {
        "format": 1,
        "tacit": __version__,
        "status": "finished",
        "run": {
            "source": config.source.partition(":")[0] if not config.source.startswith("table:") else config.source,
            "method": config.method,
            "unknown": method.unknown,
            "observe": config.observe,
            "protocol": config.protocol,
            "seed": config.seed,
            "observe_seed": bench.observe_seed,
            "split_seed": config.split_seed,
            "select": config.selection,
            "backbone": inputs_name(bench),
            "recipe": config.recipe,
        },
        **content,
        "fingerprint": hashlib.sha256(json.dumps(content["protocol"], sort_keys=True).encode()).hexdigest(),
        "published": None
        if config.published is None
        else {"value": config.published, "metric": "mAP", "split": "test", "where": config.published_where or ""},
    }
    result["selected"] |= {"metric": "mAP", "labels": read, "rule": config.selection, "unknown": rule}
    directory.write_json(directory.result_file, result)
    return result
