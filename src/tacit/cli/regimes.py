"""`tacit methods NAME --plot gradient`: how hard methods push a logit, as a drawing and as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import console
from .method_words import label_of, read_method
from .recipe import OptionError

if TYPE_CHECKING:
    from ..gradients import Regime

SUFFIXES = (".svg", ".png", ".pdf")
SHOWN = (0.01, 0.1, 0.5, 0.75, 0.9, 0.99)  # probabilities of the table


def plot(name: str, against: Sequence[str], out: Path | None, *, json: bool = False) -> None:
    """Draw the named method, and others against it, into `out`, and say what is drawn."""
    asked = {label_of(*spec): spec for spec in map(read_method, (name, *against))}
    path = _checked(out or Path(f"gradient-{read_method(name)[0]}.svg"))
    from ..gradients import gradient_regime

    regimes = {label: gradient_regime(method, options) for label, (method, options) in asked.items()}
    _draw(regimes, path)
    if json:
        console.print_json([{"label": label, **regime.describe()} for label, regime in regimes.items()])
    else:
        _tell(regimes)
    console.notice(f"written: {path}")


def _checked(path: Path) -> Path:
    if path.is_dir():
        raise OptionError(f"--out {path}: this is a folder; name the file to write, such as {path / 'gradient.svg'}")
    if path.suffix.lower() not in SUFFIXES:
        ending = f"'{path.suffix}'" if path.suffix else "no ending"
        raise OptionError(f"--out {path}: {ending} says no picture format; use {', '.join(SUFFIXES)}")
    return path


def _draw(regimes: Mapping[str, Regime], path: Path) -> None:
    from ..files import atomic_write
    from ..report.compare import BASELINE
    from ..report.regimes import Drawn, draw_file, regime_of
    from ..report.style import looks

    styled = looks([False] * len(regimes), [regime.method == BASELINE for regime in regimes.values()])
    drawn = [
        Drawn(label, regime_of(regime.describe()), look)
        for (label, regime), look in zip(regimes.items(), styled, strict=True)
    ]
    with atomic_write(path) as temporary:
        draw_file(drawn, temporary, path.suffix.lower()[1:])


def _tell(regimes: Mapping[str, Regime]) -> None:
    """d loss / d logit at a few probabilities, and what must be known to read it."""
    rows: list[list[Any]] = []
    for label, regime in regimes.items():
        at = [int(abs(regime.probabilities - p).argmin()) for p in SHOWN]
        for state, curve in regime.curves.items():
            rows.append([label, state, *(f"{curve[i]:.4f}".replace("-0.0000", "0.0000") for i in at)])
    columns = [f"p = {p:g}" for p in SHOWN]
    console.table(["method", "label", *columns], rows, right=columns)
    print("d loss / d logit of one cell: above 0 training lowers p, below 0 it raises p")
    for label, regime in regimes.items():
        for note in regime.notes:
            print(f"{label}: {note}")
