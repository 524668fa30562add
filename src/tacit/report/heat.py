"""Class maps as heat over a picture."""

from __future__ import annotations

from functools import lru_cache

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray
from PIL import Image

COLOURS = "inferno"  # even steps of lightness, from nothing to bright, and readable with colour-vision deficiencies
COVER = 0.85  # of the picture where a map is strongest: the rest shows through
GREY = 0.7  # how far the picture gives up its own colours, so that colour means heat
Pixels = NDArray[np.uint8]  # [3, h, w]


def heat_of(values: NDArray[np.floating]) -> NDArray[np.float32]:
    """A class map [H, W] as equation (1) of the saliency paper draws it: ReLU, divided by its largest value.

    All 0 where nothing is positive.
    """
    positive = np.maximum(values, 0).astype(np.float32)
    top = float(positive.max(initial=0.0))
    scaled: NDArray[np.float32] = positive / np.float32(top or 1.0)
    return scaled


def blended(pixels: Pixels, heat: NDArray[np.float32]) -> Pixels:
    """The picture under its heat [H, W], of which it sees more the hotter it is."""
    height, width = pixels.shape[1:]
    smooth = Image.fromarray(heat).resize((width, height), Image.Resampling.BILINEAR)
    share = np.asarray(smooth, np.float32).clip(0, 1)
    colour = _palette()[(share * 255).round().astype(np.uint8)].transpose(2, 0, 1)
    cover = COVER * np.sqrt(share)
    out = (1 - cover) * _greyed(pixels) + cover * colour
    rounded: Pixels = out.round().astype(np.uint8)
    return rounded


def enlarged(pixels: Pixels, least: int) -> Pixels:
    """A small picture in whole steps until its longer side has so many pixels, so that heat lies smoothly over it."""
    times = max(1, -(-least // max(pixels.shape[1:])))
    return pixels.repeat(times, axis=1).repeat(times, axis=2)


def fitted(pixels: Pixels, most: int) -> Pixels:
    """A picture whose longer side has at most so many pixels; its proportions stay."""
    image = Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    image.thumbnail((most, most))
    return np.asarray(image).transpose(2, 0, 1)


def _greyed(pixels: Pixels) -> NDArray[np.float32]:
    """Less colourful; luminance by ITU-R BT.601."""
    wide = pixels.astype(np.float32)
    grey = np.tensordot(np.array([0.299, 0.587, 0.114], np.float32), wide, 1)
    return GREY * grey + (1 - GREY) * wide


@lru_cache(maxsize=1)
def _palette() -> NDArray[np.float32]:
    """256 colours [256, 3], 0 to 255."""
    return np.asarray(255 * mpl.colormaps[COLOURS](np.linspace(0, 1, 256))[:, :3], np.float32)
