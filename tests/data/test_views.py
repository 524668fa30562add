"""Views by name: what they do to pixels, what they spend, and what their geometry says."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from tacit.data.augment import CODES, MIDDLE_GREY
from tacit.data.images import Preprocessing, uniforms
from tacit.data.views import FIXMATCH, UDA, VIEWS, make_view, view_kind
from tacit.errors import UserError
from tacit.functional.align import align_maps, carried, inverted

HALF = Preprocessing((0.5, 0.5, 0.5), (0.5, 0.5, 0.5), 16)
RANDOM = [name for name in VIEWS if name != "plain"]
LAST = 1 - 2**-24  # the largest uniform number


def noise(rows: int, size: int = 32, cell: int = 4) -> Tensor:
    """uint8 [rows, 3, size, size], smooth at the scale of `cell` pixels."""
    coarse = torch.rand(rows, 3, size // cell, size // cell, generator=torch.Generator().manual_seed(0))
    return (torch.nn.functional.interpolate(coarse, size=size, mode="bicubic").clamp(0, 1) * 255).to(torch.uint8)


def drawn(name: str, rows: Tensor, epoch: int | Tensor = 0) -> Tensor:
    return uniforms(5, epoch, rows, 1, VIEWS[name].draws)


def test_plain_normalises_as_published():
    pixels = torch.randint(0, 256, (2, 3, 5, 6), dtype=torch.uint8)
    pre = Preprocessing()
    view = make_view("plain", pixels, torch.empty(2, 0), pre)
    wanted = (pixels.double() / 255 - torch.tensor(pre.mean).double()[:, None, None]) / torch.tensor(pre.std).double()[
        :, None, None
    ]
    torch.testing.assert_close(view.inputs.double(), wanted, rtol=0, atol=1e-6)
    assert view.geometry.tolist() == [[[1, 0, 0], [0, 1, 0]]] * 2


def test_weak_flips_the_lower_half_of_draws_and_says_so():
    pixels = torch.randint(0, 256, (3, 3, 4, 5), dtype=torch.uint8)
    plain = make_view("plain", pixels, torch.empty(3, 0), HALF).inputs
    view = make_view("weak", pixels, torch.tensor([[0.0], [0.49999], [0.5]]), HALF)
    assert torch.equal(view.inputs[:2], plain[:2].flip(-1))
    assert torch.equal(view.inputs[2], plain[2])
    assert view.geometry[:, 0, 0].tolist() == [-1, -1, 1]


def test_geometry_leads_from_the_image_to_the_view():
    pixels = torch.randint(0, 256, (4, 3, 6, 7), dtype=torch.uint8)
    view = make_view("weak", pixels, torch.tensor([[0.1], [0.9], [0.2], [0.7]]), HALF)
    plain = make_view("plain", pixels, torch.empty(4, 0), HALF).inputs
    grid = torch.nn.functional.affine_grid(view.geometry, list(plain.shape), align_corners=False)
    sampled = torch.nn.functional.grid_sample(view.inputs, grid, align_corners=False)
    torch.testing.assert_close(sampled, plain, rtol=0, atol=1e-4)  # reading the view where the image's points went


def test_views_take_a_type_and_a_layout():
    pixels = torch.randint(0, 256, (2, 3, 4, 4), dtype=torch.uint8)
    view = make_view("weak", pixels, torch.rand(2, 1), HALF, dtype=torch.bfloat16, channels_last=True)
    assert view.inputs.dtype == torch.bfloat16
    assert view.inputs.is_contiguous(memory_format=torch.channels_last)


def test_an_unknown_view_is_refused_with_the_list():
    with pytest.raises(UserError, match="plain, weak, crop, strong, strong_crop, uda"):
        make_view("wild", torch.zeros(1, 3, 2, 2, dtype=torch.uint8), torch.empty(1, 0), HALF)


def test_what_each_view_spends():
    """Changing these changes every run that trains on the view."""
    assert {name: kind.draws for name, kind in VIEWS.items()} == {
        "plain": 0,
        "weak": 1,
        "crop": 4,
        "strong": 7,
        "strong_crop": 10,
        "uda": 16,
    }


@pytest.mark.parametrize("name", RANDOM)
def test_a_view_of_an_image_does_not_depend_on_the_batch(name):
    pixels, rows = noise(24), torch.arange(24)
    before = pixels.clone()
    whole = make_view(name, pixels, drawn(name, rows), HALF)
    assert torch.equal(pixels, before)
    mixed = torch.randperm(24)
    for some in (mixed[:7], mixed[7:8], mixed[8:]):
        view = make_view(name, pixels[some], drawn(name, rows[some]), HALF)
        assert torch.equal(view.inputs, whole.inputs[some])
        assert torch.equal(view.geometry, whole.geometry[some])
    later = make_view(name, pixels, drawn(name, rows, epoch=1), HALF)
    assert not torch.equal(later.inputs, whole.inputs)


class TestCrop:
    def view(self, size: float, x: float, y: float, flip: float, pixels: Tensor):
        return make_view("crop", pixels, torch.tensor([[size, x, y, flip]]).expand(len(pixels), -1), HALF)

    def test_the_largest_square_is_the_image(self):
        pixels = noise(2)
        view = self.view(0.0, 0.7, 0.3, 0.9, pixels)
        assert torch.equal(view.inputs, make_view("plain", pixels, torch.empty(2, 0), HALF).inputs)
        assert view.geometry.tolist() == [[[1, 0, 0], [0, 1, 0]]] * 2

    def test_the_smallest_square_at_the_corners(self):
        pixels = noise(2, size=64)
        for x, y in ((0.0, 0.0), (LAST, 0.0), (LAST, LAST)):
            view = self.view(LAST, x, y, 0.9, pixels)
            part = pixels[:, :, 32 * (y > 0) :, 32 * (x > 0) :][:, :, :32, :32].float()
            wanted = torch.nn.functional.interpolate(part, size=64, mode="bilinear").round()
            found = view.inputs * 127.5 + 127.5
            assert (found - wanted)[..., 1:-1, 1:-1].abs().max() < 1e-3  # it reads beyond the square; a crop cannot
            assert view.geometry[0].tolist() == [[2, 0, -1.0 if x else 1.0], [0, 2, -1.0 if y else 1.0]]

    def test_sizes_and_places_are_the_published_ones(self):
        rows = torch.arange(4000)
        geometry = make_view("crop", torch.zeros(4000, 3, 2, 2, dtype=torch.uint8), drawn("crop", rows), HALF).geometry
        side = 512 / geometry[:, 1, 1]
        counts = torch.stack([(side - s).abs().lt(0.01).sum() for s in (512, 448, 384, 320, 256)])
        assert counts.sum() == 4000 and counts.min() > 700
        top = (inverted(geometry)[:, 1] @ torch.tensor([0.0, -1.0, 1.0]) + 1) * 256
        torch.testing.assert_close(top, top.round(), rtol=0, atol=1e-3)
        assert top.min() > -0.01 and (top + side).max() < 512.01
        assert (geometry[:, 0, 0] < 0).float().mean() == pytest.approx(0.5, abs=0.04)


class TestStrong:
    IDENTITY = ([name for name, _, _ in FIXMATCH.operations].index("identity") / 14 + 0.01, 0.5)

    def test_both_operations_and_a_grey_box(self):
        """Flip no; posterize to 4 bits; solarize from 128; a box in the middle."""
        names = [name for name, _, _ in FIXMATCH.operations]
        pick = [(names.index(name) + 0.5) / len(names) for name in ("posterize", "solarize")]
        pixels = noise(1)
        view = make_view("strong", pixels, torch.tensor([[0.9, pick[0], 0.0, pick[1], 0.5, 0.5, 0.5]]), HALF)
        coarse = pixels // 16 * 16
        wanted = torch.where(coarse < 128, coarse, 255 - coarse)
        wanted[..., 8:24, 8:24] = MIDDLE_GREY
        assert torch.equal((view.inputs * 127.5 + 127.5).round().to(torch.uint8), wanted)
        assert view.geometry[0].tolist() == [[1, 0, 0], [0, 1, 0]]

    def test_fixmatch_lists_fourteen(self):
        assert len(FIXMATCH.operations) == 14 and len({name for name, _, _ in FIXMATCH.operations}) == 14

    @pytest.mark.parametrize(("u", "bits"), [(0.0, 4), (0.199, 4), (0.2, 5), (LAST, 8)])
    def test_four_to_eight_bits_are_equally_likely(self, u: float, bits: int):
        pick = ([name for name, _, _ in FIXMATCH.operations].index("posterize") + 0.5) / 14
        levels = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16).expand(1, 3, 16, 16)
        made = FIXMATCH.transform(levels, torch.tensor([[pick, u, *self.IDENTITY]])).pixels
        assert len(made.unique()) == 2**bits


class TestUda:
    def test_the_grid_of_operations(self):
        """The published grids, np.linspace of ten values without the first."""
        table: dict[str, list[tuple[float, float]]] = {}
        for name, low, high in UDA.operations:
            table.setdefault(name, []).append((low, high))
        assert len(UDA.operations) == 135 and set(table) == set(CODES) - {"identity"}
        assert table["posterize"] == [(b, b) for b in (8, 7, 7, 6, 6, 5, 5, 4, 4)]
        assert table["cutout"] == [(s, s) for s in (2, 4, 7, 9, 11, 13, 16, 18, 20)]
        assert table["rotate"][0] == pytest.approx((30 / 9,) * 2) and table["rotate"][-1] == (30, 30)
        assert table["solarize"][-1] == (0, 0) and table["solarize"][0] == pytest.approx((256 * 8 / 9,) * 2)
        assert table["shear_x"][-1] == (-0.3, 0.3) and table["color"][-1] == pytest.approx((0.1, 1.9))
        assert table["translate_y"][-1] == pytest.approx((-150 / 331, 150 / 331))

    def draws(self, **changed: float) -> Tensor:
        """No flip, a box at the middle, no operation applied; unless changed."""
        order = ["flip", "x", "y", "red", "green", "blue", *(f"{n}{i}" for i in (1, 2) for n in ("op", "sign", "coin"))]
        order = [*order[:9], "x1", "y1", *order[9:], "x2", "y2"]
        values = dict.fromkeys(order, 0.5) | {"flip": 0.9} | changed
        return torch.tensor([[values[name] for name in order]])

    def test_the_box_includes_both_corners(self):
        pixels = noise(1, size=224)
        view = make_view("uda", pixels, self.draws(red=0.0, green=LAST), HALF)
        found = (view.inputs * 127.5 + 127.5).round().to(torch.uint8)
        box = torch.tensor([0, 255, 128], dtype=torch.uint8)[:, None, None]
        covered = (found == box).all(1)[0]
        assert covered.sum() == 113 * 113 and covered[56:169, 56:169].all()
        assert torch.equal(torch.where(covered, 0, found), torch.where(covered, 0, pixels))

    def test_a_coin_decides_each_operation(self):
        invert = ([name for name, _, _ in UDA.operations].index("invert") + 0.5) / 135
        pixels = noise(1)
        plain = make_view("uda", pixels, self.draws(), HALF).inputs
        for coins, times in (((0.49, 0.5), 1), ((0.5, 0.49), 1), ((0.1, 0.1), 2), ((0.5, 0.5), 0)):
            u = self.draws(op1=invert, op2=invert, coin1=coins[0], coin2=coins[1])
            torch.testing.assert_close(make_view("uda", pixels, u, HALF).inputs, plain * (-1) ** times)


def pattern(points: Tensor) -> Tensor:
    x, y = points.unbind(-1)
    return torch.stack([x, y, x * y], 1)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["weak", "crop", "strong_crop", "uda"]), st.sampled_from(RANDOM))
def test_maps_of_two_views_can_be_laid_over_each_other(row, first, second):
    """Maps that a perfect network would give: the image's own coordinates, read in each view's frame."""
    rows, pixels = torch.arange(row, row + 4), noise(4, size=16)
    a, b = (make_view(name, pixels, drawn(name, rows), HALF).geometry for name in (first, second))
    maps = [pattern(carried(inverted(geometry), (14, 14))) for geometry in (a, b)]
    aligned = align_maps(maps[0], a, b)
    apart = (aligned.maps - maps[1]).abs().amax(1)
    # At the frame's edge there is no neighbour to interpolate with: half a cell of the image, at most.
    assert apart[aligned.valid].numel() == 0 or apart[aligned.valid].max() < 0.35
    inner = torch.nn.functional.avg_pool2d(aligned.valid[:, None].float(), 5, 1, 2)[:, 0] == 1
    assert apart[inner].numel() == 0 or apart[inner].mean() < 0.02


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_nothing_visits_the_host(name, device):
    """Tensors without values: any `.item()` or value-dependent shape raises. On a CPU rows may be chosen."""
    if device == "cpu":
        if name not in ("plain", "weak", "crop"):
            pytest.skip("chooses rows on a CPU")
        make_view(name, noise(2), torch.zeros(2, VIEWS[name].draws), HALF)  # constants made beforehand
        with FakeTensorMode(allow_non_fake_inputs=True):
            rows, epoch = torch.zeros(2, dtype=torch.int64), torch.zeros((), dtype=torch.int64)
            view = make_view(name, torch.zeros(2, 3, 4, 4, dtype=torch.uint8), drawn(name, rows, epoch), HALF)
    else:
        pixels = torch.zeros(2, 3, 4, 4, dtype=torch.uint8, device="meta")
        view = make_view(name, pixels, torch.zeros(2, VIEWS[name].draws, device="meta"), HALF)
    assert view.inputs.shape == (2, 3, 4, 4) and view.geometry.shape == (2, 2, 3)


@pytest.mark.gpu
@pytest.mark.parametrize("name", RANDOM)
def test_on_a_gpu_the_same_pixels_and_a_graph(name):
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    rows, pixels = torch.arange(64), noise(64)
    rows_there, pixels_there, epoch = rows.cuda(), pixels.cuda(), torch.zeros((), dtype=torch.int64, device="cuda")

    def work() -> tuple[Tensor, Tensor]:
        view = make_view(name, pixels_there, drawn(name, rows_there, epoch), HALF)
        return view.inputs, view.geometry

    work()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        inputs, geometry = work()
    for number in (0, 3):
        epoch.fill_(number)
        graph.replay()
        wanted = make_view(name, pixels, drawn(name, rows, number), HALF)
        apart = (inputs.cpu() - wanted.inputs).abs() > 1e-6
        assert apart.float().mean() < (1e-6 if name == "weak" else 1e-3)  # a level where a rounding is close
        torch.testing.assert_close(geometry.cpu(), wanted.geometry, rtol=0, atol=1e-5)


def test_every_view_says_what_it_is():
    assert all(view_kind(name).describe for name in VIEWS)
