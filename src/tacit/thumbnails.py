"""Small copies of some test images beside a run's scores, so that a report can show what was looked at."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from .data.decode import ImageError, read_image, resize
from .data.source import Split

IMAGES = 48  # enough for a report to choose from
SIDE = 96  # pixels: 1 MB a run; smaller embedded images stay as they are


def thumbnails(split: Split) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Rows spread evenly over the split, and their pixels uint8 [n, 3, s, s].

    From the source's own files or pixels, so that a run on cached features, which opens no image, has them too. They
    decide nothing: an image that is not where the source says, or cannot be read, is left out.
    """
    rows = np.linspace(0, len(split) - 1, min(IMAGES, len(split))).round().astype(np.int64)
    if split.pixels is not None:
        return rows, _shrunk(split.pixels[rows])
    files = split.files or ()
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(_read, [files[row] for row in rows] if files else []))
    kept = [(row, image) for row, image in zip(rows, found, strict=False) if image is not None]
    if not kept:
        return np.empty(0, np.int64), np.empty((0, 3, SIDE, SIDE), np.uint8)
    index, pixels = zip(*kept, strict=True)
    return np.array(index, np.int64), np.stack(pixels)


def _shrunk(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    if max(pixels.shape[2:]) <= SIDE:
        return pixels
    smaller: NDArray[np.uint8] = resize(torch.from_numpy(pixels), SIDE).numpy()
    return smaller


def _read(file: Path) -> NDArray[np.uint8] | None:
    try:
        pixels: NDArray[np.uint8] = read_image(file, SIDE).numpy()
    except ImageError:
        return None
    return pixels
