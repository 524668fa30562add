"""`tacit maps`: which images and classes, the page and the pictures, and what is refused."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from finished_runs import CLASSES, feature_run, image_model, photos

from tacit.cli import main
from tacit.cli.maps import named_classes, split_words
from tacit.label_table import LabelTable, write_label_table
from tacit.labels import Labels
from tacit.methods.registry import build_method
from tacit.model import Model, write_model
from tacit.nets.net import make_backbone, make_net
from tacit.run import RunConfig, RunDirectory


def map_model(folder: Path, classes: tuple[str, ...] = CLASSES, seed: int = 0) -> Path:
    torch.manual_seed(seed)
    net = make_net(
        make_backbone("small", size=24), len(classes), head="class_maps", head_options={"alpha": 0.5, "k": 2}
    )
    method = build_method("an", net, Labels.from_dense(np.eye(len(classes), dtype=np.int8), classes))
    config = RunConfig("scenes", method="an", protocol="finetune")
    write_model(RunDirectory(folder), method, config, classes, preprocessing=net.preprocessing, extractor=None)
    return folder


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("maps")
    map_model(root / "before")
    map_model(root / "after", seed=1)
    photos(root / "photos", 2)
    return root


def flat(text: str) -> str:
    return " ".join(text.split())


def maps(world: Path, *words: str) -> int:
    return main(["maps", *[str(world / w) if (world / w).exists() else w for w in words]])


class TestModel:
    def test_logits_of_maps_are_the_predictions(self, world: Path) -> None:
        model = Model.load(world / "before", device="cpu")
        pixels = np.random.default_rng(0).integers(0, 256, (3, 3, 30, 20), np.uint8)
        found = model.maps(pixels, batch_size=2)
        assert found.shape == (3, 4, 3, 3) and found.dtype == np.float32 and model.pooling == (0.5, 2)
        flat = np.sort(found.reshape(3, 4, -1))
        logits = flat.mean(2) + 0.5 * flat[:, :, -2:].mean(2)
        np.testing.assert_allclose(1 / (1 + np.exp(-logits)), model.predict(pixels), rtol=1e-5)

    def test_files_and_their_pixels_agree(self, world: Path) -> None:
        model = Model.load(world / "before", device="cpu")
        files = sorted((world / "photos").glob("*.png"))
        assert model.maps(files).shape[0] == len(files)


class TestPage:
    def test_several_runs_and_named_classes(self, world: Path, tmp_path: Path, capsys) -> None:
        out = tmp_path / "page.html"
        assert maps(world, "before", "after", "photos", "--classes", "sun,cat", "--out", str(out)) == 0
        text = out.read_text()
        assert re.findall(r'<th scope="col">(\w+)', text) == ["sun", "cat"] * 2
        assert re.findall(r'<th scope="row">(\w+)', text) == ["before", "after"] * 2
        assert text.count('src="data:image/') == text.count("<img ") == 2 + 8
        assert not re.search(r"https?://|@import|url\(", text) and "<script" not in text
        shown = capsys.readouterr().out
        assert "probability" in shown and flat(shown).count("sun unknown") == 4

    def test_a_label_table_is_the_truth(self, world: Path, tmp_path: Path) -> None:
        table = LabelTable(("0.png", "1.png"), Labels.from_dense([[0, 1], [-1, 0]], ("sun", "owl")))
        write_label_table(world / "photos" / "list.csv", table)
        out = tmp_path / "page.html"
        words = ("before", str(world / "photos" / "list.csv"), "--threshold", "1")
        assert maps(world, *words, "--out", str(out)) == 0
        heads = re.findall(r'<th scope="col">(\w+)<small>([\w ]+)', out.read_text())
        assert heads[0] == ("owl", "there") and len(heads) == 2 and heads[1][1] != "there"

    def test_a_folder_has_the_page_and_the_pictures(self, world: Path, tmp_path: Path) -> None:
        assert maps(world, "before", "photos", "--classes", "owl", "--out", str(tmp_path / "new" / "maps")) == 0
        names = sorted(path.name for path in (tmp_path / "new" / "maps").iterdir())
        assert names == ["001-1-owl-1-before.png", "001.png", "002-1-owl-1-before.png", "002.png", "index.html"]

    def test_without_images_the_runs_own_test_images(self, tmp_path: Path, monkeypatch) -> None:
        monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
        words = ["--head", "class_maps", "--protocol", "finetune", "--observe", "full", "--epochs", "1"]
        words += ["--train", "40", "--test", "10", "--out", str(tmp_path / "run"), "--device", "cpu", "--quiet"]
        assert main(["train", "scenes", *words]) == 0
        with np.load(tmp_path / "run" / "maps-test.npz") as kept:
            assert set(kept["row"].tolist()) == set(range(10)) and kept["maps"].dtype == np.float16
        out = tmp_path / "page.html"
        assert main(["maps", str(tmp_path / "run"), "--count", "3", "--out", str(out)]) == 0
        assert out.read_text().count("test-0000") >= 3

    def test_an_image_that_cannot_be_read_is_left_out_and_named(self, world: Path, tmp_path: Path, capsys) -> None:
        (tmp_path / "bad.png").write_bytes(b"no image")
        words = ("before", "photos/0.png", str(tmp_path / "bad.png"), "--out", str(tmp_path / "page.html"))
        assert maps(world, *words) == 0
        assert "1 of 2 images cannot be read" in flat(capsys.readouterr().err)


class TestRefusals:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ((), "needs the directory of a finished run"),
            (("before", "photos", "--classes", "dogg"), "among the 4 classes of these runs. Did you mean dog?"),
            (("before", "photos", "--classes", ","), "--classes names no class"),
            (("before", "nowhere.png"), "there is no such file or folder"),
            (("nowhere",), "there is no nowhere"),
            (("before",), "no config.toml that says what it was trained on: name IMAGES"),
            (("before", "--count", "0"), "must be at least 1"),
            (("before", "photos", "--out", "photos/0.png"), "this is a file; name a folder"),
            (("before", "photos", "--threshold", "2"), "scores are probabilities"),
        ],
    )  # fmt: skip
    def test_messages(self, world: Path, words: tuple[str, ...], said: str, capsys) -> None:
        assert maps(world, *words) == 2
        assert said in flat(capsys.readouterr().err)

    def test_a_head_without_maps(self, tmp_path: Path, capsys) -> None:
        photos(tmp_path / "photos", 1)
        assert main(["maps", str(image_model(tmp_path / "run")), str(tmp_path / "photos")]) == 2
        assert "has no class maps: its head is 'linear', on images. Train with" in flat(capsys.readouterr().err)

    def test_a_run_on_features(self, tmp_path: Path, capsys) -> None:
        assert main(["maps", str(feature_run(tmp_path))]) == 2
        assert "its head is 'linear', on features" in flat(capsys.readouterr().err)

    def test_other_classes(self, world: Path, tmp_path: Path, capsys) -> None:
        other = map_model(tmp_path / "other", ("a", "b"))
        assert maps(world, "before", str(other), "photos") == 2
        assert "different class lists" in flat(capsys.readouterr().err)

    def test_no_image_can_be_read(self, world: Path, tmp_path: Path, capsys) -> None:
        (tmp_path / "bad.png").write_bytes(b"no image")
        assert maps(world, "before", str(tmp_path / "bad.png")) == 2
        assert "none of the 1 images can be read" in flat(capsys.readouterr().err)


def test_words_are_runs_until_one_is_none(world: Path) -> None:
    runs, images = split_words([str(world / "before"), str(world / "after"), str(world / "photos"), "x.jpg"])
    assert [run.name for run in runs] == ["before", "after"] and images == [str(world / "photos"), "x.jpg"]


def test_a_class_name_may_hold_a_comma() -> None:
    assert named_classes("dog, cat", CLASSES) == ["dog", "cat"]
    assert named_classes("table, dining", ("table, dining",)) == ["table, dining"]
