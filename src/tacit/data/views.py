"""Views by name: chains of random steps on a batch of uint8 images, each with a geometry (docs/decisions/views.md).

A view spends a fixed number of uniform numbers per image, whatever they decide, and works on the device in fixed
shapes. What it does to an image depends on these numbers alone, never on the rest of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import UserError
from ..functional.align import carried, compose, inverted
from ..methods.base import View
from ..nets.backbone import Preprocessing
from .augment import CODES, MIDDLE_GREY, Paint, Transformed, constant, cutout, either, identity, one_of, operate


@dataclass(frozen=True)
class ViewKind:
    """How a view is made of uint8 pixels [B, 3, H, W] and `draws` uniform numbers per image."""

    draws: int
    transform: Callable[[Tensor, Tensor], Transformed]
    describe: str


@dataclass(frozen=True)
class Random:
    """One step of a view."""

    draws: int
    transform: Callable[[Tensor, Tensor], Transformed]


def _chain(describe: str, *steps: Random) -> ViewKind:
    """The steps in turn, each with numbers of its own."""

    def transform(pixels: Tensor, u: Tensor) -> Transformed:
        geometry: Tensor | None = None
        spent = 0
        for step in steps:
            pixels, moved = step.transform(pixels, u[:, spent : spent + step.draws])
            spent += step.draws
            geometry = moved if geometry is None else compose(moved, geometry)
        assert geometry is not None
        return Transformed(pixels, geometry)

    return ViewKind(sum(step.draws for step in steps), transform, describe)


# --- the steps --------------------------------------------------------------------------------------------------------


def _plain(pixels: Tensor, u: Tensor) -> Transformed:
    return Transformed(pixels, _axes(torch.ones_like(pixels[:, 0, 0, 0], dtype=torch.float32)))


def _flip(pixels: Tensor, u: Tensor) -> Transformed:
    flip = u[:, 0] < 0.5
    return Transformed(either(flip[:, None, None, None], pixels.flip(-1), pixels), _axes(1.0 - 2.0 * flip.float()))


def _axes(x_scale: Tensor) -> Tensor:
    """[B, 2, 3]: x is scaled, y stays."""
    zero, one = torch.zeros_like(x_scale), torch.ones_like(x_scale)
    return torch.stack([x_scale, zero, zero, zero, one, zero], 1).view(-1, 2, 3)


# The published crop: an image of 512 pixels, squares of 512, 448, 384, 320 or 256 of them.
CROPPED_FROM, CROP_SIZES, CROP_STEP = 512, 5, 64


def _crop(pixels: Tensor, u: Tensor) -> Transformed:
    """A square of one of five sizes at any whole place, resized to the input bilinearly.

    The published program enlarges the image to 512 / 448 of the input first. Sizes and places are those of its 512
    pixels, but the square is read off the stored image, which has the input's size already.
    """
    side = CROPPED_FROM - CROP_STEP * one_of(u[:, 0], CROP_SIZES)
    left, top = (one_of(u[:, i], CROPPED_FROM - side + 1) for i in (1, 2))
    share = side / CROPPED_FROM
    x, y = ((2 * start + side) / CROPPED_FROM - 1 for start in (left, top))
    zero = torch.zeros_like(share)
    inverse = torch.stack([share, zero, x, zero, share, y], 1).view(-1, 2, 3)
    grid = carried(inverse, (pixels.shape[2], pixels.shape[3]))
    read = F.grid_sample(pixels.float(), grid, mode="bilinear", padding_mode="border", align_corners=False)
    return Transformed(read.round_().to(torch.uint8), inverted(inverse))


def _grey_box(pixels: Tensor, u: Tensor) -> Transformed:
    """Cutout with half the image's side, in grey."""
    grey = torch.full_like(pixels[:, :, 0, 0], MIDDLE_GREY)
    side = torch.full_like(u[:, 0], pixels.shape[-1] // 2).long()
    return _unmoved(cutout(pixels, u, side // 2, side - side // 2, grey))


def _coloured_box(pixels: Tensor, u: Tensor) -> Transformed:
    """Cutout with half the image's side in a random colour. The published box includes both its corners: it is one
    pixel wider than its side says."""
    half = torch.full_like(u[:, 0], int(0.5 * pixels.shape[-1] + 0.5) // 2).long()
    return _unmoved(cutout(pixels, u[:, :2], half, half + 1, one_of(u[:, 2:], 256).to(torch.uint8)))


def _unmoved(pixels: Tensor) -> Transformed:
    return Transformed(pixels, identity(len(pixels), pixels.device))


@dataclass(frozen=True)
class RandAugment:
    """Two operations, each drawn from a list of (name, low, high)."""

    operations: Sequence[tuple[str, float, float]]
    between: bool  # the value is any from low to high; otherwise one of the two
    chance: float = 1.0  # that a drawn operation is applied
    paint: Paint = field(default_factory=Paint)
    times: int = 2

    @property
    def draws(self) -> int:
        return self.times * self._each

    @property
    def _boxes(self) -> bool:
        return any(name == "cutout" for name, _, _ in self.operations)

    @property
    def _each(self) -> int:
        """Which operation, which value, whether at all, and where a box lies."""
        return 2 + (self.chance < 1) + 2 * self._boxes

    def transform(self, pixels: Tensor, u: Tensor) -> Transformed:
        names, low, high = zip(*self.operations, strict=True)
        codes = constant(tuple(CODES[name] for name in names), torch.int64, pixels.device)
        lows, highs = (constant(tuple(values), torch.float32, pixels.device) for values in (low, high))
        geometry = identity(len(pixels), pixels.device)
        for start in range(0, self.draws, self._each):
            mine = u[:, start : start + self._each]
            drawn = one_of(mine[:, 0], len(codes))
            part = mine[:, 1] if self.between else (mine[:, 1] >= 0.5).float()
            value = lows[drawn] + part * (highs[drawn] - lows[drawn])
            code = codes[drawn]
            if self.chance < 1:
                code = torch.where(mine[:, 2] < self.chance, code, torch.full_like(code, CODES["identity"]))
            made = operate(pixels, code, value, mine[:, -2:] if self._boxes else None, self.paint)
            pixels, geometry = made.pixels, compose(made.geometry, geometry)
        return Transformed(pixels, geometry)


# The 14 transformations of FixMatch (Sohn et al. 2020, Table 12) with their ranges. A posterize of 4 to 8 bits.
_ENHANCE = (0.05, 0.95)
FIXMATCH = RandAugment(
    (
        ("autocontrast", 0, 0),
        ("brightness", *_ENHANCE),
        ("color", *_ENHANCE),
        ("contrast", *_ENHANCE),
        ("equalize", 0, 0),
        ("identity", 0, 0),
        ("posterize", 4, 9),
        ("rotate", -30, 30),
        ("sharpness", *_ENHANCE),
        ("shear_x", -0.3, 0.3),
        ("shear_y", -0.3, 0.3),
        ("solarize", 0, 256),
        ("translate_x", -0.3, 0.3),
        ("translate_y", -0.3, 0.3),
    ),
    between=True,
)


def _uda_operations() -> list[tuple[str, float, float]]:
    """15 operations with the points 1 to 9 of a grid of ten values, up and down where a sign is drawn."""

    def values(name: str, part: float) -> tuple[float, float]:
        if name in ("autocontrast", "equalize", "invert"):
            return 0, 0
        if name in ("brightness", "color", "contrast", "sharpness"):
            return 1 - 0.9 * part, 1 + 0.9 * part
        if name in ("shear_x", "shear_y"):
            return -0.3 * part, 0.3 * part
        if name in ("translate_x", "translate_y"):
            return -150 / 331 * part, 150 / 331 * part
        only = {"posterize": round(8 - 4 * part), "solarize": 256 * (1 - part), "rotate": 30 * part}
        return (only[name],) * 2 if name in only else (round(20 * part),) * 2  # cutout

    names = [name for name in CODES if name != "identity"]
    return [(name, *values(name, index / 9)) for name in names for index in range(1, 10)]


# The variant of UDA (Xie et al. 2020) that the semi-supervised systems here train with.
UDA = RandAugment(_uda_operations(), between=False, chance=0.5, paint=Paint(box=(125, 122, 113), smooth_shear=True))

_FLIP, _CROP = Random(1, _flip), Random(3, _crop)
_STRONG = (Random(FIXMATCH.draws, FIXMATCH.transform), Random(2, _grey_box))
_SAID = "then two of FixMatch's operations and a grey box of half the side"

VIEWS: dict[str, ViewKind] = {
    "plain": _chain("the resized image", Random(0, _plain)),
    "weak": _chain("horizontal flip with probability 0.5 (the published pipeline of single-positive training)", _FLIP),
    "crop": _chain(
        "a random square of 1/2 to 1 of the side, resized, and a flip (the published pipeline of partial labels)",
        _CROP,
        _FLIP,
    ),
    "strong": _chain(f"weak, {_SAID}", _FLIP, *_STRONG),
    "strong_crop": _chain(f"crop, {_SAID}", _CROP, _FLIP, *_STRONG),
    "uda": _chain(
        "weak, then a coloured box of half the side and UDA's operations (the published semi-supervised pipeline)",
        _FLIP,
        Random(5, _coloured_box),
        Random(UDA.draws, UDA.transform),
    ),
}


# --- views ------------------------------------------------------------------------------------------------------------


def view_kind(name: str) -> ViewKind:
    if name not in VIEWS:
        raise UserError(f"no view named '{name}'. Views: {', '.join(VIEWS)}.")
    return VIEWS[name]


def kinds_of(views: Sequence[str], augment: str | None) -> dict[str, str]:
    """How each view of a method is made. "crop" or "crop,strong_crop" replaces the kinds of the first ones in order;
    the others, and all of them without it, are what the method calls them."""
    asked = augment.split(",") if augment else []
    if len(asked) > len(views):
        raise UserError(
            f"--augment {augment} names {len(asked)} views, and the method trains on "
            f"{len(views)} ({', '.join(views)}): give one for each at most."
        )
    for name in asked:
        view_kind(name)
    return dict(zip(views, [*asked, *views[len(asked) :]], strict=True))


def make_view(
    name: str,
    pixels: Tensor,
    u: Tensor,
    preprocessing: Preprocessing,
    *,
    dtype: torch.dtype = torch.float32,
    channels_last: bool = False,
) -> View:
    """A view of uint8 pixels [B, 3, H, W], made on their device. `u` [B, draws] comes from `uniforms`.

    Its geometry [B, 2, 3] maps original to view coordinates, both (x, y, 1) with x and y in [-1, 1] from edge to edge
    (`grid_sample`'s, align_corners=False).
    """
    transformed, geometry = view_kind(name).transform(pixels, u)
    inputs = normalise(transformed, preprocessing, dtype)
    return View(inputs.contiguous(memory_format=torch.channels_last) if channels_last else inputs, geometry)


def normalise(pixels: Tensor, preprocessing: Preprocessing, dtype: torch.dtype = torch.float32) -> Tensor:
    """(x / 255 - mean) / std in float32, in place (one allocation costs more than the arithmetic); then `dtype`."""
    scale, shift = _scale_and_shift(preprocessing, pixels.device)
    return pixels.to(torch.float32).mul_(scale).add_(shift).to(dtype)


@lru_cache(maxsize=16)
def _scale_and_shift(preprocessing: Preprocessing, device: torch.device) -> tuple[Tensor, Tensor]:
    """Kept on the device, because a copy from the host may not be part of a CUDA graph."""
    mean, std = (
        torch.tensor(preprocessing.mean, dtype=torch.float64),
        torch.tensor(preprocessing.std, dtype=torch.float64),
    )
    scale, shift = 1 / (255 * std), -mean / std
    return scale.view(1, 3, 1, 1).float().to(device), shift.view(1, 3, 1, 1).float().to(device)
