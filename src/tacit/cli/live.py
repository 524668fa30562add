"""A run as a person at a terminal sees it: a bar with loss terms and time left, a line per epoch. Quiet elsewhere."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from ..methods.base import Clock
from . import console


class Live:
    """A Screen (tacit.trial) on the console. Several runs may use one after the other."""

    def __init__(self, label: str = "") -> None:
        self.label = label
        self._bar: console.Bar | None = None
        self._open: AbstractContextManager[console.Bar] | None = None
        self._kind: tuple[Any, ...] = ()

    def __enter__(self) -> Live:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def say(self, text: str) -> None:
        if text.startswith("warning: "):
            console.warn(text.removeprefix("warning: "))
        else:
            console.notice(text)

    def step(self, clock: Clock, terms: dict[str, float]) -> None:
        bar = self._show(("train", clock.stage), f"{self.label}training", clock.epochs * clock.steps, "steps")
        shown = "  ".join(f"{name} {value:.4f}" for name, value in terms.items())
        bar.to(clock.epoch * clock.steps + clock.step, note=f"epoch {clock.epoch + 1}/{clock.epochs}  {shown}")

    def epoch(self, line: dict[str, Any]) -> None:
        if self._bar is not None and line.get("selection") is not None:
            self._bar.advance(0, note=f"epoch {line['epoch'] + 1}  val {100 * line['selection']:.2f}")

    def decoding(self, done: int, of: int) -> None:
        bar = self._show(("images", of), f"{self.label}reading images", of, "images")
        bar.to(done)
        if done == of:
            self._close()

    def _show(self, kind: tuple[Any, ...], name: str, total: int, unit: str) -> console.Bar:
        if self._kind != kind or self._bar is None:
            self._close()
            self._open = console.progress(name, total, unit)
            self._bar, self._kind = self._open.__enter__(), kind
        return self._bar

    def _close(self) -> None:
        if self._open is not None:
            self._open.__exit__(None, None, None)
        self._open, self._bar, self._kind = None, None, ()
