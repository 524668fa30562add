"""Feature sets: extracted once, resumed, never stale, brought in from elsewhere with checks, and found by name."""

import errno
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from tacit.data import feature_set
from tacit.data.features import FeatureError, every_image, extract, import_features, open_features, stem
from tacit.data.source import Source, Split
from tacit.errors import UserError
from tacit.labels import Labels
from tacit.nets.backbone import Backbone, Preprocessing

pytestmark = pytest.mark.filterwarnings("ignore:The image decoding and encoding capabilities:DeprecationWarning")


class Tiny(Backbone):
    """Four-pixel means through a linear map; counts the images it has seen."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 5)
        with torch.no_grad():
            self.layer.weight.copy_(scale * torch.arange(15).reshape(5, 3) / 15)
            self.layer.bias.zero_()
        self.width, self.preprocessing, self.seen = 5, Preprocessing(size=8), 0

    def maps(self, images: Tensor) -> Tensor:
        self.seen += len(images)
        return images

    def pool(self, maps: Tensor) -> Tensor:
        return self.layer(maps.mean((2, 3)))

    def describe(self):
        return {"kind": "tiny", "preprocessing": self.preprocessing.describe()}


def labels(n: int) -> Labels:
    return Labels.from_dense(np.ones((n, 1), np.int8), ["thing"])


@pytest.fixture
def split(tmp_path: Path) -> Split:
    folder = tmp_path / "images"
    folder.mkdir()
    files = []
    for i in range(10):
        files.append(folder / f"{i}.png")
        noise = np.random.default_rng(i).integers(0, 256, (9, 11, 3), dtype=np.uint8)
        Image.fromarray(noise).save(files[-1])
    return Split(tuple(f.name for f in files), labels(10), files=tuple(files))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "features"


def by_hand(split: Split) -> np.ndarray:
    """Plain pipeline in float64: PIL resize, normalise, mean over pixels, linear."""
    pre, weight = Preprocessing(), np.arange(15).reshape(5, 3) / 15
    rows = []
    for file in split.files or ():
        pixels = np.asarray(Image.open(file).resize((8, 8), Image.Resampling.BILINEAR)) / 255
        rows.append(weight @ ((pixels - pre.mean) / pre.std).mean((0, 1)))
    return np.array(rows)


def test_features_are_those_of_the_plain_pipeline(split, cache):
    backbone = Tiny().train()
    found = extract(split, backbone, batch_size=4)
    np.testing.assert_allclose(found.features, by_hand(split), atol=0.01)
    assert found.features.dtype == np.float16 and found.images == split.images and found.width == 5
    assert backbone.training, "the backbone comes back in the mode it was in"
    assert [p.name for p in cache.iterdir()] == [found.key[:24]]


def test_a_second_extraction_only_reads(split):
    backbone = Tiny()
    first, second = extract(split, backbone), extract(split, backbone)
    assert backbone.seen == 10
    assert np.array_equal(first.features, second.features)


def test_the_key_is_made_of_backbone_weights_preprocessing_and_images(split):
    key = extract(split, Tiny()).key
    other_size, other_images = Tiny(), split.take(np.arange(9))
    other_size.preprocessing = Preprocessing(size=9)
    others = [extract(split, Tiny(1.5)).key, extract(split, other_size).key, extract(other_images, Tiny()).key]
    split.files[3].write_bytes(split.files[3].read_bytes() + b"more")
    others.append(extract(split, Tiny()).key)
    assert len({key, *others}) == 5


@pytest.mark.parametrize("workers", [0, 2])
def test_an_interrupted_extraction_goes_on_where_it_stopped(split, tmp_path, workers):
    def stop(done: int, total: int, left: float | None) -> None:
        if done == 6:
            raise KeyboardInterrupt

    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        extract(split, Tiny(), out=out, batch_size=3, workers=workers, progress=stop)
    with pytest.raises(FeatureError, match="interrupted"):
        open_features(out)
    second, seen = Tiny(), []
    resumed = extract(split, second, out=out, batch_size=3, progress=lambda *p: seen.append(p))
    assert second.seen == 4
    assert [p[:2] for p in seen] == [(9, 10), (10, 10)]
    assert seen[0][2] >= 0 and seen[1][2] == 0, "seconds left"
    assert np.array_equal(resumed.features, extract(split, Tiny(), batch_size=3).features)
    assert sorted(p.name for p in out.iterdir()) == [".lock", "features.npy", "images.json", "meta.json"]


def test_an_attempt_with_other_weights_is_not_continued(split, tmp_path):
    def stop(done: int, total: int, left: float | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(split, Tiny(2.0), out=tmp_path / "out", batch_size=3, progress=stop)
    np.testing.assert_allclose(extract(split, Tiny(), out=tmp_path / "out").features, by_hand(split), atol=0.01)


def test_a_folder_with_other_features_is_refused(split, tmp_path):
    extract(split, Tiny(), out=tmp_path / "out")
    with pytest.raises(FeatureError, match="weights_sha256"):
        extract(split, Tiny(2.0), out=tmp_path / "out")
    with pytest.raises(FeatureError, match="something else"):
        extract(split, Tiny(), out=tmp_path / "images")


def test_embedded_pixels_have_features_too():
    pixels = np.random.default_rng(0).integers(0, 256, (4, 3, 8, 8), dtype=np.uint8)
    one = Split(tuple("abcd"), labels(4), pixels=pixels)
    other = Split(tuple("abcd"), labels(4), pixels=pixels[::-1].copy())
    assert np.array_equal(extract(one, Tiny()).features, extract(other, Tiny()).features[::-1])


def test_unreadable_images_are_named(split):
    split.files[4].write_bytes(b"rubbish")
    with pytest.raises(UserError, match=r"4\.png"):
        extract(split, Tiny())


def test_output_that_is_not_finite_is_named(split):
    with pytest.raises(FeatureError, match=r"not finite.*0\.png"):
        extract(split, Tiny(1e9))


def test_no_space_left_says_what_to_do(split, monkeypatch):
    original = feature_set.TableWriter.__enter__

    def enter(self):
        original(self)
        self._file.close()
        self._file = FullFile()
        return self

    class FullFile:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def seek(self, place):
            return place

        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(feature_set.TableWriter, "__enter__", enter)
    with pytest.raises(UserError, match=r"no space left.*TACIT_CACHE"):
        extract(split, Tiny())


def test_every_image_of_a_source(split):
    test = Split(("t.png",), labels(1), files=(split.files[0],))
    source = Source("mine", ("thing",), {"train": split, "test": test})
    assert every_image(source).images == (*split.images, "t.png")
    with pytest.raises(FeatureError, match=r"same name.*0\.png"):
        every_image(Source("mine", ("thing",), {"train": split, "test": split}))
    with pytest.raises(FeatureError, match="import"):
        every_image(Source("mine", ("thing",), {"train": Split(("a",), labels(1))}))


# --- found by name


def imported(tmp_path: Path, names: list[str], match: str = "exact") -> feature_set.FeatureSet:
    np.savez(tmp_path / "f.npz", image=np.array(names), features=np.arange(len(names) * 2.0).reshape(-1, 2))
    return import_features(tmp_path / "f.npz", match=match)


def test_rows_come_in_the_order_asked_for(tmp_path):
    found = imported(tmp_path, ["a", "b", "c"])
    assert found.rows_for(["c", "a"]).tolist() == [2, 0]
    assert found.for_images(["c", "a"]).tolist() == [[4, 5], [0, 1]]


def test_missing_images_are_listed_and_the_stem_is_suggested(tmp_path):
    found = imported(tmp_path, ["2008_1", "2008_2"])
    with pytest.raises(FeatureError, match=r"2 of 2 images.*JPEGImages/2008_1\.jpg.*2 of them.*match='stem'"):
        found.rows_for(["JPEGImages/2008_1.jpg", "JPEGImages/2008_2.jpg"])
    with pytest.raises(FeatureError, match="1 of 2 images have no features: x") as caught:
        found.rows_for(["2008_1", "x"])
    assert "stem" not in str(caught.value)


def test_by_stem_where_declared(tmp_path):
    found = imported(tmp_path, ["2008_1", "x/2008_2.png"], match="stem")
    assert open_features(tmp_path / "cache" / "features" / found.key[:24]).match == "stem"
    assert found.rows_for(["b/2008_2.jpg", "a\\2008_1.jpg"]).tolist() == [1, 0]
    with pytest.raises(FeatureError, match="more than one of them"):
        found.rows_for(["a/2008_1.jpg", "b/2008_1.jpg"])
    with pytest.raises(FeatureError, match="more than one row"):
        imported(tmp_path, ["a/1", "b/1"], match="stem").rows_for(["1"])


def test_stem_drops_folders_and_suffixes_of_images_only():
    assert [stem(n) for n in ("a/b.c/x.jpg", "x.JPEG", "x.1", "a\\x.png", "x")] == ["x", "x", "x.1", "x", "x"]


# --- brought in from elsewhere

GOOD = np.arange(6, dtype=np.float32).reshape(3, 2)


def test_npy_with_a_list_of_names(tmp_path):
    np.save(tmp_path / "f.npy", GOOD)
    (tmp_path / "names.txt").write_text("a b.jpg\nü.jpg\nc.jpg\n", encoding="utf-8")
    found = import_features(tmp_path / "f.npy", names=tmp_path / "names.txt", out=tmp_path / "out")
    assert found.images == ("a b.jpg", "ü.jpg", "c.jpg")
    assert np.array_equal(open_features(tmp_path / "out").features, GOOD)


def test_npz_with_names_of_its_own_for_its_arrays(tmp_path):
    np.savez(tmp_path / "f.npz", who=np.array(["a", "b", "c"]), clip=GOOD.astype(np.float64), count=np.arange(3))
    assert import_features(tmp_path / "f.npz").images == ("a", "b", "c")


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"image": ["a", "b"], "features": GOOD}, "3 rows of features, but 2 image names"),
        ({"image": ["a", "b", "a"], "features": GOOD}, "listed more than once: a"),
        ({"image": ["a", "b", "c"], "features": GOOD[0]}, r"table .* not of shape \(2,\)"),
        ({"image": ["a", "b", "c"], "features": GOOD.astype(int)}, "floating point numbers, not int64"),
        ({"image": ["a", "b", "c"], "features": GOOD * [[1], [np.nan], [1]]}, "not finite, for b"),
        ({"image": ["a", "b", "c"], "features": GOOD * 1e5}, "float16.*for a, b, c"),
        ({"image": np.array([], str), "features": GOOD[:0]}, "table"),
        ({"image": [1, 2, 3], "features": GOOD}, "strings"),
        ({"image": np.array(["a", "b", "c"], object), "features": GOOD}, "astype"),
        ({"features": GOOD}, "which array holds the image names"),
        ({"image": ["a", "b", "c"], "one": GOOD, "two": GOOD}, r"which array holds the features.*one float32\[3, 2\]"),
    ],
)
def test_what_cannot_be_imported_is_refused_before_anything_is_written(tmp_path, cache, arrays, complaint):
    np.savez(tmp_path / "f.npz", **{key: np.asarray(value) for key, value in arrays.items()}, allow_pickle=True)
    with pytest.raises(FeatureError, match=complaint) as caught:
        import_features(tmp_path / "f.npz")
    assert "f.npz" in str(caught.value)
    assert not cache.exists()


def test_other_files_are_refused(tmp_path):
    np.save(tmp_path / "f.npy", GOOD)
    (tmp_path / "broken.npz").write_bytes(b"PK rubbish")
    for name, complaint in [
        ("f.npy", "names"),
        ("no.npz", "no file"),
        ("f.csv", "npz or .npy"),
        ("broken.npz", "read"),
    ]:
        with pytest.raises(FeatureError, match=complaint):
            import_features(tmp_path / name)
    with pytest.raises(FeatureError, match=r"n\.txt"):
        import_features(tmp_path / "f.npy", names=tmp_path / "n.txt")


def test_what_cannot_be_opened_says_why(tmp_path):
    with pytest.raises(FeatureError, match="extract them first"):
        open_features(tmp_path / "nowhere")
    np.save(tmp_path / "f.npy", GOOD)
    with pytest.raises(FeatureError, match="import it"):
        open_features(tmp_path / "f.npy")
    folder = tmp_path / "out"
    import_features(tmp_path / "f.npy", names=["a", "b", "c"], out=folder)
    (folder / "images.json").write_text(json.dumps(["a"]))
    with pytest.raises(FeatureError, match="1 image names"):
        open_features(folder)
    (folder / "meta.json").write_text("{")
    with pytest.raises(FeatureError, match="damaged"):
        open_features(folder)


def test_the_real_file_beside_the_project(shared_data, tmp_path):
    file = shared_data / "voc2012_lite0_320.npz"
    found = import_features(file, match="stem", out=tmp_path / "voc")
    assert found.features.shape == (8629, 1280)
    lists = shared_data / "VOCdevkit" / "VOC2012" / "ImageSets" / "Main"
    train = [f"JPEGImages/{line}.jpg" for line in (lists / "train.txt").read_text().split()]
    assert np.array_equal(found.rows_for(train), np.arange(5717))
    with np.load(file) as archive:
        assert np.array_equal(found.for_images(train[-2:]), archive["features"][5715:5717])


def test_listing_commands_need_no_torch():
    code = "import sys, tacit.data.features; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
