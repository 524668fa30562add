"""`tacit table` from the words typed to runs, figures and exports, on a table of two rows over a world of 46 images."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tacit.cli import main
from tacit.cli.recipe import OptionError
from tacit.cli.table import recipe_config, setting_words
from tacit.cli.train import recipe_name
from tacit.label_table import LabelTable, write_label_table
from tacit.labels import Labels
from tacit.tables.spec import find_table

CHECKOUT = Path(__file__).resolve().parents[2]
TOY = """
title = "Toy"
where = "nowhere"
paper = "https://example.org"
note = "A toy."
metric = "mAP"
split = "test"
runs = "toy"
baseline = "an"
reference = "bce"
sources = ["world"]
[images]
world = { test = 8 }
[rows]
bce = { label = "BCE", labels = "all" }
an = { label = "AN", labels = "1 P, 0 N" }
[published.linear]
bce = [90]
an = [80]
"""
RECIPE = """
source = "{table}"
features = "{features}"
method = "{method}"
observe = "{observe}"
device = "cpu"
select = "clean"
also_select = ["observed"]
[budget]
epochs = 2
"""


def write_world(folder: Path) -> Path:
    """A label table of 46 images, eight of them for the test, and features that say something about the labels."""
    draw = np.random.RandomState(0)
    features = draw.randn(46, 5).astype(np.float32)
    positive = features @ draw.randn(5, 4) > 0.2
    positive[np.arange(46), np.arange(46) % 4] = True
    names = tuple(f"{i:03d}.png" for i in range(46))
    for name in names:
        Image.new("RGB", (4, 4)).save(folder / name)
    labels = Labels.from_dense(np.where(positive, 1, -1).astype(np.int8), ("ant", "bee", "cow", "dog"))
    write_label_table(folder / "labels.csv", LabelTable(names, labels, ("train",) * 38 + ("test",) * 8))
    np.savez(folder / "features.npz", images=np.array(names), features=features)
    return folder / "labels.csv"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data and recipes to be in."""
    table = write_world(tmp_path)
    for folder in ("recipes/tables", "recipes/world"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "recipes/tables/toy.toml").write_text(TOY)
    for row, observe in (("bce", "full"), ("an", "single-positive")):
        text = RECIPE.format(table=table, features=tmp_path / "features.npz", method=row, observe=observe)
        (tmp_path / f"recipes/world/{row}_linear.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    return tmp_path


def results(world: Path) -> dict[str, int]:
    """Finished runs and when they were."""
    found = (world / "runs/tables").rglob("result.json")
    return {str(path.parent.relative_to(world / "runs/tables")): path.stat().st_mtime_ns for path in found}


def row(text: str, label: str) -> list[str]:
    return next(line.split() for line in text.splitlines() if line.startswith(label))


def test_runs_then_collects_then_adds_what_is_missing(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", "toy", "--seeds", "0", "--observe-seeds", "paired"]) == 0
    shown = capsys.readouterr().out
    assert "1/1" in row(shown, "AN")
    first = results(world)
    assert set(first) == {"toy/world/an_linear/seed0-observe1200", "toy/world/bce_linear/seed0-observe0"}
    assert main(["table", "toy", "--seeds", "0,1", "--observe-seeds", "paired", "--collect"]) == 0
    assert "1/2" in row(capsys.readouterr().out, "AN")
    assert results(world) == first
    assert main(["table", "toy", "--seeds", "0,1", "--observe-seeds", "paired", "--export", "out/toy.json"]) == 0
    shown = capsys.readouterr().out
    assert "drawn anew" in shown
    assert "- AN, observed [95 %]" in shown  # a comparison of our own: selection without the oracle
    assert {name: at for name, at in results(world).items() if name in first} == first
    assert set(results(world)) - set(first) == {
        "toy/world/an_linear/seed1-observe1201",
        "toy/world/bce_linear/seed1-observe0",
    }
    content = json.loads((world / "out/toy.json").read_text())
    assert content["command"] == "tacit table toy --seeds 0,1 --observe-seeds paired"
    an = content["cells"][1]
    assert (an["seeds"], an["observe_seeds"], an["departures"]) == (
        [0, 1],
        [1200, 1201],
        ["backbone features:features (recipe auto)"],
    )
    assert set(an["percent"]) == {"clean", "observed"}


def test_settings_reach_the_runs_and_are_told(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["table", "toy", "--rows", "an", "--seeds", "0", "--set", "epochs=1", "--set", "val=0.3", "batch_size=9"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    for text in ("epochs 1 (recipe 2)", "val 0.3 (recipe 0.2)", "batch_size 9 (recipe default)"):
        assert text in shown


def test_a_row_along_an_axis_and_its_average(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = TOY.replace("bce = [90]\nan = [80]", "bce = [[70, 90]]").replace('baseline = "an"', 'baseline = ""')
    axis = (
        '[axis]\nsetting = "observe"\nlabel = "{} %"\n[axis.values]\n30 = "known-share:0.3"\n90 = "known-share:0.9"\n'
    )
    averages = '[averages.linear]\nbce = [80]\n[others.linear]\n"X-ray" = [81]\n'
    (world / "recipes/tables/shares.toml").write_text(text + axis + averages)
    assert main(["table", "shares", "--rows", "bce_average", "--seeds", "0", "--export", "out.json"]) == 0
    shown = capsys.readouterr().out
    assert "published beside them: X-ray 81.0" in shown
    assert set(results(world)) == {f"toy/world/bce_{at}_linear/seed0-observe0" for at in (30, 90)}
    assert main(["table", "shares", "--rows", "bce", "--seeds", "0", "--collect", "--export", "out.json"]) == 0
    cells = {cell["row"]: cell for cell in json.loads((world / "out.json").read_text())["cells"]}
    values = {row: cell["percent"]["clean"]["values"][0] for row, cell in cells.items()}
    assert values["bce_average"] == pytest.approx((values["bce_30"] + values["bce_90"]) / 2, abs=1e-4)
    assert cells["bce_90"]["departures"] == ["backbone features:features (recipe auto)"]  # the share is the recipe's


def test_a_run_that_fails_is_told_once_and_the_others_run(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = world / "recipes/world/bce_linear.toml"
    recipe.write_text(recipe.read_text().replace("features.npz", "gone.npz"))
    assert main(["table", "toy", "--seeds", "0,1"]) == 2
    out, err = capsys.readouterr()
    assert err.count("warning: failed:") == 1
    assert "gone.npz" in err
    assert "0/2" in row(out, "BCE")
    assert "2/2" in row(out, "AN")


def test_runs_in_processes_of_their_own(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", "toy", "--rows", "an", "--seeds", "0", "--jobs", "2"]) == 0
    assert "1/1" in row(capsys.readouterr().out, "AN")
    (run,) = results(world)
    assert "run directory:" in (world / "runs/tables" / run / "output.txt").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tiy"], "Tables in recipes/tables: toy"),
        (["toy", "--source", "voc"], "no source 'voc'. It has world"),
        (["toy", "--seeds", "a"], "whole numbers"),
        (["toy", "--set", "epochs"], "write key=value"),
        (["toy", "--set", "epoch=3"], "--epochs"),
        (["toy", "--jobs", "-1"], "a number of processes"),
        (["toy", "--collect", "--export", "x.json"], "nothing is finished yet"),
    ],
)
def test_mistakes(world: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert main(["table", *words]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_lists_tables(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table"]) == 0
    assert row(capsys.readouterr().out, "toy")[:3] == ["toy", "2", "linear"]


def test_writes_the_ledger(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (world / "docs").mkdir()
    assert main(["table", "--ledger", "docs/ledger.md"]) == 0
    assert "2 published cells: 0 ran as published" in (world / "docs/ledger.md").read_text()


def test_setting_words() -> None:
    assert setting_words("image_size=128") == ["--image-size=128"]
    assert setting_words("search=lr=1e-3,1e-4 batch_size=8") == ["--search=lr=1e-3,1e-4 batch_size=8"]
    assert setting_words("weights_by_order=true") == ["--weights-by-order"]
    assert setting_words("drop_last=false") == ["--no-drop-last"]
    assert setting_words("also_select=observed,last") == ["--also-select", "observed", "last"]
    with pytest.raises(OptionError):
        setting_words("=3")


def test_settings_win_over_the_recipe() -> None:
    (cell,) = find_table("role_table1", CHECKOUT / "recipes").choose(["cub"], ["linear_init"], ["role"])
    settings = ["search=", "drop_last=false", "linear_lr=0.5", "k=30", "also_select=observed,last", "image_size=128"]
    config = recipe_config(CHECKOUT / "recipes", cell, settings)
    assert config.search == ""
    assert (config.budget["drop_last"], config.budget["linear_lr"]) == (False, 0.5)
    assert config.method_options == {"k": 30.0}
    assert (config.also_select, config.image_size) == (("observed", "last"), 128)


def test_recipe_names() -> None:
    assert recipe_name(Path("recipes/voc2012/em/an_linear.toml")) == "voc2012/em/an_linear"
    assert recipe_name(Path("/somewhere/recipes/voc2012/an_linear.toml")) == "voc2012/an_linear"
    assert recipe_name(Path("mine/deep/an.toml")) == "deep/an"
    assert recipe_name(Path("an.toml")) == "an"


def test_the_table_of_em_on_real_features(
    shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No published number for this protocol: no such column; but what an unknown label is to each row."""
    monkeypatch.chdir(CHECKOUT)
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    settings = [f"features={shared_data}/voc2012_lite0_320.npz", f"data={shared_data}/VOCdevkit", "epochs=2", "search="]
    words = ["--source", "voc2012", "--protocol", "linear", "--rows", "an,em", "--seeds", "0", "--out", str(tmp_path)]
    assert main(["table", "em_benchmark", *words, "--export", str(tmp_path / "em.json"), "--set", *settings]) == 0
    shown = capsys.readouterr().out
    head = row(shown, "row")
    assert "published" not in head
    assert " ".join(head).startswith(
        "row ours, clean-stop selection ours, clean selection ours, observed selection runs"
    )
    assert "Ours departs from the recipes" in shown
    cells = json.loads((tmp_path / "em.json").read_text())["cells"]
    assert [(cell["select"], cell["unknown"]) for cell in cells] == [("clean", "negative"), ("clean", "entropy raised")]
    assert " ".join(row(shown, "EM")).endswith("entropy raised")
    assert set(cells[1]["percent"]) == {"clean", "clean-stop", "observed"}


def test_published_table_on_real_features(
    shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CHECKOUT)
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    chosen = ["--source", "voc2012", "--protocol", "linear", "--rows", "an,role", "--seeds", "0"]
    settings = [f"features={shared_data}/voc2012_lite0_320.npz", f"data={shared_data}/VOCdevkit", "epochs=2", "search="]
    words = [*chosen, "--out", str(tmp_path)]
    assert main(["table", "role_table1", *words, "--set", *settings]) == 0
    shown = capsys.readouterr().out
    assert "backbone features:voc2012_lite0_320 (recipe resnet50.tv_in1k)" in shown
    assert "2,912 test images (published 5,823)" in shown
    assert 70 < float(row(shown, "AN")[2]) < float(row(shown, "ROLE")[2]) < 95
    assert main(["table", "role_table2", *words, "--collect"]) == 0  # label recovery of the same runs
    assert float(row(capsys.readouterr().out, "ROLE")[2]) > 85
