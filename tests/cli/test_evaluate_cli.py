"""`tacit evaluate`: from the run's own scores, from its model, against other labels, by published rules."""

import json
from pathlib import Path

import numpy as np
import pytest
from finished_runs import CLASSES, feature_run, image_model, photos

from tacit.cli import main
from tacit.label_table import LabelTable, read_label_table, write_label_table
from tacit.labels import Labels
from tacit.metrics import average_precision, decision_scores, published_metrics
from tacit.scoring import oracle_threshold


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("evaluate")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TACIT_CACHE", str(folder / "cache"))
        return feature_run(folder)


@pytest.fixture(autouse=True)
def _cache(run, monkeypatch):
    monkeypatch.setenv("TACIT_CACHE", str(run.parent / "cache"))


def flat(text: str) -> str:
    return " ".join(text.split())


def asked(capsys, *words) -> dict:
    assert main(["evaluate", *map(str, words), "--json", "--bootstrap", "50"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_test_split_as_the_run_scored_it(run, capsys):
    found = asked(capsys, run)
    kept = json.loads((run / "result.json").read_text())["metrics"]["test"]
    assert found["metrics"]["mAP"] == pytest.approx(kept["mAP"])
    assert found["metrics"]["CF1"] == pytest.approx(kept["CF1"])
    low, high = found["interval"]
    assert low < kept["mAP"] < high
    assert found["images"] == 24
    assert list(found["per_class"]) == list(CLASSES)


def test_the_model_says_what_the_file_says(run, capsys, monkeypatch):
    from_file = asked(capsys, run)
    (run / "scores-test.npz").rename(run / "aside.npz")
    try:
        assert asked(capsys, run)["metrics"] == pytest.approx(from_file["metrics"])
    finally:
        (run / "aside.npz").rename(run / "scores-test.npz")


def test_validation_is_drawn_as_the_run_drew_it(run, capsys):
    kept = asked(capsys, run, "--split", "val")
    (run / "scores-val.npz").rename(run / "aside.npz")
    try:
        found = asked(capsys, run, "--split", "val")
    finally:
        (run / "aside.npz").rename(run / "scores-val.npz")
    last = json.loads((run / "result.json").read_text())["metrics"]["val"]
    assert found["metrics"]["mAP"] == pytest.approx(last["mAP"])
    assert found["metrics"] == pytest.approx(kept["metrics"])


def test_every_image(run, capsys):
    assert asked(capsys, run, "--split", "all")["images"] == 120


def test_other_labels_of_the_same_images(run, tmp_path, capsys):
    """Three test images, one that is unknown to the run, two classes, the order of classes reversed."""
    table = LabelTable(
        ("a/100.png", "a/101.png", "a/102.png", "a/new.png"),
        Labels.from_dense([[1, -1], [-1, 1], [1, 1], [1, 1]], ("owl", "cat")),
    )
    write_label_table(tmp_path / "other.parquet", table)
    found = asked(capsys, run, "--labels", tmp_path / "other.parquet")
    assert found["images"] == 3
    assert found["unscored"] == ["dog", "sun"]
    assert found["per_class"]["owl"] == {
        "AP": pytest.approx(found["per_class"]["owl"]["AP"]),
        "present": 2,
        "absent": 1,
    }
    with np.load(run / "scores-test.npz") as held:
        rows = [held["images"].tolist().index(f"{n}.jpg") for n in (100, 101, 102)]
        wanted = average_precision(held["scores"][rows][:, [2]], np.array([[1], [-1], [1]], np.int8))
    assert found["per_class"]["owl"]["AP"] == pytest.approx(wanted[0])
    assert any("21 of 24 images have no row" in note for note in found["notes"])
    assert any("1 rows of" in note for note in found["notes"])
    assert any("dog, sun" in note for note in found["notes"])


def test_another_source(tmp_path, capsys):
    model, paths = image_model(tmp_path / "model"), photos(tmp_path / "photos")
    names = tuple(str(path.relative_to(tmp_path / "photos")) for path in paths)
    states = np.where(np.random.RandomState(0).rand(7, 4) < 0.5, 1, -1)
    write_label_table(tmp_path / "photos" / "labels.csv", LabelTable(names, Labels.from_dense(states, CLASSES)))
    found = asked(capsys, model, tmp_path / "photos" / "labels.csv", "--split", "all")
    assert found["images"] == 7
    assert found["metrics"]["mAP"] > 0


class TestRules:
    def test_threshold(self, run, capsys):
        strict, loose = (asked(capsys, run, "--threshold", t)["metrics"] for t in ("0.9", "0.1"))
        assert strict["OR"] < loose["OR"]

    @pytest.mark.parametrize(("words", "which"), [("half", "half"), ("one", "one"), ("per-class", "per_class")])
    def test_thresholds_that_validation_chose(self, run, capsys, words, which):
        kept = json.loads((run / "result.json").read_text())
        found = asked(capsys, run, "--thresholds", words)
        assert {name: found["metrics"][name] for name in kept["decisions"]["test"][which]} == pytest.approx(
            kept["decisions"]["test"][which]
        )
        wanted = [0.5] * 4 if which == "half" else np.broadcast_to(kept["thresholds"][which], 4)
        assert found["threshold"] == pytest.approx(wanted)

    def test_oracle_threshold_is_called_one(self, run, capsys):
        found = asked(capsys, run, "--oracle-threshold", "CF1")
        assert "chosen on these very labels, for the best CF1" in found["oracles"][0]
        assert found["metrics"]["CF1"] >= asked(capsys, run)["metrics"]["CF1"]

    def test_best_threshold_by_hand(self):
        scores = np.array([[0.2], [0.35], [0.4], [0.9]], np.float32)
        labels = np.array([[-1], [1], [-1], [1]], np.int8)
        threshold, value = oracle_threshold(scores, labels, "OF1")
        assert (threshold, value) == (
            pytest.approx(0.21),
            pytest.approx(0.8),
        )  # flags 3, 2 of them right: 2*2 / (3 + 2)

    def test_published_figures_stand_beside_the_honest_ones(self, run, capsys):
        plain = asked(capsys, run)
        found = asked(capsys, run, "--metrics", "hcp", "pumlc", "csl")
        assert plain["published"] == {}
        assert found["metrics"] == plain["metrics"]
        assert list(found["published"]) == ["hcp", "pumlc", "csl"]
        with np.load(run / "scores-test.npz") as held:
            wanted = published_metrics("pumlc", held["scores"], held["truth"])
        assert found["published"]["pumlc"]["metrics"] == pytest.approx(wanted.metrics)
        assert len(found["published"]["pumlc"]["oracles"]) == 2
        assert list(found["published"]["csl"]["metrics"]) == ["mAP"]

    def test_published_figures_as_a_person_reads_them(self, run, capsys):
        assert main(["evaluate", str(run), "--bootstrap", "0", "--metrics", "hcp", "pumlc"]) == 0
        shown = capsys.readouterr().out
        rows = [line.split()[0] for line in shown.splitlines() if line.startswith(("tacit ", "hcp ", "pumlc "))]
        assert rows == ["tacit", "hcp", "pumlc"]
        assert "OF1@3" in shown
        assert "Flatters OF1 and CF1: each has the threshold that these very labels like best" in shown
        assert "oracle: OP, OR, OF1 at threshold" in shown

    def test_published_variants(self, run, capsys):
        usual = asked(capsys, run)["metrics"]["mAP"]
        found = asked(capsys, run, "--ap", "interpolated", "--decisions", "hcp")
        assert found["metrics"]["mAP"] >= usual
        assert len(found["rules"]) == 2
        with np.load(run / "scores-test.npz") as held:
            wanted = decision_scores(held["scores"], held["truth"], empty="hcp").CF1
        assert found["metrics"]["CF1"] == pytest.approx(wanted)

    def test_empty_classes_as_zero(self, run, tmp_path, capsys):
        table = read_label_table(run.parent / "all.csv")
        states = table.labels.dense().copy()
        states[:, 1] = -1
        write_label_table(tmp_path / "no_dog.csv", LabelTable(table.images, Labels.from_dense(states, CLASSES)))
        words = (run, "--labels", tmp_path / "no_dog.csv")
        left_out, counted = asked(capsys, *words), asked(capsys, *words, "--empty", "zero")
        assert left_out["unscored"] == ["dog"]
        assert counted["metrics"]["mAP"] == pytest.approx(0.75 * left_out["metrics"]["mAP"])


def test_what_a_person_reads(run, capsys):
    assert main(["evaluate", str(run), "--per-class", "--bootstrap", "50"]) == 0
    shown = capsys.readouterr().out
    assert "split test: 24 images, 4 classes, 100 % of labels known" in shown
    assert "95 % interval" in shown
    assert "CF1" in shown
    assert "a class counts as present from a score of 0.5 on" in shown
    assert any(line.split()[:1] == ["owl"] for line in shown.splitlines())


def test_groups_from_the_rarest_to_the_most_annotated(run, capsys):
    found = asked(capsys, run, "--groups", "2")
    known = json.loads((run / "result.json").read_text())["counts"]["train"]
    often = dict(zip(CLASSES, np.add(known["observed_present"], known["observed_absent"]).tolist(), strict=True))
    assert [group["name"] for group in found["groups"]] == ["G1", "G2"]
    order = [name for group in found["groups"] for name in group["classes"]]
    assert [often[name] for name in order] == sorted(often.values())
    for group in found["groups"]:
        assert group["mAP"] == pytest.approx(np.mean([found["per_class"][name]["AP"] for name in group["classes"]]))
    assert main(["evaluate", str(run), "--groups", "4", "--bootstrap", "0"]) == 0
    shown = capsys.readouterr().out
    assert "classes in groups, by their number of training labels" in shown
    assert any(line.split()[:3] == ["G4", "1", "1"] for line in shown.splitlines())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "tacit evaluate needs RUN"),
        (["{run}", "--groups", "-1"], "--groups -1: a number of groups"),
        (["{run}", "--groups", "5"], "4 classes cannot be put into 5 groups; use 1 to 4"),
        (["nowhere"], "there is no nowhere"),
        (["{folder}"], "it holds 1: name one, such as"),
        (["{run}", "--split", "tset"], "there is no split 'tset': choose one of train, test, val, or all"),
        (["{run}", "vok2012"], "no source named 'vok2012'"),
        (["{run}", "--labels", "nowhere.csv"], "there is no label table at nowhere.csv"),
        (["{run}", "--labels", "{foreign}"], "1 of its 2 classes are not the model's: zebra"),
        (["{run}", "--labels", "{strangers}"], "has labels of none of these 24 images"),
        (["{run}", "--threshold", "2"], "--threshold 2: scores are probabilities"),
        (["{run}", "--threshold", "0.5", "--oracle-threshold", "OF1"], "exclude each other"),
        (["{run}", "--threshold", "0.5", "--thresholds", "one"], "--thresholds goes with neither --threshold nor"),
        (["{run}", "--thresholds", "two"], "two"),
        (["{run}", "--bootstrap", "-1"], "--bootstrap -1: a number of resamples"),
        (["{run}", "--ap", "voc2007"], "voc2007"),
        (["{run}", "--metrics", "pu-mlc"], "pu-mlc"),
        (["{run}", "--treshold", "0.5"], "--treshold: did you mean --threshold"),
        (["{run}", "--labels-silence", "absent"], "says how to read the table of --labels"),
        (["{run}", "--features", "nowhere.npz"], "nowhere.npz"),
        (["{run}", "--split", "all", "--device", "cuda"], "--device cuda: no CUDA device is available here"),
    ],
)
def test_mistakes(words, said, run, tmp_path, capsys):
    import torch

    if "cuda" in words and torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    tables = {"foreign": (("100.jpg",), ("zebra", "cat")), "strangers": (("x.jpg",), ("dog", "cat"))}
    for name, (images, classes) in tables.items():
        write_label_table(tmp_path / f"{name}.csv", LabelTable(images, Labels.from_dense([[1, -1]], classes)))
    places = {"run": run, "folder": run.parent, **{name: tmp_path / f"{name}.csv" for name in tables}}
    assert main(["evaluate", *(word.format(**places) for word in words)]) == 2
    shown = capsys.readouterr()
    assert said in flat(shown.err)
    assert "tacit:" in shown.err
    assert "Traceback" not in shown.err


def test_damaged_scores(run, tmp_path, capsys):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    (copy / "scores-test.npz").write_bytes(b"PK")
    assert main(["evaluate", str(copy)]) == 2
    assert "scores-test.npz is damaged" in flat(capsys.readouterr().err)


def test_an_unfinished_run(tmp_path, capsys):
    (tmp_path / "config.toml").write_text('source = "scenes"\n')
    assert main(["evaluate", str(tmp_path)]) == 2
    assert "holds a run that is not finished" in flat(capsys.readouterr().err)
