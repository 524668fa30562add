"""The words of a command line, looked at before they are parsed: which flags, which values, which arguments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .flags import Flag

_FLAG = re.compile(r"--?[A-Za-z]")


@dataclass(frozen=True)
class Scan:
    named: dict[str, str]  # a flag's key -> the text given (the last one; a flag without a value: "")
    unknown: tuple[str, ...]  # words that look like flags and are none


def expand_hyphens(argv: Iterable[str]) -> list[str]:
    """`--batch_size=8` -> `--batch-size=8`: both are understood, one is used."""
    words = []
    for word in argv:
        name, equals, value = word.partition("=")
        words.append(name.replace("_", "-") + equals + value if name.startswith("--") else word)
    return words


def gathered(argv: Iterable[str], flag: str) -> list[str]:
    """`--set a=1 --set b=2` means the same as `--set a=1 b=2`; the parser alone would keep the last one only."""
    words: list[str] = []
    values: list[str] = []
    taking = False
    for word in argv:
        if word == flag:
            taking = True
        elif word.startswith(f"{flag}="):
            values.append(word.removeprefix(f"{flag}="))
            taking = False
        elif taking and not word.startswith("-"):
            values.append(word)
        else:
            taking = False
            words.append(word)
    return words + ([flag, *values] if values else [])


def shorten(words: Iterable[str], flags: Sequence[Flag]) -> list[str]:
    """`--method.alpha` -> `--alpha` where that is how the flag is spelled; likewise `--no-method.fast`."""
    known = {}
    for flag in flags:
        if flag.owner:
            long = f"{flag.owner}.{flag.name.replace('_', '-')}"
            known[f"--{long}"] = flag.spelled
            known[f"--no-{long}"] = known[f"--{flag.owner}.no-{flag.name.replace('_', '-')}"] = negated(flag)
    short = []
    for word in words:
        name, equals, value = word.partition("=")
        short.append(known.get(name, name) + equals + value)
    return short


def scan(words: Sequence[str], flags: Sequence[Flag]) -> Scan:
    """What was given, by the flags known so far.

    The word after an unknown flag is taken for its value, unless a required argument would be missing then.
    """
    by_word = {flag.spelled: flag for flag in flags if not flag.positional}
    by_word |= {negated(flag): flag for flag in flags if flag.is_switch and not flag.positional}
    named: dict[str, str] = {}
    free: list[str] = []
    doubtful: list[str] = []
    unknown: list[str] = []
    at = 0
    while at < len(words):
        word, equals, value = words[at].partition("=")
        at += 1
        if not _FLAG.match(word):
            free.append(words[at - 1])
            continue
        flag = by_word.get(word)
        if flag is None and word not in ("-h", "--help"):
            unknown.append(word)
        end = at if equals else _end_of_values(words, at, flag)
        if flag is not None:
            named[flag.key] = value if equals else " ".join(words[at:end])
        else:
            doubtful += words[at:end]
        at = end
    arguments = [flag for flag in flags if flag.positional]
    if len(free) < sum(flag.required for flag in arguments):
        free += doubtful
    named |= _arguments(arguments, free)
    return Scan(named, tuple(unknown))


def _end_of_values(words: Sequence[str], at: int, flag: Flag | None) -> int:
    most = 0 if flag is not None and flag.is_switch else len(words) if flag is not None and flag.takes_many else 1
    end = at
    while end < len(words) and end - at < most and not _FLAG.match(words[end]):
        end += 1
    return end


def _arguments(flags: Sequence[Flag], free: Sequence[str]) -> dict[str, str]:
    """Arguments without dashes, in order: one word each, and all that are left for one that takes many."""
    named = {}
    rest = list(free)
    for flag in flags:
        if rest:
            count = len(rest) if flag.takes_many else 1
            named[flag.key], rest = " ".join(rest[:count]), rest[count:]
    return named


def negated(flag: Flag) -> str:
    return f"--no-{flag.spelled[2:]}"
