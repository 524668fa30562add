"""The one place that writes to a terminal: messages, tables, progress.

Results go to stdout; progress, notices and warnings to stderr. On a terminal rich draws; where stdout or stderr is a
file or a pipe there are plain lines, never a moving bar. `--quiet` silences progress and notices, never a warning.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

PIPE_WIDTH = 240
Report = Callable[[int, int], None]  # (done, of)
_quiet = False


def set_quiet(quiet: bool) -> None:
    """Called once by the frame, for `--quiet`."""
    global _quiet
    _quiet = quiet


def notice(text: str) -> None:
    """A line of interest to whoever watches; not a result."""
    if not _quiet:
        print(text, file=sys.stderr)


def warn(text: str) -> None:
    """Something the user should know about the result; shown with `--quiet` as well."""
    print(f"warning: {text}", file=sys.stderr)


def print_json(value: Any) -> None:
    """For programs: stable order, readable, paths and tuples as JSON knows them."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[str] = ()) -> None:
    """A table on stdout; `right` names the columns of numbers. Cells are text, never markup."""
    cells = [[_text(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _rich_table(columns, cells, right)
    else:
        print("\n".join(_plain_table(columns, cells, right)))


def rich_stdout() -> Console:
    """Rich's console on stdout; wide enough to cut nothing where stdout is a file or a pipe."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=PIPE_WIDTH)


def _text(cell: object) -> str:
    if cell is None:
        return "–"
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)


def _rich_table(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        drawn.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*map(Text, row))
    rich_stdout().print(drawn)


def _plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str]) -> list[str]:
    """Aligned columns, two blanks apart; nothing is cut, however long."""
    widths = [max([len(name), *(len(row[at]) for row in rows)]) for at, name in enumerate(columns)]
    lines = []
    for row in [columns, *rows]:
        parts = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for cell, width, name in zip(row, widths, columns, strict=True)
        ]
        lines.append("  ".join(parts).rstrip())
    return lines


class Bar:
    """A stretch of work that is being watched; made by `progress`."""

    def __init__(self, name: str, total: int | None, unit: str) -> None:
        self.name, self.total, self.unit = name, total, unit
        self.done = 0
        self.note = ""
        self._started = time.monotonic()
        self._first: tuple[int, float] | None = None
        self._drawn: tuple[Progress, TaskID] | None = None

    def advance(self, count: int = 1, note: str = "") -> None:
        """`count` more are done; `note` is shown behind the bar (loss terms, a file's name)."""
        self.to(self.done + count, note=note)

    def to(self, done: int, total: int | None = None, note: str = "", left: float | None = None) -> None:
        """`done` in all; a total that was not known before may be given now, and better knowledge of the seconds left.

        The estimate counts from the first report, so that work found already done does not flatter it.
        """
        now = time.monotonic()
        self.total = self.total if total is None else total
        if left is None and self._first and self.total is not None and done > self._first[0]:
            left = (now - self._first[1]) / (done - self._first[0]) * (self.total - done)
        self._first = self._first or (done, now)
        self.done, self.note = done, note or self.note
        if self._drawn:
            drawing, task = self._drawn
            text = "" if left is None or done == self.total else f"{duration(left)} left"
            drawing.update(task, completed=done, total=self.total, note=self.note, left=text)

    def summary(self) -> str:
        """The line that stays where no bar can be drawn."""
        note = f", {self.note}" if self.note else ""
        return f"{self.name}: {self.done:,} {self.unit} in {duration(time.monotonic() - self._started)}{note}"

    @contextmanager
    def _draw(self) -> Iterator[None]:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.table import Column

        whole, rest = Column(no_wrap=True, min_width=len(self.name)), Column(no_wrap=True, overflow="ellipsis", ratio=1)
        columns = [
            TextColumn("{task.description}", markup=False, table_column=whole),
            BarColumn(bar_width=20, table_column=Column(min_width=20)),
            MofNCompleteColumn(table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[left]}", markup=False, table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[note]}", markup=False, table_column=rest),  # gives way on a narrow terminal
        ]
        with Progress(*columns, console=Console(stderr=True), expand=True) as drawing:
            self._drawn = drawing, drawing.add_task(self.name, total=self.total, note="", left="")
            try:
                yield
            finally:
                self._drawn = None


@contextmanager
def progress(name: str, total: int | None = None, unit: str = "images") -> Iterator[Bar]:
    """Watch `total` units of work: a bar with the time left on a terminal, else one plain line when it is done."""
    bar = Bar(name, total, unit)
    if not _quiet and sys.stderr.isatty():
        with bar._draw():
            yield bar
        return
    yield bar
    if bar.done:
        notice(bar.summary())


@contextmanager
def on_demand(name: str, unit: str = "images") -> Iterator[Report]:
    """A report (done, of) of work that may turn out to be none: the bar appears with the first report."""
    with ExitStack() as opened:
        bars: list[Bar] = []

        def report(done: int, of: int) -> None:
            if not bars:
                bars.append(opened.enter_context(progress(name, of, unit)))
            bars[0].to(done, of)

        yield report


def duration(seconds: float) -> str:
    """ "0.4 s", "12 s", "3 min 20 s", "2 h 5 min"."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
