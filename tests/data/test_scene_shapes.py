"""Signed distances by hand, and the brush: area, colour, order of parts, turning, mirroring."""

import numpy as np
import pytest

from tacit.data.scene_glyphs import KINDS
from tacit.data.scene_shapes import Glyph, Part, Poses, Shape, bar, both, box, disc, either, paint, polygon, without

RED, BLUE = (200, 0, 0), (0, 0, 100)


def at(shape: Shape, x: float, y: float) -> float:
    return float(shape(np.array([x], np.float32), np.array([y], np.float32))[0])


def poses(n: int = 1, half: float = 10.0, **changes: object) -> Poses:
    plain: dict[str, object] = {
        "half": np.full(n, half, np.float32),
        "offset": np.zeros((n, 2), np.float32),
        "angle": np.zeros(n, np.float32),
        "stretch": np.ones(n, np.float32),
        "mirrored": np.zeros(n, bool),
        "paint": np.zeros(n, np.float32),
        "tint": np.zeros((n, 3), np.float32),
    }
    return Poses(**{**plain, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shape", "x", "y", "distance"),
    [
        (disc(0, 0, 1), 3, 4, 4),
        (disc(1, 0, 1), 1, 0, -1),
        (box(0, 0, 2, 1), 3, 0, 1),
        (box(0, 0, 2, 1), 0, 0, -1),
        (bar(0, 0, 4, 0, 1), 2, 3, 2),
        (bar(0, 0, 4, 0, 1), 7, 4, 4),  # past the round end: 5 from (4, 0), less the radius
        (polygon((0, -1), (1, 1), (-1, 1)), 0, 3, 2),
        (polygon((-1, -1), (1, -1), (1, 1), (-1, 1)), 0.5, 0, -0.5),
        (either(disc(0, 0, 1), disc(5, 0, 1)), 5, 0, -1),
        (without(disc(0, 0, 2), disc(0, 0, 1)), 0, 0, 1),
        (both(disc(0, 0, 2), disc(3, 0, 2)), 1.5, 0, -0.5),
    ],
)
def test_distances_by_hand(shape: Shape, x: float, y: float, distance: float) -> None:
    assert at(shape, x, y) == pytest.approx(distance, abs=1e-6)


def test_a_pressed_disc_is_an_ellipse() -> None:
    ellipse = disc(0, 0, 1, flat=0.5)
    assert at(ellipse, 0.99, 0) < 0 < at(ellipse, 1.01, 0)
    assert at(ellipse, 0, 0.49) < 0 < at(ellipse, 0, 0.51)


def test_cover_adds_up_to_the_area_wherever_the_object_lies() -> None:
    """Soft edges: a disc of radius 8 pixels covers 64 pi, at any fraction of a pixel."""
    offset = np.random.RandomState(0).uniform(-0.5, 0.5, (20, 2)).astype(np.float32)
    _, cover = paint((Part(disc(0, 0, 0.8), (RED,)),), poses(20, offset=offset), 24)
    np.testing.assert_allclose(cover.sum(axis=(1, 2)), 64 * np.pi, rtol=0.01)
    assert cover.min() >= 0
    assert cover.max() <= 1 + 1e-6


def test_later_parts_cover_earlier_ones_and_paints_go_together() -> None:
    glyph: Glyph = (Part(disc(0, 0, 0.9), (RED, BLUE)), Part(disc(0, 0, 0.4), (BLUE, RED)))
    colour, _ = paint(glyph, poses(2, paint=np.array([0.0, 0.9], np.float32)), 22)
    middle, edge = colour[:, 11, 11], colour[:, 11, 17]
    np.testing.assert_allclose(middle, [BLUE, RED], atol=1e-3)
    np.testing.assert_allclose(edge, [RED, BLUE], atol=1e-3)


def test_turning_and_mirroring() -> None:
    right = (Part(disc(0.6, 0, 0.3), (RED,)),)
    turned = poses(3, angle=np.array([0, np.pi / 2, 0], np.float32), mirrored=np.array([False, False, True]))
    _, cover = paint(right, turned, 22)
    centres = [np.round(np.argwhere(c > 0.5).mean(0) - 10.5).tolist() for c in cover]
    assert centres == [[0, 6], [6, 0], [0, -6]]  # (y, x): right, then down (a quarter turn clockwise), then left


@pytest.mark.parametrize("name", KINDS)
def test_every_glyph_fills_its_square_and_stays_inside(name: str) -> None:
    for glyph in KINDS[name].glyphs:
        _, cover = paint(glyph, poses(half=20.0), 64)
        solid = np.argwhere(cover[0] > 0.5) - 31.5
        assert np.abs(solid).max() <= 23, "reaches beyond its square and would be cut off"
        assert len(solid) > 0.1 * 40 * 40, "too thin to be seen in a small picture"
