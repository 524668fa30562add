"""A person's own table and photos: splits, and the mistakes people make."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tacit.data.source import Source, SourceError, load_source
from tacit.data.table import load
from tacit.errors import UserError

ROWS = [(f"p{i}.jpg", "cat" if i % 2 else "dog|cat") for i in range(10)]


def photo(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(path)


def collection(folder: Path, rows: list[tuple[str, ...]] = ROWS, header: str = "image,present") -> Path:
    """A table with the photos it names beside it."""
    for row in rows:
        photo(folder / row[0])
    return write(folder, rows, header)


def write(folder: Path, rows: list[tuple[str, ...]], header: str = "image,present") -> Path:
    path = folder / "labels.csv"
    path.write_text("\n".join([header, *(",".join(row) for row in rows)]) + "\n")
    return path


def read(path: Path, **options: Any) -> Source:
    return load(path, "", **({"silence": "unknown"} | options))


def test_labels_follow_their_images(tmp_path: Path) -> None:
    source = load_source(str(collection(tmp_path)), silence="absent")
    assert source.classes == ("cat", "dog")
    assert source.name == "labels"
    assert source.problems == ()
    for split in source.splits.values():
        dogs = [int(Path(image).stem[1:]) % 2 == 0 for image in split.images]
        assert split.labels.dense().tolist() == [[1, 1 if dog else -1] for dog in dogs]
        assert split.files == tuple(tmp_path / image for image in split.images)


def test_silence_may_mean_unknown(tmp_path: Path) -> None:
    train = read(collection(tmp_path)).splits["train"]
    assert set(train.labels.dense().ravel().tolist()) == {0, 1}
    with pytest.raises(UserError, match="silence"):
        load(tmp_path / "labels.csv", "")


def test_the_drawn_test_split_depends_on_names_only(tmp_path: Path) -> None:
    collection(tmp_path)
    source = read(tmp_path / "labels.csv")
    train, test = (set(source.splits[name].images) for name in ("train", "test"))
    assert (len(train), len(test)) == (8, 2)
    assert train | test == {name for name, _ in ROWS}
    again = read(write(tmp_path, ROWS[::-1]))
    assert set(again.splits["test"].images) == test
    assert "drawn: 2 of 10 images" in source.notes["test split"]
    assert any(set(read(tmp_path / "labels.csv", split_seed=s).splits["test"].images) != test for s in range(1, 4))


def test_a_grown_collection_keeps_nearly_all_its_test_images(tmp_path: Path) -> None:
    rows = [(f"n{i}.jpg", "cat") for i in range(400)]
    before = read(write(tmp_path, rows[:300]), missing="keep", check="none").splits["test"].images
    after = read(write(tmp_path, rows), missing="keep", check="none").splits
    moved = set(before) & set(after["train"].images)
    assert len(before) == 60
    assert len(moved) <= 10


def test_the_split_column_is_obeyed(tmp_path: Path) -> None:
    names = ("train", "Val", "test", "train")
    rows = [(f"p{i}.jpg", name, "cat") for i, name in enumerate(names)]
    source = read(collection(tmp_path, rows, "image,split,present"))
    assert {name: split.images for name, split in source.splits.items()} == {
        "train": ("p0.jpg", "p3.jpg"),
        "val": ("p1.jpg",),
        "test": ("p2.jpg",),
    }
    with pytest.raises(SourceError, match=r"1 rows belong to no known split; .*'p1.jpg' with 'holdout'"):
        read(write(tmp_path, [rows[0], ("p1.jpg", "holdout", "cat")], "image,split,present"))
    with pytest.raises(SourceError, match="no row belongs to split 'train'"):
        read(write(tmp_path, [rows[2]], "image,split,present"))


def test_without_a_test_split_one_is_drawn_from_train_only(tmp_path: Path) -> None:
    rows = [(f"p{i}.jpg", "val" if i < 4 else "train", "cat") for i in range(10)]
    source = read(collection(tmp_path, rows, "image,split,present"), test_share=0.5)
    assert source.splits["val"].images == tuple(f"p{i}.jpg" for i in range(4))
    assert len(source.splits["test"]) == 3
    assert "val" in source.splits
    assert "drawn: 3 of 6" in source.notes["test split"]


def test_a_declared_test_split_is_never_redrawn(tmp_path: Path) -> None:
    rows = [(f"p{i}.jpg", "test" if i == 0 else "train", "cat") for i in range(5)]
    path = collection(tmp_path, rows, "image,split,present")
    (tmp_path / "p0.jpg").unlink()
    with pytest.raises(SourceError, match="no image of split 'test' exists"):
        read(path)


def test_images_may_lie_in_another_folder(tmp_path: Path) -> None:
    path = write(tmp_path, ROWS)
    for name, _ in ROWS:
        photo(tmp_path / "photos" / name)
    assert sum(len(split) for split in read(path, images=tmp_path / "photos").splits.values()) == 10
    with pytest.raises(SourceError, match=r"none of the 10 images.*There is .*photos.*p\d.jpg: names are paths"):
        read(path)
    with pytest.raises(SourceError, match=r"image folder .*elsewhere does not exist"):
        read(path, images=tmp_path / "elsewhere")


def test_a_folder_without_images_and_names_without_suffix(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no images in"):
        read(write(tmp_path, ROWS))
    collection(tmp_path)
    with pytest.raises(SourceError, match=r"write names with their suffix, as in p0\.jpg"):
        read(write(tmp_path, [("p0", "cat"), ("p1", "cat")]))
    with pytest.raises(SourceError, match="has other images"):
        read(write(tmp_path, [("q0.jpg", "cat"), ("q1.jpg", "cat")]))


def test_missing_damaged_and_unmentioned_images_are_listed(tmp_path: Path) -> None:
    path = collection(tmp_path)
    photo(tmp_path / "new.png")
    (tmp_path / "p1.jpg").unlink()
    (tmp_path / "p2.jpg").write_bytes((tmp_path / "p2.jpg").read_bytes()[:100])
    source = read(path)
    said = {p.what.split(": ")[-1]: p.where for p in source.problems}
    assert said == {
        "images without a row in labels.csv, not used": ("new.png",),
        "images listed but missing, rows left out": ("p1.jpg",),
        "truncated or damaged images, rows left out": ("p2.jpg",),
    }
    assert sum(len(split) for split in source.splits.values()) == 8
    with pytest.raises(SourceError, match=r"p1\.jpg.*--missing drop"):
        read(path, missing="error")


def test_one_photo_under_two_names_counts_once(tmp_path: Path) -> None:
    path = collection(tmp_path, [*ROWS, ("./p3.jpg", "dog")])
    source = read(path)
    assert sum(len(split) for split in source.splits.values()) == 10
    assert "listed more than once" in source.problems[0].what


def test_a_class_list_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "classes.txt").write_text("cow\ndog\ncat\n\n")
    source = read(collection(tmp_path), classes=tmp_path / "classes.txt")
    assert source.classes == ("cow", "dog", "cat")
    (tmp_path / "classes.txt").write_text("cow\ndog\n")
    with pytest.raises(UserError, match="cat"):
        read(tmp_path / "labels.csv", classes=tmp_path / "classes.txt")


@pytest.mark.parametrize("share", [0.0, 1.0, -1.0, 20.0])
def test_test_shares_outside_0_to_1(tmp_path: Path, share: float) -> None:
    with pytest.raises(SourceError, match="between 0 and 1"):
        read(collection(tmp_path), test_share=share)


def test_what_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"give the path of a \.csv or .parquet file"):
        load(tmp_path, "")
    with pytest.raises(SourceError, match="there is no"):
        load(tmp_path / "gone.csv", "")
    with pytest.raises(UserError, match=r"labels\.csv"):
        read(write(tmp_path, []))
    with pytest.raises(SourceError, match="one image"):
        read(collection(tmp_path, ROWS[:1]))


def test_a_link_that_leads_back_to_itself_is_a_missing_image(tmp_path: Path) -> None:
    path = collection(tmp_path)
    (tmp_path / "p3.jpg").unlink()
    (tmp_path / "p3.jpg").symlink_to("p3.jpg")
    (problem,) = read(path).problems
    assert problem.where == ("p3.jpg",)
