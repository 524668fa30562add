"""Two CPU processes train what one process trains, within rounding, and write each file once."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from small_runs import write_world

ROOT = Path(__file__).parents[1]

# What each process runs: a run per line of the plan, in one start of the interpreter.
PROGRAM = """
import contextlib, json, os, sys
from pathlib import Path
import pytest, torch
torch.set_num_threads(1)
from tacit.optim import Optimizer
from tacit.run import RunConfig
import small_runs
import tacit.assemble
from tacit.conduct import conduct
from tacit.methods.em_apl import EntropyMaximisationAPL
from tacit.train import Interrupted

usual = EntropyMaximisationAPL.refresh
rounds = []

def refresh(method, clock, sweep):  # what each process makes of its own sweep, before they are aligned
    usual(method, clock, sweep)
    if clock.epochs == 3:  # the run's own: its gradient curves are asked of a method of 20 epochs
        rounds.append(method.soft.clone())
        torch.save(torch.stack(rounds), folder / ("soft-" + os.environ.get("RANK", "0") + ".pt"))

EntropyMaximisationAPL.refresh = refresh

class Heard(small_runs.Silent):
    def __init__(self, out):
        self.file = out.parent / (out.name + ".heard")
    def epoch(self, line):
        with self.file.open("a") as file:
            file.write("epoch\\n")

tacit.assemble.fresh_backbone = lambda config: small_runs.TinyBackbone()
tacit.assemble.fresh_backbone_shape = lambda name, size: small_runs.PREPROCESSING
for out, cells, settings in json.loads(sys.argv[1]):
    folder = Path(out).parent
    Optimizer.__init__.__kwdefaults__["dense_cells"] = cells
    settings["also_select"] = tuple(settings.get("also_select", ()))
    if stop := settings.pop("stop", 0):  # Ctrl-C reaches the second process alone
        with pytest.MonkeyPatch.context() as patch, pytest.raises(Interrupted):
            mine = small_runs.StopAfter(stop if os.environ.get("RANK", "1") == "1" else -1)
            patch.setattr("tacit.trial.CHECK_EVERY", 2)
            patch.setattr("tacit.conduct._stop_on_ctrl_c", lambda: contextlib.nullcontext(mine))
            conduct(RunConfig(**settings), Path(out), Heard(Path(out)))
    content = conduct(RunConfig(**settings), Path(out), Heard(Path(out)), resume=bool(stop))
    assert content["status"] == "finished"
"""

# A thread of gloo outlives what it belongs to, about once in ten launches on a busy machine, and C++ ends the process.
ABORTED = "terminate called without an active exception"
LINEAR = {"device": "cpu", "budget": {"epochs": 3, "batch_size": 7, "lr": 0.01}}  # the last batch has 2 rows of 30
RUNS: dict[str, tuple[int, dict[str, Any]]] = {
    "an": (10**9, {"method": "an", "also_select": ["clean"]}),
    "role-dense": (10**9, {"method": "role", "method_options": {"k": 1.5}}),
    "role-rows": (0, {"method": "role", "method_options": {"k": 1.5}}),
    "epr": (10**9, {"method": "epr", "method_options": {"k": 1.5}}),
    "one-row-left": (0, {"method": "role", "method_options": {"k": 1.5}, "budget": {"epochs": 2, "batch_size": 29}}),
    "em_apl": (10**9, {"method": "em_apl", "method_options": {"warm_up": 1, "alpha": 0.2}}),
    "bn_bce": (10**9, {"method": "bn_bce", "observe": "known-share:0.3"}),
    "csl": (10**9, {"method": "csl", "observe": "known-share:0.3", "method_options": {"top": 1, "eta": 0.5}}),
    "ll_cp": (10**9, {"method": "ll_cp", "method_options": {"delta": 5.0}}),
    "search": (10**9, {"search": "lr=1e-2,1e-3", "budget": {"epochs": 1, "batch_size": 7}}),
    "stopped": (0, {"method": "role", "method_options": {"k": 1.5}, "stop": 4}),
    "images": (10**9, {"protocol": "finetune", "backbone": "tiny", "features": None}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds one/NAME and two/NAME for every run."""
    folder = tmp_path_factory.mktemp("distributed")
    table = write_world(folder)
    common = {"source": str(table), "features": str(folder / "features.npz"), **LINEAR}
    program = folder / "program.py"
    program.write_text(PROGRAM)
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(_free_port())]
    for processes, launcher in (("one", []), ("two", torchrun)):
        plan = [[str(folder / processes / name), cells, common | more] for name, (cells, more) in RUNS.items()]
        paths = os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
        place = {"PYTHONPATH": paths, "TACIT_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
        words = [sys.executable, *launcher, str(program), json.dumps(plan)]
        done = subprocess.run(words, env=os.environ | place, capture_output=True, text=True, timeout=200)
        if ABORTED in done.stderr:  # runs that were finished or under way say so: begin again from nothing
            shutil.rmtree(folder / processes, ignore_errors=True)
            done = subprocess.run(words, env=os.environ | place, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr[-4000:]
    return folder


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def metrics(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


SAME = [name for name in RUNS if name != "images"]  # batch statistics are each process's own


@pytest.mark.parametrize("name", SAME)
def test_weights_agree_within_rounding(folder: Path, name: str) -> None:
    one, two = (load_file(folder / world / name / "model.safetensors") for world in ("one", "two"))
    assert one.keys() == two.keys()
    for key, values in one.items():
        np.testing.assert_allclose(two[key], values, rtol=0, atol=2e-5)


@pytest.mark.parametrize("name", SAME)
def test_logged_terms_are_those_of_the_whole_step(folder: Path, name: str) -> None:
    one, two = metrics(folder / "one" / name), metrics(folder / "two" / name)
    assert len(one) == len(two)
    for a, b in zip(one, two, strict=True):
        assert b["terms"] == pytest.approx(a["terms"], abs=2e-5)
        for part, near in (("estimates", 1e-4), ("pseudo_labels", 1e-9)):
            assert b.get(part, {}) == pytest.approx(a.get(part, {}), abs=near)
        assert (a["stage"], a["epoch"]) == (b["stage"], b["epoch"])


@pytest.mark.parametrize("name", SAME)
def test_scores_are_gathered_in_row_order(folder: Path, name: str) -> None:
    for split in ("train", "test"):
        one, two = (np.load(folder / world / name / f"scores-{split}.npz") for world in ("one", "two"))
        assert one["images"].tolist() == two["images"].tolist()
        np.testing.assert_allclose(two["scores"], one["scores"], rtol=0, atol=2e-5)


@pytest.mark.parametrize("name", RUNS)
def test_files_are_written_and_epochs_told_once(folder: Path, name: str) -> None:
    one, two = folder / "one" / name, folder / "two" / name
    names = [{path.relative_to(run).as_posix() for path in run.rglob("*")} for run in (one, two)]
    assert names[0] == names[1]
    assert len(metrics(two)) == len(metrics(one))
    assert (two.parent / f"{name}.heard").read_text() == (one.parent / f"{name}.heard").read_text()
    assert json.loads((two / "result.json").read_text())["status"] == "finished"


def test_scores_on_images_come_from_the_weights_that_are_kept(folder: Path) -> None:
    """Each process saw the batch statistics of its own images; scores and the saved model use the first one's."""
    run = folder / "two" / "images"
    before, after = metrics(run), json.loads((run / "result.json").read_text())
    chosen = before[after["selected"]["epoch"]]
    assert after["metrics"]["val"]["mAP"] == pytest.approx(chosen["val"]["mAP"], abs=1e-12)


def test_the_command_speaks_once(folder: Path, tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    words = ["-m", "tacit", "train", str(folder / "labels.csv"), "--features", str(folder / "features.npz")]
    words += ["--device", "cpu", "--epochs", "1", "--out", str(tmp_path / "run")]
    place = os.environ | {"OMP_NUM_THREADS": "1", "TACIT_CACHE": str(folder / "cache")}
    port = ["--master-port", str(_free_port())]
    done = subprocess.run([*torchrun, *port, *words], env=place, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.count("run directory:") == 1


def test_pseudo_labels_are_the_same_in_every_process(folder: Path) -> None:
    """Each process sweeps over all images with the same weights; one that differed would train on labels of its own."""
    alone, first, second = (torch.load(folder / name) for name in ("one/soft-0.pt", "two/soft-0.pt", "two/soft-1.pt"))
    assert len(first) == 3 and (first[1] > 0).any() and (first[2] > 0).sum() > (first[1] > 0).sum()
    assert torch.equal(first, second)
    torch.testing.assert_close(first, alone, rtol=0, atol=2e-5)


def test_a_run_stopped_by_one_process_goes_on_as_if_it_had_not(folder: Path) -> None:
    whole, stopped = (load_file(folder / "two" / name / "model.safetensors") for name in ("role-rows", "stopped"))
    assert all(np.array_equal(whole[key], stopped[key]) for key in whole)
    assert [line["terms"] for line in metrics(folder / "two" / "stopped")] == [
        pytest.approx(line["terms"], abs=1e-7) for line in metrics(folder / "two" / "role-rows")
    ]
