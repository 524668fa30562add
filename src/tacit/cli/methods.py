"""`tacit methods [NAME] [--json] [--plot gradient]`: the methods, what labels they need, their hyper-parameters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro

from ..methods.registry import constructor, describe_method, find_method, method_names
from . import console
from .flags import flags_of
from .listing import described, print_options
from .options import parse
from .recipe import OptionError


@dataclass(frozen=True)
class Methods:
    name: tyro.conf.Positional[str | None] = None  # one method, with its hyper-parameters
    json: bool = False  # for programs
    plot: Literal["gradient"] | None = None  # draw NAME: its gradient by probability. NAME:key=value sets an option
    against: str | None = None  # with --plot: other methods in the same drawing, as in an,asl:gamma_neg=2
    out: Path | None = None  # with --plot: the file, .svg, .png or .pdf; unset: gradient-NAME.svg


def run(argv: list[str]) -> int:
    chosen = parse("methods", Methods, argv, about="List the methods, or describe one.", recipes=False).config
    if chosen.plot is not None:
        return _plot(chosen)
    if chosen.against is not None or chosen.out is not None:
        raise OptionError("--against and --out belong to a drawing: add --plot gradient")
    if chosen.name is not None:
        entry = _entry(chosen.name)
        console.print_json(entry) if chosen.json else _describe(entry)
        return 0
    entries = [_entry(name) for name in method_names()]
    if chosen.json:
        console.print_json(entries)
        return 0
    rows = [(e["name"], e["summary"], e["needs"], _in_short(e["options"])) for e in entries]
    console.table(("method", "what it does", "needs", "hyper-parameters"), rows)
    console.notice("\n`tacit methods NAME` explains one of them.")
    return 0


def _plot(chosen: Methods) -> int:
    if chosen.name is None:
        raise OptionError("--plot needs the NAME of a method: tacit methods em --plot gradient")
    from .regimes import plot

    others = [word.strip() for word in (chosen.against or "").split(",") if word.strip()]
    plot(chosen.name, others, chosen.out, json=chosen.json)
    return 0


def _entry(name: str) -> dict[str, Any]:
    method, told = find_method(name), describe_method(name)
    return {
        "name": name,
        "summary": told.about.partition("\n")[0],
        "description": told.about,
        "formula_of": told.method,
        "needs": told.needs,
        "needs_images": method.needs_images,
        "views": list(method.views),
        "options": [described(flag) for flag in flags_of(constructor(name), "method")],
        "page": f"docs/methods/{told.page}.md",
    }


def _in_short(options: list[dict[str, Any]]) -> str:
    return ", ".join(o["name"] if o["required"] else f"{o['name']}={o['default']}" for o in options)


def _describe(entry: dict[str, Any]) -> None:
    print(f"{entry['name']}: {entry['description']}")
    print()
    if entry["needs"]:
        print(f"Needs: {entry['needs']}")
    print(f"Trains on: {'images only' if entry['needs_images'] else 'images or cached features'}")
    print(f"Formula, deviations, results: {entry['page']}")
    print_options(entry["options"])
