"""Reading run directories: what is complete is typed, what is broken is named."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from run_factory import World, write_run

from tacit.report import ReportError, SkippedRun, read_runs


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "r", World(test_images=20), "role", 4, epochs=3)


def change(directory: Path, /, **values: object) -> None:
    path = directory / "result.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_a_record_holds_what_the_files_say(run: Path) -> None:
    (record,) = read_runs([run])
    assert (record.run.method, record.run.seed, record.run.observe) == ("role", 4, "single-positive")
    assert record.selected.metric == "mAP" and record.counts["train"].images == 4574
    assert len(record.epochs) == 3 and set(record.epochs[0].terms) >= {"classifier", "estimator", "total"}
    assert record.epochs[1].train == {} and record.epochs[0].estimates["precision"] > 0
    assert record.published is not None and record.published.value == 86.5
    assert record.config["method_options"] == {"k": 1.5}


def test_null_ap_is_a_class_that_cannot_be_scored(tmp_path: Path) -> None:
    (record,) = read_runs([write_run(tmp_path / "r", World(test_images=20, unscored=(2,)), "an")])
    assert np.flatnonzero(np.isnan(record.per_class_ap["test"])).tolist() == [2]
    assert record.unscored["test"] == ("bird",)


def test_a_folder_of_runs_is_searched_and_a_run_named_twice_counts_once(tmp_path: Path) -> None:
    world = World(test_images=10)
    for seed in (0, 1):
        write_run(tmp_path / "deep" / f"an-{seed}", world, "an", seed, epochs=1)
    assert [record.run.seed for record in read_runs([tmp_path, tmp_path / "deep" / "an-1"])] == [0, 1]


def test_an_unfinished_run_is_skipped_and_told(run: Path, tmp_path: Path) -> None:
    started = tmp_path / "started"
    started.mkdir()
    shutil.copy(run / "config.toml", started)
    told: list[str] = []
    assert len(read_runs([run, started], told.append)) == 1
    assert len(told) == 1 and "started" in told[0] and "no result.json" in told[0] and "--resume" in told[0]
    with pytest.warns(SkippedRun, match="started"):
        read_runs([run, started])
    change(run, status="stopped")
    with pytest.raises(ReportError, match="no finished run"):
        read_runs([run], told.append)
    assert "'stopped'" in told[-1]


@pytest.mark.parametrize("name", ["nowhere", "a_file", "empty"])
def test_what_is_no_run_directory_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "a_file").write_text("")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ReportError, match=f"{name}.*(does not exist|is a file|no run directory)"):
        read_runs([tmp_path / name])


def test_an_unknown_format_says_so(run: Path) -> None:
    change(run, format=7)
    with pytest.raises(ReportError, match=r"result\.json: format 7 is unknown"):
        read_runs([run])


def test_broken_json_is_named_with_file_and_line(run: Path) -> None:
    lines = (run / "metrics.jsonl").read_text().splitlines()
    (run / "metrics.jsonl").write_text("\n".join([*lines[:2], lines[2][:-9]]))
    with pytest.raises(ReportError, match=r"metrics\.jsonl, line 3: broken JSON"):
        read_runs([run])
    text = (run / "result.json").read_text()
    (run / "result.json").write_text(text.replace('"fingerprint":', '"fingerprint"', 1))
    line = text[: text.index('"fingerprint":')].count("\n") + 1
    with pytest.raises(ReportError, match=rf"result\.json, line {line}: broken JSON"):
        read_runs([run])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": None}, "'classes' is missing"),
        ({"fingerprint": 3}, "'fingerprint' should be a text"),
        ({"run": {"source": "x"}}, "run: 'method' is missing"),
        ({"metrics": {"test": {"mAP": "high"}}}, "metrics: test: 'mAP' should be a number"),
        ({"per_class": {"test": {"AP": [0.5]}}}, "AP has 1 values for 20 classes"),
    ],
)
def test_a_missing_or_mistyped_field_is_named(run: Path, changes: dict[str, object], message: str) -> None:
    change(run, **changes)
    with pytest.raises(ReportError, match=message):
        read_runs([run])


def test_scores_that_do_not_fit_or_cannot_be_read_are_named(run: Path) -> None:
    (record,) = read_runs([run])
    np.savez(run / "scores-test.npz", images=np.array(["a"]), scores=np.zeros((1, 3)), truth=np.zeros((1, 3), np.int8))
    with pytest.raises(ReportError, match=r"scores-test\.npz: .*do not fit the 20 classes"):
        record.scores("test")
    (run / "scores-test.npz").write_bytes(b"not a zip")
    with pytest.raises(ReportError, match=r"scores-test\.npz cannot be read"):
        record.scores("test")
    assert record.scores("val") is None


def test_the_report_needs_neither_torch_nor_a_trainer() -> None:
    code = "import sys, tacit.report; print([m for m in ('torch', 'tacit.train', 'tacit.methods') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
