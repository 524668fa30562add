"""The image operations of RandAugment and Cutout on a batch of uint8 pixels, each image with its own.

PIL's own definitions, which all of this literature trains with, reproduced to the level: every operation takes and
leaves uint8. Seven of them are tables of 256 entries per image and channel, two blend with a degenerate image, five
move pixels and one draws a box. Every image gets exactly the bits it would get alone. On a GPU the work has a fixed
shape and never asks the host, so that it can be part of a CUDA graph; on a CPU only the images concerned are touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..functional.align import inverted

MIDDLE_GREY = 128
CACHED = 2**19  # values worked on at once on a CPU: what lies between stays in its cache


class Transformed(NamedTuple):
    pixels: Tensor  # uint8 [B, 3, H, W]
    geometry: Tensor  # [B, 2, 3]


@dataclass(frozen=True)
class Paint:
    """What fills the places that no pixel moved to, and how shears interpolate: papers differ."""

    fill: int = MIDDLE_GREY
    box: tuple[int, int, int] = (MIDDLE_GREY,) * 3
    smooth_shear: bool = False  # bicubic instead of nearest


def identity(batch: int, device: torch.device) -> Tensor:
    """[B, 2, 3]: nothing moves."""
    return torch.eye(2, 3, device=device).expand(batch, 2, 3)


@lru_cache(maxsize=64)
def constant(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Kept on the device, because a copy from the host may not be part of a CUDA graph."""
    return torch.tensor(values, dtype=dtype).to(device)


def one_of(u: Tensor, n: int | Tensor) -> Tensor:
    """int64 in [0, n) of uniform numbers that are multiples of 2**-24; never n itself, for any n below 2**24: the
    product is at least n * 2**-24 below n, which is more than half the spacing of float32 there."""
    return (u * n).long()


def operate(pixels: Tensor, operation: Tensor, value: Tensor, place: Tensor | None, paint: Paint) -> Transformed:
    """Apply to each image the operation of its code (`CODES`) with its value.

    `place` [B, 2] holds uniform numbers, for the centre of a box; None where no operation is "cutout".
    """
    pixels = pixels.clone()
    pixels = _on(operation <= LAST_TABLE, _through_tables, pixels, pixels, operation, value)
    pixels = _on(operation == CODES["color"], _colour, pixels, pixels, value)
    pixels = _on(operation == CODES["sharpness"], _sharpness, pixels, pixels, value)
    if place is not None:
        side = value.long()
        box = constant(paint.box, torch.uint8, pixels.device).expand(len(pixels), 3)
        pixels = _on(operation == CODES["cutout"], cutout, pixels, pixels, place, side // 2, side - side // 2, box)
    inverse = _pull(operation, value, (pixels.shape[2], pixels.shape[3]))
    shears = (operation == CODES["shear_x"]) | (operation == CODES["shear_y"])
    moves = (operation >= CODES["shear_x"]) & (operation <= CODES["rotate"])
    if paint.smooth_shear:
        along_x = operation == CODES["shear_x"]
        pixels = _on(shears, _sheared, pixels, pixels, inverse, along_x, torch.full_like(value, paint.fill))
        moves = moves & ~shears
    pixels = _on(moves, _nearest, pixels, pixels, inverse, torch.full_like(value, paint.fill))
    return Transformed(pixels, _in_frame(inverse, (pixels.shape[2], pixels.shape[3])))


def _on(chosen: Tensor, work: Callable[..., Tensor], out: Tensor, *inputs: Tensor) -> Tensor:
    """`out`, and where `chosen` what `work` makes of the inputs' rows. On a CPU it is written into `out`."""
    if out.device.type != "cpu":
        return torch.where(chosen.view(-1, *[1] * (out.ndim - 1)), work(*inputs), out)
    concerned = chosen.nonzero()[:, 0]
    if len(concerned):
        for rows in torch.split(concerned, max(1, CACHED * len(out) // out.numel())):
            out[rows] = work(*(tensor.index_select(0, rows) for tensor in inputs))
    return out


def either(mask: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """`torch.where` of uint8, by arithmetic: where the mask is broadcast, twenty times as fast on a CPU."""
    taken = mask.to(torch.uint8)
    return one * taken + other * (1 - taken)


def _looked_up(table: Tensor, at: Tensor) -> Tensor:
    """`table` [B, C, n] at int32 `at` [B, C or 1, …]: row by row. Half the width of `gather`'s indices, and six times
    as fast on a CPU."""
    batch, channels, n = table.shape
    first = n * torch.arange(batch * channels, dtype=torch.int32, device=table.device).view(batch, channels, 1)
    picked = table.flatten().index_select(0, (at.flatten(2) + first).flatten())
    return picked.view(batch, channels, *at.shape[2:])


# --- tables: what becomes of each level, uint8 [B, 3, 256] ------------------------------------------------------------


def _levels(pixels: Tensor) -> Tensor:
    return torch.arange(256, device=pixels.device)


def _autocontrast(pixels: Tensor, value: Tensor) -> Tensor:
    """Darkest level to 0, brightest to 255, cut to whole levels; an image of one level stays."""
    flat = pixels.flatten(2)
    low, high = flat.amin(2, keepdim=True).double(), flat.amax(2, keepdim=True).double()
    scale = 255 / (high - low)
    made = (_levels(pixels) * scale + -low * scale).clamp(0, 255)
    return torch.where(high > low, made, _levels(pixels).double()).to(torch.uint8)


def _equalize(pixels: Tensor, value: Tensor) -> Tensor:
    counts = _histogram(pixels)
    below = counts.cumsum(2) - counts
    brightest = pixels.flatten(2).amax(2, keepdim=True).long()
    step = (counts.sum(2, keepdim=True) - counts.gather(2, brightest)) // 255
    made = ((step // 2 + below) // step.clamp(min=1)).clamp(max=255)
    return torch.where(step > 0, made, _levels(pixels)).to(torch.uint8)


def _histogram(pixels: Tensor) -> Tensor:
    """int64 [B, 3, 256]"""
    rows = pixels.shape[0] * pixels.shape[1]
    first = 256 * torch.arange(rows, dtype=torch.int32, device=pixels.device)
    cell = (pixels.flatten(0, 1).flatten(1).int() + first[:, None]).flatten()
    counts = torch.zeros(256 * rows, dtype=torch.int32, device=pixels.device)
    counts.index_add_(0, cell, torch.ones((), dtype=torch.int32, device=pixels.device).expand(len(cell)))
    return counts.view(pixels.shape[0], pixels.shape[1], 256).long()


def _invert(pixels: Tensor, value: Tensor) -> Tensor:
    return _same_in_channels(255 - _levels(pixels).expand(len(pixels), -1))


def _posterize(pixels: Tensor, bits: Tensor) -> Tensor:
    dropped = (8 - bits.long()).clamp(0, 8)[:, None]
    return _same_in_channels(_levels(pixels) >> dropped << dropped)


def _solarize(pixels: Tensor, threshold: Tensor) -> Tensor:
    levels = _levels(pixels)
    return _same_in_channels(torch.where(levels < threshold[:, None], levels, 255 - levels))


def _brightness(pixels: Tensor, factor: Tensor) -> Tensor:
    return _same_in_channels(_blend(torch.zeros_like(factor)[:, None], _levels(pixels), factor[:, None]))


def _contrast(pixels: Tensor, factor: Tensor) -> Tensor:
    grey = _grey(pixels).flatten(1).long()
    mean = (2 * grey.sum(1) + grey.shape[1]) // (2 * grey.shape[1])  # rounded to a level
    return _same_in_channels(_blend(mean[:, None], _levels(pixels), factor[:, None]))


def _same_in_channels(table: Tensor) -> Tensor:
    return table.to(torch.uint8)[:, None].expand(-1, 3, -1)


TABLES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "autocontrast": _autocontrast,
    "equalize": _equalize,
    "invert": _invert,
    "posterize": _posterize,  # value: bits kept
    "solarize": _solarize,  # value: levels from here on are inverted
    "brightness": _brightness,  # value: 0 black, 1 as it is; likewise below
    "contrast": _contrast,
}
OPERATIONS = (
    *TABLES,
    *("color", "sharpness"),
    *("shear_x", "shear_y"),  # value: columns per row, or rows per column
    *("translate_x", "translate_y"),  # value: share of the side
    "rotate",  # value: degrees
    *("cutout", "identity"),  # value of cutout: side in pixels
)
CODES = {name: code for code, name in enumerate(OPERATIONS)}
LAST_TABLE = len(TABLES) - 1


def _through_tables(pixels: Tensor, operation: Tensor, value: Tensor) -> Tensor:
    tables = _levels(pixels).to(torch.uint8).expand(len(pixels), 3, 256).clone()
    for name, make in TABLES.items():
        tables = _on(operation == CODES[name], make, tables, pixels, value)
    return _looked_up(tables, pixels.int())


# --- blends -----------------------------------------------------------------------------------------------------------


def _blend(degenerate: Tensor, image: Tensor, factor: Tensor) -> Tensor:
    """From the degenerate image (0) to the image (1) and beyond, cut to whole levels."""
    degenerate = degenerate.float()
    return (degenerate + factor * (image.float() - degenerate)).clamp(0, 255).to(torch.uint8)


def _grey(pixels: Tensor) -> Tensor:
    """int32 [B, H, W]: ITU-R 601 luma in PIL's 16-bit integers."""
    red, green, blue = pixels.int().unbind(1)
    return (19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16


def _colour(pixels: Tensor, factor: Tensor) -> Tensor:
    return _blend(_grey(pixels)[:, None], pixels, factor.view(-1, 1, 1, 1))


def _sharpness(pixels: Tensor, factor: Tensor) -> Tensor:
    """The degenerate image is the mean over 3 x 3 with weight 5 in the middle; the border stays."""
    wide = pixels.short()
    down = wide[..., :-2, :] + wide[..., 1:-1, :] + wide[..., 2:, :]
    total = down[..., :-2] + down[..., 1:-1] + down[..., 2:] + 4 * wide[..., 1:-1, 1:-1]
    wide = wide.clone()
    wide[..., 1:-1, 1:-1] = ((total.float() + 6.5) * (1 / 13)).short()  # rounded; never near the middle of two levels
    return _blend(wide, pixels, factor.view(-1, 1, 1, 1))


# --- boxes and moves --------------------------------------------------------------------------------------------------


def cutout(pixels: Tensor, place: Tensor, before: Tensor, after: Tensor, colour: Tensor) -> Tensor:
    """A box of one colour [B, 3] from `before` pixels left of and above a pixel to `after` behind it, clipped.

    Any pixel is as likely: `place` [B, 2] holds two uniform numbers, for x and y.
    """
    height, width = pixels.shape[-2:]
    covered = []
    for u, n in ((place[:, 0], width), (place[:, 1], height)):
        centre, at = one_of(u, n)[:, None], torch.arange(n, device=pixels.device)
        covered.append((at >= centre - before[:, None]) & (at < centre + after[:, None]))
    box = covered[1][:, None, :, None] & covered[0][:, None, None, :]
    return either(box, colour[:, :, None, None], pixels)


def _pull(operation: Tensor, value: Tensor, size: tuple[int, int]) -> Tensor:
    """[B, 2, 3]: from pixels (x, y, 1) of the new image to those of the old one; the identity for what moves nothing.

    Shears and translations are from the upper left corner, rotations about the middle and counter-clockwise.
    """
    height, width = size
    zero = torch.zeros_like(value)

    def only(name: str, amount: Tensor) -> Tensor:
        return torch.where(operation == CODES[name], amount, zero)

    angle = only("rotate", value).double() * (torch.pi / 180)  # in double: equal on CPU and GPU once rounded
    cos, sin = angle.cos().float(), angle.sin().float()
    right = width / 2 - cos * (width / 2) + sin * (height / 2) + only("translate_x", value * width)
    down = height / 2 - sin * (width / 2) - cos * (height / 2) + only("translate_y", value * height)
    entries = [cos, only("shear_x", value) - sin, right, only("shear_y", value) + sin, cos, down]
    return torch.stack(entries, 1).view(-1, 2, 3)


def _in_frame(inverse: Tensor, size: tuple[int, int]) -> Tensor:
    """The geometry (from old to new, from -1 to 1) of a map from new to old pixels."""
    height, width = size
    (a, b, x), (c, d, y) = inverse[:, 0].unbind(-1), inverse[:, 1].unbind(-1)
    b, c = b * (height / width), c * (width / height)
    x, y = a + b + x * (2 / width) - 1, c + d + y * (2 / height) - 1
    return inverted(torch.stack([a, b, x, c, d, y], -1).view(-1, 2, 3))


def _pulled(inverse: Tensor, size: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor]:
    """x and y [B, H, W] in the old image of the new one's pixel centres, and whether there is a pixel."""
    height, width = size
    x = torch.arange(width, device=inverse.device) + 0.5
    y = torch.arange(height, device=inverse.device)[:, None] + 0.5
    entry = inverse[:, :, :, None, None]
    old_x, old_y = (entry[:, i, 0] * x + entry[:, i, 1] * y + entry[:, i, 2] for i in (0, 1))
    return old_x, old_y, (old_x >= 0) & (old_x < width) & (old_y >= 0) & (old_y < height)


def _pick(pixels: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The pixel at whole x and y [B, H, W], or the nearest one of the image."""
    height, width = pixels.shape[-2:]
    at = y.clamp(0, height - 1).int() * width + x.clamp(0, width - 1).int()
    return _looked_up(pixels.flatten(2), at[:, None])


def _nearest(pixels: Tensor, inverse: Tensor, fill: Tensor) -> Tensor:
    x, y, there = _pulled(inverse, (pixels.shape[2], pixels.shape[3]))
    return _filled(_pick(pixels, x.floor(), y.floor()), there, fill)


def _sheared(pixels: Tensor, inverse: Tensor, along_x: Tensor, fill: Tensor) -> Tensor:
    """Bicubic as PIL transforms (a = -1). A shear moves pixels along one axis: four of them make a new one."""
    x, y, there = _pulled(inverse, (pixels.shape[2], pixels.shape[3]))
    flat = along_x[:, None, None]
    moved = torch.where(flat, x, y) - 0.5
    first = moved.floor()
    t = (moved - first)[:, None]
    weights = (-t + 2 * t**2 - t**3, 1 - 2 * t**2 + t**3, t + t**2 - t**3, t**3 - t**2)
    made: Any = 0
    for offset, weight in enumerate(weights, -1):
        at = first + offset
        made = made + weight * _pick(pixels, torch.where(flat, at, x.floor()), torch.where(flat, y.floor(), at))
    return _filled(made.clamp(0, 255).to(torch.uint8), there, fill)


def _filled(pixels: Tensor, there: Tensor, fill: Tensor) -> Tensor:
    return either(there[:, None], pixels, fill.to(torch.uint8)[:, None, None, None])
