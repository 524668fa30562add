"""`tacit demo`: its settings, and the whole of it on a handful of scenes."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from tacit.cli import demo, main
from tacit.cli.train import asked, config_of
from tacit.data.source import load_source
from tacit.run import RunDirectory
from tacit.train import Interrupted

RECIPES = Path(__file__).resolve().parents[2] / "recipes" / "scenes"


def flat(text: str) -> str:
    return " ".join(text.split())


def on_few_scenes(patch: pytest.MonkeyPatch, cache: Path) -> None:
    """The demo as it is, on 60 scenes."""
    patch.setenv("TACIT_CACHE", str(cache))
    usual = demo.config_of
    small = {"train": 60, "test": 40, "size": 24}
    patch.setattr(demo, "config_of", lambda row: replace(usual(row), source_options=small))


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("scenes")


@pytest.fixture(autouse=True)
def _few_scenes(cache, monkeypatch):
    on_few_scenes(monkeypatch, cache)


class Shown(NamedTuple):
    out: str
    err: str


@pytest.fixture(scope="module")
def demonstrated(tmp_path_factory, cache) -> tuple[Path, Shown]:
    """A demo of one seed and one epoch that has ended, with what it printed."""
    folder, out, err = tmp_path_factory.mktemp("demo") / "demo", io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        on_few_scenes(patch, cache)
        assert main(["demo", "--out", str(folder), "--seeds", "3", "--epochs", "1"]) == 0
    return folder, Shown(out.getvalue(), err.getvalue())


@pytest.mark.parametrize("row", demo.ROWS, ids=lambda row: row.recipe)
def test_recipes_say_what_the_demo_does(row, monkeypatch):
    monkeypatch.undo()
    written = config_of(asked(["--config", str(RECIPES / f"{row.recipe}.toml")]))
    assert written == demo.config_of(row)


def test_no_other_recipe_of_scenes():
    assert {path.stem for path in RECIPES.glob("*.toml")} == {row.recipe for row in demo.ROWS}


def test_what_role_is_told_is_the_mean_of_the_true_labels(cache):
    labels = load_source("scenes", cache).splits["train"].labels
    assert round(float(labels.counts().present.sum()) / len(labels), 2) == demo.POSITIVES


def test_seeds_draw_the_hidden_labels_anew_and_alike_for_all_methods():
    planned = demo.plan(demo.Demo(seeds="0,4"))
    assert len(planned) == 10
    assert [run.config.observe_seed for run in planned] == [1200] * 5 + [1204] * 5
    assert [run.config.seed for run in planned] == [0] * 5 + [4] * 5
    assert len({run.out for run in planned}) == 10
    assert {run.config.split_seed for run in planned} == {1200}
    assert {run.config.selection for run in planned} == {"observed"}


def test_from_nothing_to_a_report(demonstrated):
    out, shown = demonstrated
    assert all(RunDirectory(out / f"{row.recipe}-seed3").finished for row in demo.ROWS)
    assert all(f"run {number} of 5: {row.says}, seed 3" in shown.err for number, row in enumerate(demo.ROWS, 1))
    assert "ROLE" in shown.out
    assert "With one label per scene" in shown.out
    assert f"Report: {out / 'report.html'}" in shown.out
    assert "never evidence" in shown.out
    assert (out / "report.html").read_text().startswith("<!doctype html")
    result = json.loads((out / "role-seed3" / "result.json").read_text())
    assert any("expected number of positives" in oracle for oracle in result["oracles"])
    assert "\x1b" not in shown.out + shown.err


def test_the_commands_it_suggests_can_be_typed(demonstrated, capsys):
    out, shown = demonstrated
    evaluate, train = (line.split()[1:] for line in shown.out.splitlines() if line.startswith("  tacit "))
    assert config_of(asked(train[1:])).method == "role"
    assert evaluate[0] == "evaluate"
    assert evaluate[1].startswith(str(out))
    assert main([*evaluate, "--bootstrap", "20"]) == 0
    assert "snowman" in capsys.readouterr().out


def test_a_second_time_only_reports(demonstrated, capsys, monkeypatch):
    out, first = demonstrated
    (out / "report.html").unlink()
    monkeypatch.setattr("tacit.conduct.conduct", None)
    assert main(["demo", "--out", str(out), "--seeds", "3", "--epochs", "1"]) == 0
    shown = capsys.readouterr()
    assert "5 of 5 runs are finished already" in shown.err
    assert shown.out == first.out
    assert (out / "report.html").is_file()


def test_goes_on_where_it_stopped(tmp_path, capsys, monkeypatch):
    from tacit import conduct as module

    usual, conducted = module.conduct, []

    def stops_in_the_second(config, out, screen, *, resume=False):
        conducted.append(out.name)
        if len(conducted) == 2:
            raise Interrupted("stopped after epoch 0")
        return usual(config, out, screen, resume=resume)

    monkeypatch.setattr(module, "conduct", stops_in_the_second)
    monkeypatch.setattr(demo, "ROWS", demo.ROWS[:3])
    words = ["demo", "--out", str(tmp_path / "demo"), "--seeds", "0", "--epochs", "1"]
    assert main(words) == 130
    said = flat(capsys.readouterr().err)
    assert "stopped in run 2 of 3: AN, seed 0. All is saved; go on with:" in said
    assert f"tacit demo --out {tmp_path / 'demo'} --seeds 0 --epochs 1" in said
    assert main(words) == 0
    assert conducted == [f"{name}-seed0" for name in ("bce_full", "an", "an", "an_ls")]
    assert "1 of 3 runs are finished already" in capsys.readouterr().err


def test_other_settings_are_not_gone_on_with(demonstrated, capsys):
    out, _ = demonstrated
    assert main(["demo", "--out", str(out), "--seeds", "3", "--epochs", "2"]) == 2
    said = flat(capsys.readouterr().err)
    assert "holds a run of other settings than this demo's" in said
    assert "--out another folder" in said


def test_the_command_to_go_on_names_only_what_is_not_usual():
    assert demo.again(demo.Demo()) == "tacit demo"
    assert demo.again(demo.Demo(seeds="1", epochs=2)) == "tacit demo --seeds 1 --epochs 2"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--seeds", "one"], "--seeds one: whole numbers with commas"),
        (["--seeds", ""], "whole numbers with commas"),
        (["--seeds", "0,0"], "named twice"),
        (["--seeds", "0,-1"], "a seed is a whole number from 0"),
        (["--seeds", "0 1"], "whole numbers with commas"),
        (["--epochs", "0"], "--epochs 0: must be at least 1"),
        (["--epochs", "many"], "many"),
        (["--epoch", "3"], "--epoch: did you mean --epochs"),
        (["--out", "{file}"], "this is a file; name a folder"),
        (["--out", "{run}"], "this is the directory of a single run"),
        (["voc2012"], "voc2012"),
        (["--method", "role"], "--method"),
    ],
)
def test_mistakes(words, said, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.toml").write_text('source = "scenes"\n')
    places = {"file": tmp_path / "file", "run": tmp_path / "run"}
    assert main(["demo", *(word.format(**places) for word in words)]) == 2
    shown = capsys.readouterr()
    assert said in flat(shown.err)
    assert "Traceback" not in shown.err
