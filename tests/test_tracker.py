"""A tracker gets what metrics.jsonl gets: tested with TensorBoard, the one that needs no server."""

from pathlib import Path

import pytest

from tacit.cli import main

event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


def test_tensorboard_holds_terms_and_validation(tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["train", "scenes", "--train", "80", "--test", "20", "--method", "an", "--protocol", "finetune"]
    assert main([*words, "--epochs", "2", "--batch-size", "32", "--tracker", "tensorboard", "--out", str(out)]) == 0
    events = event_accumulator.EventAccumulator(str(out / "tacit"))
    events.Reload()
    tags = events.Tags()["scalars"]
    assert {"terms/bce", "terms/total", "val/mAP"} <= set(tags)
    assert [event.step for event in events.Scalars("terms/bce")] == [1, 2]
