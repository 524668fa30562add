"""What can be seen in a scene: the classes, and the decoys that share a shape or a colour with one of them."""

from __future__ import annotations

from typing import NamedTuple

from .scene_shapes import Colour, Glyph, Part, Shape, bar, both, box, disc, either, polygon, without

YELLOW, GOLD, ORANGE = (252, 214, 70), (255, 190, 60), (238, 140, 55)
RED, ROSE, VIOLET, BLUE, TEAL = (205, 62, 56), (236, 130, 165), (150, 98, 190), (66, 112, 190), (58, 158, 160)
GREEN, LEAF, MOSS, BROWN, BARK = (74, 150, 74), (116, 172, 72), (58, 112, 72), (140, 98, 64), (98, 72, 56)
WHITE, CREAM, SILVER, GREY, SLATE = (246, 246, 244), (240, 226, 196), (206, 211, 217), (146, 146, 150), (84, 90, 104)
BLACK, INK, GLASS = (36, 36, 42), (56, 58, 78), (170, 205, 225)


class Kind(NamedTuple):
    """A sort of thing: how it looks, how large it is, how it stands."""

    glyphs: tuple[Glyph, ...]  # one is picked per object
    small: float  # half height, as a share of the picture's side
    large: float
    sways: float = 0.06  # largest turn in radians, either way
    zone: str = "ground"  # "sky", "ground" or "water"


def _rays(inner: float, outer: float, width: float) -> Shape:
    half = 0.7071
    ways = ((1, 0), (half, half), (0, 1), (-half, half))
    return either(
        *(bar(s * inner * u, s * inner * v, s * outer * u, s * outer * v, width) for u, v in ways for s in (1, -1))
    )


def _sun() -> Glyph:
    paints: tuple[Colour, ...] = (YELLOW, GOLD, ORANGE)
    return Part(_rays(0.7, 0.98, 0.09), paints), Part(disc(0, 0, 0.56), paints)


def _cloud(shift: float) -> Glyph:
    puffs = either(disc(-0.55, 0.12, 0.36), disc(-0.05 + shift, -0.08, 0.48), disc(0.55, 0.1, 0.38))
    return (Part(either(puffs, bar(-0.6, 0.28, 0.6, 0.28, 0.2)), (WHITE, SILVER, (228, 222, 228))),)


def _round_tree() -> Glyph:
    crown = either(disc(0, -0.4, 0.52), disc(-0.36, -0.1, 0.36), disc(0.36, -0.1, 0.36))
    return Part(box(0, 0.6, 0.13, 0.4), (BROWN, BARK)), Part(crown, (GREEN, LEAF, MOSS, (190, 140, 60)))


def _fir() -> Glyph:
    tiers = (polygon((0, top), (wide, top + 0.75), (-wide, top + 0.75)) for top, wide in ((-1, 0.4), (-0.6, 0.52)))
    low = polygon((0, -0.25), (0.64, 0.65), (-0.64, 0.65))
    return Part(box(0, 0.8, 0.11, 0.2), (BARK,)), Part(either(*tiers, low), (MOSS, GREEN, (52, 98, 84)))


def _house(tall: bool) -> Glyph:
    eave = -0.35 if tall else -0.05
    width = 0.6 if tall else 0.85
    walls = box(0, (1 + eave) / 2, width, (1 - eave) / 2)
    roof = polygon((0, eave - 0.62), (width + 0.18, eave), (-width - 0.18, eave))
    window = box(-0.5 * width, (eave + 0.62) / 2, 0.16, 0.16)
    return (
        Part(walls, (CREAM, (222, 190, 160), SILVER, (205, 150, 130))),
        Part(roof, (RED, BROWN, SLATE, (170, 80, 60))),
        Part(box(0.35 * width, 0.7, 0.16, 0.32), (BARK, INK)),
        Part(window, (GLASS, YELLOW)),
    )


def _bird() -> Glyph:
    paints: tuple[Colour, ...] = (INK, BLACK, WHITE, SLATE, (120, 70, 60))
    wings = either(bar(-0.95, -0.42, -0.42, -0.5, 0.13), bar(-0.42, -0.5, 0, 0.1, 0.15))
    other = either(bar(0.95, -0.42, 0.42, -0.5, 0.13), bar(0.42, -0.5, 0, 0.1, 0.15))
    return Part(either(wings, other, disc(0.02, 0.16, 0.3, 0.7)), paints), Part(
        polygon((0.26, 0.08), (0.55, 0.2), (0.26, 0.3)), (ORANGE,)
    )


def _flower() -> Glyph:
    around = ((0, -0.8), (0.36, -0.54), (0.22, -0.12), (-0.22, -0.12), (-0.36, -0.54))
    petals = either(*(disc(x, y, 0.27) for x, y in around))
    return (
        Part(either(bar(0, 0, 0, 1, 0.08), bar(0, 0.75, 0.4, 0.45, 0.1)), (GREEN, LEAF)),
        Part(petals, (ROSE, RED, WHITE, VIOLET, YELLOW)),
        Part(disc(0, -0.44, 0.2), (GOLD, BROWN, GOLD, YELLOW, BROWN)),
    )


_HULL = polygon((-0.95, 0.4), (0.95, 0.4), (0.62, 0.9), (-0.62, 0.9))


def _sailing_boat() -> Glyph:
    return (
        Part(bar(0, -0.95, 0, 0.4, 0.05), (BARK,)),
        Part(polygon((0.1, -0.9), (0.8, 0.25), (0.1, 0.25)), (WHITE, CREAM, RED, (240, 200, 120))),
        Part(polygon((-0.1, -0.6), (-0.1, 0.25), (-0.6, 0.25)), (WHITE, CREAM, WHITE, CREAM)),
        Part(_HULL, (BROWN, RED, INK, WHITE, BLUE)),
    )


def _steam_boat() -> Glyph:
    return (
        Part(box(0.25, -0.3, 0.15, 0.4), (RED, BLACK, ORANGE)),
        Part(box(-0.05, 0.15, 0.5, 0.26), (WHITE, CREAM)),
        Part(either(disc(-0.3, 0.12, 0.1), disc(0.1, 0.12, 0.1)), (INK,)),
        Part(_HULL, (BROWN, RED, INK, SLATE, BLUE)),
    )


def _car() -> Glyph:
    body = either(bar(-0.72, 0.22, 0.72, 0.22, 0.26), polygon((-0.38, -0.5), (0.3, -0.5), (0.58, 0.1), (-0.62, 0.1)))
    return (
        Part(body, (RED, BLUE, TEAL, WHITE, YELLOW, SLATE)),
        Part(polygon((-0.3, -0.38), (0.22, -0.38), (0.4, 0.0), (-0.44, 0.0)), (GLASS,)),
        Part(either(disc(-0.5, 0.46, 0.25), disc(0.52, 0.46, 0.25)), (BLACK,)),
        Part(either(disc(-0.5, 0.46, 0.1), disc(0.52, 0.46, 0.1)), (SILVER,)),
    )


def _cat() -> Glyph:
    paints: tuple[Colour, ...] = (BLACK, ORANGE, GREY)
    ears = either(
        polygon((-0.42, -0.98), (-0.12, -0.66), (-0.46, -0.5)), polygon((0.42, -0.98), (0.46, -0.5), (0.12, -0.66))
    )
    tail = either(bar(0.4, 0.85, 0.85, 0.6, 0.1), bar(0.85, 0.6, 0.8, 0.1, 0.1))
    return (
        Part(either(disc(0, 0.48, 0.5, 1.05), disc(0, -0.4, 0.44), ears, tail), paints),
        Part(either(disc(-0.17, -0.42, 0.09), disc(0.17, -0.42, 0.09)), (YELLOW, (50, 90, 50), YELLOW)),
    )


def _star() -> Glyph:
    slim = 0.3
    upright = polygon((0, -1), (slim, 0), (0, 1), (-slim, 0))
    level = polygon((-1, 0), (0, -slim), (1, 0), (0, slim))
    return (Part(either(upright, level, disc(0, 0, 0.42)), (WHITE, (255, 246, 190), (210, 225, 255))),)


def _moon() -> Glyph:
    return (Part(without(disc(0, 0, 0.9), disc(0.5, -0.22, 0.78)), ((250, 240, 190), WHITE, (245, 215, 150))),)


def _fish() -> Glyph:
    paints: tuple[Colour, ...] = (ORANGE, RED, SILVER, ROSE)
    return (
        Part(polygon((0.35, 0), (0.98, -0.5), (0.98, 0.5)), paints),
        Part(disc(-0.15, 0, 0.68, 0.62), paints),
        Part(disc(-0.5, -0.1, 0.11), (BLACK,)),
    )


def _balloon() -> Glyph:
    paints: tuple[Colour, ...] = (RED, BLUE, ORANGE, VIOLET, TEAL)
    envelope = either(disc(0, -0.34, 0.62), polygon((-0.5, -0.05), (0.5, -0.05), (0.16, 0.56), (-0.16, 0.56)))
    return (
        Part(envelope, paints),
        Part(both(envelope, box(0, -0.3, 0.18, 1)), (YELLOW, WHITE, CREAM, GOLD, WHITE)),
        Part(box(0, 0.84, 0.19, 0.14), (BROWN, BARK)),
    )


def _parasol() -> Glyph:
    dome = both(disc(0, 0, 0.95), box(0, -0.5, 1, 0.5))
    return (
        Part(bar(0, -0.9, 0, 0.92, 0.06), (BARK, SILVER)),
        Part(dome, (RED, BLUE, YELLOW, TEAL, ROSE)),
        Part(both(dome, disc(0, 0.2, 0.42, 2.8)), (WHITE, CREAM, RED, YELLOW, WHITE)),
    )


def _lighthouse() -> Glyph:
    tower = polygon((-0.2, -0.55), (0.2, -0.55), (0.32, 1), (-0.32, 1))
    return (
        Part(tower, (WHITE, CREAM)),
        Part(both(tower, either(box(0, -0.2, 1, 0.17), box(0, 0.48, 1, 0.17))), (RED, RED, INK)),
        Part(box(0, -0.68, 0.16, 0.14), (YELLOW, GOLD)),
        Part(polygon((0, -1), (0.26, -0.8), (-0.26, -0.8)), (RED, RED, INK)),
    )


def _toadstool() -> Glyph:
    cap = both(disc(0, 0, 0.92), box(0, -0.45, 1, 0.45))
    dots = either(disc(-0.42, -0.3, 0.15), disc(0.05, -0.6, 0.16), disc(0.46, -0.28, 0.14))
    return Part(box(0, 0.42, 0.27, 0.48), (CREAM, WHITE)), Part(cap, (RED, BROWN, ORANGE)), Part(dots, (WHITE,))


def _snowman() -> Glyph:
    return (
        Part(either(disc(0, 0.52, 0.5), disc(0, -0.22, 0.36)), (WHITE, (236, 240, 248))),
        Part(either(disc(-0.12, -0.3, 0.07), disc(0.12, -0.3, 0.07), disc(0, 0.3, 0.07), disc(0, 0.6, 0.07)), (BLACK,)),
        Part(either(box(0, -0.56, 0.34, 0.06), box(0, -0.78, 0.2, 0.22)), (BLACK, INK, RED)),
        Part(polygon((0, -0.22), (0.42, -0.13), (0, -0.08)), (ORANGE,)),
    )


_DIAMOND = polygon((0, -1), (0.7, -0.1), (0, 1), (-0.7, -0.1))
_PLANE = either(bar(-0.9, 0, 0.9, 0, 0.15), bar(0.1, 0, -0.3, 0.5, 0.13))
_MOUND = either(disc(-0.45, 0.4, 0.5), disc(0.4, 0.45, 0.55), disc(0, 0.1, 0.5))


def _one(shape: Shape, *paints: Colour) -> tuple[Glyph, ...]:
    return ((Part(shape, paints),),)


def _on_pole(shape: Shape, *paints: Colour) -> tuple[Glyph, ...]:
    return ((Part(bar(0, -0.3, 0, 1, 0.07), (SLATE, BARK)), Part(shape, paints)),)


CLASSES: dict[str, Kind] = {
    "sun": Kind((_sun(),), 0.12, 0.19, 0.39, "sky"),
    "cloud": Kind((_cloud(0.0), _cloud(0.2)), 0.13, 0.22, 0.05, "sky"),
    "tree": Kind((_round_tree(), _fir()), 0.18, 0.30),
    "house": Kind((_house(False), _house(True)), 0.18, 0.29, 0.0),
    "bird": Kind((_bird(),), 0.10, 0.15, 0.4, "sky"),
    "flower": Kind((_flower(),), 0.12, 0.19, 0.2),
    "boat": Kind((_sailing_boat(), _steam_boat()), 0.15, 0.24, 0.1, "water"),
    "car": Kind((_car(),), 0.15, 0.23),
    "cat": Kind((_cat(),), 0.15, 0.22),
    "star": Kind((_star(),), 0.07, 0.12, 0.39, "sky"),
    "moon": Kind((_moon(),), 0.12, 0.18, 0.5, "sky"),
    "fish": Kind((_fish(),), 0.12, 0.18, 0.35, "water"),
    "balloon": Kind((_balloon(),), 0.14, 0.23, zone="sky"),
    "lighthouse": Kind((_lighthouse(),), 0.23, 0.32, 0.0),
    "snowman": Kind((_snowman(),), 0.16, 0.23),
}

DECOYS: dict[str, Kind] = {
    "ball in the air": Kind(_one(disc(0, 0, 0.8), YELLOW, RED, ORANGE, WHITE), 0.07, 0.13, zone="sky"),  # sun, moon
    "kite": Kind(_one(_DIAMOND, RED, BLUE, YELLOW, WHITE), 0.10, 0.16, 0.5, "sky"),  # balloon, star
    "plane": Kind(_one(_PLANE, WHITE, SLATE, INK), 0.10, 0.14, 0.3, "sky"),  # bird
    "bush": Kind(_one(_MOUND, GREEN, LEAF, MOSS), 0.12, 0.20),  # tree
    "crate": Kind(_one(box(0, 0, 0.85, 0.85), BROWN, CREAM, RED), 0.10, 0.16),  # house
    "tent": Kind(
        _one(polygon((0, -0.7), (0.95, 0.8), (-0.95, 0.8)), RED, GREEN, WHITE, ORANGE), 0.12, 0.20
    ),  # roof, fir
    "rock": Kind(_one(_MOUND, GREY, BLACK, SLATE), 0.09, 0.15),  # cat, car
    "lamp": Kind(_on_pole(disc(0, -0.6, 0.34), YELLOW, WHITE, ROSE), 0.14, 0.24),  # flower, sun
    "sign": Kind(_on_pole(box(0, -0.55, 0.5, 0.38), RED, WHITE, BLUE), 0.12, 0.20),  # lighthouse, flower
    "parasol": Kind((_parasol(),), 0.14, 0.22, 0.25),  # balloon
    "toadstool": Kind((_toadstool(),), 0.10, 0.15, 0.12),  # flower, house
    "log": Kind(_one(bar(-0.65, 0.2, 0.65, 0.2, 0.24), BROWN, RED, SLATE), 0.12, 0.19, 0.1, "water"),  # hull
    "buoy": Kind(
        _one(either(disc(0, 0.45, 0.5), box(0, -0.3, 0.2, 0.5)), RED, WHITE), 0.07, 0.13, 0.2, "water"
    ),  # fish
    "leaf": Kind(_one(disc(0, 0, 0.9, 0.5), ORANGE, YELLOW, LEAF), 0.07, 0.12, 0.5, "water"),  # fish
    "snow heap": Kind(_one(_MOUND, WHITE, (236, 240, 248)), 0.12, 0.20),  # snowman, cloud
}

KINDS: dict[str, Kind] = CLASSES | DECOYS
