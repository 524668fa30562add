"""Mistakes a user can make with a run, from the words typed to the message: what is wrong, where, what to do.

Messages of single rooms (label tables, images, features, methods' options) are tested with those rooms.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from small_runs import CLASSES, finetune, linear, run, run_interrupted, small_machine, table
from tacit.checkpoint import CheckpointError, load, save
from tacit.cli import main
from tacit.data.source import Source
from tacit.errors import UserError
from tacit.files import alone_in
from tacit.label_table import read_label_table, write_label_table
from tacit.labels import Labels
from tacit.methods.bce import BCE
from tacit.run import RunError
from tacit.train import Diverged

__all__ = ["small_machine", "table"]
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def tacit_train(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Types `tacit train …`; returns (exit code, what was said on stderr, on one line)."""

    def call(*words: str, method: str = "an", features: bool = True, out: Path | None = None) -> tuple[int, str]:
        base = [str(table), "--method", method, "--device", "cpu", "--epochs", "1", "--batch-size", "7"]
        base += ["--features", str(table.parent / "features.npz")] if features else []
        code = main(["train", *base, "--out", str(out or tmp_path / "run"), *words])
        said = " ".join(capsys.readouterr().err.split())
        assert "Traceback" not in said
        return code, said

    return call


def test_it_works_without_a_mistake(tacit_train: Any) -> None:
    code, said = tacit_train()
    assert code == 0, said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--val", "1.5"], "--val is a share of the training images in [0, 1), not 1.5"),
        (["--epochs", "0"], "epochs of the linear budget must be above 0"),
        (["--lr", "-1"], "lr of the linear budget must be above 0"),
        (["--search", "fast"], "--search: cannot read 'fast'"),
        (["--search", "published", "--val", "0"], "a search chooses on validation"),
        (["--linear-lr", "0.1"], "linear_lr belongs to protocol linear_init"),
        (["--device", "gpu"], "--device gpu: unknown. Devices: auto, cpu, cuda"),
        (["--tracker", "excel"], "--tracker excel: unknown"),
        (["--observe", "single-negative"], "single-negative"),
        (["--drop-last", "--batch-size", "64"], "30 training images do not fill a batch of 64"),
        (["--features", "/nowhere/f.npz"], "/nowhere/f.npz"),
        (["--protocol", "finetune"], "--backbone"),
        (["--k", "3"], "--k"),
        (["--lr", "inf"], "lr of the linear budget must be above 0, not inf"),
        (["--weight-decay", "nan"], "weight_decay must not be below 0"),
        (["--seed", "-1"], "--seed -1: give a whole number from 0"),
        (["--split-seed", "4294967296"], "--split-seed 4294967296: give a whole number from 0 to 4294967295"),
        (["--threads", "100000"], "--threads 100000: give a whole number from 0 to 512"),
        (["--workers", "-1"], "--workers -1: give a whole number"),
        (["--image-size", "0"], "--image-size 0: give a whole number from 1"),
        (["--test-share", "nan"], "--test-share nan: give a finite number"),
        (["--published", "nan"], "--published nan: give a finite number"),
        (["--features", "/tmp/\udcff.npz"], "is not UTF-8 text"),
    ],
)
def test_words_that_cannot_work(tacit_train: Any, words: list[str], said: str) -> None:
    code, told = tacit_train(*words)
    assert code == 2 and said in told


def test_a_gpu_where_there_is_none(tacit_train: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    code, told = tacit_train("--device", "cuda")
    assert code == 2 and "no CUDA device is available here. Use --device cpu (or auto)" in told


def test_no_out(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(table)]) == 2
    assert "--out DIR is missing" in capsys.readouterr().err


def test_an_out_directory_in_use(tacit_train: Any, tmp_path: Path) -> None:
    assert tacit_train()[0] == 0
    code, told = tacit_train()
    assert code == 2 and "holds a finished run already. Add --resume" in told
    code, told = tacit_train("--seed", "4", "--resume")
    assert code == 2 and "seed was 0, now 4" in told and "--out another name" in told
    other = tmp_path / "notes"
    other.mkdir()
    (other / "todo.txt").write_text("")
    code, told = tacit_train(out=other)
    assert code == 2 and "is not empty and holds no run" in told


def test_a_refused_start_leaves_the_folder_free(tacit_train: Any, tmp_path: Path) -> None:
    """Settings that turn out wrong once the data are read do not block the mended ones."""
    assert tacit_train("--val", "0.999")[0] == 2
    assert tacit_train()[0] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no locks on Windows")
def test_two_runs_in_one_directory(table: Path, tmp_path: Path) -> None:
    with alone_in(tmp_path / "run"), pytest.raises(UserError, match="another process is at work in"):
        run(linear(table), tmp_path / "run")
    assert run(linear(table), tmp_path / "run")["status"] == "finished"


def test_weights_that_are_missing_are_told_before_images_are_read(tacit_train: Any, tmp_path: Path) -> None:
    words = ("--protocol", "finetune", "--backbone", "test_resnet", "--weights", "/nowhere.pth")
    code, told = tacit_train(*words)
    assert code == 2 and "no weights file at /nowhere.pth" in told and "reading images" not in told


def test_threads_as_openmp_writes_them(tacit_train: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1,1")
    assert tacit_train()[0] == 0


class TestDamagedRun:
    """A finished run whose files were cut, replaced or edited: every command says which one."""

    @pytest.fixture(scope="class")
    def finished(self, table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
        out = tmp_path_factory.mktemp("damaged") / "run"
        run(linear(table), out)
        return out

    @pytest.fixture
    def copy(self, finished: Path, tmp_path: Path) -> Path:
        return Path(shutil.copytree(finished, tmp_path / "run"))

    @pytest.mark.parametrize(
        ("file", "content", "commands"),
        [
            ("result.json", b'{"format": 1, ', ("resume", "compare")),
            ("result.json", b"\xff\xfe\x00", ("resume", "compare")),
            ("result.json", b"[]", ("resume", "compare")),
            ("result.json", b'{"format": 1, "status": "finished"}', ("resume", "compare")),
            ("config.toml", b"\xff\xfe\x00", ("resume", "compare", "evaluate")),
            ("config.toml", b"val = 0.1\n", ("resume", "evaluate")),
            ("config.toml", b'source = "x"\nval = "much"\n', ("resume", "evaluate")),
            ("config.toml", b'source = "x"\nseed = "one"\n', ("resume", "evaluate")),
            ("config.toml", b'source = "x"\nbudget = 3\n', ("resume", "evaluate")),
            ("model.json", b'{"format": 1}', ("evaluate",)),
            ("model.json", b'{"format": 1, "classes": 3, "thresholds": "x"}', ("evaluate",)),
            ("metrics.jsonl", b"\xff\xff\n", ("compare",)),
        ],
    )
    def test_the_file_is_named(
        self,
        copy: Path,
        capsys: pytest.CaptureFixture[str],
        table: Path,
        file: str,
        content: bytes,
        commands: tuple[str, ...],
    ) -> None:
        (copy / file).write_bytes(content)
        again = ["train", str(table), "--epochs", "3", "--batch-size", "7", "--lr", "0.01"]
        words = {
            "resume": [
                *again,
                "--features",
                str(table.parent / "features.npz"),
                "--device",
                "cpu",
                "--resume",
                "--out",
            ],
            "compare": ["compare"],
            "evaluate": ["evaluate"],
        }
        for command in commands:
            assert main([*words[command], str(copy)]) == 2, command
            told = capsys.readouterr().err
            assert file in told and "Traceback" not in told

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("counts", {"train": {"present": ["a"]}}),
            ("per_class", {"test": {"AP": ["a"] * len(CLASSES)}}),
            ("search", 3),
            ("unscored", {"test": 3}),
            ("options", {"method": 3}),
        ],
    )
    def test_a_field_of_another_kind(
        self, copy: Path, capsys: pytest.CaptureFixture[str], key: str, value: object
    ) -> None:
        file = copy / "result.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {key: value}))
        assert main(["compare", str(copy)]) == 2
        assert "result.json is not as tacit writes it" in " ".join(capsys.readouterr().err.split())


def test_a_table_that_names_no_class(table: Path, tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("image,present,absent\n000.png,,\n001.png,,\n")
    with pytest.raises(UserError, match=r"labels\.csv names no class in any row"):
        read_label_table(tmp_path / "labels.csv")


def test_nowhere_to_write(tacit_train: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, told = tacit_train(out=tmp_path / "file" / "run")
    assert code == 2 and str(tmp_path / "file") in told


def test_a_method_that_needs_images_given_features(tacit_train: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BCE, "needs_images", True)
    code, told = tacit_train()
    assert code == 2 and "an works on images, and protocol linear trains on cached features" in told
    assert "--protocol finetune" in told


def test_options_of_the_head_that_the_method_has_itself(tacit_train: Any) -> None:
    words = ["--protocol", "finetune", "--backbone", "tiny", "--head", "class_maps", "--head.k", "3"]
    code, told = tacit_train(*words, "--observe", "known-share:0.5", method="saliency", features=False)
    assert code == 2 and "saliency has k of its own" in told and "give --k instead of --head.k" in told


def test_classes_without_a_known_positive_are_listed(tacit_train: Any) -> None:
    code, told = tacit_train("--observe", "known-share:0.02")
    assert code == 0 and "warning" in told.lower()
    assert sum(name in told for name in CLASSES) >= 1 and "positive" in told


def test_features_that_lack_an_image(tacit_train: Any, table: Path, tmp_path: Path) -> None:
    with np.load(table.parent / "features.npz") as held:
        np.savez(tmp_path / "few.npz", images=held["images"][3:], features=held["features"][3:])
    code, told = tacit_train("--features", str(tmp_path / "few.npz"))
    assert code == 2 and "2 of 30 images have no features: 001.png, 002.png" in told


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_source_without_a_split(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split: str) -> None:
    from tacit.assemble import source_of

    whole = source_of(linear(table))
    splits = {name: part for name, part in whole.splits.items() if name != split}
    lacking = Source(whole.name, whole.classes, splits)
    monkeypatch.setattr("tacit.assemble.source_of", lambda config: lacking)
    with pytest.raises(UserError, match=f"no images in a split '{split}'"):
        run(linear(table), tmp_path / "run")


def test_validation_that_cannot_tell_epochs_apart(table: Path, tmp_path: Path) -> None:
    """One held-out image: no class has both a positive and a negative."""
    said: list[str] = []

    class Heard:
        def say(self, text: str) -> None:
            said.append(text)

        def step(self, *_: Any) -> None: ...

        epoch = decoding = step

    from tacit.conduct import conduct

    result = conduct(linear(table, val=0.03), tmp_path / "run", Heard())
    assert result["selected"]["epoch"] == 2 and result["selected"]["value"] is None
    assert any("none of the classes can be scored on the 1 validation images" in text for text in said)


class TestDiverged:
    def poison(self, monkeypatch: pytest.MonkeyPatch) -> None:
        usual = BCE.loss

        def loss(method: BCE, batch: Any, clock: Any) -> dict[str, torch.Tensor]:
            terms = usual(method, batch, clock)
            return {
                name: term * (float("nan") if (clock.epoch, clock.step) == (1, 3) else 1)
                for name, term in terms.items()
            }

        monkeypatch.setattr(BCE, "loss", loss)

    def test_names_term_step_and_that_nothing_was_saved(
        self, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.poison(monkeypatch)
        with pytest.raises(Diverged, match=r"'bce' became NaN .* epoch 1, step 3.* There was no checkpoint yet"):
            run(linear(table), tmp_path / "run")

    def test_names_the_checkpoint(self, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.poison(monkeypatch)
        monkeypatch.setattr("tacit.trial.CHECKPOINT_SECONDS", 0.0)
        with pytest.raises(Diverged, match=r"The last checkpoint is .*run/checkpoint/state\.safetensors"):
            run(linear(table), tmp_path / "run")
        assert (tmp_path / "run" / "checkpoint" / "state.safetensors").is_file()


class TestForeignCheckpoints:
    """A checkpoint copied from elsewhere: the directory's own settings agree, the checkpoint does not."""

    @pytest.fixture
    def stopped(self, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        assert run_interrupted(linear(table), tmp_path / "run", 3, monkeypatch)
        return tmp_path / "run" / "checkpoint" / "state.safetensors"

    @pytest.mark.parametrize(
        ("key", "value", "said"),
        [
            ("method", "role", "another method: role there, an here"),
            ("classes", ["ant", "bee"], "another class list"),
            ("observed", "0" * 64, "another observed"),
            ("budgets", [], "another budgets"),
        ],
    )
    def test_what_it_belongs_to(self, stopped: Path, table: Path, key: str, value: Any, said: str) -> None:
        tensors, story = load(stopped)
        save(stopped, tensors, story | {key: value})
        with pytest.raises(CheckpointError, match=said):
            run(linear(table), stopped.parents[1], resume=True)

    def test_damage(self, stopped: Path, table: Path) -> None:
        stopped.write_bytes(stopped.read_bytes()[:100])
        with pytest.raises(CheckpointError, match=r"state\.safetensors cannot be read as a checkpoint"):
            run(linear(table), stopped.parents[1], resume=True)


class TestFullDisk:
    def full(self, *_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def test_in_the_checkpoint(self, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tacit.checkpoint.save_file", self.full)
        with pytest.raises(UserError, match=r"no space left on the disk of .*checkpoint"):
            run(linear(table), tmp_path / "run")
        assert [path.name for path in (tmp_path / "run" / "checkpoint").iterdir()] == []
        monkeypatch.undo()
        assert run(linear(table), tmp_path / "run", resume=True)["status"] == "finished"

    def test_in_the_metrics(self, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        usual = Path.open

        def open_full(path: Path, mode: str = "r", *more: Any, **named: Any) -> Any:
            return self.full() if path.name == "metrics.jsonl" and mode == "a" else usual(path, mode, *more, **named)

        monkeypatch.setattr(Path, "open", open_full)
        with pytest.raises(RunError, match=r"cannot write .*metrics\.jsonl: no space left on the disk"):
            run(linear(table), tmp_path / "run")

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
    def test_for_real(self, tmp_path: Path) -> None:
        from tacit.run import RunDirectory

        (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
        directory = RunDirectory(tmp_path)
        with pytest.raises(RunError, match="no space left on the disk"):
            directory.append(directory.metrics_file, {"epoch": 0})


@pytest.mark.parametrize("search", ["", "batch_size=5,30"])
def test_a_gpu_out_of_memory(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, search: str) -> None:
    """The allocation failure is made up: there may be no GPU here."""

    def loss(*_: Any) -> Any:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 9.00 GiB")

    monkeypatch.setattr(BCE, "loss", loss)
    batch_size = 5 if search else 7
    with pytest.raises(
        UserError, match=f"out of memory with --batch-size {batch_size}, --image-size 8.*--precision bf16"
    ):
        run(finetune(table, image_size=8, search=search), tmp_path / "run")


def test_out_of_memory_while_scoring(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def scores(*_: Any) -> Any:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("tacit.conduct.scores", scores)
    with pytest.raises(UserError, match="the GPU is out of memory"):
        run(linear(table), tmp_path / "run")


def test_a_class_list_that_changed_between_start_and_resume(table: Path, tmp_path: Path) -> None:
    """Same settings, but somebody edited the table."""
    mine = tmp_path / "mine"
    mine.mkdir()
    from small_runs import forget, write_world

    own = write_world(mine)
    with pytest.MonkeyPatch.context() as patch:
        assert run_interrupted(linear(own), tmp_path / "run", 3, patch)
    held = read_label_table(own)
    renamed = Labels.from_dense(held.labels.dense(), [*CLASSES[:-1], "eel"])
    write_label_table(own, replace(held, labels=renamed))
    forget()
    with pytest.raises(CheckpointError, match="another class list"):
        run(linear(own), tmp_path / "run", resume=True)
