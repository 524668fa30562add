"""Missing, repeated, shared and unreadable images are found, named and counted."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tacit.data.checks import check_images, first_rows, on_disk, settle, without_positive
from tacit.data.source import Source, SourceError, Split
from tacit.labels import Labels


def photo(path: Path, size: tuple[int, int] = (32, 24)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8)
    Image.fromarray(noise).save(path)
    return path


def split_of(*files: Path) -> Split:
    return Split(tuple(f.name for f in files), Labels.from_dense(np.ones((len(files), 1)), ["a"]), tuple(files))


def huge_png(path: Path, width: int, height: int) -> Path:
    """A PNG that promises width x height pixels and ends where they would begin."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk + struct.pack(">I", 999) + b"IDAT")
    return path


def cut(path: Path, keep: float) -> Path:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])
    return path


def test_check_images_sorts_files_by_what_is_wrong(tmp_path: Path) -> None:
    fine = [photo(tmp_path / name) for name in ("a.jpg", "b.png", "c.bmp", "d.webp")]
    (tmp_path / "page.jpg").write_text("<html>moved</html>")
    (tmp_path / "empty.jpg").write_bytes(b"")
    bad = [
        cut(photo(tmp_path / "cut.jpg"), 0.6),
        cut(photo(tmp_path / "cut.png"), 0.6),
        tmp_path / "page.jpg",
        tmp_path / "empty.jpg",
        huge_png(tmp_path / "large.png", 10_001, 10_000),
        huge_png(tmp_path / "larger.png", 20_000, 20_000),
        tmp_path / "gone.jpg",
    ]
    found = {p.what: p.where for p in check_images(split_of(*fine, *bad))}
    assert found == {
        "truncated or damaged images": ("cut.jpg", "cut.png"),
        "files that are not an image": ("page.jpg", "empty.jpg"),
        "images larger than 100 megapixels": ("large.png", "larger.png"),
        "image files that cannot be opened": ("gone.jpg",),
    }


def test_exactly_100_megapixels_are_not_too_large(tmp_path: Path) -> None:
    (found,) = check_images(split_of(huge_png(tmp_path / "limit.png", 10_000, 10_000)))
    assert found.what == "truncated or damaged images"


def test_bytes_that_a_camera_appended_do_not_condemn_a_photo(tmp_path: Path) -> None:
    path = photo(tmp_path / "phone.jpg")
    path.write_bytes(path.read_bytes() + b"maker's data" * 50)
    assert check_images(split_of(path)) == []


def test_only_the_full_check_sees_damage_in_the_middle(tmp_path: Path) -> None:
    path = photo(tmp_path / "hole.png", (64, 64))
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 200] = bytes(200)
    path.write_bytes(bytes(content))
    assert check_images(split_of(path)) == []
    assert [p.where for p in check_images(split_of(path), full=True)] == [("hole.png",)]


def test_progress_counts_every_image(tmp_path: Path) -> None:
    files = [photo(tmp_path / f"{i}.jpg") for i in range(5)]
    calls: list[tuple[int, int]] = []
    check_images(split_of(*files), progress=lambda done, total: calls.append((done, total)))
    assert calls == [(i, 5) for i in range(1, 6)]


def test_settle_drops_missing_and_unreadable_rows_and_says_so(tmp_path: Path) -> None:
    files = [photo(tmp_path / "a.jpg"), tmp_path / "gone.jpg", cut(photo(tmp_path / "cut.jpg"), 0.5)]
    source = Source("toy", ("a",), {"train": split_of(*files)})
    settled = settle(source, check="quick")
    assert settled.splits["train"].images == ("a.jpg",)
    assert [(p.what, p.where) for p in settled.problems] == [
        ("train: images listed but missing, rows left out", ("gone.jpg",)),
        ("train: truncated or damaged images, rows left out", ("cut.jpg",)),
    ]
    assert len(settle(source, missing="keep").splits["train"]) == 3
    assert settle(source, missing="keep", check="quick").splits["train"].images == ("a.jpg", "gone.jpg")
    with pytest.raises(SourceError, match=r"listed but missing.*\(1\): gone.jpg.*--missing drop"):
        settle(source, missing="error")


def test_settle_stops_where_a_split_would_be_empty(tmp_path: Path) -> None:
    gone = Source("toy", ("a",), {"train": split_of(tmp_path / "x.jpg", tmp_path / "y.jpg")})
    with pytest.raises(SourceError, match=r"none of the 2 images of split 'train' exists; the first.*x\.jpg"):
        settle(gone)
    broken = Source("toy", ("a",), {"train": split_of(cut(photo(tmp_path / "cut.jpg"), 0.5))})
    with pytest.raises(SourceError, match=r"no image of split 'train' can be read.*cut\.jpg"):
        settle(broken, check="full")


def test_an_image_in_train_and_test_is_named(tmp_path: Path) -> None:
    a, b = photo(tmp_path / "a.jpg"), photo(tmp_path / "b.jpg")
    other = photo(tmp_path / "elsewhere" / "a.jpg")
    leak = settle(Source("toy", ("a",), {"train": split_of(a, b), "test": split_of(b, other)}))
    assert [(p.what, p.where) for p in leak.problems] == [("images in both train and test", ("b.jpg",))]


def test_on_disk_lists_folders_and_ignores_folders_named_like_images(tmp_path: Path) -> None:
    there = photo(tmp_path / "sub" / "a.jpg")
    (tmp_path / "b.jpg").mkdir()
    asked = [there, tmp_path / "b.jpg", tmp_path / "sub" / "c.jpg", tmp_path / "nowhere" / "a.jpg"]
    assert on_disk(asked).tolist() == [True, False, False, False]


def test_first_rows_and_rows_without_positive() -> None:
    rows, problems = first_rows(["x", "y", "x", "x"], "list")
    assert rows.tolist() == [0, 1]
    assert [p.where for p in problems] == [("x", "x")]
    (empty,) = without_positive("train", ["p", "q"], np.array([[1, -1], [-1, 0]], np.int8))
    assert (empty.what, empty.where) == ("train: images without any positive label, 50.0% of all", ("q",))
