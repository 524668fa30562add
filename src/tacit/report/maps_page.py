"""The page and the pictures of `tacit maps`: class maps over images, run beside run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from ..files import atomic_write
from .heat import Pixels
from .map_grid import Pictured
from .page import templates
from .style import theme_css

PAGE = "index.html"


def maps_page(pictures: Sequence[Pictured], *, tacit: str) -> str:
    """The page as text; everything in it is escaped, and it asks nothing of the network."""
    labels = [line.label for line in pictures[0].lines] if pictures else []
    return (
        templates()
        .get_template("maps.html")
        .render(
            title=f"Where the network looks: {', '.join(labels)}",
            pictures=pictures,
            labels=labels,
            tacit=tacit,
            light=theme_css(False),
            dark=theme_css(True),
        )
    )


def write_maps_page(pictures: Sequence[Pictured], out: Path, *, tacit: str) -> None:
    with atomic_write(out) as temporary:
        temporary.write_text(maps_page(pictures, tacit=tacit), encoding="utf-8")


def write_pngs(pictures: Sequence[Pictured], folder: Path) -> int:
    """`001-2-dog-1-RUN.png` is the first run's map of the second class of the first image, `001.png` that image.

    Returns how many files there are now.
    """
    count = 0
    for number, picture in enumerate(pictures, 1):
        _write_png(picture.pixels, folder / f"{number:03d}.png")
        count += 1
        for at, line in enumerate(picture.lines, 1):
            for place, (name, tile) in enumerate(zip(picture.classes, line.tiles, strict=True), 1):
                if tile is not None:
                    file = f"{number:03d}-{place}-{_word(name)}-{at}-{_word(line.label)}.png"
                    _write_png(tile.pixels, folder / file)
                    count += 1
    return count


def _write_png(pixels: Pixels, path: Path) -> None:
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0))).save(file, "PNG")


def _word(text: str) -> str:
    """What any file system takes as part of a name."""
    return re.sub(r"[^\w.]+", "_", text)[-60:].strip("._") or "_"
