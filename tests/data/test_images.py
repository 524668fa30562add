"""Reading images of every kind, randomness by address, and the store that holds a split's pixels."""

import io
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from tacit.data import decode
from tacit.data.checks import MAX_PIXELS
from tacit.data.images import ImageError, PixelStore, read_image, subseed, uniforms
from tacit.data.source import Split
from tacit.labels import Labels

pytestmark = pytest.mark.filterwarnings("ignore:The image decoding and encoding capabilities:DeprecationWarning")


def picture(width: int = 60, height: int = 40, seed: int = 0) -> Image.Image:
    noise = np.random.default_rng(seed).integers(0, 256, (8, 12, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC)


def split_of(files: list[Path]) -> Split:
    names = tuple(file.name for file in files)
    return Split(names, Labels.from_dense(np.ones((len(files), 1), np.int8), ["thing"]), files=tuple(files))


def as_pil(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(ImageOps.exif_transpose(image).convert("RGB")).transpose(2, 0, 1)


@pytest.fixture
def photos(tmp_path: Path) -> list[Path]:
    files = [tmp_path / f"{i}.png" for i in range(7)]
    for i, file in enumerate(files):
        picture(30 + i, 40 - i, seed=i).save(file)
    return files


TURNED = Image.Exif()
TURNED[0x0112] = 6  # a quarter turn


@pytest.fixture(params=["torchvision", "pil"])
def decoder(request, monkeypatch):
    """torchvision has announced the end of its decoder: both ways give the same pixels."""
    if request.param == "pil":
        monkeypatch.setattr(decode, "_torchvision_decoder", lambda: None)


@pytest.mark.usefixtures("decoder")
@pytest.mark.parametrize(
    ("suffix", "mode", "options"),
    [
        (".jpg", "RGB", {}),
        (".jpg", "RGB", {"progressive": True}),
        (".jpg", "RGB", {"exif": TURNED}),
        (".jpg", "L", {}),
        (".jpg", "CMYK", {}),
        (".png", "RGB", {}),
        (".png", "RGBA", {}),
        (".png", "LA", {}),
        (".png", "L", {}),
        (".png", "1", {}),
        (".png", "P", {}),
        (".png", "P", {"transparency": 3}),
        (".png", "RGB", {"exif": TURNED}),
        (".webp", "RGB", {}),
        (".webp", "RGBA", {"lossless": True}),
        (".webp", "RGB", {"exif": TURNED}),
        (".gif", "P", {}),
        (".bmp", "RGB", {}),
        (".tif", "RGB", {"compression": "tiff_lzw"}),
    ],
)
def test_every_format_and_mode_comes_out_as_pil_reads_it(tmp_path, suffix, mode, options):
    path = tmp_path / f"image{suffix}"
    picture().convert(mode).save(path, **options)
    image = read_image(path, None)
    assert image.dtype == torch.uint8
    assert image.shape == ((3, 60, 40) if "exif" in options else (3, 40, 60))
    np.testing.assert_array_equal(image.numpy(), as_pil(path))


def test_sixteen_bits_keep_their_upper_byte(tmp_path):
    grey = np.array([[0, 255, 256, 32768, 65535]], np.uint16)
    Image.fromarray(grey).save(tmp_path / "deep.png")
    image = read_image(tmp_path / "deep.png", None)
    assert image.tolist() == [[[0, 0, 1, 128, 255]]] * 3


@pytest.mark.parametrize("suffix", [".gif", ".webp", ".png"])
def test_of_a_moving_image_the_first_frame(tmp_path, suffix):
    frames = [Image.new("RGB", (20, 10), colour) for colour in ("red", "blue")]
    frames[0].save(
        tmp_path / f"m{suffix}",
        save_all=True,
        append_images=frames[1:],
        **({} if suffix != ".webp" else {"lossless": True}),
    )
    image = read_image(tmp_path / f"m{suffix}", None)
    assert image.shape == (3, 10, 20)
    assert image[:, 0, 0].tolist() == [255, 0, 0]


@pytest.mark.parametrize("size", [9, 40, 100])
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_resizing_is_within_one_level_of_pil(tmp_path, size, interpolation):
    path = tmp_path / "image.png"
    picture(67, 45).save(path)
    wanted = np.asarray(Image.open(path).resize((size, size), Image.Resampling[interpolation.upper()])).transpose(
        2, 0, 1
    )
    image = read_image(path, size, interpolation)
    assert image.shape == (3, size, size)
    assert image.is_contiguous()
    assert np.abs(image.numpy().astype(int) - wanted).max() <= 1


def png_header(width: int, height: int) -> bytes:
    chunk = b"IHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 2, 0, 0, 0])
    body = (13).to_bytes(4, "big") + chunk + zlib.crc32(chunk).to_bytes(4, "big")
    return b"\x89PNG\r\n\x1a\n" + body + b"\0\0\0\0IDAT" + zlib.crc32(b"IDAT").to_bytes(4, "big")


def encoded(kind: str) -> bytes:
    buffer = io.BytesIO()
    picture().save(buffer, kind)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "empty file"),
        (b"no picture at all", "not an image"),
        (encoded("JPEG")[:-200], "truncated"),
        (encoded("PNG")[:-200], "truncated"),
        (encoded("WEBP")[:-200], "truncated"),
        (encoded("BMP")[:-200], "truncated"),
        (png_header(10_001, 10_000), "megapixels"),
        (png_header(60_000, 60_000), "megapixels"),
    ],
)
def test_a_bad_file_is_named_with_what_is_wrong(tmp_path, content, complaint):
    path = tmp_path / "bad.jpg"
    path.write_bytes(content)
    with pytest.raises(ImageError, match=complaint) as caught:
        read_image(path, 16)
    assert "bad.jpg" in str(caught.value)
    assert "csrc" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ImageError, match=r"gone\.jpg"):
        read_image(tmp_path / "gone.jpg", 16)


def test_the_limit_is_a_hundred_megapixels():
    assert MAX_PIXELS == 100_000_000


# --- randomness by address


def splitmix64(state: int) -> int:
    """The published finaliser, in Python integers."""
    word = (1 << 64) - 1
    z = state & word
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & word
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & word
    return z ^ (z >> 31)


def by_hand(seed: int, epoch: int, row: int, view: int, draw: int) -> float:
    golden = 0x9E3779B97F4A7C15
    word = splitmix64(splitmix64(seed) + (view + 1) * golden)
    for part in (epoch, row, draw + 1):
        word = splitmix64(word + part * golden)
    return (word >> 40) / 2**24


def test_splitmix64_is_the_published_one():
    # First outputs of the reference program for seed 1234567 (Vigna, splitmix64.c).
    golden = 0x9E3779B97F4A7C15
    assert [splitmix64(1234567 + (i + 1) * golden) for i in range(2)] == [6457827717110365317, 3203168211198807973]


@settings(max_examples=50)
@given(
    seed=st.integers(0, 2**63),
    epoch=st.integers(0, 10**9),
    rows=st.lists(st.integers(0, 2**40), min_size=1, max_size=5),
    view=st.integers(0, 9),
)
def test_uniforms_are_those_of_the_formula(seed, epoch, rows, view):
    drawn = uniforms(seed, epoch, torch.tensor(rows), view, 3)
    assert drawn.dtype == torch.float32
    assert drawn.tolist() == [[by_hand(seed, epoch, row, view, draw) for draw in range(3)] for row in rows]


def test_uniforms_never_change():
    drawn = uniforms(0, 0, torch.tensor([0, 1]), 0, 2)
    assert (drawn * 2**24).long().tolist() == [[2942985, 7939244], [6141429, 4430124]]


def test_uniforms_do_not_depend_on_the_batch_or_on_how_the_epoch_is_given():
    rows = torch.arange(100)
    whole = uniforms(3, 7, rows, 1, 4)
    mixed = torch.randperm(100)
    assert torch.equal(uniforms(3, torch.tensor(7), rows[mixed[:13]], 1, 4), whole[mixed[:13]])
    assert torch.equal(uniforms(3, 7, rows, 1, 2), whole[:, :2])


def test_uniforms_are_uniform_and_addresses_independent():
    rows = torch.arange(20_000)
    drawn = [uniforms(s, e, rows, v, 2) for s, e, v in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]]
    columns = torch.cat(drawn, 1).double()
    assert columns.min() >= 0 and columns.max() < 1
    counts = torch.stack([torch.histc(c, 50, 0, 1) for c in columns.T])
    chi2 = ((counts - 400) ** 2 / 400).sum(1)
    assert chi2.max() < 49 + 5 * (2 * 49) ** 0.5
    later = torch.cat([columns[:-1], columns[1:]], 1)  # neighbouring rows, too
    correlation = torch.corrcoef(later.T) - torch.eye(16)
    assert correlation.abs().max() < 5 / 20_000**0.5


def test_a_subseed_is_a_seed_of_its_own():
    seeds = {subseed(0), subseed(0, 0), subseed(0, 1), subseed(1, 0), subseed(0, 0, 1), subseed(0, 1, 0)}
    assert len(seeds) == 6
    assert all(0 <= s < 2**64 for s in seeds)


# --- the store


def test_resident_on_demand_and_any_number_of_workers_give_the_same_bytes(photos):
    order = [np.array([6, 0, 3]), np.array([3]), np.array([1, 2, 4, 5])]
    wanted = [torch.stack([read_image(photos[i], 16) for i in rows]) for rows in order]
    resident = PixelStore(split_of(photos), 16)
    assert resident.tensor is not None
    stores = [resident, *(PixelStore(split_of(photos), 16, memory_limit_gb=0, workers=w) for w in (0, 1, 2))]
    for store in stores:
        assert len(store) == 7
        for got, expected in zip(store.loader(order), wanted, strict=True):
            assert torch.equal(got, expected)
        assert torch.equal(store.rows(order[0]), wanted[0])


def test_progress_counts_every_image(photos):
    seen: list[tuple[int, int]] = []
    PixelStore(split_of(photos), 8, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(i, 7) for i in range(1, 8)]


@pytest.mark.parametrize("workers", [None, 0, 2])
def test_unreadable_files_are_counted_and_all_named(photos, workers):
    for i in (2, 5):
        photos[i].write_bytes(b"rubbish")
    with pytest.raises(ImageError) as caught:
        store = PixelStore(
            split_of(photos), 16, **({} if workers is None else {"memory_limit_gb": 0, "workers": workers})
        )
        list(store.loader([np.arange(7)]))
    message = str(caught.value)
    assert message.startswith("2 of 7 images" if workers is None else "2 images")
    assert "2.png" in message and "5.png" in message and "Traceback" not in message
    assert len(caught.value.failures) == 2


def test_embedded_pixels_are_not_copied_unless_resized():
    pixels = np.random.default_rng(0).integers(0, 256, (300, 3, 8, 8), dtype=np.uint8)
    pixels.setflags(write=False)
    split = Split(tuple(map(str, range(300))), Labels.from_dense(np.ones((300, 1), np.int8), ["thing"]), pixels=pixels)
    store = PixelStore(split, 8)
    assert store.tensor.data_ptr() == pixels.__array_interface__["data"][0]
    assert PixelStore(split, 4).tensor.shape == (300, 3, 4, 4)


def test_a_split_without_images_points_to_features():
    split = Split(("a",), Labels.from_dense(np.ones((1, 1), np.int8), ["thing"]))
    with pytest.raises(ImageError, match="features"):
        PixelStore(split, 8)


def test_real_photographs(shared_data):
    files = sorted((shared_data / "VOCdevkit" / "VOC2012" / "JPEGImages").iterdir())[:4]
    store = PixelStore(split_of(files), 96)
    for row, file in enumerate(files):
        wanted = np.asarray(Image.open(file).resize((96, 96), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
        assert np.abs(store.tensor[row].numpy().astype(int) - wanted).max() <= 1
