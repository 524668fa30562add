"""Where scenes happen and who is met there.

A place decides which things come together (moon and stars, boats and fish) and what is behind them, so that classes
co-occur; the shares make a long tail, from the sun in half of the pictures to the snowman in one of thirty.
"""

from __future__ import annotations

from typing import NamedTuple

from .scene_shapes import Colour


class Place(NamedTuple):
    """Shares are probabilities that a class is placed at all; `decoys` is the mean number of decoys."""

    weight: float
    sky: tuple[tuple[Colour, Colour], ...]  # top and horizon
    ground: tuple[tuple[Colour, Colour], ...]  # horizon and foot
    shore: tuple[Colour, Colour] | None  # where the ground is water: what lies before it
    shares: dict[str, float]
    decoys: dict[str, float]


_DAY = (((96, 160, 222), (190, 220, 240)), ((150, 170, 190), (205, 212, 218)), ((120, 150, 205), (250, 214, 180)))
_NIGHT = (((18, 22, 52), (52, 58, 98)), ((26, 20, 46), (80, 62, 98)))
_GRASS = (((128, 172, 98), (98, 146, 74)), ((164, 176, 104), (132, 148, 76)), ((140, 160, 120), (110, 128, 90)))

PLACES: dict[str, Place] = {
    "country": Place(
        0.34,
        _DAY,
        _GRASS,
        None,
        {"sun": 0.62, "cloud": 0.45, "tree": 0.78, "house": 0.45, "flower": 0.48, "bird": 0.28, "cat": 0.16}
        | {"balloon": 0.22, "car": 0.06},
        {
            "bush": 0.35,
            "kite": 0.12,
            "tent": 0.15,
            "rock": 0.15,
            "crate": 0.1,
            "ball in the air": 0.1,
            "toadstool": 0.1,
        },
    ),
    "town": Place(
        0.22,
        _DAY,
        (((160, 158, 160), (124, 122, 126)), ((176, 168, 158), (140, 132, 124))),
        None,
        {"sun": 0.5, "cloud": 0.45, "house": 0.82, "car": 0.66, "tree": 0.45, "cat": 0.3, "bird": 0.2}
        | {"flower": 0.16, "balloon": 0.08},
        {"lamp": 0.3, "sign": 0.25, "crate": 0.2, "bush": 0.12, "parasol": 0.15, "plane": 0.15},
    ),
    "sea": Place(
        0.22,
        _DAY,
        (((70, 132, 176), (58, 112, 158)), ((92, 158, 172), (70, 136, 158))),
        ((226, 206, 158), (206, 182, 132)),
        {"sun": 0.66, "cloud": 0.45, "boat": 0.8, "fish": 0.48, "bird": 0.42, "lighthouse": 0.26, "balloon": 0.06}
        | {"cat": 0.04},
        {"log": 0.2, "buoy": 0.25, "leaf": 0.2, "kite": 0.15, "ball in the air": 0.1, "parasol": 0.2, "rock": 0.15},
    ),
    "night": Place(
        0.15,
        _NIGHT,
        (((52, 72, 62), (36, 52, 46)), ((66, 64, 76), (48, 46, 58))),
        None,
        {"moon": 0.85, "star": 0.82, "house": 0.5, "tree": 0.55, "cat": 0.3, "cloud": 0.25, "car": 0.15},
        {"lamp": 0.3, "ball in the air": 0.3, "bush": 0.2, "rock": 0.15, "plane": 0.1},
    ),
    "winter": Place(
        0.07,
        (_DAY[1], ((170, 190, 215), (225, 230, 236))),
        (((236, 240, 246), (214, 222, 234)), ((226, 230, 240), (206, 212, 228))),
        None,
        {"snowman": 0.5, "tree": 0.72, "house": 0.45, "cloud": 0.5, "sun": 0.3, "bird": 0.25, "cat": 0.08, "car": 0.12},
        {"snow heap": 0.4, "rock": 0.2, "ball in the air": 0.1, "lamp": 0.1, "tent": 0.1},
    ),
}
ONE_MORE: dict[str, float] = {  # chance of a second one, and again of a third
    "star": 0.7,
    "bird": 0.45,
    "flower": 0.5,
    "cloud": 0.35,
    "tree": 0.4,
    "fish": 0.4,
    "house": 0.25,
}
