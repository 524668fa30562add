"""What can be typed: the flags of a frozen dataclass, and of the keyword-only parameters of a callable.

A flag's help is what the author already wrote where the value is declared: text inside `Annotated`, the comment beside
or above it, the string below a dataclass field, or the line of the docstring that starts with its name.
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import textwrap
import tokenize
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints


class _Required:
    """The default of what has none."""

    def __repr__(self) -> str:
        return "required"


REQUIRED: Final = _Required()


@dataclass(frozen=True)
class Flag:
    """One typed value of the command line; `owner` is "" for the command's own, else its group ("method", …)."""

    name: str  # the Python name
    type: Any  # the annotation without Annotated
    default: Any
    help: str
    owner: str = ""
    positional: bool = False
    spelled: str = ""  # "--alpha", or "--method.alpha" where the short form is taken; "SOURCE" for a positional

    @property
    def key(self) -> str:
        """How provenance names it: "seed", "method.alpha"."""
        return f"{self.owner}.{self.name}" if self.owner else self.name

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    @property
    def is_switch(self) -> bool:
        """Given without a value: `--x` or `--no-x`."""
        return without_none(self.type) is bool

    @property
    def is_table(self) -> bool:
        """Holds a dict: written in a recipe, never typed."""
        inner = without_none(self.type)
        return (get_origin(inner) or inner) in (dict, Mapping)

    @property
    def takes_many(self) -> bool:
        return get_origin(without_none(self.type)) in (tuple, list)


@dataclass(frozen=True)
class Group:
    """Options that belong to a chosen thing, e.g. Group("role", Role): shown apart, under its title."""

    title: str
    target: Callable[..., Any] | type
    about: str = ""  # where the options come from, in a few words for the help text


def flags_of(target: Callable[..., Any] | type, owner: str = "") -> list[Flag]:
    """The fields of a dataclass, or the keyword-only parameters of a callable (a class: of its `__init__`)."""
    if isinstance(target, type) and is_dataclass(target):
        return _dataclass_flags(target, owner)
    function = target.__init__ if isinstance(target, type) else target  # type: ignore[misc]
    hints = get_type_hints(function, include_extras=True)
    parameters = [p for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
    untyped = [p.name for p in parameters if p.name not in hints]
    if untyped:
        raise TypeError(f"{target!r}: options become flags and need types: {', '.join(untyped)}")
    notes = _notes(function, _function_spans) if parameters else {}
    texts = [inspect.getdoc(function) or "", inspect.getdoc(target) or ""]
    return [
        _flag(p.name, hints[p.name], REQUIRED if p.default is p.empty else p.default, owner, notes, texts)
        for p in parameters
    ]


def without_none(kind: Any) -> Any:
    """`int | None` -> `int`; anything else unchanged."""
    if get_origin(kind) in (Union, UnionType):
        inner = [part for part in get_args(kind) if part is not NoneType]
        if len(inner) == 1:
            return inner[0]
    return kind


def type_name(kind: Any) -> str:
    """A type as a person reads it: "int or none", "a | b", "float …"."""
    inner = without_none(kind)
    none = " or none" if inner is not kind else ""
    if get_origin(inner) is Literal:
        return " | ".join(str(choice) for choice in get_args(inner)) + none
    if get_origin(inner) in (tuple, list):
        parts = [part for part in get_args(inner) if part is not Ellipsis]
        return " ".join(type_name(part) for part in parts) + (" …" if len(parts) == 1 else "") + none
    return getattr(inner, "__name__", str(inner)).lower() + none


def _dataclass_flags(target: type, owner: str) -> list[Flag]:
    hints = get_type_hints(target, include_extras=True)
    notes: dict[str, str] = {}
    for base in reversed(target.__mro__):
        if is_dataclass(base):
            notes |= _notes(base, _class_spans)
    flags = []
    for item in fields(target):
        if not item.init:
            continue
        default = item.default if item.default is not MISSING else REQUIRED
        if item.default_factory is not MISSING:
            default = item.default_factory()
        flags.append(_flag(item.name, hints[item.name], default, owner, notes, [inspect.getdoc(target) or ""]))
    return flags


def _flag(name: str, hint: Any, default: Any, owner: str, notes: Mapping[str, str], texts: Iterable[str]) -> Flag:
    extras = hint.__metadata__ if get_origin(hint) is Annotated else ()
    kind = hint.__origin__ if extras else hint
    said = [extra if isinstance(extra, str) else getattr(extra, "help", None) for extra in extras]
    candidates = [*said, notes.get(name), *(_docstring_line(text, name) for text in texts)]
    text = next((str(candidate) for candidate in candidates if candidate), "")
    positional = bool(extras) and any(extra is _positional_marker() for extra in extras)
    return Flag(name, kind, default, text, owner, positional)


def _positional_marker() -> Any:
    from tyro.conf import Positional

    return Positional[int].__metadata__[0]  # type: ignore[attr-defined]


def _docstring_line(text: str, name: str) -> str | None:
    """The text after "name:" (backquoted or not, with or without a type) in a docstring, continuation lines joined."""
    lines = text.splitlines()
    start = re.compile(rf"^(\s*)(?:[-*]\s+)?[`*]*{re.escape(name)}[`*]*\s*(?:\([^)]*\))?\s*(?::|--|–|—)\s+(\S.*)$")
    for at, line in enumerate(lines):
        match = start.match(line)
        if match is None:
            continue
        found = [match[2]]
        for following in lines[at + 1 :]:
            if not following.strip() or len(following) - len(following.lstrip()) <= len(match[1]):
                break
            found.append(following.strip())
        return " ".join(found)
    return None


_Spans = dict[str, tuple[int, int, str | None]]  # name -> first line, last line, string below it


def _notes(target: Any, spans_of: Callable[[ast.AST], _Spans]) -> dict[str, str]:
    """Comments written beside, or alone above, each declaration in the source of a class or function."""
    try:
        source = textwrap.dedent(inspect.getsource(target))
    except (OSError, TypeError):  # made at run time: it has no source to read
        return {}
    spans = spans_of(ast.parse(source).body[0])
    beside, alone = _comments(source)
    ends = [last for _, last, _ in spans.values()]
    found: dict[str, str] = {}
    for name, (first, last, below) in spans.items():
        if below:
            found[name] = below
        elif last in beside and ends.count(last) == 1:
            found[name] = beside[last]
        else:
            above: list[str] = []
            line = first - 1
            while line in alone:
                above.insert(0, alone[line])
                line -= 1
            if above:
                found[name] = " ".join(above)
    return found


def _comments(source: str) -> tuple[dict[int, str], dict[int, str]]:
    """Comments by line: those beside code, and those alone on their line; directives for tools are left out."""
    beside: dict[int, str] = {}
    alone: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        text = token.string.lstrip("# ").rstrip()
        if text and not re.match(r"noqa|type:|fmt:|ruff:|mypy:|pragma", text):
            (alone if not token.line[: token.start[1]].strip() else beside)[token.start[0]] = text
    return beside, alone


def _function_spans(node: ast.AST) -> _Spans:
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    defaults = dict(zip((arg.arg for arg in node.args.kwonlyargs), node.args.kw_defaults, strict=True))
    return {
        arg.arg: (arg.lineno, (getattr(defaults[arg.arg], "end_lineno", None) or arg.end_lineno or arg.lineno), None)
        for arg in node.args.kwonlyargs
    }


def _class_spans(node: ast.AST) -> _Spans:
    assert isinstance(node, ast.ClassDef)
    found: _Spans = {}
    for item, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            below = None
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                below = " ".join(str(after.value.value).split())
            found[item.target.id] = (item.lineno, item.end_lineno or item.lineno, below)
    return found
