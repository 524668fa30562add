"""`tacit landscape` on a real small run, and its drawing in the report."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from finished_runs import feature_run

from tacit.cli import main

SMALL = ("--grid", "5", "--images", "20", "--device", "cpu")


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("landscape")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TACIT_CACHE", str(folder / "cache"))
        return feature_run(folder)


@pytest.fixture
def run(made, tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    return Path(shutil.copytree(made, tmp_path / "run"))


def flat(text: str) -> str:
    return " ".join(text.split())


def test_from_the_run_to_the_page(run, capsys, tmp_path):
    assert main(["landscape", str(run), *SMALL]) == 0
    said = capsys.readouterr()
    assert "mean rise within 0.5" in said.out
    assert "run: 25 points in" in said.err
    with np.load(run / "landscape.npz") as file:
        loss, story = file["loss"], json.loads(str(file["story"]))
    assert loss.shape == (5, 5)
    assert story["method"] == "an"
    assert f"{loss[2, 2]:.4g}" in said.out
    assert main(["landscape", str(run), *SMALL, "--loss", "em:alpha=0.2"]) == 0
    with np.load(run / "landscape-em.npz") as file:
        assert json.loads(str(file["story"]))["options"] == {"alpha": 0.2}
    assert main(["compare", str(run), "--report", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "Under the loss em" in page
    assert 'id="gradients"' in page  # the run left its curves by itself


def test_ctrl_c_keeps_what_is_done(run, capsys, monkeypatch):
    from tacit.landscape import Objective

    usual, calls = Objective.__call__, []

    def interrupted(self: Objective) -> float:
        calls.append(1)
        if len(calls) == 12:
            raise KeyboardInterrupt
        return usual(self)

    with monkeypatch.context() as patch:
        patch.setattr(Objective, "__call__", interrupted)
        assert main(["landscape", str(run), *SMALL]) == 130
    assert "stopped after 2 of 5 rows" in flat(capsys.readouterr().err)
    assert main(["landscape", str(run), *SMALL]) == 0
    with np.load(run / "landscape.npz") as file:
        resumed = file["loss"]
    assert main(["landscape", str(run), *SMALL, "--again"]) == 0
    with np.load(run / "landscape.npz") as file:
        assert np.array_equal(file["loss"], resumed)


def test_one_run_that_fails_does_not_stop_the_others(run, capsys):
    assert main(["landscape", str(run.parent / "nothing"), str(run), *SMALL]) == 2
    said = capsys.readouterr()
    assert "there is no" in flat(said.err)
    assert "run  an" in said.out
    assert (run / "landscape.npz").is_file()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--grid", "4"), "odd number"),
        (("--span", "0"), "above 0"),
        (("--images", "0"), "at least 1"),
        (("--loss", "emm"), "no method named 'emm' (did you mean em"),
        (("--loss", "role:k=1.5"), "depends on what it remembers"),
        (("--loss", "role"), "role needs k"),
    ],
)
def test_what_is_wrong_is_said(run, words, says, capsys):
    assert main(["landscape", str(run), *words]) == 2
    assert says in flat(capsys.readouterr().err)
    assert not list(run.glob("landscape*"))


def test_runs_are_needed(capsys):
    assert main(["landscape"]) == 2
    assert "needs RUNS" in flat(capsys.readouterr().err)
