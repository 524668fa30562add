"""The CUB reader on five made-up birds with all 312 attributes."""

from pathlib import Path

import numpy as np
import pytest

from tacit.data.cub import ATTRIBUTES, load
from tacit.data.source import SourceError

BIRDS = {1: "001.Gull/g_10.jpg", 2: "001.Gull/g_2.jpg", 3: "002.Wren/w_1.jpg", 4: "002.Wren/w_2.jpg"}
TRAIN = {1: 1, 2: 0, 3: 1, 4: 0}


def lines(present: np.ndarray, certainty: int = 3) -> list[str]:
    return [
        f"{bird} {attribute + 1} {int(present[row, attribute])} {certainty} 2.5"
        for row, bird in enumerate(BIRDS)
        for attribute in range(ATTRIBUTES)
    ]


@pytest.fixture
def present() -> np.ndarray:
    return np.random.default_rng(0).random((len(BIRDS), ATTRIBUTES)) < 0.1


@pytest.fixture
def cub(tmp_path: Path, present: np.ndarray) -> Path:
    folder = tmp_path / "CUB_200_2011"
    (folder / "attributes").mkdir(parents=True)
    (tmp_path / "attributes.txt").write_text("".join(f"{i} has_shape::kind_{i}\n" for i in range(1, ATTRIBUTES + 1)))
    (folder / "images.txt").write_text("".join(f"{i} {name}\n" for i, name in BIRDS.items()))
    (folder / "train_test_split.txt").write_text("".join(f"{i} {flag}\n" for i, flag in TRAIN.items()))
    (folder / "attributes" / "image_attribute_labels.txt").write_text("\n".join(lines(present)) + "\n")
    for name in BIRDS.values():
        (folder / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "images" / name).touch()
    return folder


def labels_file(cub: Path) -> Path:
    return cub / "attributes" / "image_attribute_labels.txt"


def test_rows_follow_images_txt_and_columns_attributes_txt(cub: Path, present: np.ndarray) -> None:
    source = load(cub, "")
    train, test = source.splits["train"], source.splits["test"]
    assert train.images == (BIRDS[1], BIRDS[3])
    assert test.images == (BIRDS[2], BIRDS[4])
    assert source.classes[:2] == ("has_shape::kind_1", "has_shape::kind_2")
    assert ((train.labels.dense() == 1) == present[[0, 2]]).all()
    assert (train.labels.dense() != 0).all()
    assert source.problems == ()


def test_every_folder_level_is_found(cub: Path) -> None:
    outer = cub.parent.parent / "CUB_200_2011"
    cub.parent.rename(outer)
    for root in (outer, outer / "CUB_200_2011", outer.parent):
        assert len(load(root, "").splits["train"]) == 2
    for place in ("attributes.txt", "attributes/attributes.txt"):
        (next(outer.rglob("attributes.txt"))).rename(outer / "CUB_200_2011" / place)
        assert len(load(outer, "").classes) == ATTRIBUTES


def test_surplus_fields_and_any_order_of_lines(cub: Path, present: np.ndarray) -> None:
    shuffled = [line + (" 0 0 1.5" if i % 97 == 0 else "") for i, line in enumerate(lines(present))]
    np.random.default_rng(1).shuffle(shuffled)
    labels_file(cub).write_text("\n".join(shuffled))
    assert ((load(cub, "").splits["test"].labels.dense() == 1) == present[[1, 3]]).all()


def test_not_visible_as_written_or_unknown(cub: Path, present: np.ndarray) -> None:
    written = lines(present)
    written[5] = f"1 6 {int(present[0, 5])} 1 0.5"
    labels_file(cub).write_text("\n".join(written))
    assert (load(cub, "").splits["train"].labels.dense() != 0).all()
    states = load(cub, "", not_visible="unknown").splits["train"].labels.dense()
    assert np.argwhere(states == 0).tolist() == [[0, 5]]


def test_cells_missing_repeated_and_contradicted_are_named(cub: Path, present: np.ndarray) -> None:
    written = lines(present)
    again, against = written[1], f"1 3 {int(not present[0, 2])} 3 1.0"
    labels_file(cub).write_text("\n".join([*written[1:], again, against, "77 1 1 3 1.0"]))
    source = load(cub, "")
    assert {p.what: p.where for p in source.problems} == {
        "cells without a label, unknown": ("image 1 attribute 1",),
        "cells labelled more than once": ("image 1 attribute 2", "image 1 attribute 3"),
        "cells labelled both present and absent, unknown": ("image 1 attribute 3",),
        "attribute labels of images that images.txt does not list, ignored": ("image 77",),
    }
    assert np.flatnonzero(source.splits["train"].labels.dense()[0] == 0).tolist() == [0, 2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("1 1 1\n", "expected '<image> <attribute>"),
        ("1 one 1 3 1\n", "expected '<image> <attribute>"),
        ("1 313 1 3 1\n", "entry 1: attribute 313, expected 1 to 312"),
        ("1 1 1 3 1\n1 1 2 3 1\n", "entry 2: presence 2, expected 0 to 1"),
    ],
)
def test_label_files_that_cannot_be_right(cub: Path, content: str, message: str) -> None:
    labels_file(cub).write_text(content)
    with pytest.raises(SourceError, match=message):
        load(cub, "")


def test_lists_that_contradict_each_other(cub: Path) -> None:
    split = cub / "train_test_split.txt"
    split.write_text("1 1\n2 0\n3 1\n")
    with pytest.raises(SourceError, match="differ in 1 images, as number 4"):
        load(cub, "")
    split.write_text("1 1\n2 0\n3 1\n3 0\n")
    with pytest.raises(SourceError, match="number 3 is listed twice"):
        load(cub, "")
    split.write_text("1 1\n2 1\n3 1\n4 1\n")
    with pytest.raises(SourceError, match="puts no image into 'test'"):
        load(cub, "")


def test_missing_files(cub: Path) -> None:
    (cub / "images" / BIRDS[3]).unlink()
    assert [p.where for p in load(cub, "").problems] == [(BIRDS[3],)]
    (cub.parent / "attributes.txt").unlink()
    with pytest.raises(SourceError, match=r"no attributes\.txt; looked for"):
        load(cub, "")
    with pytest.raises(SourceError, match=r"no images\.txt"):
        load(cub / "attributes", "")
