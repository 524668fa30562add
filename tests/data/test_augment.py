"""Every operation is PIL's, each image gets its own, and the geometry says where things went."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

from tacit.data.augment import CODES, OPERATIONS, Paint, cutout, one_of, operate
from tacit.functional.align import carried

WIDTH, HEIGHT = 61, 47
GREY = (128, 128, 128)


def picture(seed: int) -> np.ndarray:
    """Smooth noise over a part of the levels that depends on the seed; number 5 has one level only."""
    noise = np.random.default_rng(seed).integers(0, 256, (5, 6, 3), dtype=np.uint8)
    smooth = np.asarray(Image.fromarray(noise).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC))
    return np.full_like(smooth, 77) if seed == 5 else smooth // (1 + seed % 3) + np.uint8(seed)


PICTURES = [picture(seed) for seed in range(6)]
PIXELS = torch.from_numpy(np.stack(PICTURES)).permute(0, 3, 1, 2).contiguous()

Reference = Callable[[Image.Image, float], Image.Image]


def affine(matrix: Callable[[float, int, int], tuple[float, ...]], resample: int) -> Reference:
    def move(image: Image.Image, v: float) -> Image.Image:
        return image.transform(image.size, Image.Transform.AFFINE, matrix(v, *image.size), resample, fillcolor=GREY)

    return move


FACTORS, STEPS = (0.05, 0.5, 0.95, 1.3, 1.9, 0.1), (-0.29, -0.113, 0.0, 0.052, 0.207, 0.3)
NEAREST, BICUBIC = Image.Resampling.NEAREST, Image.Resampling.BICUBIC
LEVELS: dict[str, tuple[Reference, tuple[float, ...]]] = {
    "identity": (lambda image, v: image, (0,) * 6),
    "autocontrast": (lambda image, v: ImageOps.autocontrast(image), (0,) * 6),
    "equalize": (lambda image, v: ImageOps.equalize(image), (0,) * 6),
    "invert": (lambda image, v: ImageOps.invert(image), (0,) * 6),
    "posterize": (lambda image, v: ImageOps.posterize(image, int(v)), (4, 5, 6, 7, 8, 4)),
    "solarize": (lambda image, v: ImageOps.solarize(image, v), (0, 30.5, 100, 227.6, 256, 128)),
    "brightness": (lambda image, v: ImageEnhance.Brightness(image).enhance(v), FACTORS),
    "contrast": (lambda image, v: ImageEnhance.Contrast(image).enhance(v), FACTORS),
    "color": (lambda image, v: ImageEnhance.Color(image).enhance(v), FACTORS),
    "sharpness": (lambda image, v: ImageEnhance.Sharpness(image).enhance(v), FACTORS),
}
MOVES: dict[str, tuple[Reference, tuple[float, ...]]] = {
    "shear_x": (affine(lambda v, w, h: (1, v, 0, 0, 1, 0), NEAREST), STEPS),
    "shear_y": (affine(lambda v, w, h: (1, 0, 0, v, 1, 0), NEAREST), STEPS),
    "translate_x": (affine(lambda v, w, h: (1, 0, v * w, 0, 1, 0), NEAREST), STEPS),
    "translate_y": (affine(lambda v, w, h: (1, 0, 0, 0, 1, v * h), NEAREST), STEPS),
    "rotate": (lambda image, v: image.rotate(v, fillcolor=GREY), (-30, -3.3, 0, 10, 30, 21.7)),
}
SMOOTH: dict[str, tuple[Reference, tuple[float, ...]]] = {
    "shear_x": (affine(lambda v, w, h: (1, v, 0, 0, 1, 0), BICUBIC), STEPS),
    "shear_y": (affine(lambda v, w, h: (1, 0, 0, v, 1, 0), BICUBIC), STEPS),
}


def differences(name: str, reference: Reference, values: tuple[float, ...], paint: Paint) -> np.ndarray:
    made = operate(PIXELS, torch.full((6,), CODES[name]), torch.tensor(values), None, paint).pixels
    wanted = [np.asarray(reference(Image.fromarray(p), v)) for p, v in zip(PICTURES, values, strict=True)]
    return np.abs(made.permute(0, 2, 3, 1).numpy().astype(int) - np.stack(wanted))


@pytest.mark.parametrize("name", LEVELS)
def test_operations_on_levels_are_pils(name: str) -> None:
    assert differences(name, *LEVELS[name], Paint()).max() <= (0 if name in ("equalize", "posterize", "invert") else 1)


@pytest.mark.parametrize("name", MOVES)
def test_moves_are_pils_but_for_ties(name: str) -> None:
    """PIL steps in 16-bit fixed point: a point on the border of two pixels may fall to the other one."""
    assert (differences(name, *MOVES[name], Paint()) > 0).mean() < 2e-3


@pytest.mark.parametrize("name", SMOOTH)
def test_bicubic_shears_are_pils(name: str) -> None:
    assert differences(name, *SMOOTH[name], Paint(smooth_shear=True)).max() <= 1


def mixed() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Every operation once, each on another image."""
    values = {"posterize": 4.0, "solarize": 100.0, "rotate": 20.0, "cutout": 13.0}
    codes = torch.arange(len(OPERATIONS))
    value = torch.tensor([values.get(name, 0.25) for name in OPERATIONS])
    return PIXELS[1 + codes % 4], codes, value, torch.rand(len(codes), 2)


@pytest.mark.parametrize("smooth", [False, True])
def test_each_image_gets_its_own_operation_and_the_bits_it_would_get_alone(smooth: bool) -> None:
    pixels, codes, value, place = mixed()
    before = pixels.clone()
    whole = operate(pixels, codes, value, place, Paint(smooth_shear=smooth))
    assert torch.equal(pixels, before)
    for i in range(len(codes)):
        here = slice(i, i + 1)
        alone = operate(pixels[here], codes[here], value[here], place[here], Paint(smooth_shear=smooth))
        assert torch.equal(alone.pixels, whole.pixels[here]), OPERATIONS[i]
        assert torch.equal(alone.geometry, whole.geometry[here])
        assert torch.equal(alone.pixels, pixels[here]) == (OPERATIONS[i] == "identity")


def test_the_shape_that_a_gpu_works_in_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every operation on every image, and the one wanted of each kept: what runs where rows cannot be chosen."""

    def everywhere(chosen, work, out, *inputs):
        return torch.where(chosen.view(-1, *[1] * (out.ndim - 1)), work(*inputs), out)

    arguments = mixed()
    for paint in (Paint(), Paint(smooth_shear=True)):
        wanted = operate(*arguments, paint).pixels
        with monkeypatch.context() as patched:
            patched.setattr("tacit.data.augment._on", everywhere)
            assert torch.equal(operate(*arguments, paint).pixels, wanted)


@pytest.mark.parametrize("name", MOVES)
def test_the_geometry_leads_where_the_pixels_went(name: str) -> None:
    """A picture whose levels say its coordinates: what lies in the view at a point's image is the point itself."""
    size = 64
    ramp = torch.arange(size, dtype=torch.uint8) * 3
    pixels = torch.stack([ramp.expand(size, size), ramp[:, None].expand(size, size), torch.full((size, size), 7)])
    pixels = pixels.to(torch.uint8).expand(4, -1, -1, -1)
    value = torch.tensor([-29.0, -11, 4, 30] if name == "rotate" else [-0.3, -0.1, 0.05, 0.25])
    made = operate(pixels, torch.full((4,), CODES[name]), value, None, Paint())
    points = carried(made.geometry, (size, size))
    inside = (points.abs() < 1).all(-1)
    inside[:, [0, 1, -2, -1]] = inside[:, :, [0, 1, -2, -1]] = False  # the border's neighbours may be fill
    read = torch.nn.functional.grid_sample(made.pixels.float(), points, mode="nearest", align_corners=False)
    apart = (read - pixels.float())[:, :2].abs().amax(1)
    assert inside.float().mean() > 0.5
    assert apart[inside].max() <= 2 * 3  # two pixels: both readings take the nearest
    assert apart[inside].mean() < 3


def test_a_box_is_clipped_and_any_centre_is_as_likely() -> None:
    pixels = torch.zeros(3, 3, 10, 20, dtype=torch.uint8)
    place = torch.tensor([[0.0, 0.0], [0.5, 0.5], [1 - 2**-24, 1 - 2**-24]])
    before, after = torch.full((3,), 3), torch.full((3,), 4)
    colour = torch.tensor([[1, 2, 3]] * 3, dtype=torch.uint8)
    boxes = cutout(pixels, place, before, after, colour)
    assert (boxes[:, 0] > 0).sum((1, 2)).tolist() == [4 * 4, 7 * 7, 4 * 4]
    assert (boxes[1, 2, 2:9, 7:14] == 3).all()
    assert (boxes[2, 1, 6:, 16:] == 2).all()


@pytest.mark.parametrize("n", [1, 2, 3, 5, 14, 135, 257, 448, 513])
def test_the_last_uniform_is_the_last_choice(n: int) -> None:
    edge = torch.tensor([0.0, 1 - 2**-24])
    assert one_of(edge, n).tolist() == [0, n - 1]


@pytest.mark.parametrize("shape", [(1, 1), (2, 5), (3, 3)])
def test_images_of_a_few_pixels(shape: tuple[int, int]) -> None:
    pixels = torch.randint(0, 256, (len(OPERATIONS), 3, *shape), dtype=torch.uint8)
    _, codes, value, place = mixed()
    assert operate(pixels, codes, value, place, Paint()).pixels.shape == pixels.shape
