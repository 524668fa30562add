"""Options of a method or source, for the listing commands."""

from __future__ import annotations

from typing import Any

from . import console
from .flags import Flag, type_name


def described(flag: Flag) -> dict[str, Any]:
    """A flag as JSON can hold it."""
    return {
        "name": flag.name,
        "flag": "--" + flag.name.replace("_", "-"),
        "type": type_name(flag.type),
        "required": flag.required,
        "default": None if flag.required else flag.default,
        "help": flag.help,
    }


def print_options(options: list[dict[str, Any]]) -> None:
    """The options as a table, or that there are none."""
    if not options:
        print("\nNo options.")
        return
    print("\nOptions:")
    rows = [(o["flag"], o["type"], "required" if o["required"] else o["default"], o["help"]) for o in options]
    console.table(("flag", "type", "default", "meaning"), rows)
