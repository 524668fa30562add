"""`tacit sources [NAME] [--json]`: what can be trained on, which files it expects, which options it takes."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import tyro

from ..data.source import parse_spec, source_module, source_names
from . import console
from .flags import flags_of
from .listing import described, print_options
from .options import parse


@dataclass(frozen=True)
class Sources:
    name: tyro.conf.Positional[str | None] = None  # one source, with the files it expects and its options
    json: bool = False  # for programs


def run(argv: list[str]) -> int:
    chosen = parse("sources", Sources, argv, about="List the sources, or describe one.", recipes=False).config
    if chosen.name is None:
        entries = [_entry(name, source_module(name)) for name in source_names()]
        if chosen.json:
            console.print_json(entries)
        else:
            console.table(("source", "what it is"), [(entry["name"], entry["summary"]) for entry in entries])
            console.notice("\n`tacit sources NAME` shows the files a source expects and its options.")
        return 0
    name = parse_spec(chosen.name)[0]
    entry = _entry(name, source_module(name))
    if chosen.json:
        console.print_json(entry)
    else:
        _describe(entry, source_module(name))
    return 0


def _entry(name: str, module: ModuleType) -> dict[str, Any]:
    return {
        "name": name,
        "summary": (inspect.getdoc(module) or "").partition("\n")[0],
        "layout": str(getattr(module, "LAYOUT", "")).strip(),
        "options": [described(flag) for flag in flags_of(module.load, "source")],
    }


def _describe(entry: dict[str, Any], module: ModuleType) -> None:
    print(f"{entry['name']}: {inspect.getdoc(module) or ''}".rstrip())
    if entry["layout"]:
        print(f"\nFiles:\n{entry['layout']}")
    print_options(entry["options"])
