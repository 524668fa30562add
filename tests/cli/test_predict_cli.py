"""`tacit predict`: which images are meant, what is written of them, and what becomes of those that cannot be read."""

import csv
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from finished_runs import CLASSES, feature_run, image_model, photos

from tacit.cli import main
from tacit.label_table import LabelTable, write_label_table
from tacit.labels import Labels
from tacit.model import Model
from tacit.predictions import PredictionError, Predictions, collect, writing


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return image_model(tmp_path_factory.mktemp("predict") / "run")


@pytest.fixture
def folder(tmp_path) -> Path:
    photos(tmp_path / "photos")
    return tmp_path / "photos"


def flat(text: str) -> str:
    return " ".join(text.split())


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


class TestCollect:
    def test_a_folder_at_any_depth_in_order(self, folder):
        (folder / "notes.txt").write_text("no image")
        (folder / ".thumbs").mkdir()
        shutil.copy(folder / "0.png", folder / ".thumbs" / "0.png")
        names = [Path(name).relative_to(folder).as_posix() for name in collect([str(folder)]).names]
        assert names == ["0.png", "1.png", "2.png", "3.png", "4.png", "more/5.png", "more/6.png"]

    def test_a_name_that_is_not_utf8_is_spelled_out(self, folder, model):
        strange = Path(os.fsdecode(os.fsencode(folder) + b"/\xff.png"))
        try:
            shutil.copy(folder / "0.png", strange)
        except OSError:
            pytest.skip("this file system takes only UTF-8 names")
        assert main(["predict", str(model), str(folder), "--out", str(folder / "out.csv")]) == 0
        assert str(folder / "\\udcff.png") in {row["image"] for row in rows_of(folder / "out.csv")}

    def test_a_pattern(self, folder):
        assert [Path(n).name for n in collect([f"{folder}/[12].png"]).names] == ["1.png", "2.png"]
        assert len(collect([f"{folder}/**/*.png"])) == 7

    def test_each_file_once(self, folder):
        found = collect([str(folder / "3.png"), str(folder), f"{folder}/*.png"])
        assert len(found) == 7
        assert Path(found.names[0]).name == "3.png"

    def test_a_label_table(self, folder):
        table = LabelTable(("more/6.png", "0.png"), Labels.from_dense([[1, 0], [0, -1]], ("a", "b")))
        write_label_table(folder / "list.csv", table)
        found = collect([str(folder / "list.csv")])
        assert found.names == ("more/6.png", "0.png")
        assert found.files == (folder / "more" / "6.png", folder / "0.png")

    def test_a_table_of_images_only_in_another_folder(self, folder, tmp_path):
        (tmp_path / "list.csv").write_text("image\n0.png\n1.png\n0.png\n")
        assert collect([str(tmp_path / "list.csv")], folder).files == (folder / "0.png", folder / "1.png")

    def test_a_table_without_images(self, tmp_path):
        (tmp_path / "list.csv").write_text("photo,tags\n0.png,a\n")
        with pytest.raises(PredictionError, match="no column 'image'; it has photo, tags"):
            collect([str(tmp_path / "list.csv")])


class TestFiles:
    found = Predictions(
        ("a.jpg", "b.jpg"),
        np.array([[0.5, 0.25, 0.5], [0.1, 0.9, 0.2]], np.float32),
        np.array([[True, False, True], [False, True, False]]),
    )
    classes = ("image", "x|y", "z")

    def write(self, path: Path, top: int | None = None) -> Path:
        with writing(path, self.classes, top) as writer:
            writer.write(self.found)
        assert writer.rows == 2
        return path

    def test_csv(self, tmp_path):
        text = self.write(tmp_path / "out.csv").read_text()
        assert text.splitlines() == [
            "image,tags,image (class),x|y,z",
            "a.jpg,image|z,0.5,0.25,0.5",
            "b.jpg,x%7Cy,0.1,0.9,0.2",
        ]

    def test_csv_of_the_highest(self, tmp_path):
        rows = rows_of(self.write(tmp_path / "out.csv", 2))
        first = {"image": "a.jpg", "tags": "image|z", "class_1": "image", "score_1": "0.5"}
        assert rows[0] == first | {"class_2": "z", "score_2": "0.5"}

    def test_json(self, tmp_path):
        held = json.loads(self.write(tmp_path / "out.json").read_text())
        assert held[1] == {"image": "b.jpg", "tags": ["x|y"], "scores": {"image": 0.1, "x|y": 0.9, "z": 0.2}}
        held = json.loads(self.write(tmp_path / "out.json", 1).read_text())
        assert held[0]["scores"] == {"image": 0.5}

    def test_parquet(self, tmp_path):
        held = pq.read_table(self.write(tmp_path / "out.parquet"))
        assert held.column_names == ["image", "tags", "image (class)", "x|y", "z"]
        assert held["tags"].to_pylist() == [["image", "z"], ["x|y"]]
        assert held["z"].to_numpy().tolist() == self.found.scores[:, 2].tolist()
        held = pq.read_table(self.write(tmp_path / "out.parquet", 1))
        assert held["class_1"].to_pylist() == ["image", "x|y"]

    def test_a_failure_leaves_the_old_file(self, tmp_path):
        path = self.write(tmp_path / "out.json")
        before = path.read_text()
        with pytest.raises(ZeroDivisionError), writing(path, self.classes, None) as writer:
            writer.write(self.found)
            raise ZeroDivisionError
        assert path.read_text() == before
        assert list(tmp_path.iterdir()) == [path]

    def test_nothing_is_an_empty_list(self, tmp_path):
        with writing(tmp_path / "out.json", self.classes, None):
            pass
        assert json.loads((tmp_path / "out.json").read_text()) == []


def test_scores_are_the_models(model, folder, tmp_path, capsys):
    out = tmp_path / "tags.csv"
    assert main(["predict", str(model), str(folder), "--out", str(out), "--batch-size", "3"]) == 0
    assert f"Written: {out} (7 images)" in capsys.readouterr().out
    rows = rows_of(out)
    wanted = Model.load(model).predict([Path(row["image"]) for row in rows])
    held = np.array([[float(row[name]) for name in CLASSES] for row in rows])
    assert np.allclose(held, wanted, atol=1e-5)
    assert [row["tags"] for row in rows] == ["|".join(np.array(CLASSES)[row >= 0.5]) for row in wanted]


def test_the_same_twice(model, folder, tmp_path):
    texts = []
    for name in ("a.parquet", "b.parquet"):
        assert main(["predict", str(model), str(folder), "--out", str(tmp_path / name), "--quiet"]) == 0
        texts.append((tmp_path / name).read_bytes())
    assert texts[0] == texts[1]


def test_threshold(model, folder, tmp_path):
    for threshold, tags in (("0", "|".join(CLASSES)), ("1", "")):
        out = tmp_path / "tags.csv"
        assert main(["predict", str(model), str(folder), "--out", str(out), "--threshold", threshold, "--quiet"]) == 0
        assert {row["tags"] for row in rows_of(out)} == {tags}


def test_thresholds_of_the_model(model, folder, tmp_path):
    shutil.copytree(model, tmp_path / "run")
    described = json.loads((model / "model.json").read_text()) | {"thresholds": [0.0, 1.0, 1.0, 1.0]}
    (tmp_path / "run" / "model.json").write_text(json.dumps(described))
    out = tmp_path / "tags.csv"
    assert main(["predict", str(tmp_path / "run"), str(folder), "--out", str(out)]) == 0
    assert {row["tags"] for row in rows_of(out)} == {"cat"}


@pytest.mark.parametrize(("which", "tags"), [("half", "dog"), ("one", ""), ("per-class", "cat|owl|sun")])
def test_thresholds_that_validation_chose(model, folder, tmp_path, which, tags):
    shutil.copytree(model, tmp_path / "run")
    described = json.loads((model / "model.json").read_text()) | {"thresholds": [1.0, 0.0, 1.0, 1.0]}
    described |= {"chosen_thresholds": {"one": 1.0, "per_class": [0.0, 1.0, 0.0, 0.0]}}
    (tmp_path / "run" / "model.json").write_text(json.dumps(described))
    out = tmp_path / "tags.csv"
    assert main(["predict", str(tmp_path / "run"), str(folder), "--out", str(out), "--thresholds", which]) == 0
    assert {row["tags"] for row in rows_of(out)} == {tags}


def test_a_table_in_the_terminal(model, folder, capsys):
    assert main(["predict", str(model), str(folder), "--top", "2"]) == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert lines[0].split() == ["image", "tags", "highest", "scores"]
    assert len(lines) == 8
    assert all(sum(name in line.rpartition("  ")[0] + line for name in CLASSES) >= 2 for line in lines[1:])
    assert "predicting: 7 images in" in shown.err


def test_a_bad_file_is_listed_and_the_rest_is_written(model, folder, tmp_path, capsys):
    (folder / "2.png").write_bytes(b"no image")
    out = tmp_path / "tags.json"
    assert main(["predict", str(model), str(folder), "--out", str(out)]) == 0
    shown = capsys.readouterr()
    assert len(json.loads(out.read_text())) == 6
    assert "warning: 1 of 7 images cannot be read and were left out:" in shown.err
    assert "2.png: not an image of a known format" in flat(shown.err)


@pytest.mark.parametrize("words", [[], ["--out", "{out}"]])
def test_bad_files_only(words, model, folder, tmp_path, capsys):
    for path in folder.rglob("*.png"):
        path.write_bytes(b"")
    out = tmp_path / "tags.csv"
    assert main(["predict", str(model), str(folder), *(word.format(out=out) for word in words)]) == 2
    assert "none of the 7 images can be read" in flat(capsys.readouterr().err)
    assert not out.exists()


def test_features(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    run = feature_run(tmp_path)
    out = tmp_path / "tags.csv"
    assert main(["predict", str(run), "--features", str(tmp_path / "features.npz"), "--out", str(out)]) == 0
    rows = rows_of(out)
    assert len(rows) == 120
    with np.load(run / "scores-test.npz") as held:
        wanted = held["scores"]
    last = np.array([[float(row[name]) for name in CLASSES] for row in rows[96:]])
    assert np.allclose(last, wanted, atol=1e-5)
    (tmp_path / "some.csv").write_text("image\n099.jpg\n")
    words = [str(tmp_path / "some.csv"), "--features", str(tmp_path / "features.npz"), "--out", str(out)]
    assert main(["predict", str(run), *words]) == 0
    assert [row["image"] for row in rows_of(out)] == ["099.jpg"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "tacit predict needs RUN"),
        (["{model}"], "tacit predict needs IMAGES"),
        (["nowhere", "{folder}"], "there is no nowhere"),
        (["{folder}", "{folder}"], "holds no run: there is no model.json in it"),
        (["{model}", "nowhere.jpg"], "nowhere.jpg: there is no such file or folder"),
        (["{model}", "nowhere/*.jpg"], "nowhere/*.jpg: no image matches this pattern"),
        (["{model}", "{model}"], "no images in"),
        (["{model}", "{folder}", "--out", "tags.xlsx"], "--out tags.xlsx: predictions are written as .csv, .json"),
        (["{model}", "{folder}", "--out", "{folder}"], "this is a folder; name the file to write"),
        (["{model}", "{folder}", "--top", "0"], "--top 0: must be at least 1"),
        (["{model}", "{folder}", "--top", "9"], "--top 9: the model knows 4 classes"),
        (["{model}", "{folder}", "--threshold", "50"], "--threshold 50: scores are probabilities"),
        (["{model}", "{folder}", "--threshold", "0.4", "--thresholds", "one"], "exclude each other"),
        (
            ["{model}", "{folder}", "--thresholds", "one"],
            "has no chosen thresholds: the model was written without",
        ),
        (["{model}", "{folder}", "--batch-size", "0"], "--batch-size 0: must be at least 1"),
        (["{model}", "{folder}", "--feature", "x"], "--feature: did you mean --features"),
        (["{model}", "nowhere.csv"], "there is no label table at nowhere.csv"),
        (["{model}", "--features", "nowhere.npz"], "nowhere.npz"),
        (["{model}", "{folder}", "--device", "gpu"], "gpu"),
    ],
)
def test_mistakes(words, said, model, folder, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(["predict", *(word.format(model=model, folder=folder) for word in words)]) == 2
    shown = capsys.readouterr()
    assert said in flat(shown.err)
    assert "Traceback" not in shown.err
