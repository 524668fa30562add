"""The Open Images reader on a miniature in the published layouts: rows, classes, contradictions, and a run."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.data import label_rows
from tacit.data.label_rows import read_label_rows
from tacit.data.openimages import LAYOUT, load
from tacit.data.source import FilesIn, SourceError, load_source

HEADER = "ImageID,Source,LabelName,Confidence\n"
TRAIN = """\
00ff,verification,/m/cat,1
00ff,verification,/m/dog,0
0001,crowdsource-verification,/m/dog,1.0
0001,verification,/m/owl,0
00ff,verification,/m/emu,0
"""
TEST = "000a,verification,/m/cat,1\n000b,verification,/m/cat,0\n"
NAMES = '/m/cat,Cat\n/m/dog,"Dog, tame"\n/m/owl,Cat\n/m/emu,Emu\n'


def open_images(folder: Path, train: str = TRAIN, test: str = TEST, val: str | None = None) -> Path:
    for part, rows in (("train", train), ("validation", val), ("test", test)):
        if rows is None:
            continue
        (folder / f"{part}-annotations-human-imagelabels.csv").write_text(HEADER + rows)
        (folder / part).mkdir()
        for image in {row.split(",")[0] for row in rows.splitlines()}:
            (folder / part / f"{image}.jpg").touch()
    (folder / "classes-trainable.txt").write_text("/m/owl\n/m/cat\n/m/dog\n")
    (folder / "class-descriptions.csv").write_text(NAMES)
    return folder


def test_rows_come_in_the_order_of_the_file_and_columns_in_that_of_the_list(tmp_path: Path) -> None:
    source = load_source(f"openimages:{open_images(tmp_path)}")
    train, test = source.splits["train"], source.splits["test"]
    assert source.classes == ("Cat (/m/owl)", "Cat (/m/cat)", "Dog, tame")
    assert train.images == ("00ff.jpg", "0001.jpg")
    assert train.labels.is_sparse
    assert train.labels.dense().tolist() == [[0, 1, -1], [-1, 0, 1]]
    assert test.labels.dense().tolist() == [[0, 1, 0], [0, -1, 0]]
    assert train.files is not None
    assert list(train.files) == [tmp_path / "train" / "00ff.jpg", tmp_path / "train" / "0001.jpg"]
    assert {p.what: p.where for p in source.problems} == {
        "train: classes that are not listed, their labels left out": ("/m/emu (1 labels)",)
    }
    assert load(tmp_path, "", class_names="mid").classes == ("/m/owl", "/m/cat", "/m/dog")
    (tmp_path / "few.txt").write_text("/m/dog\n/m/new\n")
    few = load(tmp_path, "", classes=Path("few.txt"))
    assert few.classes == ("Dog, tame", "/m/new")
    assert "class-descriptions.csv: classes without a description, called by their number" in {
        p.what for p in few.problems
    }


def test_the_layout_of_the_third_release_and_its_validation_split(tmp_path: Path) -> None:
    open_images(tmp_path, val="0c,verification,/m/dog,0\n")
    assert set(load(tmp_path, "").splits) == {"train", "val", "test"}
    third = tmp_path / "2017_11"
    for part in ("train", "validation", "test"):
        (third / part).mkdir(parents=True)
        (tmp_path / f"{part}-annotations-human-imagelabels.csv").rename(third / part / "annotations-human.csv")
    for name in ("classes-trainable.txt", "class-descriptions.csv"):
        (tmp_path / name).rename(third / name)
    source = load(tmp_path, "")
    assert source.splits["val"].images == ("0c.jpg",)
    assert source.splits["val"].files is not None
    assert source.splits["val"].files[0] == tmp_path / "validation" / "0c.jpg"


def test_photos_elsewhere_missing_or_trusted(tmp_path: Path) -> None:
    open_images(tmp_path)
    (tmp_path / "train" / "00ff.jpg").unlink()
    source = load(tmp_path, "")
    assert source.splits["train"].images == ("0001.jpg",)
    problems = {p.what: p.where for p in source.problems}
    assert problems["train: images listed but missing, rows left out"] == ("00ff.jpg",)
    assert len(load(tmp_path, "", missing="keep").splits["train"]) == 2
    (tmp_path / "images").mkdir()
    for part in ("train", "test"):
        (tmp_path / part).rename(tmp_path / "images" / part)
    assert load(tmp_path, "").splits["train"].images == ("0001.jpg",)
    (tmp_path / "images").rename(tmp_path / "elsewhere")
    with pytest.raises(SourceError, match=r"none of the 2 images of split 'train' exists; .*00ff\.jpg"):
        load(tmp_path, "")
    assert load(tmp_path, "", images=Path("elsewhere")).splits["test"].images == ("000a.jpg", "000b.jpg")


def test_repeated_contradicted_and_unverified_labels_are_named(tmp_path: Path) -> None:
    train = TRAIN + (
        "0001,verification,/m/owl,0\n00ff,verification,/m/cat,0\n00ff,verification,/m/cat,0\n"
        "0002,machine,/m/cat,0.8\n0003,verification,/m/emu,1\n"
    )
    source = load(open_images(tmp_path, train), "")
    labels = source.splits["train"].labels
    assert labels.dense().tolist() == [[0, 0, -1], [-1, 0, 1]]
    assert {p.what: p.where for p in source.problems} == {
        "train: cells labelled both present and absent, unknown": ("00ff Cat (/m/cat)",),
        "train: images with a cell labelled more than once, alike": ("00ff", "0001"),
        "train: images without a verified label of a listed class, left out": ("0002", "0003"),
        "train: classes that are not listed, their labels left out": ("/m/emu (2 labels)",),
        "train: labels not verified by people, left out": ("machine (1 labels)",),
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no column ImageID, Source, LabelName, Confidence"),
        ("ImageID,LabelName,Confidence\n", "no column Source; expected"),
        (HEADER, "has a header and no labels"),
        (HEADER + "0001,verification,/m/cat\n", "cannot be read as CSV"),
        (HEADER + "0001,verification,/m/cat,yes\n", "cannot be read as CSV"),
        (HEADER + TRAIN + "0001,verification,/m/cat,0.7\n", "row 7: image 0001 has Confidence 0.7"),
        (HEADER + "0001,verification,/m/cat,\n", "Confidence nan"),
    ],
)
def test_label_files_that_cannot_be_right(tmp_path: Path, content: str, message: str) -> None:
    open_images(tmp_path)
    (tmp_path / "train-annotations-human-imagelabels.csv").write_text(content)
    with pytest.raises(SourceError, match=message):
        load(tmp_path, "")


def test_files_that_are_missing_or_of_two_releases(tmp_path: Path) -> None:
    open_images(tmp_path)
    (tmp_path / "oidv7-train-annotations-human-imagelabels.csv").write_text(HEADER + TRAIN)
    with pytest.raises(SourceError, match="both could be meant; keep the files of one release"):
        load(tmp_path, "")
    (tmp_path / "oidv7-train-annotations-human-imagelabels.csv").unlink()
    (tmp_path / "classes-trainable.txt").write_text("/m/cat\n/m/cat\n")
    with pytest.raises(SourceError, match="lists /m/cat twice"):
        load(tmp_path, "")
    (tmp_path / "classes-trainable.txt").unlink()
    with pytest.raises(SourceError, match=r"missing file .*classes-trainable\.txt") as caught:
        load(tmp_path, "")
    assert LAYOUT in str(caught.value)
    (tmp_path / "classes-trainable.txt").write_text("/m/cat\n")
    (tmp_path / "test-annotations-human-imagelabels.csv").unlink()
    with pytest.raises(SourceError, match=r"missing file .*test-annotations-human-imagelabels\.csv"):
        load(tmp_path, "")
    with pytest.raises(SourceError, match="no variants"):
        load(tmp_path, "4")


CELLS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4), st.booleans()), min_size=1, max_size=60)


@given(cells=CELLS)
def test_blocks_of_any_size_say_what_a_dictionary_says(
    cells: list[tuple[int, int, bool]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Class 4 is not listed. A block holds about three rows, so images and repeats reach across many of them."""
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    path.write_text(HEADER + "".join(f"image{i},verification,class{c},{int(on)}\n" for i, c, on in cells))
    said: dict[tuple[str, int], set[int]] = {}
    for image, column, present in cells:
        if column < 4:
            said.setdefault((f"image{image}", column), set()).add(1 if present else -1)
    block, label_rows.BLOCK = label_rows.BLOCK, 100
    try:
        rows = read_label_rows(path, [f"class{c}" for c in range(4)]) if said else None
    finally:
        label_rows.BLOCK = block
    if rows is None:
        return
    images = rows.images.to_pylist()
    assert images == list(dict.fromkeys(f"image{i}" for i, c, _ in cells if any(k[0] == f"image{i}" for k in said)))
    owner = np.repeat(np.arange(len(images)), np.diff(rows.starts))
    read = {(images[i], c): s for i, c, s in zip(owner, rows.columns.tolist(), rows.states.tolist(), strict=True)}
    assert read == {cell: min(states) for cell, states in said.items() if len(states) == 1}
    clash = {(images[i], c) for i, c in zip(rows.clash_rows, rows.clash_columns, strict=True)}
    assert clash == {cell for cell, states in said.items() if len(states) == 2}


def test_files_in_a_folder_are_paths_when_asked_for() -> None:
    files = FilesIn(Path("photos"), ("a.jpg", "b.jpg", "c.jpg"))
    assert list(files.take(np.array([2, 0]))) == [Path("photos/c.jpg"), Path("photos/a.jpg")]
    assert (len(files), files[1]) == (3, Path("photos/b.jpg"))
    assert list(files[1:]) == [Path("photos/b.jpg"), Path("photos/c.jpg")]


def test_a_run_and_its_evaluation_on_a_miniature(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Features stand in for photos; unknown test labels are masked, and groups of classes have a mean of their own."""
    from tacit.cli import main

    generator = np.random.default_rng(0)
    width, classes = 8, [f"/m/{c}" for c in range(4)]
    weights = generator.standard_normal((width, 4))
    images, features = [], []
    for part, count in (("train", 60), ("test", 40)):
        lines = []
        for i in range(count):
            row = generator.standard_normal(width)
            images.append(f"{part}{i}")
            features.append(row)
            chosen, states = generator.permutation(4)[: 1 + i % 3], row @ weights > 0
            lines += [f"{part}{i},verification,{classes[c]},{int(states[c])}\n" for c in chosen]
        (tmp_path / f"{part}-annotations-human-imagelabels.csv").write_text(HEADER + "".join(lines))
    (tmp_path / "classes-trainable.txt").write_text("\n".join(classes))
    np.savez(tmp_path / "features.npz", image=np.array(images), features=np.array(features, np.float16))
    words = [
        "train",
        f"openimages:{tmp_path}",
        "--missing",
        "keep",
        "--method",
        "bce",
        "--unknown",
        "ignore",
        "--observe",
        "full",
    ]
    words += ["--features", str(tmp_path / "features.npz"), "--epochs", "5", "--lr", "0.05", "--device", "cpu"]
    assert main([*words, "--out", str(tmp_path / "run"), "--quiet"]) == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["counts"]["test"]["images"] == 40
    assert result["metrics"]["test"]["mAP"] > 0.8
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "run"), "--groups", "2", "--bootstrap", "0", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["metrics"]["mAP"] == pytest.approx(result["metrics"]["test"]["mAP"])
    known = result["counts"]["train"]
    often = np.add(known["observed_present"], known["observed_absent"])
    order = np.argsort(often, kind="stable")
    each = np.array([told["per_class"][result["classes"][c]]["AP"] for c in order])
    assert [group["name"] for group in told["groups"]] == ["G1", "G2"]
    assert [group["mAP"] for group in told["groups"]] == pytest.approx([each[:2].mean(), each[2:].mean()])
    assert sum(known["observed_present"]) + sum(known["observed_absent"]) < 4 * result["counts"]["train"]["images"]
