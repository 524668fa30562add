"""Learning-rate schedules: a factor of the stage's learning rate as a pure function of how far the stage has come."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from .errors import UserError

WARM_SHARE, START, END = 0.2, 1 / 25, 1e-4 / 25  # onecycle: the published share of rising, and torch's end points


class ScheduleError(UserError):
    """A schedule that does not exist or cannot be read."""


@dataclass(frozen=True)
class Schedule:
    """`factor(done)`, done being the share of the stage's steps that came before: 0 <= done < 1."""

    text: str
    factor: Callable[[float], float]

    @property
    def is_constant(self) -> bool:
        return self.text == "constant"


def schedule(text: str, epochs: int) -> Schedule:
    """'constant', 'cosine' (to 0), 'onecycle[:LENGTH]' (rises for a fifth, falls; of LENGTH times the stage, so that
    training may stop before its end, as published), or 'step:10,20' (a tenth from these epochs on)."""
    name, _, argument = text.partition(":")
    if name == "constant" and not argument:
        return Schedule(text, lambda done: 1.0)
    if name == "cosine" and not argument:
        return Schedule(text, lambda done: (1 + math.cos(math.pi * done)) / 2)
    if name == "onecycle":
        length = _number(text, argument or "1")
        if not length >= 1:
            raise ScheduleError(f"--schedule {text}: the cycle cannot be shorter than the stage; give 1 or more")
        return Schedule(text, lambda done: _one_cycle(done / length))
    if name == "step" and argument:
        at = [_number(text, word) / epochs for word in argument.split(",")]
        return Schedule(text, lambda done: 0.1 ** sum(done >= when - 1e-9 for when in at))
    raise ScheduleError(
        f"--schedule {text}: there are constant, cosine, onecycle, onecycle:LENGTH (in stages), and step:EPOCH,EPOCH …"
    )


def _one_cycle(done: float) -> float:
    if done < WARM_SHARE:
        return _between(START, 1.0, done / WARM_SHARE)
    return _between(1.0, END, (done - WARM_SHARE) / (1 - WARM_SHARE))


def _between(start: float, end: float, done: float) -> float:
    """Along half a cosine."""
    return end + (start - end) * (1 + math.cos(math.pi * done)) / 2


def _number(text: str, word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise ScheduleError(f"--schedule {text}: '{word}' is not a number of at least 0")
    return value
