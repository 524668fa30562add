"""Axes of a sweep, from words such as `known-share:0.1..0.9` and `alpha=0.1..0.5`, and the points between them.

A range a..b is a, a + step … b; the step is 0.1 (1 for whole numbers) unless a..b:step says it. Arithmetic is decimal:
three tenths are 0.3, as a person would have typed them.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from ..errors import UserError
from ..observations import observations

MOST = 10_000  # values of one axis; a range with more is a slip of the pen
SHARE, FILE = "SHARE", "FILE"  # how an observation's list entry writes an argument that is a number, or a path


class AxisError(UserError):
    """An axis that cannot be read, or that no run could move along."""


@dataclass(frozen=True)
class Axis:
    """What is varied, and through which values, all as typed."""

    name: str  # as tables call it: known-share, alpha
    key: str  # the setting: observe, alpha
    values: tuple[str, ...]
    prefix: str = ""  # of a value: "known-share:"

    def setting(self, value: str) -> str:
        """`observe=known-share:0.3`"""
        return f"{self.key}={self.prefix}{value}"


@dataclass(frozen=True)
class Point:
    """One value per axis."""

    values: tuple[tuple[str, str], ...]  # (axis, value)
    settings: tuple[str, ...]

    @property
    def name(self) -> str:
        return ", ".join(f"{axis} {value}" for axis, value in self.values)

    @property
    def folder(self) -> str:
        """A name that every file system takes: `known-share=0.3,alpha=0.5`."""
        return re.sub(r"[^\w.=,+-]+", "-", ",".join(f"{axis}={value}" for axis, value in self.values))


def observation_axis(text: str) -> Axis | None:
    """The axis in `--observe known-share:0.1..0.9` or `known-share:0.1,0.5`; None where it names one observation."""
    name, _, argument = text.strip().partition(":")
    takes = {kind.name: kind.argument for kind in observations()}.get(name)
    if takes == SHARE and (".." in argument or "," in argument):
        return Axis(name, "observe", values_of(argument, float, f"--observe {text}"), prefix=f"{name}:")
    if ".." in argument and takes and takes != FILE:
        shares = ", ".join(kind.name for kind in observations() if kind.argument == SHARE)
        raise AxisError(f"--observe {text}: {name} takes no range; {shares} do")
    return None


def values_of(text: str, kind: type, where: str) -> tuple[str, ...]:
    """`a..b`, `a..b:step` or `a,b,c` as texts; `kind` is int or float for numbers, anything else for words.

    Numbers come back in one spelling, so that 1e-3 and 0.001 are one point in one folder.
    """
    numeric = kind in (int, float)
    if ".." in text and not numeric:
        raise AxisError(f"{where}: a range wants a number; give the values one by one, with commas between them")
    parts = [part.strip() for part in text.split(",")]
    if ".." not in text and not all(parts):
        raise AxisError(f"{where}: a value is missing between the commas")
    if ".." in text:
        values = _range(text, kind, where)
    else:
        values = tuple(_plain(_number(part, where)) if numeric else part for part in parts)
    twice = [value for value, count in Counter(values).items() if count > 1]
    if twice:
        raise AxisError(f"{where}: {twice[0]} is there twice")
    return values


def _range(text: str, kind: type, where: str) -> tuple[str, ...]:
    low_text, _, rest = text.partition("..")
    high_text, colon, step_text = rest.partition(":")
    usual = "1" if kind is int else "0.1"
    low, high = _number(low_text, where), _number(high_text, where)
    step = _number(step_text if colon else usual, where)
    if low > high:
        raise AxisError(f"{where}: the range {text} runs backwards; write {high_text}..{low_text}")
    if step <= 0:
        raise AxisError(f"{where}: the step must be above 0, not {step}")
    count = (high - low) / step
    if count >= MOST:
        raise AxisError(f"{where}: {text} in steps of {step} has more than {MOST:,} values; give a larger step")
    if count != int(count):
        last = _plain(low + int(count) * step)
        raise AxisError(
            f"{where}: {text} in steps of {step} ends at {last}, not at {high_text}. Name the step, as in "
            f"{low_text}..{high_text}:STEP, or the values, as in {low_text},{high_text}"
        )
    return tuple(_plain(low + at * step) for at in range(int(count) + 1))


def _number(text: str, where: str) -> Decimal:
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        what = f"'{text.strip()}' is not a number" if text.strip() else "the range is open"
        raise AxisError(f"{where}: {what}; write a range as 0.1..0.9 or 0.1..0.9:0.2, or values as 0.1,0.5")
    return number


def _plain(number: Decimal) -> str:
    """0.3, 16, 0.0001: no exponent that a reader would have to undo, no trailing zero."""
    return f"{number.normalize():f}"


def number_of_points(axes: Sequence[Axis]) -> int:
    return math.prod(len(axis.values) for axis in axes)


def points(axes: Sequence[Axis]) -> Iterator[Point]:
    """Every combination; the first axis moves fastest, so that curves along it are finished one by one."""
    for reverse in itertools.product(*(axis.values for axis in reversed(axes))):
        values = tuple(zip((axis.name for axis in axes), reversed(reverse), strict=True))
        settings = tuple(axis.setting(value) for axis, (_, value) in zip(axes, values, strict=True))
        yield Point(values, settings)


def check_axes(axes: Sequence[Axis]) -> None:
    """Nothing varied twice, no two points in one folder."""
    keys = [axis.key for axis in axes]
    twice = [key for key in keys if keys.count(key) > 1]
    if twice:
        raise AxisError(f"{twice[0]} is varied twice; give all its values at once")
    taken: dict[str, Point] = {}
    for point in points(axes):
        other = taken.setdefault(point.folder, point)
        if other is not point:
            raise AxisError(f"the points '{other.name}' and '{point.name}' would share the folder {point.folder}")
