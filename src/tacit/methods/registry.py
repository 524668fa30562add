"""Methods found by the name of their file: `methods/foo.py` holds the method `foo`, and there is no other list.

Listing names costs no import of torch; finding one imports its module.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from ..errors import UserError

if TYPE_CHECKING:
    from torch import nn

    from ..labels import Labels
    from .base import Method

PLUMBING = {"base", "parts", "registry"}  # modules of this room that are no methods


class MethodError(UserError):
    """A method, or one of its hyper-parameters, that does not exist or does not fit."""


@dataclass(frozen=True)
class Option:
    """A hyper-parameter: one keyword of a method's constructor."""

    name: str
    type: Any  # as annotated, without the help
    default: Any  # None where it is required
    required: bool
    help: str


def method_names() -> list[str]:
    import tacit.methods

    return sorted(m.name for m in pkgutil.iter_modules(tacit.methods.__path__) if m.name not in PLUMBING)


def find_method(name: str) -> type[Method]:
    """The one Method class that the module of this name defines."""
    if name not in (names := method_names()):
        raise MethodError(f"no method named '{name}'{_did_you_mean(name, names)}. Methods: {', '.join(names)}")
    from .base import Method

    module = importlib.import_module(f"tacit.methods.{name}")
    here = [
        thing
        for thing in vars(module).values()
        if inspect.isclass(thing) and issubclass(thing, Method) and thing.__module__ == module.__name__
    ]
    if len(here) != 1:
        raise TypeError(f"{module.__name__} must define exactly one Method; it defines {len(here)}")
    return here[0]


def method_options(method: type[Method]) -> dict[str, Option]:
    """Typed hyper-parameters by name, in the order of the constructor."""
    hints = get_type_hints(method.__init__, include_extras=True)
    keywords = inspect.signature(method.__init__).parameters.values()
    return {p.name: _option(p, hints.get(p.name)) for p in keywords if p.kind is p.KEYWORD_ONLY}


def build_method(name: str, net: nn.Module, observed: Labels, options: Mapping[str, Any] | None = None) -> Method:
    """The method of this name with checked hyper-parameters; numbers read from a file or a flag are fitted to type."""
    method, given = find_method(name), dict(options or {})
    known = method_options(method)
    for wrong in (key for key in given if key not in known):
        takes = f"{name} takes {', '.join(known)}" if known else f"{name} takes no hyper-parameters"
        raise MethodError(f"{name} has no hyper-parameter '{wrong}'{_did_you_mean(wrong, known)}. {takes}")
    for option in known.values():
        if option.required and option.name not in given:
            raise MethodError(f"{name} needs {option.name} to be set: {option.help}")
    return method(net, observed, **{key: _fitted(name, known[key], value) for key, value in given.items()})


def _option(parameter: inspect.Parameter, hint: Any) -> Option:
    text = ""
    if get_origin(hint) is Annotated:
        hint, *extras = get_args(hint)
        text = next((extra for extra in extras if isinstance(extra, str)), "")
    required = parameter.default is parameter.empty
    return Option(parameter.name, hint, None if required else parameter.default, required, text)


def _fitted(method: str, option: Option, value: Any) -> Any:
    """`value`, an int widened where a float is meant; refused where its type is another."""
    union = get_origin(option.type) in (Union, types.UnionType)
    for wanted in get_args(option.type) if union else (option.type,):
        if wanted is float and isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        if get_origin(wanted) is Literal and value in get_args(wanted):
            return value
        plain = get_origin(wanted) or wanted
        if plain is Literal or (isinstance(value, bool) and plain is not bool):
            continue
        if not isinstance(plain, type) or isinstance(value, plain):
            return value
    meant = getattr(option.type, "__name__", str(option.type)) if not union else str(option.type)
    raise MethodError(f"{method}: {option.name} must be {meant}, not {value!r}")


def _did_you_mean(word: str, candidates: Iterable[str]) -> str:
    near = get_close_matches(word.lower().replace("-", "_"), list(candidates), n=3, cutoff=0.5)
    return f" (did you mean {' or '.join(near)}?)" if near else ""
