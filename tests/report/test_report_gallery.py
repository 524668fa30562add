"""The grid of images: which are shown, and at which threshold methods are asked."""

import json
from pathlib import Path

import numpy as np
from run_factory import World, write_run

from tacit.report import compare, read_runs, render_html
from tacit.report.gallery import IMAGES, gallery

KEPT = 20


def write_world(root: Path, thresholds: dict[str, float | None]) -> None:
    """Two methods that agree but on the images 15 (two classes) and 18 (one class), where the first says yes."""
    world = World(classes=["a", "b"], test_images=KEPT)
    truth = -np.ones((KEPT, 2), np.int8)
    for method, threshold in thresholds.items():
        chosen = {"labels": "observed", "unknown": "negative", "one": threshold, "per_class": [threshold] * 2}
        changes = {} if threshold is None else {"thresholds": chosen}
        run = write_run(root / method, world, method, epochs=1, **changes)
        scores = np.full((KEPT, 2), 0.2, np.float32)
        scores[3] = 0.9  # both say yes to both classes
        if method == "role":
            scores[15], scores[18, 0] = 0.8, 0.7
        np.savez(
            run / "scores-test.npz", images=np.array([f"{i}.jpg" for i in range(KEPT)]), scores=scores, truth=truth
        )
        pixels = np.zeros((KEPT, 3, 8, 8), np.uint8)
        np.savez(run / "examples-test.npz", index=np.arange(KEPT), pixels=pixels)


def test_images_on_which_methods_differ_come_first_whatever_is_true(tmp_path: Path) -> None:
    write_world(tmp_path, {"an": None, "role": None})
    shown = gallery(compare(read_runs([tmp_path])))
    names = [picture.name for picture in shown.pictures]
    assert names[:4] == ["15.jpg", "18.jpg", "0.jpg", "1.jpg"] and len(names) == IMAGES
    assert shown.by_disagreement and shown.at_half and shown.kept == KEPT
    text = render_html(compare(read_runs([tmp_path])), tmp_path / "out.html").read_text()
    assert "Of 20 test images" in text and "Predicted is what reaches 0.5." in text


def test_one_method_alone_shows_the_first_images(tmp_path: Path) -> None:
    write_world(tmp_path, {"role": None})
    shown = gallery(compare(read_runs([tmp_path])))
    assert [picture.name for picture in shown.pictures] == [f"{i}.jpg" for i in range(IMAGES)]
    assert not shown.by_disagreement


def test_a_method_decides_at_the_threshold_its_run_chose(tmp_path: Path) -> None:
    write_world(tmp_path, {"an": None, "role": 0.75})
    comparison = compare(read_runs([tmp_path]))
    shown = gallery(comparison)
    assert {comparison.groups[g].label: t for g, t in shown.thresholds.items()} == {"AN": 0.5, "ROLE": 0.75}
    pictures = {picture.name: picture for picture in shown.pictures}
    role = pictures["15.jpg"].answers[1]
    assert [(mark.name, mark.verdict) for mark in role.marks] == [("a", "wrong"), ("b", "wrong")]
    assert shown.pictures[0].name == "15.jpg" and shown.pictures[1].name == "0.jpg"  # 0.7 does not reach 0.75
    text = render_html(comparison, tmp_path / "out.html").read_text()
    assert "AN 0.50, ROLE 0.75." in text and "a <small>0.80</small>" in text


def test_a_run_without_validation_has_no_threshold_of_its_own(tmp_path: Path) -> None:
    write_world(tmp_path, {"role": 0.7})
    file = tmp_path / "role" / "result.json"
    result = json.loads(file.read_text()) | {"thresholds": {"absent": "no images were held out for validation"}}
    file.write_text(json.dumps(result))
    assert set(gallery(compare(read_runs([tmp_path]))).thresholds.values()) == {0.5}
