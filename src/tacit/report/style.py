"""How figures look: one colour, marker and dash per group everywhere, and SVG that follows the page's theme.

Colours: Okabe & Ito (2008), readable with the common colour-vision deficiencies, less their yellow (too faint on
white), and two darker hues of Tol's "muted" scheme. Colour never carries a meaning alone: markers differ as well.
Matplotlib draws with the light theme's colours; `inline_svg` turns them into CSS variables, so that one drawing
serves light, dark and printed pages.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from markupsafe import Markup, escape
from matplotlib.figure import Figure as Canvas

INK, MUTED, RULE, PAPER = "#16191d", "#5c636b", "#d8dce1", "#fefefe"
_THEME = {
    "ink": (INK, "#eceef1"),
    "muted": (MUTED, "#a3abb5"),
    "rule": (RULE, "#363c44"),
    "paper": (PAPER, "#14171b"),
    "s0": ("#757b83", "#9aa1aa"),  # the plain baseline
    "s1": ("#0072b2", "#4da9e2"),
    "s2": ("#d55e00", "#ff8b45"),
    "s3": ("#009e73", "#2cc79a"),
    "s4": ("#cc79a7", "#e79ac4"),
    "s5": ("#882255", "#d06a98"),
    "s6": ("#7a7a1e", "#b9b953"),
    "s7": ("#56b4e9", "#8fd0f5"),
    "s8": ("#e69f00", "#f6bd45"),
}
_SERIES = tuple(f"s{i}" for i in range(1, 9))
_MARKERS = "osD^vPX"
_DASHES: tuple[tuple[float, ...], ...] = ((), (5, 2), (1.5, 1.5), (6, 2, 1.5, 2))  # in line widths
_SHAPES = {  # the same markers as SVG paths around (0, 0), for legends in HTML
    "o": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "s": "M-3.5-3.5h7v7h-7z",
    "D": "M0-4.8 4.8 0 0 4.8-4.8 0z",
    "^": "M0-4.6 4.3 3.6h-8.6z",
    "v": "M0 4.6 4.3-3.6h-8.6z",
    "P": "M-1.6-4.6h3.2v3h3v3.2h-3v3h-3.2v-3h-3v-3.2h3z",
    "X": "M-4.4-2.2-2.2-4.4 0-2.2 2.2-4.4 4.4-2.2 2.2 0 4.4 2.2 2.2 4.4 0 2.2-2.2 4.4-4.4 2.2-2.2 0z",
}
_RC: dict[str, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # a class may be called "$x"
    "path.simplify": True,
    "font.size": 10,
    "axes.labelsize": 10,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.7,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "figure.constrained_layout.use": True,
    "savefig.transparent": True,
}


@dataclass(frozen=True)
class Look:
    """What a group looks like in every figure and table."""

    variable: str  # CSS variable
    marker: str
    dashes: tuple[float, ...]

    @property
    def dash(self) -> Any:
        """As matplotlib's line style."""
        return (0, self.dashes) if self.dashes else "-"

    @property
    def color(self) -> str:
        return _THEME[self.variable][0]

    @property
    def shape(self) -> str:
        return _SHAPES[self.marker]


def looks(full: Sequence[bool], baseline: Sequence[bool]) -> list[Look]:
    """Ink for a reference on full labels, grey for the baseline, then hues in order; markers and dashes go round."""
    found: list[Look] = []
    hue = 0
    for position, (is_full, is_baseline) in enumerate(zip(full, baseline, strict=True)):
        taken = {look.variable for look in found}
        if is_full and "ink" not in taken:
            name = "ink"
        elif is_baseline and "s0" not in taken:
            name = "s0"
        else:
            name, hue = _SERIES[hue % len(_SERIES)], hue + 1
        found.append(Look(name, _MARKERS[position % len(_MARKERS)], _DASHES[position % len(_DASHES)]))
    return found


def theme_css(dark: bool) -> Markup:
    """CSS variables of one theme."""
    return Markup("".join(f"--{name}:{pair[dark]};" for name, pair in _THEME.items()))


@contextmanager
def drawing(width: float, height: float) -> Iterator[Canvas]:
    """A drawing of so many CSS pixels (72 to matplotlib's inch) in the house style, whatever matplotlibrc says."""
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()
        mpl.rcParams.update(_RC)
        warnings.filterwarnings("ignore", "Glyph .* missing")  # fonts here only measure: the browser's write the text
        yield Canvas(figsize=(width / 72, height / 72))


def inline_svg(figure: Canvas, prefix: str, description: str) -> Markup:
    """The figure as an <svg> for HTML: no outside references, ids of its own, theme variables for colours."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r"<[^>]*>", lambda tag: _themed(tag[0], prefix), text)
    text = re.sub(r">\s+<", "><", text)
    view = re.search(r'viewBox="([^"]*)"', text)
    head = f'<svg role="img" viewBox="{view[1] if view else ""}" aria-label="{escape(description)}">'
    return Markup(head + text[text.index(">") + 1 :].strip())


def _themed(tag: str, prefix: str) -> str:
    """One tag: own ids, colours as variables, the page's font, two decimals. Text between tags is never touched."""
    tag = re.sub(r'<g id="[^"]*"', "<g", tag)
    tag = re.sub(r'\bid="', f'id="{prefix}-', tag).replace("url(#", f"url(#{prefix}-")
    tag = tag.replace('xlink:href="#', f'href="#{prefix}-')
    for name, (light, _) in _THEME.items():
        tag = tag.replace(light, f"var(--{name})")
    tag = re.sub(r"font-family: [^;\"]*;?", "", tag)
    tag = re.sub(r' transform="rotate\(-?0 [^"]*"', "", tag)
    tag = re.sub(r"(\d+\.\d{2})\d+", r"\1", tag)
    return re.sub(r"\s+", " ", tag)
