"""From a random stream to pictures: who comes, where they stand, what hides what, and how much of each is seen.

Only NumPy's legacy uniform, integer and byte streams are used: they are frozen, so a seed draws the same scenes with
every NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .scene_glyphs import CLASSES, DECOYS, KINDS
from .scene_places import ONE_MORE, PLACES
from .scene_shapes import Field, Poses, paint

Ints = NDArray[np.int64]
Random = np.random.RandomState

SEEN_SHARE = 0.4  # a class is present where one of its objects shows at least this share of itself …
SEEN_AREA = 0.004  # … and that is at least this share of the picture
CROWD = 14  # objects per picture at most; the farthest go
SHORELINE = 0.8  # where water ends and the beach begins, as a share of the height
NOISE = 6.0  # standard deviation of the pixel noise, in grey levels

_KINDS = tuple(KINDS.values())
_PLACES = tuple(PLACES.values())
_HAS_WATER = np.array([place.shore is not None for place in _PLACES])


@dataclass(frozen=True)
class Crowd:
    """Objects of many pictures, one entry each."""

    picture: Ints
    kind: Ints
    glyph: Field  # in [0, 1): which of the kind's glyphs
    centre: Field  # [n, 2] (x, y) in pixels
    nearness: Field
    poses: Poses

    def take(self, index: Ints) -> Crowd:
        poses = Poses(**{f.name: getattr(self.poses, f.name)[index] for f in fields(Poses)})
        own = {f.name: getattr(self, f.name)[index] for f in fields(self) if f.name != "poses"}
        return Crowd(**own, poses=poses)


class Scenery(NamedTuple):
    """Per picture: its place, the height of its horizon (share of the side, from the top)."""

    place: Ints
    horizon: Field


def draw_scenes(random: Random, count: int, side: int) -> tuple[NDArray[np.uint8], Field]:
    """Pictures [count, 3, side, side], and per class the visible area of its largest object in pixels (0: absent)."""
    doors = np.cumsum([place.weight for place in _PLACES])[:-1]
    scenery = Scenery(np.searchsorted(doors, random.random_sample(count)), _uniform(random, 0.4, 0.6, count))
    canvas = _backgrounds(random, scenery, side)
    crowd, layer = _layers(_invite(random, scenery, side))
    seen, whole = _compose(canvas, crowd, layer)
    return _develop(random, canvas), _areas(crowd, seen, whole, count, side)


def _uniform(random: Random, low: float, high: float, *shape: int) -> Field:
    return random.uniform(low, high, shape).astype(np.float32)


def _backgrounds(random: Random, scenery: Scenery, side: int) -> Field:
    """Sky, ground and beach as vertical gradients under soft light and shade: [n, side, side, 3]."""
    place, horizon = scenery
    row = ((np.arange(side, dtype=np.float32) + np.float32(0.5)) / np.float32(side))[None, :, None]
    line = horizon[:, None, None]
    sky, ground, beach = (np.empty((len(place), 2, 3), np.float32) for _ in range(3))
    for number, where in enumerate(_PLACES):
        here = np.flatnonzero(place == number)
        sky[here] = np.array(where.sky, np.float32)[random.randint(0, len(where.sky), len(here))]
        ground[here] = np.array(where.ground, np.float32)[random.randint(0, len(where.ground), len(here))]
        beach[here] = np.array(where.shore or ((0, 0, 0), (0, 0, 0)), np.float32)
    above = _gradient(sky, row / line)
    below = _gradient(ground, (row - line) / (1 - line))
    sand = _gradient(beach, (row - SHORELINE) / (1 - SHORELINE))
    below = np.where(_HAS_WATER[place][:, None, None] & (row > SHORELINE), sand, below)
    columns = np.where(row < line, above, below) + _uniform(random, -14, 14, len(place), 1, 3)
    return np.asarray(columns[:, :, None, :] + _shade(random, len(place), side), np.float32)


def _gradient(ends: Field, at: Field) -> Field:
    return np.asarray(ends[:, :1] + (ends[:, 1:] - ends[:, :1]) * np.clip(at, 0, 1), np.float32)


def _shade(random: Random, count: int, side: int, strength: float = 16.0, cells: int = 5) -> Field:
    """Light and shade: uniform values on a coarse grid, linearly interpolated: [n, side, side, 1]."""
    coarse = _uniform(random, -strength, strength, count, cells, cells, 1)
    place = (np.arange(side) * ((cells - 1) / (side - 1))).astype(np.float32)
    low = np.minimum(place.astype(np.intp), cells - 2)
    part = (place - low).astype(np.float32)[:, None]
    rows = coarse[:, low] * (1 - part)[:, None] + coarse[:, low + 1] * part[:, None]
    return np.asarray(rows[:, :, low] * (1 - part) + rows[:, :, low + 1] * part, np.float32)


def _invite(random: Random, scenery: Scenery, side: int) -> Crowd:
    """Draws who comes to each picture, how large, how turned, in which colours."""
    picture, kind = _guests(random, scenery.place)
    n = len(kind)
    small, large, sways = np.array([(k.small, k.large, k.sways) for k in _KINDS], np.float32)[kind].T
    size = small + (large - small) * _uniform(random, 0, 1, n)
    here = Scenery(scenery.place[picture], scenery.horizon[picture])
    centre, nearness = _positions(random, here, kind, size)
    poses = Poses(
        half=size * np.float32(side),
        offset=np.zeros((n, 2), np.float32),
        angle=np.asarray(np.rint(_uniform(random, -1, 1, n) * sways * 1024) / 1024, np.float32),
        stretch=_uniform(random, 0.88, 1.14, n),
        mirrored=random.random_sample(n) < 0.5,
        paint=_uniform(random, 0, 0.999, n),
        tint=_uniform(random, -22, 22, n, 1) + _uniform(random, -10, 10, n, 3),
    )
    return Crowd(picture, kind, _uniform(random, 0, 0.999, n), centre * np.float32(side), nearness, poses)


def _guests(random: Random, place: Ints) -> tuple[Ints, Ints]:
    """(picture, kind) pairs, repeated where several of a kind come."""
    shares = np.array([[(p.shares | p.decoys).get(name, 0.0) for name in KINDS] for p in _PLACES])
    again = np.array([ONE_MORE.get(name, 0.15 if name in DECOYS else 0.0) for name in KINDS])
    comes = random.random_sample((len(place), len(KINDS))) < shares[place]
    second, third = (random.random_sample(comes.shape) < again for _ in range(2))
    picture, kind = np.nonzero(comes)
    times = (1 + second.astype(np.int64) + (second & third))[picture, kind]
    return np.repeat(picture, times), np.repeat(kind, times)


def _positions(random: Random, here: Scenery, kind: Ints, size: Field) -> tuple[Field, Field]:
    """Centres as shares of the side, and nearness: the sky is far, a lower foot is nearer."""
    zone = np.array([k.zone for k in _KINDS])[kind]
    u, far = _uniform(random, 0, 1, len(kind)), _uniform(random, 0, 0.3, len(kind))
    wet = _HAS_WATER[here.place]
    aloft = 0.1 + u * np.maximum(here.horizon - 0.14, 0.1)
    afloat = here.horizon + 0.05 + u * (SHORELINE - 0.05 - here.horizon)
    ashore = np.where(wet, SHORELINE + 0.04, here.horizon + 0.08)
    foot = np.where(zone == "water", afloat, ashore + u * (0.97 - ashore))
    y = np.where(zone == "sky", aloft, foot - np.where(zone == "water", 0.6, 1.0) * size)
    x = _uniform(random, 0.06, 0.94, len(kind))
    nearness = np.where(zone == "sky", far, foot)
    return np.stack([x, y], axis=1).astype(np.float32), nearness.astype(np.float32)


def _layers(crowd: Crowd) -> tuple[Crowd, Ints]:
    """The crowd sorted by picture and nearness, and each object's layer: 0 is the farthest of its picture."""
    crowd = crowd.take(np.lexsort((crowd.nearness, crowd.picture)))
    sizes = np.bincount(crowd.picture)
    ends = np.cumsum(sizes)
    from_front = ends[crowd.picture] - 1 - np.arange(len(crowd.picture))
    crowd = crowd.take(np.flatnonzero(from_front < CROWD))
    starts = np.cumsum(np.minimum(sizes, CROWD)) - np.minimum(sizes, CROWD)
    return crowd, np.arange(len(crowd.picture)) - starts[crowd.picture]


def _compose(canvas: Field, crowd: Crowd, layer: Ints) -> tuple[Ints, Ints]:
    """Paints the crowd into the canvas, far to near; per object, how many pixels are seen and how many it has."""
    side = canvas.shape[1]
    colour, cover, corner = _patches(crowd)
    solid = cover > 0.5
    patch = cover.shape[1]
    wide = np.pad(canvas, ((0, 0), (patch, patch), (patch, patch), (0, 0)))
    owner = np.full(wide.shape[:3], -1, np.int64)
    step = np.arange(patch)
    for number in range(int(layer.max(initial=-1)) + 1):
        of = np.flatnonzero(layer == number)
        x, y = (np.clip(corner[of, axis], -patch, side) + patch for axis in (0, 1))
        at = (crowd.picture[of][:, None, None], (y[:, None] + step)[:, :, None], (x[:, None] + step)[:, None, :])
        wide[at] = wide[at] * (1 - cover[of])[..., None] + colour[of]
        owner[at] = np.where(solid[of], of[:, None, None], owner[at])
    inner = (slice(None), slice(patch, -patch), slice(patch, -patch))
    canvas[:] = wide[inner]
    visible = owner[inner]
    return np.bincount(visible[visible >= 0], minlength=len(layer)), solid.sum(axis=(1, 2))


def _patches(crowd: Crowd) -> tuple[Field, Field, Ints]:
    """Every object painted alone, kind by kind: colours, covers, and where each patch's top left pixel goes."""
    n = len(crowd.kind)
    patch = 2 * int(np.ceil(1.2 * crowd.poses.half.max(initial=1) + 1))
    middle = crowd.centre - np.float32(0.5)  # pixel i's centre lies at i + 0.5
    corner = np.floor(middle - np.float32(patch / 2 - 1)).astype(np.int64)
    crowd.poses.offset[:] = middle - corner - np.float32((patch - 1) / 2)
    colour, cover = np.empty((n, patch, patch, 3), np.float32), np.empty((n, patch, patch), np.float32)
    for number, kind in enumerate(_KINDS):
        which = (crowd.glyph * len(kind.glyphs)).astype(np.int64)
        for variant, glyph in enumerate(kind.glyphs):
            of = np.flatnonzero((crowd.kind == number) & (which == variant))
            colour[of], cover[of] = paint(glyph, crowd.take(of).poses, patch)
    return colour, cover, corner


def _areas(crowd: Crowd, seen: Ints, whole: Ints, count: int, side: int) -> Field:
    """[count, classes]; objects that are mostly hidden or out of the picture count as absent."""
    areas = np.zeros((count, len(KINDS)), np.float32)
    plain = (seen >= SEEN_SHARE * whole) & (seen >= SEEN_AREA * side * side)
    np.maximum.at(areas, (crowd.picture[plain], crowd.kind[plain]), seen[plain].astype(np.float32))
    return areas[:, : len(CLASSES)]


def _develop(random: Random, canvas: Field) -> NDArray[np.uint8]:
    """Exposure, grain, and whole grey levels, channels first."""
    canvas *= _uniform(random, 0.8, 1.1, len(canvas), 1, 1, 1)
    grain = np.frombuffer(random.bytes(2 * canvas.size), np.uint8).astype(np.int16).reshape(2, *canvas.shape)
    spread = np.float32((2 * (256**2 - 1) / 12) ** 0.5)  # standard deviation of a difference of two random bytes
    canvas += (grain[0] - grain[1]) * np.float32(NOISE / spread)
    return np.ascontiguousarray(np.clip(np.rint(canvas), 0, 255).astype(np.uint8).transpose(0, 3, 1, 2))
