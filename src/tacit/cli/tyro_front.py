"""Flags to tyro and back: one dataclass made on the spot, one nested dataclass per group for its own help box."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, make_dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from .flags import Flag, Group, without_none
from .recipe import OptionError
from .words import negated

_METAVARS = {int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH"}


def values_from_tyro(
    program: str,
    about: str,
    flags: Sequence[Flag],
    groups: Mapping[str, Group],
    words: Sequence[str],
    *,
    pairs: bool = True,
) -> dict[str, dict[str, Any]]:
    """Values by owner ("" for the command's own) and name. `pairs`: a switch `--x` has its `--no-x`."""
    parts: list[Any] = [_field(flag) for flag in flags if not flag.owner]
    for owner, group in groups.items():
        options = [_field(flag) for flag in flags if flag.owner == owner]
        if options:
            nested = make_dataclass("Options", options, kw_only=True)
            nested.__doc__ = group.about
            parts.append((f"group_{owner}", Annotated[nested, tyro.conf.arg(name=group.title)]))
    command = make_dataclass("Command", parts, kw_only=True)
    markers = () if pairs else (tyro.conf.FlagCreatePairsOff,)
    made = _call_tyro(command, program, about, _undecided(words, flags), markers)
    values: dict[str, dict[str, Any]] = {"": {}}
    for flag in flags:
        if flag.key != "config":
            holder = getattr(made, f"group_{flag.owner}") if flag.owner else made
            values.setdefault(flag.owner, {})[flag.name] = getattr(holder, flag.name)
    return values


def _field(flag: Flag) -> tuple[str, Any, Any]:
    inner = without_none(flag.type)
    metavar = _METAVARS.get(inner) if inner is not flag.type or inner is str else None
    if _is_undecided(flag):
        metavar = f"| {negated(flag)}"
    if flag.positional:
        metavar = flag.spelled + (" …" if flag.takes_many else "")
    hint = "(optional)" if flag.default is None else "" if flag.default == () else None
    argument = tyro.conf.arg(
        name=None if flag.positional else flag.spelled[2:],
        metavar=metavar,
        help=flag.help,
        help_behavior_hint=hint,
        prefix_name=None if flag.positional else False,
    )
    extras = (tyro.conf.Positional, argument) if flag.positional else (argument,)
    default = flag.default
    made: Any = field() if flag.required else field(default_factory=lambda: default)
    return flag.name, Annotated[flag.type, *extras], made


def _is_undecided(flag: Flag) -> bool:
    return flag.is_switch and flag.type is not bool


def _undecided(words: Iterable[str], flags: Iterable[Flag]) -> list[str]:
    """A switch that may also be left open (`bool | None`) is a value to tyro: `--no-x` -> `--x False`."""
    spelled = {flag.spelled: [flag.spelled, "True"] for flag in flags if _is_undecided(flag)}
    spelled |= {negated(flag): [flag.spelled, "False"] for flag in flags if _is_undecided(flag)}
    return [part for word in words for part in spelled.get(word, [word])]


def _call_tyro(command: type, program: str, about: str, words: Iterable[str], markers: tuple[Any, ...]) -> Any:
    """tyro prints its complaints in boxes and exits; ours are exceptions with a sentence."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(command, prog=program, description=about, args=list(words), config=markers)
    except SystemExit as stop:
        if not stop.code:
            raise
        raise OptionError(f"{_sentence(said.getvalue())}. `{program} --help` lists all flags.") from None


def _sentence(box: str) -> str:
    """The first paragraph inside tyro's box, on one line."""
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip().strip("│").strip() for line in box.splitlines()]
    lines = [line for line in lines if line and not line.startswith("╭")]
    end = next((at for at, line in enumerate(lines) if line[0] in "─╰"), len(lines))
    return " ".join(lines[:end]).rstrip(".")
