"""The COCO reader: published row and column order by hand, and the real mini set where it is."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.data.coco import load
from tacit.data.source import SourceError, load_source
from tacit.observations import parse_observation

CATEGORIES = [{"id": 7, "name": "train"}, {"id": 1, "name": "person"}, {"id": 90, "name": "toothbrush"}]


def note(image: int, category: int, area: float | None = None, **more: Any) -> dict[str, Any]:
    known = {} if area is None else {"area": area}
    outline = {"counts": "Pl[0\\\\]1e", "size": [2, 2]} if more.get("iscrowd") else [[1.5, 2, 3e0], []]
    return {"segmentation": outline, "image_id": image, "category_id": category, "bbox": [0, 0, 4, 5], **known, **more}


NOTES = [
    note(9, 1, 10.0), note(9, 1, 30.0), note(9, 7, 5.0), note(100012, 90), note(25, 1, 2.0, iscrowd=1),
]  # fmt: skip


def instances(path: Path, images: list[int], notes: list[dict[str, Any]], categories: Any = CATEGORIES) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    entries = [{"id": i, "file_name": f"{i:012d}.jpg"} for i in images]
    path.write_text(json.dumps({"images": entries, "annotations": notes, "categories": categories}))
    return path


def coco(folder: Path, year: str = "2017") -> Path:
    for part, images in (("train", [9, 3, 25, 100012]), ("val", [42])):
        notes = NOTES if part == "train" else [note(42, 7)]
        instances(folder / "annotations" / f"instances_{part}{year}.json", images, notes)
        (folder / f"{part}{year}").mkdir()
        for image in images:
            (folder / f"{part}{year}" / f"{image:012d}.jpg").touch()
    return folder


def test_rows_follow_the_decimal_string_of_the_id(tmp_path: Path) -> None:
    source = load(coco(tmp_path), "2017")
    train = source.splits["train"]
    assert [int(name[:-4]) for name in train.images] == [100012, 25, 9]
    assert source.classes == ("train", "person", "toothbrush")
    assert train.labels.dense().tolist() == [[-1, -1, 1], [-1, 1, -1], [1, 1, -1]]
    assert train.areas is not None
    assert train.areas.tolist() == [[0, 0, 20], [0, 2, 0], [5, 30, 0]]
    assert [p.where for p in source.problems] == [("000000000003.jpg",)]
    assert train.files is not None
    assert train.files[0] == tmp_path / "train2017" / "000000100012.jpg"


def test_all_rows_in_file_order_and_classes_by_id(tmp_path: Path) -> None:
    source = load(coco(tmp_path), "2017", rows="all", columns="id")
    train = source.splits["train"]
    assert [int(name[:-4]) for name in train.images] == [9, 3, 25, 100012]
    assert source.classes == ("person", "train", "toothbrush")
    assert train.labels.dense().tolist() == [[1, 1, -1], [-1, -1, -1], [1, -1, -1], [-1, -1, 1]]


def test_the_only_year_found_is_taken_and_images_may_lie_deeper(tmp_path: Path) -> None:
    coco(tmp_path, "2014")
    (tmp_path / "images").mkdir()
    for part in ("train2014", "val2014"):
        (tmp_path / part).rename(tmp_path / "images" / part)
    files = load_source(f"coco:{tmp_path}").splits["train"].files
    assert files is not None
    assert files[0].parent == tmp_path / "images" / "train2014"
    with pytest.raises(SourceError, match=r"instances_train2017\.json"):
        load(tmp_path, "2017")
    coco(tmp_path, "2017")
    with pytest.raises(SourceError, match=r"say coco2014 or coco2017.*2014 and 2017"):
        load(tmp_path, "")


def test_a_pair_of_files_of_ones_own(tmp_path: Path) -> None:
    """Classes in another order are matched by name."""
    instances(tmp_path / "mine.json", [1, 2], [note(1, 1), note(2, 7)])
    instances(tmp_path / "held_out.json", [1], [note(1, 90)], CATEGORIES[::-1])
    for folder, images in (("a", (1, 2)), ("b", (1,))):
        (tmp_path / folder).mkdir()
        for image in images:
            (tmp_path / folder / f"{image:012d}.jpg").touch()
    given = {"train_json": Path("mine.json"), "test_json": Path("held_out.json")}
    source = load(tmp_path, "", train_images=Path("a"), test_images=Path("b"), **given)
    assert source.splits["train"].labels.dense().tolist() == [[-1, 1, -1], [1, -1, -1]]
    assert source.splits["test"].labels.dense().tolist() == [[-1, -1, 1]]
    assert source.problems == ()
    with pytest.raises(SourceError, match="both --train-json and --test-json"):
        load(tmp_path, "", train_json=Path("mine.json"))


def test_annotations_of_unlisted_images_and_categories_are_named(tmp_path: Path) -> None:
    coco(tmp_path)
    instances(
        tmp_path / "annotations" / "instances_train2017.json", [9], [note(9, 1), note(9, 55), note(8, 1), note(8, 7)]
    )
    source = load(tmp_path, "2017")
    assert [(p.what.split(": ")[1], p.where) for p in source.problems] == [
        ("annotations of an unlisted image, ignored", ("image 8",)),
        ("annotations of an unlisted category, ignored", ("category 55",)),
    ]
    assert source.splits["train"].labels.dense().tolist() == [[-1, 1, -1]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"images": [', "cannot be read as JSON"),
        ('{"images": [], "annotations": []}', "no COCO instances file"),
        ("[]", "no COCO instances file"),
        ('{"images": [{"id": 1}], "annotations": [], "categories": []}', "lacks.*file_name"),
        ('{"images": [], "annotations": [], "categories": []}', "lists no images"),
    ],
)
def test_what_is_no_instances_file(tmp_path: Path, content: str, message: str) -> None:
    coco(tmp_path)
    (tmp_path / "annotations" / "instances_val2017.json").write_text(content)
    with pytest.raises(SourceError, match=message):
        load(tmp_path, "2017")


def test_other_classes_in_the_test_file_are_refused(tmp_path: Path) -> None:
    coco(tmp_path)
    instances(tmp_path / "annotations" / "instances_val2017.json", [42], [note(42, 7)], CATEGORIES[:2])
    with pytest.raises(SourceError, match="1 stand in only one of them: toothbrush"):
        load(tmp_path, "2017")


def test_repeated_ids_are_refused(tmp_path: Path) -> None:
    coco(tmp_path)
    instances(tmp_path / "annotations" / "instances_train2017.json", [9, 9], NOTES)
    with pytest.raises(SourceError, match="the same image id more than once"):
        load(tmp_path, "2017")


def test_the_real_mini_set_against_a_plain_count(shared_data: Path) -> None:
    source = load(shared_data / "coco_mini", "2017")
    for split, part in (("train", "train"), ("test", "val")):
        content = json.loads((shared_data / "coco_mini" / "annotations" / f"instances_{part}2017.json").read_text())
        name_of = {category["id"]: category["name"] for category in content["categories"]}
        shown = {(a["image_id"], name_of[a["category_id"]]) for a in content["annotations"]}
        per_class = Counter(name for _, name in shown)
        read = source.splits[split]
        assert dict(zip(source.classes, read.labels.counts().present.tolist(), strict=True)) == {
            name: per_class[name] for name in name_of.values()
        }
        ids = [str(int(Path(image).stem)) for image in read.images]
        assert ids == sorted({str(image) for image, _ in shown})
        assert read.areas is not None
        assert ((read.areas > 0) == (read.labels.dense() == 1)).all()
    official = np.load(shared_data / "coco2014_image_labels.npz")["classes"].tolist()
    assert list(source.classes) == official


def test_the_real_labels_of_2014_as_partial_label_work_has_them(shared_data: Path, tmp_path: Path) -> None:
    """82,783 rows, of which 702 without annotation are negative throughout; 241,035 positives; the published mask."""
    archive = np.load(shared_data / "coco2014_image_labels.npz")
    train = archive["is_train2014"]
    files, shown = archive["image"][train].tolist(), archive["Y"][train]
    files += [f"COCO_train2014_bare_{i}.jpg" for i in range(82_783 - len(files))]
    listed = [{"id": i + 1, "name": str(name)} for i, name in enumerate(archive["classes"])][::-1]
    notes = [{"image_id": i, "category_id": c + 1} for i, c in np.argwhere(shown).tolist()]
    for part, names in (("train", files), ("val", files[:1])):
        images = [{"id": i, "file_name": name} for i, name in enumerate(names)]
        content = {"images": images, "annotations": notes if part == "train" else notes[:1], "categories": listed}
        file = tmp_path / "annotations" / f"instances_{part}2014.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(content))
    source = load(tmp_path, "2014", rows="all", columns="id", missing="keep")
    assert list(source.classes) == archive["classes"].tolist()
    truth = source.splits["train"].labels
    counts = truth.counts()
    assert (len(truth), counts.present.sum(), counts.unknown.sum()) == (82_783, 241_035, 0)
    assert [len(p.where) for p in source.problems if "without annotations, kept" in p.what] == [702]
    assert (parse_observation("known-share:0.1")(truth).dense() != 0).sum() == 662_191
