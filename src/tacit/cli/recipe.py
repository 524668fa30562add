"""Recipes and `config.toml`: values of flags written down in TOML, checked against the declared types."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from ..errors import UserError
from .flags import type_name

TABLES = {name: f"{name}_options" for name in ("method", "head", "source")}  # others: a table of their name


class OptionError(UserError):
    """A flag or a recipe entry that cannot be used as it stands."""


def table_name(group: str) -> str:
    return TABLES.get(group, group)


def read_recipe(path: Path) -> dict[str, Any]:
    """The TOML file as it is written."""
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        beside = sorted(other.name for other in path.parent.glob("*.toml")) if path.parent.is_dir() else []
        near = get_close_matches(path.name, beside, n=3, cutoff=0.4)
        hint = f" That folder has {', '.join(near)}." if near else ""
        raise OptionError(f"--config {path}: there is no such file.{hint}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"--config {path}: cannot be read as a text file: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise OptionError(f"--config {path}: not valid TOML: {error}") from None


def refuse_unknown(where: str, keys: Iterable[str], known: Iterable[str]) -> None:
    """Raise for the first key nobody knows, naming the nearest one that is known."""
    known = sorted(known)
    for key in keys:
        if key not in known:
            raise OptionError(f"{where}: there is no '{key}'. {near_matches(key, known)}")


def near_matches(word: str, known: Iterable[str]) -> str:
    """ "Did you mean …?", or everything there is."""
    known = list(known)
    near = get_close_matches(word, known, n=2, cutoff=0.55)
    if near:
        return f"Did you mean {' or '.join(near)}?"
    return f"Known: {', '.join(known)}." if known else "It takes none."


def coerce(value: Any, kind: Any, where: str) -> Any:
    """TOML's `value` as the declared type wants it: 1 for a float, a string for a path, a list for a tuple."""
    try:
        return _convert(value, kind)
    except _Unfit:
        raise OptionError(f"{where}: {value!r} is not what belongs here ({type_name(kind)})") from None


class _Unfit(Exception):
    pass


def _convert(value: Any, kind: Any) -> Any:
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _convert_union(value, get_args(kind))
    if origin is Literal:
        return _accept(value, value in get_args(kind))
    if origin in (tuple, list):
        return _convert_sequence(value, kind)
    if kind is Any:
        return value
    if (origin or kind) in (dict, Mapping):
        return _accept(value, isinstance(value, dict))
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if kind is Path and isinstance(value, str):
        return Path(value)
    if kind in (NoneType, None):
        return _accept(None, value is None or value == "none")
    if kind is int:
        return _accept(value, isinstance(value, int) and not isinstance(value, bool))
    return _accept(value, isinstance(kind, type) and isinstance(value, kind))


def _convert_union(value: Any, kinds: tuple[Any, ...]) -> Any:
    for kind in sorted(kinds, key=lambda kind: kind is NoneType):
        try:
            return _convert(value, kind)
        except _Unfit:
            continue
    raise _Unfit


def _convert_sequence(value: Any, kind: Any) -> Any:
    if not isinstance(value, list | tuple):
        raise _Unfit
    parts = get_args(kind)
    if get_origin(kind) is list or (len(parts) == 2 and parts[1] is Ellipsis):
        return get_origin(kind)(_convert(item, parts[0]) for item in value)
    if len(parts) != len(value):
        raise _Unfit
    return tuple(_convert(item, part) for item, part in zip(value, parts, strict=True))


def _accept(value: Any, fits: bool) -> Any:
    if not fits:
        raise _Unfit
    return value


def table_of(recipe: Mapping[str, Any], name: str, where: Path) -> Mapping[str, Any]:
    """One table of the recipe; an absent one is empty."""
    table = recipe.get(name, {})
    if not isinstance(table, Mapping):
        raise OptionError(f"{where}: [{name}] must be a table, not {table!r}")
    return table
