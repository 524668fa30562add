"""Methods with options in one word, where several are named at once: `em`, `em:alpha=0.2`, `asl:gamma_neg=2:clip=0`."""

from __future__ import annotations

from typing import Any

from ..methods.registry import find_method, method_options
from .recipe import OptionError, near_matches


def read_method(word: str) -> tuple[str, dict[str, Any]]:
    """The name and its options; values are numbers and true or false where they read so, else text."""
    name, *settings = word.split(":")
    find_method(name)
    known, options = method_options(name), dict[str, Any]()
    for setting in settings:
        key, equals, value = setting.partition("=")
        key = key.strip().replace("-", "_")
        if not key or not equals or not value:
            raise OptionError(f"{word}: write NAME:key=value, for example em:alpha=0.2; '{setting}' is no key=value")
        if key not in known:
            raise OptionError(f"{word}: {name} has no option '{key}'. {near_matches(key, list(known))}".strip())
        if key in options:
            raise OptionError(f"{word}: {key} is set twice")
        options[key] = _value(value)
    return name, options


def label_of(name: str, options: dict[str, Any]) -> str:
    """As a person reads it: "em, alpha 0.2"."""
    return ", ".join([name, *(f"{key} {value}" for key, value in options.items())])


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
