"""Which runs a table consists of, and that one run's end is not the end of the others."""

import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tacit.run import RunConfig, RunDirectory
from tacit.tables.runs import OUTPUT, Planned, Seeds, _Crew, _last_message, plan, run_here
from tacit.tables.spec import TableError, find_table
from tacit.train import Diverged, Interrupted
from tacit.trial import Silent

TABLE = find_table("role_table1", Path(__file__).resolve().parents[2] / "recipes")
BCE, AN = TABLE.choose(["voc2012"], ["linear"], ["bce", "an"])
CONFIGS = {BCE: RunConfig("voc2012", method="bce", observe="full"), AN: RunConfig("voc2012")}


def names(seeds: Seeds, tmp_path: Path) -> list[str]:
    return [str(run.out.relative_to(tmp_path)) for run in plan(TABLE, CONFIGS, seeds, tmp_path)]


def test_published_tables_vary_the_training_seed_only(tmp_path: Path) -> None:
    assert names(Seeds.read("0,1", "published"), tmp_path) == [
        "role_table1/voc2012/bce_linear/seed0-observe0",  # nothing is hidden: this seed decides nothing
        "role_table1/voc2012/an_linear/seed0-observe1200",
        "role_table1/voc2012/bce_linear/seed1-observe0",
        "role_table1/voc2012/an_linear/seed1-observe1200",
    ]


def test_paired_draws_the_observation_anew_and_shares_the_first_run(tmp_path: Path) -> None:
    assert names(Seeds.read("0,2", "paired"), tmp_path) == [
        "role_table1/voc2012/bce_linear/seed0-observe0",
        "role_table1/voc2012/an_linear/seed0-observe1200",
        "role_table1/voc2012/bce_linear/seed2-observe0",
        "role_table1/voc2012/an_linear/seed2-observe1202",
    ]


def test_observation_seeds_may_be_listed(tmp_path: Path) -> None:
    runs = plan(TABLE, {AN: CONFIGS[AN]}, Seeds.read("3,4", "7,8"), tmp_path)
    assert [(run.config.seed, run.config.observe_seed) for run in runs] == [(3, 7), (4, 8)]


def test_a_recipe_may_say_which_labels_were_hidden(tmp_path: Path) -> None:
    configs = {AN: RunConfig("voc2012", observe="known-share:0.2", observe_seed=1200)}
    for drawn, seeds in (("published", [1200, 1200]), ("paired", [1200, 1201])):
        runs = plan(TABLE, configs, Seeds.read("0,1", drawn), tmp_path)
        assert [run.config.observe_seed for run in runs] == seeds


@pytest.mark.parametrize(
    ("seeds", "drawn", "message"),
    [("0,x", "published", "whole numbers"), ("0,0", "paired", "every seed once"), ("0,1", "5", "Write one per seed")],
)
def test_seeds_that_cannot_be_read(seeds: str, drawn: str, message: str) -> None:
    with pytest.raises(TableError, match=message):
        Seeds.read(seeds, drawn)


@pytest.fixture
def runs(tmp_path: Path) -> list[Planned]:
    return plan(TABLE, CONFIGS, Seeds.read("0,1", "published"), tmp_path)


def conducted(monkeypatch: pytest.MonkeyPatch, failing: dict[int, Exception]) -> list[Path]:
    """Replace the training; the n-th call may raise."""
    called: list[Path] = []

    def conduct(config: RunConfig, out: Path, screen: Any, *, resume: bool) -> None:
        called.append(out)
        if error := failing.get(len(called)):
            raise error
        (out / "result.json").write_text("{}")

    monkeypatch.setattr("tacit.conduct.conduct", conduct)
    return called


def go(runs: list[Planned]) -> list[str]:
    failures = run_here(runs, lambda label: nullcontext(Silent()), lambda text: None)
    return [f"{failure.run.out.name}: {failure.reason}" for failure in failures]


def test_a_failure_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch, runs: list[Planned]) -> None:
    called = conducted(monkeypatch, {1: Diverged("NaN"), 2: ZeroDivisionError("ours")})
    failed = go(runs)
    assert len(called) == 4
    assert failed[0] == "seed0-observe0: NaN"
    assert "ZeroDivisionError: ours (traceback in" in failed[1]
    assert "Traceback" in (runs[1].out.parent / "seed0-observe1200.error.txt").read_text()


def test_finished_runs_are_passed_over_and_the_rest_goes_on(
    monkeypatch: pytest.MonkeyPatch, runs: list[Planned]
) -> None:
    called = conducted(monkeypatch, {3: Interrupted("stopped")})
    with pytest.raises(Interrupted, match="same `tacit table` command"):
        go(runs)
    assert go(runs) == []
    assert called == [runs[0].out, runs[1].out, runs[2].out, runs[2].out, runs[3].out]


def test_a_directory_of_other_settings_is_refused(monkeypatch: pytest.MonkeyPatch, runs: list[Planned]) -> None:
    called = conducted(monkeypatch, {})
    RunDirectory.claim(runs[0].out, replace(runs[0].config, val=0.1), resume=False)
    (failed,) = go(runs)
    assert "val was 0.1, now 0.2" in failed
    assert len(called) == 3


def test_a_process_that_fails_says_why(runs: list[Planned]) -> None:
    for run in runs[:2]:
        RunDirectory.claim(run.out, run.config, resume=False)
        (run.out / "config.toml").write_text('source = "voc2012"\nepocs = 3\n')
    crew = _Crew()
    assert "epocs" in crew.train(runs[0])
    crew.stop()
    assert crew.train(runs[1]) == "not started"


def test_a_process_ends_with_the_one_that_started_it() -> None:
    """The starter's end closes the pipe; Ctrl-C is what a run saves itself at."""
    code = "from tacit.tables.member import stop_with_starter; import time; stop_with_starter(); time.sleep(120)"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.poll() is None
    _, said = process.communicate(timeout=100)  # closes the pipe
    assert process.returncode != 0
    assert b"KeyboardInterrupt" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tacit: no\nsuch file\n", "no such file"),
        ("warning: x\ntacit: no GPU", "no GPU"),
        ("killed", "killed"),
    ],
)
def test_the_last_words_of_a_process(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / OUTPUT).write_text(text)
    assert _last_message(tmp_path / OUTPUT) == said
