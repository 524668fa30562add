"""Small scenes drawn by ourselves: 15 things from sun to snowman, no download, made so that hidden labels hurt.

Pictures hold about three classes each, long-tailed and co-occurring, half hidden behind one another, among decoys that
share a shape or a colour with them. Labels are complete and exact: a class is present where enough of it is seen.
A demonstration, never evidence: what wins here was meant to be able to win here.
"""

from __future__ import annotations

import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..files import atomic_write, cache_root
from ..labels import ABSENT, PRESENT, Labels
from .source import Source, SourceError, Split

GENERATOR = 1  # raise whenever a seed would draw anything else: the cache is keyed by it
CHUNK = 250  # scenes drawn together; each chunk has its own stream, so a longer split begins with the shorter one
SIDES = (24, 128)  # below, glyphs melt; above, a laptop's memory does
LAYOUT = "Expected: nothing, the scenes are drawn. A path (scenes:FOLDER) is where they are kept, instead of the cache."

_STREAMS = {"train": 1, "test": 2}
_Arrays = dict[str, tuple[NDArray[np.uint8], NDArray[np.float32]]]  # split -> pixels, areas


def load(
    root: Path | None, variant: str, *, train: int = 4000, test: int = 2000, seed: int = 0, size: int = 40
) -> Source:
    """Draws the scenes, or reads them back where the same ones were drawn before.

    Args:
        train: number of training scenes (validation is held out of them).
        test: number of test scenes.
        seed: which scenes; nothing else in a run draws from it.
        size: width and height in pixels.
    """
    from .scene_glyphs import CLASSES

    _check(variant, train, test, seed, size)
    sizes = {"train": train, "test": test}
    folder = root if root is not None else cache_root() / "scenes"
    kept = folder / f"scenes-v{GENERATOR}-seed{seed}-size{size}-train{train}-test{test}.npz"
    drawn = _read(kept, sizes, size, len(CLASSES))
    if drawn is None:
        drawn = {name: _draw(count, seed, _STREAMS[name], size) for name, count in sizes.items()}
        with suppress(UserError, OSError):  # a folder that cannot be written costs a few seconds next time, no more
            _keep(kept, drawn)
    classes = tuple(CLASSES)
    return Source(
        name="scenes",
        classes=classes,
        splits={name: _split(name, *arrays, classes) for name, arrays in drawn.items()},
        notes={"scenes": f"generator {GENERATOR}, seed {seed}, {size} x {size} pixels"},
    )


def _check(variant: str, train: int, test: int, seed: int, size: int) -> None:
    if variant:
        raise SourceError(f"scenes has no variant '{variant}': write plain `scenes`, and choose by --seed and --size")
    for name, count in (("train", train), ("test", test)):
        if count < 1:
            raise SourceError(f"scenes: {name} = {count}; at least one scene is needed")
    if not 0 <= seed < 2**32:
        raise SourceError(f"scenes: seed = {seed}; a seed is a whole number from 0 to 4294967295")
    if not SIDES[0] <= size <= SIDES[1]:
        raise SourceError(f"scenes: size = {size}; pictures are {SIDES[0]} to {SIDES[1]} pixels wide")


def _draw(count: int, seed: int, stream: int, size: int) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    from .scene_drawing import draw_scenes

    chunks = -(-count // CHUNK)
    drawn = [draw_scenes(np.random.RandomState([seed, stream, i]), CHUNK, size) for i in range(chunks)]
    pixels, areas = (np.concatenate(parts)[:count] for parts in zip(*drawn, strict=True))
    return pixels, areas


def _split(name: str, pixels: NDArray[np.uint8], areas: NDArray[np.float32], classes: tuple[str, ...]) -> Split:
    states = np.where(areas > 0, PRESENT, ABSENT)
    names = tuple(f"{name}-{i:05d}" for i in range(len(pixels)))
    return Split(names, Labels.from_dense(states, classes), pixels=pixels, areas=areas)


def _keep(path: Path, drawn: _Arrays) -> None:
    arrays: dict[str, Any] = {f"{name}_pixels": pixels for name, (pixels, _) in drawn.items()}
    arrays |= {f"{name}_areas": areas for name, (_, areas) in drawn.items()}
    with atomic_write(path) as temporary:
        np.savez(temporary, **arrays)


def _read(path: Path, sizes: dict[str, int], size: int, classes: int) -> _Arrays | None:
    """What `_keep` wrote; None where there is nothing, or nothing whole (the zip's checksums tell)."""
    try:
        with np.load(path, allow_pickle=False) as held:
            drawn = {name: (held[f"{name}_pixels"], held[f"{name}_areas"]) for name in sizes}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    for name, count in sizes.items():
        pixels, areas = drawn[name]
        if pixels.shape != (count, 3, size, size) or areas.shape != (count, classes) or pixels.dtype != np.uint8:
            return None
    return drawn
