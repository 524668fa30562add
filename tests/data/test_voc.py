"""The VOC reader on a made-up devkit, where every label is known, and on the real lists where they are."""

from pathlib import Path

import numpy as np
import pytest

from tacit.data.source import Source, SourceError, load_source
from tacit.data.voc import CLASSES, LAYOUT, load
from tacit.observations import parse_observation

CAT, DOG = CLASSES.index("cat"), CLASSES.index("dog")
# name -> flags of cat and dog, every other class -1. 2012_3 shows a difficult dog and nothing else.
FLAGS = {"2012_2": (1, 0), "2012_1": (-1, 1), "2012_3": (-1, 0)}


def devkit(folder: Path, year: str = "2012", lists: tuple[str, str] = ("train", "val")) -> Path:
    base = folder / "VOCdevkit" / f"VOC{year}"
    main = base / "ImageSets" / "Main"
    main.mkdir(parents=True)
    for split, prefix in zip(lists, ("", "t"), strict=True):
        names = {prefix + name: flags for name, flags in FLAGS.items()}
        (main / f"{split}.txt").write_text("".join(f"{name}\n" for name in names))
        for column, label in enumerate(CLASSES):
            flag = [flags[0] if column == CAT else flags[1] if column == DOG else -1 for flags in names.values()]
            (main / f"{label}_{split}.txt").write_text(
                "".join(f"{n} {f:2d}\n" for n, f in zip(names, flag, strict=True))
            )
        for name, (cat, dog) in names.items():
            (base / "JPEGImages").mkdir(exist_ok=True)
            (base / "JPEGImages" / f"{name}.jpg").touch()
            write_xml(base, name, [("cat", cat)] * (cat >= 0) + [("dog", dog)] * (dog >= 0))
    return folder / "VOCdevkit"


def write_xml(base: Path, name: str, objects: list[tuple[str, int]], extra: str = "") -> None:
    """Objects grow: the i-th is (i + 1) * 10 pixels wide and 5 high, edges inclusive."""
    (base / "Annotations").mkdir(exist_ok=True)
    items = "".join(
        f"<object><name>{label}</name><difficult>{int(flag == 0)}</difficult><bndbox><xmin>1</xmin><ymin>1</ymin>"
        f"<xmax>{(i + 1) * 10}.0</xmax><ymax>5</ymax></bndbox><part><name>head</name></part></object>"
        for i, (label, flag) in enumerate(objects)
    )
    (base / "Annotations" / f"{name}.xml").write_text(f"<annotation>{items}{extra}</annotation>")


def cells(source: Source, split: str = "train") -> dict[str, tuple[int, int]]:
    part = source.splits[split]
    return {image: (int(row[CAT]), int(row[DOG])) for image, row in zip(part.images, part.labels.dense(), strict=True)}


@pytest.mark.parametrize("lists", ["main", "xml"])
def test_2012_sorts_by_name_and_leaves_out_images_without_a_positive(tmp_path: Path, lists: str) -> None:
    source = load(devkit(tmp_path), "2012", lists=lists)  # type: ignore[arg-type]
    assert list(cells(source).items()) == [("2012_1.jpg", (-1, 1)), ("2012_2.jpg", (1, -1))]
    assert source.splits["test"].images == ("t2012_1.jpg", "t2012_2.jpg")
    assert source.classes == CLASSES
    assert source.notes["difficult"] == "negative"
    assert [p.where for p in source.problems] == [("2012_3",), ("t2012_3",)]
    assert "left out as published" in source.problems[0].what


@pytest.mark.parametrize("lists", ["main", "xml"])
@pytest.mark.parametrize(("difficult", "state"), [("negative", -1), ("positive", 1), ("unknown", 0)])
def test_difficult_objects_as_declared(tmp_path: Path, lists: str, difficult: str, state: int) -> None:
    source = load(devkit(tmp_path), "2012", difficult=difficult, lists=lists, rows="all")  # type: ignore[arg-type]
    assert cells(source)["2012_3.jpg"] == (-1, state)
    assert cells(source)["2012_2.jpg"] == (1, state)


@pytest.mark.parametrize("lists", ["main", "xml"])
def test_2007_keeps_list_order_and_every_image(tmp_path: Path, lists: str) -> None:
    """Difficult objects are skipped, as published: an image that shows nothing else is negative, and stays a row."""
    source = load(devkit(tmp_path, "2007", ("trainval", "test")), "2007", lists=lists)  # type: ignore[arg-type]
    assert list(cells(source).items()) == [("2012_2.jpg", (1, -1)), ("2012_1.jpg", (-1, 1)), ("2012_3.jpg", (-1, -1))]
    assert list(cells(source, "test")) == ["t2012_2.jpg", "t2012_1.jpg", "t2012_3.jpg"]
    assert [p.what.split(", ")[-1] for p in source.problems] == ["kept", "kept"]
    known = parse_observation("known-share:0.5")(source.splits["train"].labels).dense()
    drawn = (
        np.random.RandomState(0).random_sample((3, 20)) < 0.5
    )  # row i of the published numbers is line i of the list
    assert ((known != 0) == drawn).all()


def test_root_may_be_the_year_the_devkit_or_its_parent(tmp_path: Path) -> None:
    kit = devkit(tmp_path)
    for root in (kit, tmp_path, kit / "VOC2012"):
        assert len(load_source(f"voc2012:{root}").splits["train"]) == 2
    with pytest.raises(SourceError, match="no VOC2007 in"):
        load(kit / "VOC2012", "2007")


def test_xml_gives_the_area_of_the_largest_object_that_counts(tmp_path: Path) -> None:
    kit = devkit(tmp_path)
    write_xml(kit / "VOC2012", "2012_1", [("dog", 1), ("dog", 1), ("dog", 0), ("cat", 0)])
    areas = load(kit, "2012", lists="xml").splits["train"].areas
    assert areas is not None
    assert areas[0, DOG] == 20 * 5
    assert areas[0].sum() == 20 * 5
    counted = load(kit, "2012", lists="xml", difficult="positive").splits["train"].areas
    assert counted is not None
    assert counted[0, DOG] == 30 * 5
    assert counted[0, CAT] == 40 * 5


def test_unknown_objects_and_images_without_annotation_are_listed(tmp_path: Path) -> None:
    kit = devkit(tmp_path)
    write_xml(kit / "VOC2012", "2012_1", [("dog", 1), ("unicorn", 1)])
    (kit / "VOC2012" / "Annotations" / "2012_2.xml").unlink()
    source = load(kit, "2012", lists="xml")
    said = {p.what: p.where for p in source.problems}
    assert said["objects of an unknown class, ignored"] == ("'unicorn' in 2012_1.xml",)
    assert said["train.txt: images without an annotation, rows left out"] == ("2012_2",)
    assert source.splits["train"].images == ("2012_1.jpg",)


def test_missing_and_repeated_images_are_listed(tmp_path: Path) -> None:
    kit = devkit(tmp_path)
    (kit / "VOC2012" / "JPEGImages" / "2012_1.jpg").unlink()
    listed = kit / "VOC2012" / "ImageSets" / "Main" / "train.txt"
    listed.write_text(listed.read_text() + "2012_2\n")
    source = load(kit, "2012")
    said = {p.what: p.where for p in source.problems}
    assert said["train.txt: images listed more than once (first row kept)"] == ("2012_2",)
    assert said["train: images listed but missing, rows left out"] == ("2012_1.jpg",)
    assert source.splits["train"].images == ("2012_2.jpg",)


def test_a_class_list_that_forgets_images_is_refused(tmp_path: Path) -> None:
    kit = devkit(tmp_path)
    (kit / "VOC2012" / "ImageSets" / "Main" / "cow_train.txt").write_text("2012_1 -1\n")
    with pytest.raises(SourceError, match=r"cow_train\.txt says nothing of 2 of the 3 images"):
        load(kit, "2012")


def test_a_strange_flag_is_refused_with_its_place(tmp_path: Path) -> None:
    kit = devkit(tmp_path)
    (kit / "VOC2012" / "ImageSets" / "Main" / "cow_train.txt").write_text("2012_1 -1\n2012_2 2\n")
    with pytest.raises(SourceError, match=r"cow_train\.txt, entry 2: .* found '2012_2 2'"):
        load(kit, "2012")


@pytest.mark.parametrize(
    "content", ["<annotation><object></annotation>", "<annotation><object><name>cat</name></object></annotation>"]
)
def test_a_damaged_annotation_is_named(tmp_path: Path, content: str) -> None:
    kit = devkit(tmp_path)
    (kit / "VOC2012" / "Annotations" / "2012_1.xml").write_text(content)
    with pytest.raises(SourceError, match=r"2012_1\.xml is not a VOC annotation"):
        load(kit, "2012", lists="xml")


def test_wrong_places_get_the_layout(tmp_path: Path) -> None:
    for root, variant in ((tmp_path, "2012"), (tmp_path / "nowhere", "2012"), (None, "2012")):
        with pytest.raises(SourceError) as caught:
            load(root, variant)
        assert LAYOUT in str(caught.value)
    with pytest.raises(SourceError, match="voc2007 or voc2012"):
        load(tmp_path, "2010")


def test_the_real_2012_lists(shared_data: Path) -> None:
    """5,717 train images with 8,331 positives: published counts; the shared test list is half of val."""
    source = load(shared_data / "VOCdevkit", "2012")
    train, test = source.splits["train"], source.splits["test"]
    assert (len(train), len(test)) == (5717, 2912)
    assert source.problems == ()
    assert int((train.labels.dense() == 1).sum()) == 8331
    assert list(train.images) == sorted(train.images)
    features = np.load(shared_data / "voc2012_lite0_320.npz")["image"]
    assert [Path(image).stem for image in (*train.images, *test.images)] == features.tolist()
    difficult = load(shared_data / "VOCdevkit", "2012", difficult="unknown", missing="keep").splits["train"]
    assert int((difficult.labels.dense() == 0).sum()) == 532
