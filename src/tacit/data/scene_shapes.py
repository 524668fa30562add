"""The things that stand in a scene: flat glyphs made of signed distances, and the brush that paints them.

A glyph lives in the square [-1, 1]^2, x to the right, y down. Its parts are painted in order, each over the last, with
an edge one pixel soft. Only additions, products, square roots and comparisons touch a pixel, and angles are rounded
before use, so no maths library's last bit decides what is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Field = NDArray[np.float32]
Shape = Callable[[Field, Field], Field]  # (x, y) -> signed distance, negative inside
Colour = tuple[int, int, int]


class Part(NamedTuple):
    shape: Shape
    paints: tuple[Colour, ...]  # one is picked per object; parts with as many paints pick the same place


Glyph = tuple[Part, ...]


@dataclass(frozen=True)
class Poses:
    """How n objects of one glyph are to be drawn; every field has length n."""

    half: Field  # pixels that one local unit covers
    offset: Field  # [n, 2] where the centre lies from the middle of the patch, in pixels (x, y)
    angle: Field  # radians, rounded to 1/1024
    stretch: Field  # width over height, about 1
    mirrored: NDArray[np.bool_]
    paint: Field  # in [0, 1): which paint
    tint: Field  # [n, 3] added to the colour, in grey levels


def disc(cx: float, cy: float, r: float, flat: float = 1.0) -> Shape:
    """A disc; `flat` < 1 presses it to an ellipse of height `flat * r` (distance scaled, sign exact)."""

    def distance(x: Field, y: Field) -> Field:
        u, v = x - np.float32(cx), (y - np.float32(cy)) * np.float32(1 / flat)
        return np.asarray((np.sqrt(u * u + v * v) - np.float32(r)) * np.float32(min(flat, 1.0)), np.float32)

    return distance


def box(cx: float, cy: float, half_width: float, half_height: float) -> Shape:
    def distance(x: Field, y: Field) -> Field:
        across, along = np.abs(x - np.float32(cx)) - half_width, np.abs(y - np.float32(cy)) - half_height
        return np.asarray(np.maximum(across, along), np.float32)

    return distance


def bar(x0: float, y0: float, x1: float, y1: float, r: float) -> Shape:
    """A line with round ends and half width `r`."""
    dx, dy = x1 - x0, y1 - y0
    inverse = np.float32(1 / (dx * dx + dy * dy))

    def distance(x: Field, y: Field) -> Field:
        u, v = x - np.float32(x0), y - np.float32(y0)
        along = np.minimum(np.maximum((u * np.float32(dx) + v * np.float32(dy)) * inverse, 0), 1)
        u, v = u - along * np.float32(dx), v - along * np.float32(dy)
        return np.asarray(np.sqrt(u * u + v * v) - np.float32(r), np.float32)

    return distance


def polygon(*corners: tuple[float, float]) -> Shape:
    """A convex polygon, corners clockwise as seen (y down)."""
    edges = []
    for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1], strict=True):
        length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
        nx, ny = (y1 - y0) / length, -(x1 - x0) / length
        edges.append((np.float32(nx), np.float32(ny), np.float32(nx * x0 + ny * y0)))

    def distance(x: Field, y: Field) -> Field:
        far = edges[0][0] * x + edges[0][1] * y - edges[0][2]
        for nx, ny, c in edges[1:]:
            far = np.maximum(far, nx * x + ny * y - c)
        return np.asarray(far, np.float32)

    return distance


def either(*shapes: Shape) -> Shape:
    def distance(x: Field, y: Field) -> Field:
        near = shapes[0](x, y)
        for shape in shapes[1:]:
            near = np.minimum(near, shape(x, y))
        return near

    return distance


def without(shape: Shape, hole: Shape) -> Shape:
    return lambda x, y: np.maximum(shape(x, y), -hole(x, y))


def both(shape: Shape, other: Shape) -> Shape:
    return lambda x, y: np.maximum(shape(x, y), other(x, y))


def paint(glyph: Glyph, poses: Poses, side: int) -> tuple[Field, Field]:
    """Colours [n, side, side, 3], already weighted by their cover, and cover [n, side, side] in [0, 1]."""
    x, y, pixel = _local_grid(poses, side)
    colour = np.zeros((*x.shape, 3), np.float32)
    cover = np.zeros(x.shape, np.float32)
    for part in glyph:
        inside = np.minimum(np.maximum(np.float32(0.5) - part.shape(x, y) * pixel, 0), 1)
        paints = np.array(part.paints, np.float32)
        picked = paints[(poses.paint * len(paints)).astype(np.intp)] + poses.tint
        left = 1 - inside
        for channel in range(3):
            colour[..., channel] *= left
            colour[..., channel] += inside * picked[:, channel, None, None]
        cover *= left
        cover += inside
    return colour, cover


def _local_grid(poses: Poses, side: int) -> tuple[Field, Field, Field]:
    """Local x and y of every pixel's centre [n, side, side], and pixels per local unit [n, 1, 1]."""
    place = np.arange(side, dtype=np.float32) - np.float32((side - 1) / 2)
    right = place[None, None, :] - poses.offset[:, 0, None, None]
    down = place[None, :, None] - poses.offset[:, 1, None, None]
    cosine, sine = (np.round(f(poses.angle.astype(np.float64)), 6).astype(np.float32) for f in (np.cos, np.sin))
    cosine, sine = cosine[:, None, None], sine[:, None, None]
    hand = np.where(poses.mirrored, -1, 1).astype(np.float32)
    x = (cosine * right + sine * down) * (hand / (poses.half * poses.stretch))[:, None, None]
    y = (cosine * down - sine * right) / poses.half[:, None, None]
    return x.astype(np.float32), y.astype(np.float32), poses.half[:, None, None]
