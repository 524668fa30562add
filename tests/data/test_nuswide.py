"""The NUS-WIDE reader on made-up files of both layouts."""

from pathlib import Path

import numpy as np
import pytest

from tacit.data.nuswide import CLASSES, load
from tacit.data.source import SourceError

TRAIN = {"actor/0001_1.jpg": ("sky", "water"), "bird/0002_2.jpg": (), "zoo/0003_3.jpg": ("zebra",)}
TEST = {"actor/0004_4.jpg": ("airport",)}


def truth(rows: dict[str, tuple[str, ...]]) -> np.ndarray:
    return np.array([[float(concept in shown) for concept in CLASSES] for shown in rows.values()])


def photos(folder: Path) -> None:
    for name in (*TRAIN, *TEST):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def arrays(folder: Path) -> Path:
    for part, rows in (("train", TRAIN), ("val", TEST)):
        np.save(folder / f"formatted_{part}_images.npy", np.array(list(rows)))
        np.save(folder / f"formatted_{part}_labels.npy", truth(rows))
    photos(folder / "Flickr")
    return folder


def texts(folder: Path) -> Path:
    labels = folder / "Groundtruth" / "TrainTestLabels"
    labels.mkdir(parents=True)
    (folder / "ImageList").mkdir()
    for part, rows in (("Train", TRAIN), ("Test", TEST)):
        (folder / "ImageList" / f"{part}Imagelist.txt").write_text(
            "".join(name.replace("/", "\\") + " \r\n" for name in rows)
        )
        for concept, column in zip(CLASSES, truth(rows).T, strict=True):
            (labels / f"Labels_{concept}_{part}.txt").write_text("".join(f"{int(x)}\r\n" for x in column))
    photos(folder)
    return folder


def test_there_are_81_concepts_in_alphabetical_order() -> None:
    assert len(CLASSES) == 81
    assert list(CLASSES) == sorted(CLASSES)


@pytest.mark.parametrize("layout", [arrays, texts])
def test_both_layouts_say_the_same(tmp_path: Path, layout) -> None:
    source = load(layout(tmp_path), "")
    train = source.splits["train"]
    assert train.images == tuple(TRAIN)
    assert source.splits["test"].images == tuple(TEST)
    assert ((train.labels.dense() == 1) == truth(TRAIN).astype(bool)).all()
    assert (train.labels.dense() != 0).all()
    assert [str(p) for p in source.problems] == [
        "train: images without any positive label, 33.3% of all (1): bird/0002_2.jpg"
    ]
    assert train.files is not None
    assert all(file.is_file() for file in train.files)


def test_photos_elsewhere(tmp_path: Path) -> None:
    arrays(tmp_path)
    (tmp_path / "Flickr").rename(tmp_path / "pictures")
    with pytest.raises(SourceError, match="none of the 3 images of split 'train' exists"):
        load(tmp_path, "")
    for images in (Path("pictures"), tmp_path / "pictures"):
        assert len(load(tmp_path, "", images=images).splits["train"]) == 3


def test_a_concept_list_sets_the_order_and_must_be_the_81(tmp_path: Path) -> None:
    texts(tmp_path)
    (tmp_path / "Concepts81.txt").write_text("\n".join(CLASSES[::-1]))
    source = load(tmp_path, "")
    assert source.classes == CLASSES[::-1]
    assert np.flatnonzero(source.splits["test"].labels.dense()[0] == 1).tolist() == [80]
    (tmp_path / "Concepts81.txt").write_text("\n".join([*CLASSES[:-1], "unicorn"]))
    with pytest.raises(SourceError, match="differs in unicorn, zebra"):
        load(tmp_path, "")


def test_pickled_arrays_are_refused_with_the_way_out(tmp_path: Path) -> None:
    arrays(tmp_path)
    np.save(tmp_path / "formatted_val_images.npy", np.array(list(TEST), object), allow_pickle=True)
    with pytest.raises(SourceError, match=r"pickled objects.*allow_pickle=True\)\.astype\(str\)"):
        load(tmp_path, "")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (truth(TRAIN)[:2], r"expected numbers of shape \(3, 81\)"),
        (truth(TRAIN)[:, :80], r"expected numbers of shape \(3, 81\)"),
        (truth(TRAIN) * 2 - 1, r"0 or 1, found -1\.0, 1\.0"),
        (truth(TRAIN) * np.nan, "0 or 1, found nan"),
    ],
)
def test_label_arrays_that_cannot_be_right(tmp_path: Path, labels: np.ndarray, message: str) -> None:
    arrays(tmp_path)
    np.save(tmp_path / "formatted_train_labels.npy", labels)
    with pytest.raises(SourceError, match=message):
        load(tmp_path, "")


def test_a_cut_array_file_is_named(tmp_path: Path) -> None:
    arrays(tmp_path)
    path = tmp_path / "formatted_val_labels.npy"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(SourceError, match=r"formatted_val_labels\.npy is no complete NumPy file"):
        load(tmp_path, "")


@pytest.mark.parametrize(
    ("content", "message"),
    [("1\n0\n", "has 2 labels for the 3 images"), ("1\n0\n2\n", "found '2'"), ("1\n01\n", "several digits")],
)
def test_label_texts_that_cannot_be_right(tmp_path: Path, content: str, message: str) -> None:
    texts(tmp_path)
    (tmp_path / "Groundtruth" / "TrainTestLabels" / "Labels_sky_Train.txt").write_text(content)
    with pytest.raises(SourceError, match=message):
        load(tmp_path, "")


def test_missing_and_unknown_concept_files(tmp_path: Path) -> None:
    texts(tmp_path)
    labels = tmp_path / "Groundtruth" / "TrainTestLabels"
    (labels / "Labels_unicorn_Train.txt").write_text("0\n0\n0\n")
    assert ("Labels_unicorn_Train.txt",) in [p.where for p in load(tmp_path, "").problems]
    (labels / "Labels_sun_Test.txt").unlink()
    with pytest.raises(SourceError, match=r"missing file .*Labels_sun_Test\.txt"):
        load(tmp_path, "")


def test_a_photo_listed_twice_is_kept_once(tmp_path: Path) -> None:
    arrays(tmp_path)
    np.save(tmp_path / "formatted_train_images.npy", np.array(["zoo/0003_3.jpg", "bird/0002_2.jpg", "zoo/0003_3.jpg"]))
    source = load(tmp_path, "")
    assert source.splits["train"].images == ("zoo/0003_3.jpg", "bird/0002_2.jpg")
    assert source.problems[0].where == ("zoo/0003_3.jpg",)
