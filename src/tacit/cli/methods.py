"""`tacit methods [NAME] [--json]`: the methods, what observed labels they need, and their hyper-parameters."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import tyro

from ..methods.registry import find_method, method_names
from . import console
from .flags import flags_of
from .listing import described, print_options
from .options import parse


@dataclass(frozen=True)
class Methods:
    name: tyro.conf.Positional[str | None] = None  # one method, with its hyper-parameters
    json: bool = False  # for programs


def run(argv: list[str]) -> int:
    chosen = parse("methods", Methods, argv, about="List the methods, or describe one.", recipes=False).config
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


def _entry(name: str) -> dict[str, Any]:
    method = find_method(name)
    text = inspect.getdoc(method) or ""
    return {
        "name": name,
        "summary": text.partition("\n")[0],
        "description": text,
        "needs": method.needs,
        "needs_images": method.needs_images,
        "views": list(method.views),
        "options": [described(flag) for flag in flags_of(method, "method")],
        "page": f"docs/methods/{name}.md",
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
