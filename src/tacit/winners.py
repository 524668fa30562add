"""The best epoch of a run under each selection rule, kept on disk until the result is written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from .checkpoint import load, named, save, under
from .run import Rule, RunDirectory
from .trial import Best


@dataclass(frozen=True)
class Winner:
    """The best epoch of the best trial under a rule."""

    rule: Rule
    point: dict[str, Any]  # the search's choice; empty without a search
    stage: str
    epoch: int
    value: float | None
    state: dict[str, Tensor]

    @property
    def place(self) -> tuple[Any, ...]:
        """Which weights these are."""
        return self.point, self.stage, self.epoch


def winner_file(directory: RunDirectory, rule: Rule) -> Path:
    return directory.path / "checkpoint" / f"best-{rule}.safetensors"


def keep_if_better(
    directory: RunDirectory, rule: Rule, point: dict[str, Any], best: Best, tried: list[dict[str, Any]]
) -> None:
    """First maximum in the order of the grid, as for epochs."""
    earlier = [line["best"][rule]["value"] for line in tried if rule in line["best"]]
    if not earlier or best.value is None or best.value > max(earlier):
        save(winner_file(directory, rule), named(best.state, "method"), {"point": point, **best.facts()})


def winner_of(directory: RunDirectory, rule: Rule) -> Winner:
    tensors, story = load(winner_file(directory, rule))
    return Winner(rule, story["point"], story["stage"], story["epoch"], story["value"], under(tensors, "method"))
