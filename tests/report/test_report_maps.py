"""Heat over pictures, and the section of a report that shows where nets look."""

from pathlib import Path

import numpy as np
import pytest
import torch
from run_factory import World, write_run

from tacit.functional.saliency import heat_maps
from tacit.report import ReportError, compare, read_runs, render_html
from tacit.report.heat import blended, enlarged, fitted, heat_of
from tacit.report.map_grid import IMAGES, Seen, map_section, pictured, relevant

CLASSES = ["a", "b", "<c>"]


def seen(scores: list[float], maps: dict[int, np.ndarray] | None = None, k: int = 2) -> Seen:
    every = {column: np.eye(3) for column in range(len(scores))} if maps is None else maps
    return Seen("run", np.array(scores, np.float32), every, k, np.full(len(scores), 0.5, np.float32))


def test_heat_is_that_of_the_functional_room() -> None:
    maps = torch.randn(1, 4, 5, 6, generator=torch.Generator().manual_seed(0))
    maps[0, 2] = -1.0
    for column in range(4):
        np.testing.assert_allclose(heat_of(maps[0, column].numpy()), heat_maps(maps)[0, column].numpy(), rtol=1e-6)
    assert not heat_of(maps[0, 2].numpy()).any()


def test_a_cold_place_keeps_its_luminance_and_the_hottest_is_the_palettes_brightest() -> None:
    pixels = np.full((3, 8, 8), 100, np.uint8)
    heat = np.zeros((2, 2), np.float32)
    np.testing.assert_array_equal(blended(pixels, heat), pixels)
    heat[0, 0] = 1
    hot = blended(pixels, heat)
    assert hot[0, 0, 0] > 200 and (hot[:, 7, 7] == 100).all()  # the corner of the map lies over that of the picture
    assert hot[0, 0, 0] > hot[0, 3, 3] > hot[0, 7, 7]


def test_sizes() -> None:
    pixels = np.arange(3 * 4 * 5, dtype=np.uint8).reshape(3, 4, 5)
    large = enlarged(pixels, 12)
    assert large.shape == (3, 12, 15)
    np.testing.assert_array_equal(large[:, ::3, ::3], pixels)
    assert fitted(large, 5).shape == (3, 4, 5) and fitted(pixels, 9).shape == pixels.shape


def test_present_classes_come_first_then_predicted_ones() -> None:
    truth = np.array([-1, 1, 0, 1], np.int8)
    assert relevant(truth, [seen([0.9, 0.1, 0.2, 0.4]), seen([0.0, 0.0, 0.6, 0.0])]) == [3, 1, 0, 2]
    assert relevant(np.array([-1, 0], np.int8), [seen([0.1, 0.2])]) == [1]
    assert relevant(np.array([1, 1], np.int8), [seen([0.1, 0.2], {1: np.eye(2)})]) == [1]


def test_the_numbers_of_a_tile() -> None:
    values = np.array([[4.0, -1.0], [2.0, -1.0]])
    found = pictured(
        "x", np.zeros((3, 4, 4), np.uint8), np.array([1, -1], np.int8), ("a", "b"), [seen([0.7, 0.1], {0: values})]
    )
    (tile,) = found.lines[0].tiles
    assert tile is not None and (tile.mean, tile.strongest, tile.predicted, tile.blank) == (1.0, 3.0, True, False)
    assert found.truth == ("present",) and found.classes == ("a",)


def test_a_k_larger_than_the_map_is_all_of_it() -> None:
    one = seen([0.7], {0: np.array([[1.0, 2.0]])}, k=50)
    (tile,) = pictured("x", np.zeros((3, 4, 4), np.uint8), np.array([1], np.int8), ("a",), [one]).lines[0].tiles
    assert tile is not None and tile.strongest == tile.mean == 1.5


def test_more_classes_than_there_is_room_for_are_counted() -> None:
    found = pictured("x", np.zeros((3, 4, 4), np.uint8), np.ones(3, np.int8), CLASSES, [seen([0.7] * 3)], most=2)
    assert len(found.classes) == 2 and found.left_out == 1


def write_world(root: Path, methods: tuple[str, ...] = ("an", "role")) -> None:
    world = World(classes=CLASSES, test_images=30)
    rng = np.random.default_rng(0)
    for method in methods:
        run = write_run(root / method, world, method, epochs=1)
        rows = np.repeat(np.load(run / "examples-test.npz")["index"], 3)
        columns = np.tile(np.arange(3), len(rows) // 3)
        maps = rng.normal(size=(len(rows), 4, 4)).astype(np.float16)
        np.savez(run / "maps-test.npz", row=rows, column=columns, maps=maps, alpha=0.5, k=5)


def test_the_report_shows_the_maps_that_runs_kept(tmp_path: Path) -> None:
    write_world(tmp_path)
    write_run(tmp_path / "plain", World(classes=CLASSES, test_images=30), "epr", epochs=1)
    comparison = compare(read_runs([tmp_path]))
    section = map_section(comparison)
    assert len(section.pictures) == IMAGES and section.kept == 12
    assert [line.label for line in section.pictures[0].lines] == ["AN", "ROLE"]
    text = render_html(comparison, tmp_path / "out.html").read_text()
    assert 'id="where"' in text and "&lt;c&gt;" in text and "<c>" not in text


def test_runs_without_maps_have_no_section(tmp_path: Path) -> None:
    write_run(tmp_path / "r", World(classes=CLASSES, test_images=30), "an", epochs=1)
    comparison = compare(read_runs([tmp_path]))
    assert not map_section(comparison).pictures
    assert 'id="where"' not in render_html(comparison, tmp_path / "out.html").read_text()


@pytest.mark.parametrize(
    "wrong", [{"column": np.array([7])}, {"maps": np.zeros((1, 4))}, {"row": np.array([0, 1])}, {"k": np.array([1, 2])}]
)
def test_maps_that_do_not_fit_are_named(tmp_path: Path, wrong: dict[str, np.ndarray]) -> None:
    write_world(tmp_path, ("an",))
    fine = {"row": np.array([0]), "column": np.array([0]), "maps": np.zeros((1, 4, 4)), "alpha": 0.5, "k": 5}
    np.savez(tmp_path / "an" / "maps-test.npz", **(fine | wrong))
    with pytest.raises(ReportError, match="maps-test"):
        map_section(compare(read_runs([tmp_path])))


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    write_world(tmp_path, ("an",))
    (tmp_path / "an" / "maps-test.npz").write_bytes(b"no archive")
    with pytest.raises(ReportError, match=r"maps-test\.npz cannot be read"):
        map_section(compare(read_runs([tmp_path])))
