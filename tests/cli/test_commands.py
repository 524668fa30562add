"""The listing commands and `observe`, `compare`, `features`, from the words typed to what is printed and written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tacit.cli import main
from tacit.data.source import source_names
from tacit.label_table import LabelTable, read_label_table, write_label_table
from tacit.labels import Labels
from tacit.methods.registry import method_names
from tacit.observations import observations, parse_observation

CLASSES = ("cat", "dog", "owl")
IMAGES = tuple(f"{number}.jpg" for number in range(40))


def flat(text: str) -> str:
    """Without the line breaks of a terminal's width."""
    return " ".join(text.split())


@pytest.fixture
def table(tmp_path) -> Path:
    """Forty images with every label known; the last four are test images."""
    states = np.where(np.random.RandomState(0).rand(40, 3) < 0.5, 1, -1).astype(np.int8)
    states[:, 0] = 1
    path = tmp_path / "labels.csv"
    split = ("train",) * 30 + ("val",) * 6 + ("test",) * 4
    write_label_table(path, LabelTable(IMAGES, Labels.from_dense(states, CLASSES), split))
    return path


class TestSources:
    def test_lists_all(self, capsys):
        assert main(["sources"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in lines[1:]] == source_names()
        assert all(len(line.split()) > 3 for line in lines[1:])  # each says what it is

    def test_json(self, capsys):
        assert main(["sources", "--json"]) == 0
        entries = json.loads(capsys.readouterr().out)
        assert [entry["name"] for entry in entries] == source_names()

    def test_one(self, capsys):
        assert main(["sources", "voc2012"]) == 0
        shown = capsys.readouterr().out
        assert "JPEGImages" in shown
        assert "--difficult" in shown
        assert "negative | positive | unknown" in shown

    def test_one_as_json(self, capsys):
        assert main(["sources", "voc", "--json"]) == 0
        entry = json.loads(capsys.readouterr().out)
        assert {option["name"]: option["default"] for option in entry["options"]}["difficult"] == "negative"

    @pytest.mark.parametrize("name", source_names())
    def test_every_option_of_every_source_is_explained(self, name, capsys):
        main(["sources", name, "--json"])
        options = json.loads(capsys.readouterr().out)["options"]
        assert [option["name"] for option in options if not option["help"]] == []

    def test_unknown(self, capsys):
        assert main(["sources", "vok"]) == 2
        assert "no source named 'vok'" in flat(capsys.readouterr().err)


class TestMethods:
    def test_lists_all(self, capsys):
        assert main(["methods"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in lines[1:]] == method_names()

    def test_json(self, capsys):
        assert main(["methods", "--json"]) == 0
        entries = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
        (k,) = (option for option in entries["role"]["options"] if option["name"] == "k")
        assert k["required"]
        assert k["type"] == "float"
        assert "1.5" in k["help"]

    def test_one(self, capsys):
        assert main(["methods", "role"]) == 0
        shown = capsys.readouterr().out
        assert shown.startswith("role: ")
        assert "docs/methods/role.md" in shown
        assert "--k" in shown

    @pytest.mark.parametrize("name", method_names())
    def test_every_option_of_every_method_is_explained(self, name, capsys):
        main(["methods", name, "--json"])
        entry = json.loads(capsys.readouterr().out)
        assert entry["summary"]
        assert [option["name"] for option in entry["options"] if not option["help"]] == []

    def test_unknown(self, capsys):
        assert main(["methods", "rolle"]) == 2
        assert "did you mean role?" in flat(capsys.readouterr().err)


class TestObserve:
    def test_lists_the_models(self, capsys):
        assert main(["observe", "--list"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in lines[1:]] == [kind.usage for kind in observations()]

    def test_lists_as_json(self, capsys):
        assert main(["observe", "--list", "--json"]) == 0
        entries = json.loads(capsys.readouterr().out)
        assert {entry["observe"]: entry["published seed"] for entry in entries}["single-positive"] == 1200

    def test_writes_what_the_model_leaves(self, table, tmp_path, capsys):
        out = tmp_path / "observed.parquet"
        assert main(["observe", str(table), "--observe", "single-positive", "--out", str(out)]) == 0
        written = read_label_table(out)
        truth = read_label_table(table)
        kept = np.arange(36)  # all but the test images
        assert written.images == IMAGES[:36]
        assert written.split == ("train",) * 30 + ("val",) * 6
        assert written.labels == parse_observation("single-positive")(truth.labels.take(kept))
        assert (written.labels.dense() == 1).sum(1).tolist() == [1] * 36
        shown = capsys.readouterr().out
        assert "36 images (30 train, 6 val), 3 classes. single-positive, seed 1200" in shown
        assert f"Written: {out}" in shown

    def test_counts(self, table, capsys):
        assert main(["observe", str(table), "--observe", "full", "--json"]) == 0
        report = json.loads(capsys.readouterr().out)
        cat = report["classes"][0]
        assert cat == {"class": "cat", "truly present": 36, "present": 36, "absent": 0, "unknown": 0}
        assert report["seed"] == 0

    def test_the_seed_matters(self, table, capsys):
        prints = []
        for seed in ("1", "2", "1"):
            main(["observe", str(table), "--observe-seed", seed, "--json"])
            prints.append(json.loads(capsys.readouterr().out)["fingerprint"])
        assert prints[0] == prints[2] != prints[1]

    def test_warns_of_classes_without_a_positive(self, tmp_path, capsys):
        path = tmp_path / "labels.parquet"
        write_label_table(path, LabelTable(("a", "b"), Labels.from_dense([[1, -1], [1, -1]], ("cat", "dog"))))
        assert main(["observe", str(path), "--quiet"]) == 0
        assert "warning: 1 of 2 classes have no known positive, and cannot be learned: dog." in capsys.readouterr().err

    def test_a_source_is_split_as_a_run_splits_it(self, tmp_path, monkeypatch, capsys):
        monkeypatch.setenv("TACIT_CACHE", str(tmp_path))
        out = tmp_path / "observed.parquet"
        words = ["scenes", "--train", "50", "--test", "10", "--out", str(out), "--split-seed", "3"]
        assert main(["observe", *words]) == 0
        from tacit.data.source import load_source
        from tacit.data.splits import hold_out

        pool = load_source("scenes", train=50, test=10).splits["train"]
        rows, held = hold_out(50, 0.2, 3)
        written = read_label_table(out)
        assert written.images == tuple(pool.images[row] for row in [*rows, *held])
        assert written.split == ("train",) * 40 + ("val",) * 10
        hidden = parse_observation("single-positive")(pool.labels)
        assert written.labels == hidden.take(np.concatenate([rows, held]))

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ([], "tacit observe needs SOURCE"),
            (["{table}", "--observe", "singel-positive"], "Did you mean 'single-positive'?"),
            (["{table}", "--observe", "known-share:2"], "a share of 2"),
            (["{table}", "--out", "labels.json"], "a label table is a .parquet or a .csv file"),
            (["{table}", "--observ", "full"], "--observ: did you mean --observe"),
            (["nowhere.csv"], "no label table at nowhere.csv"),
            (["{table}", "--classes", "nowhere.txt"], "missing file nowhere.txt"),
            (["{table}", "--observe-seed", "-1"], "seed -1"),
            (["vok2012"], "no source named 'vok2012'"),
            (["{table}", "--split-seed", "two"], "'two'"),
        ],
    )
    def test_mistakes(self, words, said, table, capsys, monkeypatch, tmp_path):
        monkeypatch.chdir(tmp_path)
        assert main(["observe", *(word.format(table=table) for word in words)]) == 2
        shown = capsys.readouterr()
        assert said in flat(shown.err)
        assert shown.err.startswith("tacit: ")
        assert "Traceback" not in shown.err

    def test_every_row_a_test_row(self, tmp_path, capsys):
        path = tmp_path / "labels.parquet"
        write_label_table(path, LabelTable(("a",), Labels.from_dense([[1]], ("cat",)), ("test",)))
        assert main(["observe", str(path)]) == 2
        assert "every row is marked as test" in flat(capsys.readouterr().err)


class TestCompare:
    @pytest.fixture
    def runs(self, tmp_path, monkeypatch) -> Path:
        monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "report"))
        from run_factory import World, write_runs

        return write_runs(tmp_path / "runs", World(), ("an", "role"), seeds=2)

    def test_prints_and_writes(self, runs, tmp_path, capsys):
        outs = {name: tmp_path / f"out.{name}" for name in ("html", "md", "csv")}
        words = [str(runs), "--report", str(outs["html"]), "--markdown", str(outs["md"]), "--csv", str(outs["csv"])]
        assert main(["compare", *words]) == 0
        shown = capsys.readouterr().out
        assert "ROLE" in shown
        assert all(f"Written: {out}" in shown for out in outs.values())
        assert all(out.stat().st_size > 100 for out in outs.values())

    def test_needs_runs(self, capsys):
        assert main(["compare"]) == 2
        assert "tacit compare needs RUNS" in capsys.readouterr().err

    def test_no_run_there(self, tmp_path, capsys):
        assert main(["compare", str(tmp_path)]) == 2
        said = flat(capsys.readouterr().err)
        assert str(tmp_path) in said
        assert "no result.json" in said

    def test_report_into_a_folder(self, runs, tmp_path, capsys):
        assert main(["compare", str(runs), "--report", str(tmp_path)]) == 2
        assert "this is a folder; name the file to write" in flat(capsys.readouterr().err)

    def test_the_class_whose_densities_are_drawn(self, runs, tmp_path, capsys):
        page = tmp_path / "out.html"
        assert main(["compare", str(runs), "--report", str(page), "--density-class", "sheep"]) == 0
        assert "Where the scores of “sheep” lie" in page.read_text()

    def test_a_class_that_is_not_there(self, runs, tmp_path, capsys):
        page = tmp_path / "out.html"
        assert main(["compare", str(runs), "--report", str(page), "--density-class", "sheeps"]) == 2
        shown = capsys.readouterr()
        assert "Did you mean sheep" in flat(shown.err)
        assert not shown.out and not page.exists()

    def test_densities_without_a_page(self, runs, capsys):
        assert main(["compare", str(runs), "--density-class", "sheep"]) == 2
        assert "add --report FILE" in flat(capsys.readouterr().err)


class TestFeatures:
    @pytest.fixture(autouse=True)
    def _cache(self, tmp_path, monkeypatch):
        monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))

    def test_extracts_once(self, tmp_path, capsys):
        out = tmp_path / "features"
        words = ["scenes", "--train", "12", "--test", "4", "--backbone", "test_resnet", "--weights", "none"]
        words += ["--image-size", "32", "--out", str(out), "--device", "cpu"]
        import torch

        torch.manual_seed(0)
        assert main(["features", *words]) == 0
        shown = capsys.readouterr()
        assert shown.out.startswith("16 images x ")
        assert f"Folder: {out}" in shown.out
        assert "features: 16 images in" in shown.err
        torch.manual_seed(0)  # the same random weights: the same features
        assert main(["features", *words]) == 0
        assert "there already" in capsys.readouterr().err

    def test_imports(self, tmp_path, capsys):
        path = tmp_path / "theirs.npz"
        np.savez(path, names=np.array(["a.jpg", "b.jpg"]), features=np.ones((2, 5), np.float32))
        assert main(["features", "import", str(path), "--out", str(tmp_path / "ours")]) == 0
        assert capsys.readouterr().out.startswith("2 images x 5 features (float16)")

    def test_imports_only_what_covers_a_source(self, tmp_path, capsys):
        path = tmp_path / "theirs.npz"
        np.savez(path, names=np.array(["a.jpg", "b.jpg"]), features=np.ones((2, 5), np.float32))
        words = [str(path), "--source", "scenes", "--train", "4", "--test", "2", "--out", str(tmp_path / "ours")]
        assert main(["features", "import", *words]) == 2
        assert "6 of 6 images have no features" in flat(capsys.readouterr().err)

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["scenes"], "tacit features needs --backbone"),
            (["--backbone", "resnet18"], "tacit features needs SOURCE"),
            (["scenes", "--backbone", "x", "--batch-size", "0"], "--batch-size 0: must be at least 1"),
            (["import", "nowhere.npz"], "nowhere.npz"),
            (["import"], "tacit features import needs FILE"),
            (["import", "x.npz", "--mach", "stem"], "--mach: did you mean --match?"),
        ],
    )
    def test_mistakes(self, words, said, capsys):
        assert main(["features", *words]) == 2
        assert said in flat(capsys.readouterr().err)


@pytest.mark.parametrize("words", [["sources"], ["sources", "voc"], ["observe", "--list"], ["observe", "{table}"]])
def test_commands_that_need_no_torch_do_not_load_it(words, table):
    words = [word.format(table=table) for word in words]
    code = f"import sys; from tacit.cli import main; assert main({words!r}) == 0; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize("name", ["observe", "compare", "features", "methods", "sources"])
def test_every_command_has_help(name, capsys):
    assert main([name, "--help"]) == 0
    assert f"usage: tacit {name}" in capsys.readouterr().out
