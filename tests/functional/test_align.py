"""Maps of two views of one image, laid over each other."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tacit.functional.align import align_maps, carried, compose, inverted

numbers = st.floats(-0.4, 0.4)


@st.composite
def geometries(draw) -> Tensor:
    """Anything that views do: flips, scales, shears, turns and translations, never singular."""
    flip = draw(st.sampled_from([1.0, -1.0]))
    entries = [
        flip * (1 + draw(numbers)),
        draw(numbers),
        draw(numbers),
        draw(numbers),
        1 + draw(numbers),
        draw(numbers),
    ]
    return torch.tensor(entries, dtype=torch.float64).view(1, 2, 3)


IDENTITY = torch.eye(2, 3, dtype=torch.float64)[None]


def pattern(points: Tensor) -> Tensor:
    """[B, 2, h, w] of points [B, h, w, 2]: smooth and without any symmetry."""
    x, y = points.unbind(-1)
    return torch.stack([torch.sin(2 * x + 0.5 * y) + 0.3 * y, x * y - 0.7 * x], 1)


def seen(geometry: Tensor, size: tuple[int, int]) -> Tensor:
    """The pattern as a view of this geometry shows it."""
    return pattern(carried(inverted(geometry), size))


@settings(max_examples=60, deadline=None)
@given(geometries(), geometries(), geometries())
def test_composition_is_one_after_the_other(a: Tensor, b: Tensor, c: Tensor) -> None:
    point = torch.tensor([[0.3, -0.8]], dtype=torch.float64)

    def move(geometry: Tensor, p: Tensor) -> Tensor:
        return (geometry[:, :, :2] @ p[..., None])[..., 0] + geometry[:, :, 2]

    torch.testing.assert_close(move(compose(b, a), point), move(b, move(a, point)))
    torch.testing.assert_close(compose(c, compose(b, a)), compose(compose(c, b), a))
    assert torch.equal(compose(IDENTITY, a), a)
    torch.testing.assert_close(compose(inverted(a), a), IDENTITY, rtol=0, atol=1e-12)
    torch.testing.assert_close(compose(a, inverted(a)), IDENTITY, rtol=0, atol=1e-12)
    torch.testing.assert_close(inverted(compose(b, a)), compose(inverted(a), inverted(b)))


def test_cells_are_where_grid_sample_has_them() -> None:
    geometry = torch.tensor([[[0.5, 0.1, 0.2], [-0.3, 0.9, -0.1]]])
    grid = torch.nn.functional.affine_grid(geometry, [1, 1, 5, 7], align_corners=False)
    torch.testing.assert_close(carried(geometry, (5, 7)), grid)


@settings(max_examples=60, deadline=None)
@given(geometries(), geometries())
def test_maps_of_one_view_lie_where_the_other_has_them(first: Tensor, second: Tensor) -> None:
    size = (33, 40)
    aligned = align_maps(seen(first, size), first, second)
    apart = (aligned.maps - seen(second, size)).abs().amax(1)
    inner = carried(compose(first, inverted(second)), size).abs().amax(-1) < 1 - 1 / 33  # no edge in the reading
    assert apart[aligned.valid & inner].numel() == 0 or apart[aligned.valid & inner].max() < 0.02


@settings(max_examples=30, deadline=None)
@given(geometries(), st.integers(1, 9), st.integers(1, 9))
def test_a_view_lies_on_itself(geometry: Tensor, height: int, width: int) -> None:
    maps = torch.rand(1, 3, height, width, dtype=torch.float64)
    aligned = align_maps(maps, geometry, geometry)
    torch.testing.assert_close(aligned.maps, maps)
    in_image = carried(inverted(geometry), (height, width)).abs().amax(-1) <= 1
    assert torch.equal(aligned.valid, in_image)


def test_flipped_maps_are_turned_back_and_gradients_go_through() -> None:
    maps = torch.randn(2, 4, 3, 5, requires_grad=True)
    flip = torch.tensor([[[-1.0, 0, 0], [0, 1, 0]]]).expand(2, -1, -1)
    plain = torch.eye(2, 3).expand(2, -1, -1)
    aligned = align_maps(maps, flip, plain)
    torch.testing.assert_close(aligned.maps, maps.flip(-1))
    assert aligned.valid.all()
    aligned.maps.sum().backward()
    torch.testing.assert_close(maps.grad, torch.ones_like(maps))


def test_what_was_cropped_away_is_not_valid() -> None:
    """The first view is the right half of the image, enlarged along x."""
    right_half = torch.tensor([[[2.0, 0, -1], [0, 1, 0]]])
    aligned = align_maps(torch.arange(8.0).expand(1, 1, 8, 8), right_half, torch.eye(2, 3)[None])
    assert aligned.valid[0, 0].tolist() == [False] * 4 + [True] * 4
    assert aligned.maps[0, 0, 0].tolist() == [0, 0, 0, 0, 0.5, 2.5, 4.5, 6.5]


@pytest.mark.parametrize("size", [(4, 4), (7, 14)])
def test_another_resolution(size: tuple[int, int]) -> None:
    plain = torch.eye(2, 3)[None]
    maps = pattern(carried(plain, (28, 28)))
    aligned = align_maps(maps, plain, plain, size)
    torch.testing.assert_close(aligned.maps, pattern(carried(plain, size)), rtol=0, atol=0.01)


def test_half_precision_is_read_in_single() -> None:
    plain = torch.eye(2, 3)[None]
    assert align_maps(torch.rand(1, 1, 4, 4).bfloat16(), plain, plain).maps.dtype == torch.float32
