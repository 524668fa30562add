"""Thumbnails of test images: spread evenly, small, also for runs that never open an image."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from small_runs import TEST, linear, run, small_machine, table
from tacit.data.source import Split
from tacit.labels import Labels
from tacit.thumbnails import IMAGES, SIDE, thumbnails

__all__ = ["small_machine", "table"]
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def split_of(n: int, files: tuple[Path, ...] | None = None, pixels: np.ndarray | None = None) -> Split:
    labels = Labels.from_dense(np.ones((n, 1), np.int8), ("x",))
    return Split(tuple(f"{i}.png" for i in range(n)), labels, files, pixels)


def test_rows_are_spread_evenly_from_the_first_to_the_last() -> None:
    pixels = np.zeros((1000, 3, 4, 4), np.uint8)
    pixels[:, 0, 0, 0] = np.arange(1000) % 251
    index, small = thumbnails(split_of(1000, pixels=pixels))
    assert len(index) == IMAGES and (index[0], index[-1]) == (0, 999)
    assert set(np.diff(index).tolist()) <= {21, 22}
    np.testing.assert_array_equal(small, pixels[index])  # small images stay as they are


def test_large_embedded_images_are_shrunk() -> None:
    assert thumbnails(split_of(2, pixels=np.zeros((2, 3, 300, 300), np.uint8)))[1].shape == (2, 3, SIDE, SIDE)


def test_an_image_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    files = tuple(tmp_path / f"{i}.png" for i in range(3))
    Image.new("RGB", (200, 90), (255, 0, 0)).save(files[0])
    files[1].write_bytes(b"no image")
    index, pixels = thumbnails(split_of(3, files=files))
    assert index.tolist() == [0] and pixels.shape == (1, 3, SIDE, SIDE)
    assert pixels[0, :, 5, 5].tolist() == [255, 0, 0]


@pytest.mark.parametrize("files", [None, (Path("nowhere/0.png"), Path("nowhere/1.png"))])
def test_a_source_without_images_has_none(files: tuple[Path, ...] | None) -> None:
    index, pixels = thumbnails(split_of(2, files=files))
    assert len(index) == len(pixels) == 0


def test_a_run_on_features_keeps_thumbnails(table: Path, tmp_path: Path) -> None:
    run(linear(table, budget={"epochs": 1}), tmp_path / "r")
    with np.load(tmp_path / "r" / "examples-test.npz") as kept:
        assert kept["index"].tolist() == list(range(TEST)) and kept["pixels"].shape == (TEST, 3, SIDE, SIDE)


def test_a_run_on_features_without_the_images_does_without(table: Path, tmp_path: Path) -> None:
    for name in ("labels.csv", "features.npz"):
        (tmp_path / name).write_bytes((table.parent / name).read_bytes())
    here = linear(tmp_path / "labels.csv", budget={"epochs": 1}, source_options={"missing": "keep"})
    run(here, tmp_path / "r")
    assert not (tmp_path / "r" / "examples-test.npz").exists()
