"""Every benchmark runs, at a size that proves nothing about speed; what it says about equality holds at any size."""

import json
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
EXTRA = {"gpu_linear": ["--device", "cpu", "--rounds", "1"]}
SCRIPTS = sorted(p.stem for p in FOLDER.glob("*.py") if "__main__" in p.read_text() and p.stem != "run")


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Their folder can be imported from; what they set for the whole process is put back."""
    monkeypatch.syspath_prepend(str(FOLDER))
    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(strict)


@pytest.mark.parametrize("name", SCRIPTS)
def test_runs_and_agrees(
    name: str,
    benchmarks: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script, file = str(FOLDER / f"{name}.py"), tmp_path / "claims.json"
    monkeypatch.setattr(sys, "argv", [script, "--tiny", "--json", str(file), *EXTRA.get(name, [])])
    runpy.run_path(script, run_name="__main__")
    claims: list[dict[str, Any]] = [json.loads(line) for line in file.read_text().splitlines()]
    assert claims and json.loads(capsys.readouterr().out.splitlines()[-1])["claim"] == claims[-1]["claim"]
    for claim in claims:
        assert claim["script"] == name and claim["peer"] and claim["machine"]
        assert claim["ratio"] >= 0 and claim["wanted"] >= 1  # rounded: a stalled machine may measure 0.00
        assert claim["error"] is None or claim["error"] < 1e-5


def test_the_numpy_precision_is_scikit_learns(benchmarks: None) -> None:
    from sklearn.metrics import average_precision_score

    import published_way

    generator = np.random.default_rng(0)
    for decimals in (1, 8):
        labels, scores = generator.integers(0, 2, 60).astype(np.float32), generator.random(60).round(decimals)
        ours, theirs = published_way._average_precision(labels, scores), average_precision_score(labels, scores)
        assert ours == pytest.approx(theirs, abs=1e-12)


def test_page_keeps_what_was_not_measured_again(benchmarks: None, tmp_path: Path) -> None:
    import run as bench

    def row(script: str, ratio: float) -> dict[str, Any]:
        return {"script": script, "claim": f"{script} is fast", "peer": "a peer", "ratio": ratio, "wanted": 5.0,
                "error": None, "machine": "a machine"}  # fmt: skip

    file = tmp_path / "page.md"
    file.write_text(bench.page([row("linear_an", 4.0), row("row_adam", 7.0)]))
    rows = bench.replaced(bench.kept_rows(file), [row("row_adam", 9.0), row("map_vs_sklearn", 30.0)])
    assert [(r["script"], r["ratio"]) for r in rows] == [
        ("map_vs_sklearn", 30.0),
        ("linear_an", 4.0),
        ("row_adam", 9.0),
    ]
    text = bench.page(rows)
    assert "**4 x** (missed)" in text and "**9 x** |" in text
