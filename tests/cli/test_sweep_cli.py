"""`tacit sweep`: axes from words to runs, resumption after SIGKILL, tables, curves, and what is refused."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from finished_runs import feature_run

from tacit.cli import main
from tacit.cli.sweep import SweepCommand, axes_of
from tacit.cli.train import val_as_number
from tacit.errors import UserError
from tacit.run import RunDirectory

SHARES = ["--observe", "known-share:0.3,0.9"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a label table and features of 120 images."""
    folder = tmp_path_factory.mktemp("sweep")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TACIT_CACHE", str(folder / "cache"))
        feature_run(folder)
    return folder


@pytest.fixture(autouse=True)
def _cache(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_CACHE", str(world / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def words(world: Path, *more: str, method: str = "bce", epochs: int = 1) -> list[str]:
    table = ["--missing", "keep", "--check", "none", "--features", str(world / "features.npz"), "--device", "cpu"]
    return ["sweep", str(world / "all.csv"), "--method", method, *table, "--epochs", str(epochs), *more]


def finished(out: Path) -> dict[str, int]:
    return {str(path.parent.relative_to(out)): path.stat().st_mtime_ns for path in out.rglob("result.json")}


def figures(out: Path) -> dict[str, object]:
    return {str(path.relative_to(out)): json.loads(path.read_text())["metrics"] for path in out.rglob("result.json")}


def rows(text: str) -> list[list[str]]:
    return [re.split(r"  +", line.strip()) for line in text.splitlines()]


def flat(text: str) -> str:
    return " ".join(text.split())


def test_shares_by_seeds(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "shares"
    assert main(words(world, *SHARES, "--seeds", "0,1", "--out", str(out))) == 0
    shown = capsys.readouterr().out
    places = [f"known-share={share}/seed{seed}-observe0" for share in ("0.3", "0.9") for seed in (0, 1)]
    assert sorted(finished(out)) == places
    config = RunDirectory(out / places[3]).config()
    assert (config.observe, config.seed, config.budget) == ("known-share:0.9", 1, {"epochs": 1})
    table = rows(shown)
    assert table[1] == ["known-share", "mAP", "OF1", "CF1", "runs"]
    by_hand = {
        place: json.loads((out / place / "result.json").read_text())["metrics"]["test"]["mAP"] for place in places
    }
    at = {row[0]: row for row in table if len(row) == 5}
    mean = [sum(100 * by_hand[place] for place in places[first : first + 2]) / 2 for first in (0, 2)]
    assert [float(at[share][1].split(" ± ")[0]) for share in ("0.3", "0.9")] == pytest.approx(mean, abs=0.006)
    assert float(at["average"][1].split(" ± ")[0]) == pytest.approx(sum(mean) / 2, abs=0.006)
    assert at["0.3"][4] == "2/2"
    said = (
        "validation: 20 % held out, epoch by observed labels (of the training images, after labels were hidden on the"
    )
    assert said in shown
    picture = (out / "curves.svg").read_text()
    assert picture.startswith("<?xml") and "known-share" in picture and "test mAP, percent" in picture


def test_further_values_and_seeds_are_added_and_nothing_is_repeated(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "shares"
    assert main(words(world, *SHARES, "--out", str(out))) == 0
    first = finished(out)
    more = ["--observe", "known-share:0.3..0.9:0.3", "--seeds", "0,1"]
    assert main(words(world, *more, "--out", str(out))) == 0
    assert len(finished(out)) == 6
    assert {place: at for place, at in finished(out).items() if place in first} == first
    capsys.readouterr()
    assert main(words(world, *more, "--out", str(out), "--collect")) == 0
    assert [row[-1] for row in rows(capsys.readouterr().out)[2:6]] == ["2/2", "2/2", "2/2", "3 points"]


def test_goes_on_after_it_was_killed(world: Path, tmp_path: Path) -> None:
    """SIGKILL in the middle of a run: the same command repeats no finished run, and ends as if never killed."""
    observed = ["--observe", "known-share:0.3,0.6,0.9"]
    out, whole = tmp_path / "killed", tmp_path / "whole"
    command = [sys.executable, "-m", "tacit", *words(world, *observed, "--out", str(out), epochs=60)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    second = out / "known-share=0.6" / "seed0-observe0" / "metrics.jsonl"
    while not (second.is_file() and second.read_text().count("\n") >= 3):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = finished(out)
    assert list(before) == ["known-share=0.3/seed0-observe0"]
    assert main(words(world, *observed, "--out", str(out), epochs=60)) == 0
    after = finished(out)
    assert len(after) == 3
    assert after["known-share=0.3/seed0-observe0"] == before["known-share=0.3/seed0-observe0"]
    assert main(words(world, *observed, "--out", str(whole), epochs=60)) == 0
    assert figures(out) == figures(whole)


def test_a_grid_of_axes_has_a_curve_for_each_value_of_the_second(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "grid"
    grid = [*SHARES, "--vary", "lr=1e-2,0.001", "--vary", "val=none,0.2", "--out", str(out)]
    assert main(words(world, *grid, "--csv", str(out / "all.csv"))) == 0
    table = rows(capsys.readouterr().out)
    assert table[1][:4] == ["known-share", "lr", "val", "mAP"]
    assert len(finished(out)) == 8
    config = RunDirectory(out / "known-share=0.9,lr=0.01,val=none" / "seed0-observe0").config()
    assert (config.val, config.selection, config.budget["lr"]) == (0, "last", 0.01)
    (together,) = [at for at, row in enumerate(table) if row[0].startswith("test mAP along known-share")]
    assert table[together + 1] == [
        "known-share", "0.3", "0.9", "average mAP", "average OF1", "average CF1", "validation"
    ]  # fmt: skip
    told = {row[0]: row[-1] for row in table[together + 2 : together + 6]}
    assert set(told) == {f"bce, lr {lr}, val {val}" for lr in ("0.01", "0.001") for val in ("none", "0.2")}
    assert told["bce, lr 0.01, val none"] == "none: every row trains, last epoch"
    assert told["bce, lr 0.01, val 0.2"].startswith("20 % held out")
    with (out / "all.csv").open(newline="") as file:
        content = list(csv.DictReader(file))
    assert len(content) == 8
    assert {line["val"] for line in content} == {"0.0", "0.2"}
    wanted = RunDirectory(out / "known-share=0.9,lr=0.01,val=none" / "seed0-observe0").result()["metrics"]["test"]
    (line,) = [c for c in content if (c["known-share"], c["lr"], c["selection"]) == ("0.9", "0.01", "last")]
    assert float(line["CF1"]) == pytest.approx(100 * wanted["CF1"], abs=1e-3)


def test_methods_are_an_axis_of_words(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "methods"
    given = ["--observe", "known-share:0.5", "--vary", "method=bce,an", "--out", str(out)]
    assert main(words(world, *given)) == 0
    table = rows(capsys.readouterr().out)
    assert [row[0] for row in table[2:4]] == ["bce", "an"]
    assert not any(row[0] == "average" for row in table)
    assert {RunDirectory(out / place).config().method for place in finished(out)} == {"bce", "an"}


def test_sweeps_drawn_together(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other, page = tmp_path / "one", tmp_path / "other", tmp_path / "page.html"
    assert main(words(world, *SHARES, "--out", str(one))) == 0
    assert main(words(world, *SHARES, "--val", "none", "--out", str(other), method="an")) == 0
    capsys.readouterr()
    assert main(["sweep", "--draw", str(one), str(other), "--report", str(page), "--csv", str(tmp_path / "a.csv")]) == 0
    shown = capsys.readouterr().out
    assert "bce" in shown and "none: every row trains" in shown
    text = page.read_text()
    assert text.count("<svg role") == 3
    assert "none: every row trains, last epoch" in text
    assert "https://" not in re.sub(r'xmlns[^"]*"[^"]*"', "", text)
    picture = tmp_path / "curves.svg"
    assert main(["sweep", "--draw", str(one), str(other), "--report", str(picture)]) == 0
    assert picture.read_text().lstrip().startswith(("<?xml", "<svg")) and "known-share" in picture.read_text()
    assert main(["sweep", "--draw", str(one), str(one / "known-share=0.3"), "--report", str(page)]) == 2
    assert "holds no sweep" in flat(capsys.readouterr().err)


def test_runs_side_by_side(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words(world, *SHARES, "--jobs", "2", "--out", str(tmp_path / "out"))) == 0
    assert [row[-1] for row in rows(capsys.readouterr().out)[2:4]] == ["1/1", "1/1"]


def test_a_run_that_fails_does_not_stop_the_others(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--observe", "positive-share:0.5", "--vary", "method=an,bce", "--out", str(tmp_path / "out")]
    assert main(words(world, *given)) == 2  # bce knows of no negative here
    out, err = capsys.readouterr()
    assert err.count("warning: failed: method bce") == 1
    assert [row[-1] for row in rows(out)[2:4]] == ["1/1", "0/1"]


def test_an_axis_along_a_method_option() -> None:
    """role's k is a number with a fraction: its usual step would be 0.1."""
    config = SweepCommand("scenes", method="role", vary=("k=1..3:1", "epochs=2..6:2", "workers=0..2", "val=none,0.2"))
    found = {axis.key: axis.values for axis in axes_of(config)}
    assert found == {
        "method.k": ("1", "2", "3"),
        "budget.epochs": ("2", "4", "6"),
        "workers": ("0", "1", "2"),
        "val": ("none", "0.2"),
    }


def test_names_that_two_groups_share_are_spelled_out() -> None:
    (axis,) = axes_of(SweepCommand("scenes", method="role", vary=("method.k=1.5,2",)))
    assert (axis.name, axis.key, axis.setting("2")) == ("k", "method.k", "method.k=2")
    with pytest.raises(UserError, match="there is no setting 'k'"):
        axes_of(SweepCommand("scenes", method="bce", vary=("k=1.5,2",)))


def test_val_none() -> None:
    assert val_as_number(["s", "--val", "none", "--seed", "1"]) == ["s", "--val", "0", "--seed", "1"]
    assert val_as_number(["--val=none", "--weights", "none"]) == ["--val=0", "--weights", "none"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "a sweep needs an axis"),
        (["--observe", "known-share:0..0.9"], "known-share 0:"),
        (["--observe", "known-share:0.9..0.1"], "runs backwards; write 0.1..0.9"),
        (["--observe", "known-share:0.1.."], "the range is open"),
        (["--observe", "known-share:..0.5"], "the range is open"),
        (["--observe", "known-share:0.1..x"], "'x' is not a number"),
        (["--observe", "known-share:0.1,,0.5"], "a value is missing"),
        (["--observe", "known-share:0.1,0.10"], "0.1 is there twice"),
        (["--observe", "known-share:0.1..0.55"], "ends at 0.5, not at 0.55"),
        (["--observe", "known-share:0.1..0.5:0"], "the step must be above 0"),
        (["--observe", "known-share:0.1..0.9:1e-7"], "more than 10,000 values"),
        (["--observe", "known-share:0.5,1.5"], "known-share 1.5:"),
        (["--observe", "class-quota:10,10..20"], "class-quota takes no range"),
        (["--vary", "alfa=0.1..0.5"], "there is no setting 'alfa'"),
        (["--vary", "precision=fp32..bf16"], "a range wants a number"),
        (["--vary", "precision=fp32,fp17"], "fp17"),
        (["--vary", "also_select=clean,last"], "is a list"),
        (["--vary", "seed=0,1"], "there is no setting 'seed'"),
        (["--vary", "lr"], "write NAME=VALUES"),
        (["--vary", "lr="], "write NAME=VALUES"),
        (["--vary", "lr=0.1,0.2", "--vary", "budget.lr=0.3"], "varied twice"),
        (["--vary", "epochs=0..3"], "epochs 0: epochs of the linear budget must be above 0"),
        (["--vary", "val=0.2,1"], "val 1:"),
        ([*SHARES, "--vary", "image_size=1..1000"], "these are 2,000 runs (2 of known-share x 1000 of image_size x 1"),
        ([*SHARES, "--seeds", "0,0"], "every seed once"),
        ([*SHARES, "--seed", "3", "--seeds", "0,1"], "give --seeds alone"),
        ([*SHARES, "--jobs", "-1"], "a number of processes"),
        ([*SHARES, "--draw", "x"], "--draw shows sweeps that are there"),
        ([*SHARES, "--methode", "x"], "--methode"),
    ],
)
def test_mistakes(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], given: list[str], said: str) -> None:
    assert main(words(world, "--observe", "known-share:0.5", *given, "--out", str(tmp_path / "out"))) == 2
    assert said in flat(capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


def test_mistakes_about_folders(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(words(world, *SHARES)) == 2
    assert "--out DIR is missing" in flat(capsys.readouterr().err)
    assert main(["sweep", "--out", str(out)]) == 2
    assert "needs SOURCE" in flat(capsys.readouterr().err)
    assert main(words(world, *SHARES, "--report", str(tmp_path), "--out", str(out))) == 2
    assert "this is a folder; name the file" in flat(capsys.readouterr().err)
    assert main(words(world, "--observe", "known-share:0.5,0.9", "--out", str(world / "run"))) == 2
    assert "is not empty and holds no sweep" in flat(capsys.readouterr().err)
    assert main(words(world, *SHARES, "--out", str(world / "all.csv"))) == 2
    assert "is a file" in flat(capsys.readouterr().err)


def test_the_folder_of_another_sweep(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(words(world, "--observe", "known-share:0.5,0.9", "--out", str(out))) == 0
    before = finished(out)
    for other, said in (
        (words(world, *SHARES, method="an"), "method was 'bce', now 'an'"),
        (words(world, *SHARES, "--vary", "lr=0.1,0.2"), "goes over known-share, this one over known-share and lr"),
        (words(world, "--observe", "positive-share:0.1,0.2", method="an"), "goes over known-share, this one over pos"),
        (words(world, *SHARES, "--val", "0.1"), "val was 0.2, now 0.1"),
    ):
        capsys.readouterr()
        assert main([*other, "--out", str(out)]) == 2
        assert said in flat(capsys.readouterr().err)
    assert finished(out) == before
    (out / "sweep.json").write_text("{")
    assert main(["sweep", "--draw", str(out)]) == 2
    assert "sweep.json is damaged" in flat(capsys.readouterr().err)
