"""The reading of kept scores for docs/results: distances of two methods, decisions at several thresholds, the map."""

import json
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_factory import World, write_run

ROOT = Path(__file__).resolve().parents[2]
TRUTH = np.array([[1, -1], [1, 1], [-1, 1], [-1, -1]], np.int8)
OBSERVED = np.array([[1, 0], [0, 1], [0, 0], [0, 0]], np.int8)


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools" / "read_scores.py"))


def written(folder: Path, method: str, gaps: tuple[float, float]) -> Path:
    """A run whose positives score 0.5 + gap / 2 and whose negatives 0.5 - gap / 2, by class."""
    run = write_run(folder, World(classes=["ant", "bee"], test_images=4), method, images=False, epochs=1)
    scores = (0.5 + 0.5 * np.array(gaps) * TRUTH).astype(np.float32)
    names = np.array([f"{i}.jpg" for i in range(4)])
    for split, more in (("train", {"observed": OBSERVED}), ("test", {})):
        np.savez(run / f"scores-{split}.npz", images=names, scores=scores, truth=TRUTH, **more)
    return run


def test_classes_that_a_method_keeps_further_apart(tool: dict[str, Any], tmp_path: Path) -> None:
    runs = [
        written(tmp_path / "an" / "seed0", "an", (0.2, 0.6)),
        written(tmp_path / "role" / "seed0", "role", (0.4, 0.3)),
    ]
    lines = list(tool["separation"](runs))
    assert "| ROLE | all training cells | 0.350 | 0.400 | 1 of 2 | 1 |" in lines
    assert sum(line.startswith("| ROLE |") for line in lines) == 3


def test_decisions_at_every_threshold(tool: dict[str, Any], tmp_path: Path) -> None:
    """Positives at 0.9 and 0.7: all are found at 0.5, only the first class's at 0.75."""
    run = written(tmp_path / "em" / "seed0", "em", (0.8, 0.4))
    assert tool["at"](run, 0.75)["OF1"] == pytest.approx(2 / 3)  # precision 1, recall 1/2; CF1: the mean of 1 and 0
    found = json.loads((run / "result.json").read_text())
    decided = {key: {"OF1": 1.0, "CF1": 0.5} for key in ("half", "one", "per_class")}
    found |= {"calibration": {"test": {"ECE": 0.2}}, "thresholds": {"one": 0.6}, "decisions": {"test": decided}}
    (run / "result.json").write_text(json.dumps(found))
    row = "| em | 1 | 20.0 | 0.60 | 100.0 / 50.0 | {} | 100.0 / 50.0 | 100.0 / 50.0 |"
    assert list(tool["thresholds"]([run]))[-1] == row.format("66.7 / 50.0")
    (run / "scores-test.npz").unlink()
    assert list(tool["thresholds"]([run]))[-1] == row.format("–")


def test_maps_of_the_loss_on_one_scale_and_on_their_own(tmp_path: Path) -> None:
    landscape = runpy.run_path(str(ROOT / "tools" / "draw_results.py"))["landscape"]
    runs = [written(tmp_path / name, name, (0.5, 0.5)) for name in ("an", "role")]
    with pytest.raises(SystemExit, match=r"a landscape\.npz each"):
        landscape(runs)
    steps = np.linspace(-1, 1, 3)
    bowl = steps[:, None] ** 2 + steps**2
    story = {"own": True, "images": 4, "seed": 0, "direction_seed": 0}
    for run, height in zip(runs, (1.0, 0.1), strict=True):
        told = np.array(json.dumps(story))
        np.savez(run / "landscape.npz", steps=steps, loss=height * bowl, done=np.ones(3, bool), story=told)
    maps = [axes for axes in landscape(runs).axes if axes.get_xlabel() == "first direction"]
    tops = [max(artist.levels.max() for artist in axes.collections if hasattr(artist, "levels")) for axes in maps]
    assert tops == pytest.approx([2.0, 2.0, 2.0, 0.2])
