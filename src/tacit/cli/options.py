"""A command's arguments: from typed declarations to checked values, with a record of who set each.

`parse("train", RunConfig, argv, groups={"method": method_group, "source": source_group, "budget": Group(…)})` reads

* the fields of a frozen dataclass as the command's own flags (`tyro.conf.Positional[…]` marks those without dashes),
* the options of what was chosen (a method's keyword arguments, a source's) as further flags without a prefix; where
  a name is taken, the option is spelled `--method.alpha`, and that longer spelling always works,
* a TOML file given by `--config`: top-level keys are the dataclass's fields, tables are the groups' options.

Precedence: default in the code < recipe < command line. tyro turns types into flags, help and values; what is wrong
with the words typed is said here, with the nearest right ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from .flags import Flag, Group, flags_of
from .recipe import OptionError, coerce, near_matches, read_recipe, refuse_unknown, table_name, table_of
from .tyro_front import values_from_tyro
from .words import Scan, expand_hyphens, scan, shorten

Config = TypeVar("Config")
Origin = Literal["default", "recipe", "command line"]
Resolver = Callable[[Mapping[str, Any]], Group | None]
Groups = Mapping[str, Resolver | Group]  # annotate a dict of both with it
_RESERVED = ("--help", "--quiet", "--debug", "--config")
_CONFIG = Flag("config", Path | None, None, "a recipe, or a run's config.toml; flags win over it", spelled="--config")


@dataclass(frozen=True)
class Parsed(Generic[Config]):
    """What a command was told. `options` holds every option of every group, defaults included."""

    config: Config
    options: dict[str, dict[str, Any]]
    provenance: dict[str, Origin]  # "seed", "method.alpha", … -> who set it
    recipe: Path | None = None

    @property
    def method_options(self) -> dict[str, Any]:
        return self.options.get("method", {})

    @property
    def source_options(self) -> dict[str, Any]:
        return self.options.get("source", {})

    @property
    def budget(self) -> dict[str, Any]:
        """Only what somebody set; the rest is the protocol's to say."""
        return self.chosen("budget")

    def chosen(self, group: str = "") -> dict[str, Any]:
        """The values of a group ("" for the command's own) that a recipe or the command line set."""
        values = self.options.get(group, {}) if group else vars(self.config)
        prefix = f"{group}." if group else ""
        return {k: v for k, v in values.items() if self.provenance.get(prefix + k, "default") != "default"}


def method_group(seen: Mapping[str, Any]) -> Group | None:
    """The options of the method named by the common flag `--method`."""
    if not seen.get("method"):
        return None
    from ..methods.registry import constructor

    name = str(seen["method"])
    return Group(name, constructor(name), f"Options of the method {name}; `tacit methods {name}` says more.")


def head_group(seen: Mapping[str, Any]) -> Group | None:
    """The options of the head named by `--head`; one that the method brought along is the method's to set."""
    name = str(seen.get("head") or "auto")
    if name == "auto":
        return None
    from ..nets.net import find_head

    return Group(name, find_head(name), f"Options of the head {name}.")


def source_group(seen: Mapping[str, Any]) -> Group | None:
    """The options of the source named by the argument SOURCE."""
    if not seen.get("source"):
        return None
    from ..data.source import parse_spec, source_module

    name, variant, _ = parse_spec(str(seen["source"]))
    load = source_module(name).load
    return Group(name + variant, load, f"Options of the source {name}; `tacit sources {name}` says more.")


def parse(
    command: str,
    config_type: type[Config],
    argv: Sequence[str],
    *,
    groups: Groups | None = None,
    about: str = "",
    recipes: bool = True,
) -> Parsed[Config]:
    """Read `argv` (without the command's name). `--help` prints and raises SystemExit(0), as argparse would.

    A group is fixed, or a function of a first look at the common values (which method, which source) that may return
    None. A field of the dataclass named like a group's table (`method_options`, `budget`) is filled with what was set
    there; other fields that hold a dict can only be set by a recipe's table of their name. `recipes=False` leaves out
    `--config`. What cannot be used raises OptionError.
    """
    makers = groups or {}
    tables = {table_name(group) for group in makers}
    fields = flags_of(config_type)
    own = [flag for flag in fields if flag.name not in tables and not flag.is_table]
    only_written = [flag for flag in fields if flag.name not in tables and flag.is_table]
    common = _spell(own, set(_RESERVED)) + ([_CONFIG] if recipes else [])
    words = expand_hyphens(argv)
    path = _config_path(scan(words, common))
    recipe = read_recipe(path) if path else {}
    if path:
        refuse_unknown(str(path), recipe, [*(flag.name for flag in own + only_written), *tables])
    flags, resolved = _with_groups(makers, _with_defaults(common, recipe, path), words)
    if path:
        _check_tables(recipe, path, makers, flags, resolved)
    flags = _with_defaults(flags, recipe, path)
    words = shorten(words, flags)
    seen = scan(words, flags)
    if not {"-h", "--help"} & set(words):
        _refuse_unknown_flags(command, seen, flags, resolved)
        _refuse_missing(command, seen, flags, resolved)
    values = values_from_tyro(f"tacit {command}", about, flags, resolved, words, pairs=recipes)
    provenance = _provenance(seen, flags, _recipe_keys(flags, recipe))
    options = {group: values.get(group, {}) for group in makers}
    written = {flag.name: flag.default for flag in _with_defaults(only_written, recipe, path)}
    filled = _set_in_groups(options, provenance, {flag.name for flag in fields})
    return Parsed(config_type(**values[""], **written, **filled), options, provenance, path)


def _config_path(seen: Scan) -> Path | None:
    return Path(seen.named["config"]) if seen.named.get("config") else None


def _spell(flags: Iterable[Flag], taken: set[str]) -> list[Flag]:
    """Decide how each flag is typed, and note the spellings as taken."""
    spelled = []
    for flag in flags:
        if flag.positional:
            text = flag.name.upper().replace("_", "-")
        else:
            text = "--" + flag.name.replace("_", "-")
            if text in taken:
                text = f"--{flag.owner}.{text[2:]}"
            taken |= {text, f"--no-{text[2:]}"} if flag.is_switch else {text}
        spelled.append(replace(flag, spelled=text))
    return spelled


def _with_groups(makers: Groups, common: list[Flag], words: list[str]) -> tuple[list[Flag], dict[str, Group]]:
    """All flags, and the groups that apply. What one group takes helps to read the words for the next."""
    flags, resolved = list(common), {}
    taken = {*_RESERVED, *(flag.spelled for flag in common)}
    for name, maker in makers.items():
        if isinstance(maker, Group):
            group: Group | None = maker
        else:
            defaults = {flag.name: flag.default for flag in common if not flag.required}
            group = maker({**defaults, **scan(words, flags).named})
        if group is not None:
            resolved[name] = group
            flags += _spell(flags_of(group.target, name), taken)
    return flags, resolved


def _check_tables(
    recipe: Mapping[str, Any], path: Path, makers: Iterable[str], flags: Iterable[Flag], resolved: Mapping[str, Group]
) -> None:
    """Every entry of the recipe's tables must be an option of what was chosen."""
    flags = list(flags)
    for group in makers:
        title = resolved[group].title if group in resolved else f"no {group} chosen"
        known = [flag.name for flag in flags if flag.owner == group]
        where = f"{path}, [{table_name(group)}] ({title})"
        refuse_unknown(where, table_of(recipe, table_name(group), path), known)


def _with_defaults(flags: Iterable[Flag], recipe: Mapping[str, Any], path: Path | None) -> list[Flag]:
    """The flags with the recipe's values, fitted to their types, as defaults."""
    written = _recipe_keys(flags := list(flags), recipe)
    return [
        replace(flag, default=coerce(written[flag.key], flag.type, f"{path}, {_place(flag)}"))
        if flag.key in written
        else flag
        for flag in flags
    ]


def _place(flag: Flag) -> str:
    return f"[{table_name(flag.owner)}] {flag.name}" if flag.owner else flag.name


def _recipe_keys(flags: Iterable[Flag], recipe: Mapping[str, Any]) -> dict[str, Any]:
    """What the recipe says, by the flags' keys."""
    found = {}
    for flag in flags:
        table = recipe.get(table_name(flag.owner), {}) if flag.owner else recipe
        if flag.name in table and flag.key != "config":
            found[flag.key] = table[flag.name]
    return found


def _provenance(seen: Scan, flags: Iterable[Flag], written: Mapping[str, Any]) -> dict[str, Origin]:
    return {
        flag.key: "command line" if flag.key in seen.named else "recipe" if flag.key in written else "default"
        for flag in flags
        if flag.key != "config"
    }


def _set_in_groups(
    options: Mapping[str, Mapping[str, Any]], provenance: Mapping[str, Origin], fields: Collection[str]
) -> dict[str, dict[str, Any]]:
    """For the fields named like a group's table: what somebody set of the group's options."""
    return {
        table_name(group): {k: v for k, v in values.items() if provenance[f"{group}.{k}"] != "default"}
        for group, values in options.items()
        if table_name(group) in fields
    }


def _refuse_unknown_flags(command: str, seen: Scan, flags: Sequence[Flag], resolved: Mapping[str, Group]) -> None:
    if not seen.unknown:
        return
    word = seen.unknown[0]
    spellings = [flag.spelled for flag in flags if not flag.positional]
    hint = near_matches(word, spellings)
    if not hint.startswith("Did"):
        hint = f"`tacit {command}` has no such flag."
    lists = [
        f"{group.title} takes {', '.join(taken) if taken else 'no options'}."
        for name, group in resolved.items()
        if name != "budget"
        for taken in [[flag.spelled for flag in flags if flag.owner == name]]
    ]
    raise OptionError(
        " ".join([f"{word}: {hint[0].lower()}{hint[1:]}", *lists, f"`tacit {command} --help` lists all."])
    )


def _refuse_missing(command: str, seen: Scan, flags: Iterable[Flag], resolved: Mapping[str, Group]) -> None:
    for flag in flags:
        if flag.required and flag.key not in seen.named:
            who = resolved[flag.owner].title if flag.owner else f"tacit {command}"
            example = "" if flag.positional else f" (give {flag.spelled} VALUE)"
            raise OptionError(f"{who} needs {flag.spelled}: {flag.help or 'a value'}{example}")
