"""`tacit train SOURCE --method NAME --out DIR`: one run, or a declared search, into a run directory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..protocols import Budget
from ..run import RunConfig
from . import console
from .flags import Group
from .options import Groups, Parsed, head_group, method_group, parse, source_group

ABOUT = "Train one method on one source under one protocol; the run directory then holds everything about it."
BUDGET = Group("budget", Budget, "Changes of the protocol's budget; a recipe sets them in its table [budget].")
GROUPS: Groups = {"method": method_group, "head": head_group, "source": source_group, "budget": BUDGET}


@dataclass(frozen=True)
class Train(RunConfig):
    out: Path | None = None  # the run's directory: new or empty, or with --resume that of the same run
    resume: bool = False  # go on with an interrupted run


def run(argv: Sequence[str]) -> int:
    parsed = asked(argv)
    config, out = config_of(parsed), parsed.config.out
    if out is None:
        raise UserError("--out DIR is missing: where should the run be kept? For example --out runs/first")
    from ..conduct import conduct
    from .live import Live

    with Live() as screen:
        result = conduct(config, out, screen, resume=parsed.config.resume)
    if os.environ.get("RANK", "0") == "0":  # of several processes under torchrun, the first one speaks
        tell(result, out)
    return 0


def asked(argv: Sequence[str]) -> Parsed[Train]:
    """The words of `tacit train`, read."""
    return parse("train", Train, val_as_number(argv), groups=GROUPS, about=ABOUT)


def val_as_number(argv: Sequence[str]) -> list[str]:
    """`--val none` -> `--val 0`: hold nothing out."""
    before = ["", *argv]
    words = ["0" if (word, flag) == ("none", "--val") else word for flag, word in zip(before, argv, strict=False)]
    return ["--val=0" if word == "--val=none" else word for word in words]


def config_of(parsed: Parsed[Any]) -> RunConfig:
    """The run that was asked for. A path in `data` and `features` is kept as typed."""
    config = RunConfig(**{f.name: getattr(parsed.config, f.name) for f in fields(RunConfig)})
    if config.recipe is None and parsed.recipe is not None and parsed.recipe.name != "config.toml":
        config = replace(config, recipe=recipe_name(parsed.recipe))
    return config


def recipe_name(path: Path) -> str:
    """ "voc2012/em/an_finetune": the path below the folder `recipes`; elsewhere the file and its folder."""
    parts = path.relative_to(path.anchor).with_suffix("").parts
    home = max((at for at, part in enumerate(parts[:-2]) if part == "recipes"), default=len(parts) - 3)
    return "/".join(parts[home + 1 :])


def tell(result: Mapping[str, Any], out: Path) -> None:
    """The figures a person looks for first, and where the rest is."""
    metrics, selected = result["metrics"], result["selected"]
    rows = [
        [name, *_percent(metrics[name], "mAP", "OF1", "CF1")] for name in ("train", "val", "test") if name in metrics
    ]
    console.table(["split", "mAP", "OF1", "CF1"], rows, right=("mAP", "OF1", "CF1"))
    print(f"epoch {selected['epoch']} of {selected['stage']}, selected on {selected['labels']} validation labels")
    if selected.get("point"):
        print("chosen by the search: " + ", ".join(f"{k} = {v:g}" for k, v in selected["point"].items()))
    if result["published"]:
        print(f"published: {result['published']['value']} ({result['published']['where']})")
    for oracle in result["oracles"]:
        print(f"oracle: {oracle}")
    for name, classes in result["unscored"].items():
        if classes:
            print(
                f"{name}: {len(classes)} classes cannot be scored: {', '.join(classes[:8])}{' …' * (len(classes) > 8)}"
            )
    print(f"run directory: {out}")


def _percent(metrics: Mapping[str, float], *names: str) -> list[str]:
    return [f"{100 * metrics[name]:.2f}" if name in metrics else "–" for name in names]
