"""Methods found by name: `methods/foo.py` holds the method `foo`; `names.py` adds published names for one with presets.

Listing names costs no import of torch; finding one imports its module.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from ..errors import UserError
from .names import NAMES

if TYPE_CHECKING:
    from torch import nn

    from ..labels import Labels
    from .base import Method

PLUMBING = {"base", "names", "parts", "registry"}  # modules of this room that are no methods


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


@dataclass(frozen=True)
class Described:
    """What `tacit methods` says of a name."""

    about: str  # first line, then the rest
    needs: str
    method: str  # the module that holds it
    page: str  # its name below docs/methods


def method_names() -> list[str]:
    import tacit.methods

    files = (m.name for m in pkgutil.iter_modules(tacit.methods.__path__) if m.name not in PLUMBING)
    return sorted([*files, *NAMES])


def find_method(name: str) -> type[Method]:
    """The one Method class that the module of this name, or of the method behind it, defines."""
    if name not in (names := method_names()):
        raise MethodError(f"no method named '{name}'{_did_you_mean(name, names)}. Methods: {', '.join(names)}")
    from .base import Method

    module = importlib.import_module(f"tacit.methods.{_module_of(name)}")
    here = [
        thing
        for thing in vars(module).values()
        if inspect.isclass(thing) and issubclass(thing, Method) and thing.__module__ == module.__name__
    ]
    if len(here) != 1:
        raise TypeError(f"{module.__name__} must define exactly one Method; it defines {len(here)}")
    return here[0]


def describe_method(name: str) -> Described:
    method = find_method(name)
    if name in NAMES:
        told = NAMES[name]
        return Described(told.about, told.needs, told.method, told.page or name)
    return Described(inspect.getdoc(method) or "", method.needs, name, name)


def constructor(name: str) -> Callable[..., Method]:
    """What builds the method of this name: its signature has the name's defaults, without what the name has decided."""
    method = find_method(name)
    if name not in NAMES:
        return method
    preset = NAMES[name]

    def build(net: nn.Module, observed: Labels, **options: Any) -> Method:
        return method(net, observed, **{**preset.defaults, **preset.fixed, **options})

    signature = inspect.signature(method)
    left = [p for p in signature.parameters.values() if p.name not in preset.fixed]
    left = [p.replace(default=preset.defaults[p.name]) if p.name in preset.defaults else p for p in left]
    build.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
    build.__annotations__ = get_type_hints(method.__init__, include_extras=True)
    return build


def method_options(name: str) -> dict[str, Option]:
    """Typed hyper-parameters by name, in the order of the constructor."""
    builder = constructor(name)
    hints = get_type_hints(builder.__init__ if inspect.isclass(builder) else builder, include_extras=True)
    keywords = inspect.signature(builder).parameters.values()
    return {p.name: _option(p, hints.get(p.name)) for p in keywords if p.kind is p.KEYWORD_ONLY}


def numeric_options(name: str) -> dict[str, type]:
    """The hyper-parameters that are numbers, which a search may try, and whether whole ones."""
    kinds = {key: set(get_args(o.type)) or {o.type} for key, o in method_options(name).items()}
    return {key: float if float in kind else int for key, kind in kinds.items() if kind & {int, float}}


def preset_options(name: str) -> dict[str, Any]:
    """What the name itself decides of its method, defaults included: said with every run."""
    return {**NAMES[name].defaults, **NAMES[name].fixed} if name in NAMES else {}


def build_method(name: str, net: nn.Module, observed: Labels, options: Mapping[str, Any] | None = None) -> Method:
    """The method of this name with checked hyper-parameters; numbers read from a file or a flag are fitted to type."""
    builder, known, given = constructor(name), method_options(name), dict(options or {})
    for wrong in (key for key in given if key not in known):
        takes = f"{name} takes {', '.join(known)}" if known else f"{name} takes no hyper-parameters"
        raise MethodError(f"{name} has no hyper-parameter '{wrong}'{_did_you_mean(wrong, known)}. {takes}")
    for option in known.values():
        if option.required and option.name not in given:
            raise MethodError(f"{name} needs {option.name} to be set: {option.help}")
    from .parts import NoKnownNegative

    try:
        return builder(net, observed, **{key: _fitted(name, known[key], value) for key, value in given.items()})
    except NoKnownNegative as error:
        raise NoKnownNegative(f"{name}: {error}: {', '.join(_fit_without_negatives())}.") from error


def learns_from_positives(name: str) -> bool:
    """Whether the method of this name, as it stands, takes labels of which none is known to be absent."""
    options = {key: option.default for key, option in method_options(name).items()} | preset_options(name)
    return options.get("unknown") != "ignore" and not find_method(name).needs_negatives


def _fit_without_negatives() -> list[str]:
    return [name for name in method_names() if learns_from_positives(name)]


def _module_of(name: str) -> str:
    return NAMES[name].method if name in NAMES else name


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
    raise MethodError(f"{method}: {option.name} must be {_in_words(option.type)}, not {value!r}")


def _in_words(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(map(str, get_args(kind)))
    return str(kind) if get_origin(kind) in (Union, types.UnionType) else getattr(kind, "__name__", str(kind))


def _did_you_mean(word: str, candidates: Iterable[str]) -> str:
    near = get_close_matches(word.lower().replace("-", "_"), list(candidates), n=3, cutoff=0.5)
    return f" (did you mean {' or '.join(near)}?)" if near else ""
