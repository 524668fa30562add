"""A model on disk: what is kept, that it predicts as the run did, and every way a folder can fail to be one."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import tacit.methods
from tacit.checkpoint import load
from tacit.data.decode import ImageError
from tacit.labels import Labels
from tacit.methods.registry import build_method
from tacit.model import Extractor, Model, ModelError, write_model
from tacit.nets.backbone import Preprocessing
from tacit.nets.net import make_backbone, make_net
from tacit.run import RunConfig, RunDirectory

CLASSES = ("cat", "dog", "owl", "sun")
WIDTH, ROWS = 6, 50
TEACHER = '''
import copy
import torch
from tacit.methods.base import Method

class Teacher(Method):
    """A teacher that predicts, and memory of other kinds."""

    def __init__(self, net, observed):
        super().__init__(net, observed)
        self.teacher = copy.deepcopy(net)
        self.register_buffer("seen", torch.zeros(len(observed), len(observed.classes)))
        self.register_buffer("frequency", torch.zeros(len(observed.classes)))

    def loss(self, batch, clock):
        return {"none": self.net(batch.inputs).sum() * 0}

    def predict(self, inputs):
        return (self.teacher(inputs) + self.frequency).sigmoid()
'''


def observed() -> Labels:
    return Labels.from_dense(np.eye(len(CLASSES), dtype=np.int8)[np.arange(ROWS) % len(CLASSES)], CLASSES)


def written(folder: Path, method_name: str = "role", options: dict | None = None, **model):
    """A model on features in `folder`, and the method it was written from."""
    torch.manual_seed(3)
    config = RunConfig("scenes", method=method_name, method_options={"k": 2.0} if options is None else options)
    method = build_method(method_name, make_net(None, len(CLASSES), width=WIDTH), observed(), config.method_options)
    for tensor in method.state_dict().values():
        tensor.copy_(torch.randn_like(tensor))
    write_model(RunDirectory(folder), method, config, CLASSES, preprocessing=None, extractor=None, **model)
    return method


def image_model(folder: Path, size: int = 16):
    """A model on images, with the smallest of timm's test networks."""
    torch.manual_seed(4)
    net = make_net(make_backbone("test_resnet", "none", size=size), len(CLASSES))
    method = build_method("an", net, observed()).eval()
    config = RunConfig("scenes", method="an")
    write_model(RunDirectory(folder), method, config, CLASSES, preprocessing=net.preprocessing, extractor=None)
    return method


@pytest.fixture
def features():
    return np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype(np.float32)


@pytest.fixture
def photos(tmp_path) -> list[Path]:
    """Seven small pictures of different sizes."""
    generator, paths = np.random.default_rng(1), []
    for number in range(7):
        pixels = generator.integers(0, 256, (20 + number, 30, 3), np.uint8)
        paths.append(tmp_path / "photos" / f"{number}.png")
        paths[-1].parent.mkdir(exist_ok=True)
        Image.fromarray(pixels).save(paths[-1])
    return paths


CHOSEN = {"labels": "observed", "metric": "OF1", "one": 0.75, "per_class": [0.7, 0.8, 0.1, 0.75], "fallback": []}


class TestThresholds:
    def test_a_half_unless_others_are_asked_for(self, tmp_path):
        written(tmp_path, chosen=CHOSEN)
        assert Model.load(tmp_path).thresholds.tolist() == [0.5] * 4
        assert Model.load(tmp_path, thresholds="one").thresholds.tolist() == [0.75] * 4
        wanted = np.array(CHOSEN["per_class"], np.float32)
        assert np.array_equal(Model.load(tmp_path, thresholds="per-class").thresholds, wanted)

    @pytest.mark.parametrize(
        ("chosen", "said"),
        [
            (None, "written before runs chose thresholds on validation"),
            ({"absent": "no images were held out for validation"}, "no images were held out .* Use --thresholds half"),
            ({"one": "high"}, "cannot be read"),
            ({}, "cannot be read"),
            ("0.5", "cannot be read"),
            ({"one": [0.1, 0.2]}, "cannot be read"),
            ({"one": float("nan")}, "is no number"),
        ],
    )
    def test_a_model_without_them_says_so(self, tmp_path, chosen, said):
        written(tmp_path)
        described = json.loads((tmp_path / "model.json").read_text())
        described["chosen_thresholds"] = chosen
        if chosen is None:
            del described["chosen_thresholds"]
        (tmp_path / "model.json").write_text(json.dumps(described))
        assert Model.load(tmp_path).thresholds.tolist() == [0.5] * 4
        with pytest.raises(ModelError, match=said):
            Model.load(tmp_path, thresholds="one")


class TestOnFeatures:
    def test_predicts_as_the_method_did(self, tmp_path, features):
        method = written(tmp_path)
        model = Model.load(tmp_path, device="cpu")
        with torch.no_grad():
            wanted = method.net(torch.from_numpy(features)).sigmoid().numpy()
        assert model.classes == CLASSES
        assert model.thresholds.tolist() == [0.5] * 4
        assert np.array_equal(model.predict(features), wanted)
        assert model.predict(features).dtype == np.float32

    def test_batches_change_nothing_but_rounding(self, tmp_path, features):
        written(tmp_path)
        model = Model.load(tmp_path, device="cpu")
        assert np.allclose(model.predict(features, batch_size=7), model.predict(features), atol=1e-7)

    def test_estimates_of_training_rows_are_not_kept(self, tmp_path):
        written(tmp_path)
        tensors, _ = load(tmp_path / "model.safetensors")
        assert set(tensors) == {"net.head.weight", "net.head.bias"}

    def test_weights_can_be_read_by_whoever_may_read_the_run(self, tmp_path):
        written(tmp_path)
        modes = {(tmp_path / name).stat().st_mode for name in ("model.json", "model.safetensors")}
        assert len(modes) == 1

    def test_progress_counts_to_the_end(self, tmp_path, features):
        written(tmp_path)
        told = []
        Model.load(tmp_path).predict(features, batch_size=20, progress=lambda done, of: told.append((done, of)))
        assert told == [(20, 50), (40, 50), (50, 50)]

    def test_no_images_no_scores(self, tmp_path):
        written(tmp_path)
        assert Model.load(tmp_path).predict(np.empty((0, WIDTH), np.float32)).shape == (0, 4)


def test_a_method_that_predicts_itself_is_rebuilt_without_its_rows(tmp_path, features, monkeypatch):
    (tmp_path / "methods").mkdir()
    (tmp_path / "methods" / "teacher_toy.py").write_text(TEACHER)
    monkeypatch.setattr(tacit.methods, "__path__", [*tacit.methods.__path__, str(tmp_path / "methods")])
    method = written(tmp_path / "run", "teacher_toy", {})
    tensors, _ = load(tmp_path / "run" / "model.safetensors")
    assert "seen" not in tensors
    assert {"frequency", "teacher.head.weight", "net.head.weight"} <= set(tensors)
    with torch.no_grad():
        wanted = method.predict(torch.from_numpy(features)).numpy()
    assert np.array_equal(Model.load(tmp_path / "run").predict(features), wanted)


class TestOnImages:
    def test_files_go_through_the_preprocessing_of_training(self, tmp_path, photos):
        from tacit.data.decode import read_image
        from tacit.data.views import normalise

        method = image_model(tmp_path / "run")
        pixels = torch.stack([read_image(path, 16) for path in photos])
        with torch.no_grad():
            wanted = method.predict(normalise(pixels, method.net.preprocessing)).numpy()
        model = Model.load(tmp_path / "run", device="cpu")
        assert np.array_equal(model.predict(photos), wanted)
        assert np.allclose(model.predict(photos, batch_size=2), wanted, atol=1e-6)
        assert np.allclose(model.predict(pixels.numpy()), wanted, atol=1e-6)

    def test_pixels_are_resized(self, tmp_path):
        image_model(tmp_path)
        pixels = np.random.default_rng(2).integers(0, 256, (3, 3, 40, 24), np.uint8)
        assert Model.load(tmp_path).predict(pixels).shape == (3, 4)

    def test_a_bad_file_is_named_and_the_others_are_scored(self, tmp_path, photos):
        image_model(tmp_path / "run")
        model = Model.load(tmp_path / "run")
        whole = model.predict(photos)
        photos[2].write_bytes(b"no image")
        chunks = list(model.stream(photos, batch_size=4))
        assert [chunk.rows.tolist() for chunk in chunks] == [[0, 1, 3], [4, 5, 6]]
        assert [len(chunk.failures) for chunk in chunks] == [1, 0]
        assert str(photos[2]) in chunks[0].failures[0]
        rest = np.concatenate([chunk.scores for chunk in chunks])
        assert np.allclose(rest, np.delete(whole, 2, 0), atol=1e-6)
        with pytest.raises(ImageError, match="1 of 7 images cannot be read"):
            model.predict(photos)

    def test_a_batch_of_bad_files_only(self, tmp_path, photos):
        image_model(tmp_path / "run")
        for path in photos[:2]:
            path.write_bytes(b"")
        first, *_ = Model.load(tmp_path / "run").stream(photos, batch_size=2)
        assert first.scores.shape == (0, 4)
        assert len(first.failures) == 2


def test_features_are_made_again_by_the_backbone_they_came_from(tmp_path, photos):
    """As `tacit train --protocol linear --backbone NAME` leaves it: the run keeps the head, the backbone is rebuilt."""
    weights = tmp_path / "backbone.safetensors"
    from safetensors.torch import save_file

    torch.manual_seed(5)
    backbone = make_backbone("test_resnet", "none", size=16).eval()
    save_file(backbone.model.state_dict(), weights)
    config = RunConfig("scenes", backbone="test_resnet", weights=str(weights), image_size=16)
    method = build_method("an", make_net(None, len(CLASSES), width=backbone.width), observed())
    write_model(
        RunDirectory(tmp_path / "run"),
        method,
        config,
        CLASSES,
        preprocessing=None,
        extractor=Extractor.of(config, "test_resnet"),
    )
    model = Model.load(tmp_path / "run", device="cpu")
    assert not model.needs_features

    from tacit.data.features import extract
    from tacit.data.source import Split

    split = Split(tuple(p.name for p in photos), Labels.from_dense(np.zeros((7, 0), np.int8), ()), files=tuple(photos))
    found = np.asarray(extract(split, backbone, out=tmp_path / "features").features)
    assert np.array_equal(model.predict(photos), model.predict(found))
    weights.unlink()
    with pytest.raises(ModelError, match="features of the backbone test_resnet"):
        Model.load(tmp_path / "run").predict(photos)


def change(folder: Path, **values) -> None:
    file = folder / "model.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


class TestMistakes:
    def test_nothing_there(self, tmp_path):
        with pytest.raises(ModelError, match=r"there is no .*nowhere"):
            Model.load(tmp_path / "nowhere")

    def test_a_file(self, tmp_path):
        written(tmp_path)
        with pytest.raises(ModelError, match="is a file; give the directory of a run"):
            Model.load(tmp_path / "model.safetensors")

    def test_an_empty_folder(self, tmp_path):
        with pytest.raises(ModelError, match=r"holds no run: there is no model.json"):
            Model.load(tmp_path)

    def test_a_folder_of_runs(self, tmp_path):
        written(tmp_path / "runs" / "a")
        with pytest.raises(ModelError, match=r"it holds 1: name one, such as .*runs/a"):
            Model.load(tmp_path / "runs")

    def test_an_unfinished_run(self, tmp_path):
        (tmp_path / "config.toml").write_text('source = "scenes"\n')
        with pytest.raises(ModelError, match=r"not finished.*--resume"):
            Model.load(tmp_path)

    def test_damaged_description(self, tmp_path):
        written(tmp_path)
        (tmp_path / "model.json").write_text("{")
        with pytest.raises(ModelError, match=r"model.json cannot be read as JSON"):
            Model.load(tmp_path)

    def test_another_format(self, tmp_path):
        written(tmp_path)
        change(tmp_path, format=7)
        with pytest.raises(ModelError, match="format 7; this version of Tacit reads format 1"):
            Model.load(tmp_path)

    def test_damaged_weights(self, tmp_path):
        written(tmp_path)
        file = tmp_path / "model.safetensors"
        file.write_bytes(file.read_bytes()[:40])
        with pytest.raises(ModelError, match="does not hold the weights"):
            Model.load(tmp_path)

    def test_weights_missing(self, tmp_path):
        written(tmp_path)
        (tmp_path / "model.safetensors").unlink()
        with pytest.raises(ModelError, match="is missing"):
            Model.load(tmp_path)

    def test_weights_of_something_else(self, tmp_path):
        written(tmp_path)
        image_model(tmp_path / "other")
        (tmp_path / "model.safetensors").write_bytes((tmp_path / "other" / "model.safetensors").read_bytes())
        with pytest.raises(ModelError, match=r"does not hold the weights that model\.json describes"):
            Model.load(tmp_path)

    def test_another_class_list(self, tmp_path):
        written(tmp_path)
        change(tmp_path, classes=["cat", "dog"], thresholds=[0.5, 0.5])
        with pytest.raises(Exception, match="made for 4 classes, and 2 are asked of it"):
            Model.load(tmp_path)

    def test_thresholds_that_do_not_fit(self, tmp_path):
        written(tmp_path)
        change(tmp_path, thresholds=[0.5])
        with pytest.raises(ModelError, match="1 thresholds for 4 classes"):
            Model.load(tmp_path)

    def test_images_for_brought_features(self, tmp_path, photos):
        written(tmp_path / "run")
        with pytest.raises(ModelError, match="features that were computed elsewhere"):
            Model.load(tmp_path / "run").predict(photos)

    def test_features_for_images(self, tmp_path, features):
        image_model(tmp_path)
        with pytest.raises(ModelError, match="give it images, not features"):
            Model.load(tmp_path).predict(features)

    def test_features_of_another_width(self, tmp_path):
        written(tmp_path)
        with pytest.raises(ModelError, match=r"trained on \[images, 6\]"):
            Model.load(tmp_path).predict(np.zeros((3, 5), np.float32))

    def test_pixels_that_are_no_images(self, tmp_path):
        image_model(tmp_path)
        with pytest.raises(ModelError, match=r"give uint8 \[images, 3, height, width\]"):
            Model.load(tmp_path).predict(np.zeros((5, 16, 16), np.uint8))

    def test_batches_of_nothing(self, tmp_path, features):
        written(tmp_path)
        with pytest.raises(ModelError, match="a batch size of 0"):
            Model.load(tmp_path).predict(features, batch_size=0)


def test_preprocessing_travels(tmp_path):
    image_model(tmp_path, size=24)
    kept = json.loads((tmp_path / "model.json").read_text())["preprocessing"]
    assert Preprocessing.rebuild(kept).size == 24
