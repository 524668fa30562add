"""The embedded scenes: what a class being present means, the long tail, and a cache that cannot lie."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.data import scene_drawing, scenes
from tacit.data.scene_drawing import Crowd, draw_scenes
from tacit.data.scene_glyphs import CLASSES, KINDS
from tacit.data.scene_places import PLACES
from tacit.data.scene_shapes import Poses
from tacit.data.source import Source, SourceError, load_source

NAMES = tuple(KINDS)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    return scenes.load(tmp_path_factory.mktemp("scenes"), "", train=750, test=100)


def crowd(*things: tuple[str, float, float, float]) -> Crowd:
    """One picture with (name, x, y, half height), in pixels, the last one nearest."""
    n = len(things)
    poses = Poses(
        half=np.array([half for *_, half in things], np.float32),
        offset=np.zeros((n, 2), np.float32),
        angle=np.zeros(n, np.float32),
        stretch=np.ones(n, np.float32),
        mirrored=np.zeros(n, bool),
        paint=np.zeros(n, np.float32),
        tint=np.zeros((n, 3), np.float32),
    )
    return Crowd(
        picture=np.zeros(n, np.int64),
        kind=np.array([NAMES.index(name) for name, *_ in things]),
        glyph=np.zeros(n, np.float32),
        centre=np.array([[x, y] for _, x, y, _ in things], np.float32),
        nearness=np.arange(n, dtype=np.float32),
        poses=poses,
    )


def seen_areas(*things: tuple[str, float, float, float], side: int = 40) -> dict[str, float]:
    canvas = np.zeros((1, side, side, 3), np.float32)
    sorted_crowd, layer = scene_drawing._layers(crowd(*things))
    seen, whole = scene_drawing._compose(canvas, sorted_crowd, layer)
    areas = scene_drawing._areas(sorted_crowd, seen, whole, 1, side)[0]
    return {name: float(area) for name, area in zip(CLASSES, areas, strict=True) if area > 0}


def test_the_source_has_pixels_labels_and_areas_that_agree(source: Source) -> None:
    train = source.splits["train"]
    assert source.classes == tuple(CLASSES)
    assert train.pixels is not None
    assert train.areas is not None
    assert train.pixels.shape == (750, 3, 40, 40)
    assert train.pixels.dtype == np.uint8
    np.testing.assert_array_equal(train.labels.dense() == 1, train.areas > 0)
    assert not (train.labels.dense() == 0).any(), "the truth of a drawn scene is complete"
    assert train.areas.max() <= 40 * 40
    assert len(set(train.images) | set(source.splits["test"].images)) == 850


def test_a_long_tail_of_co_occurring_classes(source: Source) -> None:
    present = source.splits["train"].labels.dense() == 1
    share = dict(zip(source.classes, present.mean(0), strict=True))
    assert len(share) >= 12
    assert 0.35 < max(share.values()) < 0.6
    assert 0.01 < min(share.values()) < 0.06
    assert 2.5 < present.sum(1).mean() < 3.5
    together = present[:, source.classes.index("moon")] & present[:, source.classes.index("star")]
    assert together.mean() > 3 * share["moon"] * share["star"]
    apart = present[:, source.classes.index("sun")] & present[:, source.classes.index("moon")]
    assert not apart.any()


def test_every_place_weighs_in_and_names_only_what_exists() -> None:
    assert sum(place.weight for place in PLACES.values()) == pytest.approx(1)
    assert set().union(*(place.shares for place in PLACES.values())) == set(CLASSES)
    assert set().union(*(place.decoys for place in PLACES.values())) == set(KINDS) - set(CLASSES)


def test_what_is_hidden_is_absent() -> None:
    alone = seen_areas(("moon", 20, 20, 5))
    assert set(alone) == {"moon"}
    assert set(seen_areas(("moon", 20, 20, 5), ("house", 20, 20, 12))) == {"house"}
    assert set(seen_areas(("house", 20, 20, 12), ("moon", 20, 20, 5))) == {"house", "moon"}


def test_what_is_mostly_outside_is_absent_and_the_area_is_what_is_seen() -> None:
    whole = seen_areas(("house", 20, 20, 8))["house"]
    half = seen_areas(("house", 0, 20, 8))["house"]
    assert half == pytest.approx(whole / 2, rel=0.1)
    assert not seen_areas(("house", -4, 20, 8))
    assert not seen_areas(("house", -400, 20, 8))


def test_the_largest_of_a_class_counts_and_decoys_never_do() -> None:
    small, large = seen_areas(("tree", 8, 20, 5)), seen_areas(("tree", 28, 20, 9))
    assert seen_areas(("tree", 8, 20, 5), ("tree", 28, 20, 9)) == large != small
    assert not seen_areas(("bush", 20, 20, 8), ("crate", 8, 8, 6))


def test_a_crowd_too_large_loses_its_farthest() -> None:
    things = [("star", 20.0, 20.0, 4.0)] + [("bush", 5.0 + 2 * i, 36.0, 3.0) for i in range(scene_drawing.CROWD)]
    assert not seen_areas(*things)
    assert seen_areas(*things[:-1])


def test_the_same_seed_draws_the_same_and_another_does_not() -> None:
    first, again, other = (draw_scenes(np.random.RandomState(seed), 20, 32) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])
    assert (first[0] != other[0]).mean() > 0.9


def test_a_longer_split_begins_with_the_shorter_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenes, "CHUNK", 20)
    short = scenes.load(tmp_path, "", train=30, test=10, size=24).splits
    long = scenes.load(tmp_path, "", train=70, test=40, size=24).splits
    np.testing.assert_array_equal(long["train"].pixels[:30], short["train"].pixels)
    assert long["test"].labels.take(np.arange(10)) == short["test"].labels
    assert not (long["train"].pixels[:40] == long["test"].pixels).all(axis=(1, 2, 3)).any()


def test_the_cache_is_read_and_a_damaged_one_is_drawn_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenes, "CHUNK", 10)
    options: dict[str, Any] = {"train": 20, "test": 10, "size": 24}
    fresh = scenes.load(tmp_path, "", **options)
    (kept,) = tmp_path.glob("*.npz")
    whole = kept.read_bytes()

    def refuse(*_: object) -> None:
        raise AssertionError("drawn again although it is kept")

    with monkeypatch.context() as patch:
        patch.setattr(scenes, "_draw", refuse)
        assert scenes.load(tmp_path, "", **options).splits["train"].labels == fresh.splits["train"].labels
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    for damaged in (b"", whole[: len(whole) // 2], b"not a zip", bytes(flipped)):
        kept.write_bytes(damaged)
        again = scenes.load(tmp_path, "", **options)
        np.testing.assert_array_equal(again.splits["train"].pixels, fresh.splits["train"].pixels)
        assert kept.read_bytes()[:2] == b"PK"
    np.savez(kept, train_pixels=np.zeros(3), train_areas=np.zeros(3), test_pixels=np.zeros(3), test_areas=np.zeros(3))
    assert len(scenes.load(tmp_path, "", **options).splits["train"]) == 20


def test_the_cache_follows_its_variable_and_may_be_unwritable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenes, "CHUNK", 5)
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    load_source("scenes", train=5, test=5, size=24)
    assert len(list((tmp_path / "cache" / "scenes").iterdir())) == 1
    blocked = tmp_path / "a file, not a folder"
    blocked.write_text("")
    assert len(load_source("scenes", blocked, train=5, test=5, size=24).splits["test"]) == 5


@pytest.mark.parametrize(
    ("variant", "options", "message"),
    [
        ("2012", {}, "no variant '2012'"),
        ("", {"train": 0}, "train = 0"),
        ("", {"test": -1}, "test = -1"),
        ("", {"seed": -1}, "seed = -1"),
        ("", {"size": 8}, "24 to 128"),
    ],
)
def test_what_cannot_be_drawn_is_refused(variant: str, options: dict[str, int], message: str) -> None:
    with pytest.raises(SourceError, match=message):
        scenes.load(None, variant, **options)


def test_importing_the_source_does_not_import_torch() -> None:
    check = "import sys, tacit.data.scenes, tacit.data.scene_drawing; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
