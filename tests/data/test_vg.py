"""The Visual Genome reader on made-up lists in the published layout."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.data.source import SourceError, load_source
from tacit.data.vg import LAYOUT, load

SHOWN = {"9.jpg": [3, 199, 3], "10.jpg": [], "2.jpg": [0], "7.jpg": [3]}


def genome(folder: Path, shown: Any = SHOWN, variant: str = "200") -> Path:
    (folder / "train_list_500.txt").write_text("9.jpg\n10.jpg\n2.jpg\n")
    (folder / "test_list_500.txt").write_text("7.jpg\n")
    (folder / f"vg_category_{variant}_labels_index.json").write_text(json.dumps(shown))
    for place, names in (("VG_100K", ("9.jpg", "7.jpg")), ("VG_100K_2", ("10.jpg", "2.jpg"))):
        (folder / place).mkdir(exist_ok=True)
        for name in names:
            (folder / place / name).touch()
    return folder


def test_rows_follow_the_lists_and_photos_come_from_both_archives(tmp_path: Path) -> None:
    source = load_source(f"vg200:{genome(tmp_path)}")
    train, test = source.splits["train"], source.splits["test"]
    assert train.images == ("9.jpg", "10.jpg", "2.jpg")
    assert test.images == ("7.jpg",)
    states = train.labels.dense()
    assert states.shape == (3, 200)
    assert np.argwhere(states == 1).tolist() == [[0, 3], [0, 199], [2, 0]]
    assert (states != 0).all()
    assert source.classes[:2] == ("category 000", "category 001")
    assert train.files == tuple(tmp_path / place for place in ("VG_100K/9.jpg", "VG_100K_2/10.jpg", "VG_100K_2/2.jpg"))
    assert [p.where for p in source.problems] == [("10.jpg",)]
    assert "82,904 train, 10,000 test" in source.notes["sizes"]
    assert source.notes["found"] == "3 train, 1 test"


def test_archives_merged_and_lists_in_a_folder_of_their_own(tmp_path: Path) -> None:
    genome(tmp_path)
    (tmp_path / "vg").mkdir()
    for file in (*tmp_path.glob("*.txt"), *tmp_path.glob("*.json")):
        file.rename(tmp_path / "vg" / file.name)
    for photo in (tmp_path / "VG_100K_2").iterdir():
        photo.rename(tmp_path / "VG_100K" / photo.name)
    files = load(tmp_path, "200").splits["train"].files
    assert files is not None
    assert {file.parent.name for file in files} == {"VG_100K"}
    (tmp_path / "VG_100K").rename(tmp_path / "photos")
    files = load(tmp_path, "200", images=Path("photos")).splits["train"].files
    assert files is not None
    assert {file.parent.name for file in files} == {"photos"}
    with pytest.raises(SourceError, match="there is no folder nowhere"):
        load(tmp_path, "200", images=Path("nowhere"))


def test_five_hundred_categories_and_their_names(tmp_path: Path) -> None:
    genome(tmp_path, variant="500")
    assert load(tmp_path, "500").splits["train"].labels.shape == (3, 500)
    names = tmp_path / "names.txt"
    names.write_text("".join(f"name {i}\n" for i in range(500)))
    assert load(tmp_path, "500", class_names=names).classes[499] == "name 499"
    names.write_text("tree\n")
    with pytest.raises(SourceError, match="1 names, 1 of them different; expected 500"):
        load(tmp_path, "500", class_names=names)


def test_what_is_missing_or_repeated_is_named(tmp_path: Path) -> None:
    genome(tmp_path, {"9.jpg": [1], "2.jpg": [2], "7.jpg": [1]})
    (tmp_path / "VG_100K" / "9.jpg").unlink()
    listed = tmp_path / "train_list_500.txt"
    listed.write_text(listed.read_text() + "2.jpg\n")
    source = load(tmp_path, "200")
    assert {p.what: p.where for p in source.problems} == {
        "train_list_500.txt: images listed more than once (first row kept)": ("2.jpg",),
        "train_list_500.txt: images without an entry in the label file, rows left out": ("10.jpg",),
        "train: images listed but missing, rows left out": ("9.jpg",),
    }
    assert source.splits["train"].images == ("2.jpg",)


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        ([1, 2], "expected an object of image names"),
        ({}, "expected an object of image names"),
        ({"9.jpg": [200]}, r"image 9\.jpg has \[200\]; expected a list of numbers from 0 to 199"),
        ({"9.jpg": [-1]}, "numbers from 0 to 199"),
        ({"9.jpg": ["tree"]}, "numbers from 0 to 199"),
        ({"9.jpg": 3}, "numbers from 0 to 199"),
        ({"8.jpg": [3]}, "none of its 3 images has an entry"),
    ],
)
def test_label_files_that_cannot_be_right(tmp_path: Path, shown: Any, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        load(genome(tmp_path, shown), "200")


def test_wrong_places_get_the_layout(tmp_path: Path) -> None:
    for root, variant in ((tmp_path, "200"), (tmp_path / "nowhere", "200"), (None, "200")):
        with pytest.raises(SourceError) as caught:
            load(root, variant)
        assert LAYOUT in str(caught.value)
    with pytest.raises(SourceError, match="vg200 or vg500"):
        load(genome(tmp_path), "")
    (tmp_path / "vg_category_200_labels_index.json").write_text("{")
    with pytest.raises(SourceError, match="cannot be read as JSON"):
        load(tmp_path, "200")
    (tmp_path / "vg_category_200_labels_index.json").unlink()
    with pytest.raises(SourceError, match=r"missing file .*vg_category_200_labels_index\.json"):
        load(tmp_path, "200")
