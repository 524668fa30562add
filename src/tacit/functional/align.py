"""Affine maps between an image and its views, and class maps of one view read in the frame of another.

A geometry [B, 2, 3] carries a point (x, y, 1) of the image to the view. Both are measured from -1 to 1, edge to edge
(`grid_sample`'s convention with align_corners=False), so that it holds for pixels and for maps of any stride alike. The
arithmetic is spelled out: a matrix product would run in half precision under autocast.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from .partial import wide

INSIDE = 1 + 1e-5  # the frame's edge, with room for the rounding of two maps in a row


class Aligned(NamedTuple):
    maps: Tensor  # [B, C, h, w]
    valid: Tensor  # bool [B, h, w]: the point lies in the image and in the view that was read


def compose(second: Tensor, first: Tensor) -> Tensor:
    """[B, 2, 3]: `first`, then `second`."""
    turned = (second[:, :, :2, None] * first[:, None, :, :]).sum(2)
    return torch.cat([turned[..., :2], turned[..., 2:] + second[..., 2:]], -1)


def inverted(geometry: Tensor) -> Tensor:
    """[B, 2, 3]: the way back. In closed form: a solver would ask the host whether the matrix is singular."""
    (a, b, x), (c, d, y) = geometry.unbind(1)[0].unbind(-1), geometry.unbind(1)[1].unbind(-1)
    scale = 1 / (a * d - b * c)
    a, b, c, d = d * scale, -b * scale, -c * scale, a * scale
    return torch.stack([a, b, -(a * x + b * y), c, d, -(c * x + d * y)], -1).view(-1, 2, 3)


def carried(geometry: Tensor, size: tuple[int, int]) -> Tensor:
    """[B, h, w, 2]: where the cells of a frame of h x w cells go, each from its centre."""
    y, x = (
        (2 * torch.arange(n, device=geometry.device, dtype=geometry.dtype) + 1) / n - 1  # centres of n cells
        for n in size
    )
    entry = geometry[:, :, :, None, None]
    point = entry[:, :, 0] * x + entry[:, :, 1] * y[:, None] + entry[:, :, 2]
    return point.movedim(1, -1)


def align_maps(
    maps: Tensor, from_geometry: Tensor, to_geometry: Tensor, size: tuple[int, int] | None = None
) -> Aligned:
    """Maps [B, C, h, w] of one view as they would lie in another view of the same images, h x w or `size`.

    Read bilinearly, each point from where the image's point lies in the first view; differentiable in the maps. What
    lies outside the image or was cropped away in the first view is not `valid`, and its values are the nearest edge's.
    (What one operation of a view pushed out of the frame and the next one brought back is fill that no map tells of.)
    """
    maps = wide(maps)
    to_image = inverted(to_geometry.to(maps.dtype))
    in_image = carried(to_image, size or (maps.shape[-2], maps.shape[-1]))
    in_first = carried(compose(from_geometry.to(maps.dtype), to_image), (in_image.shape[1], in_image.shape[2]))
    valid = ((in_image.abs() <= INSIDE) & (in_first.abs() <= INSIDE)).all(-1)
    read = F.grid_sample(maps, in_first, mode="bilinear", padding_mode="border", align_corners=False)
    return Aligned(read, valid)
