"""The reading of measured tables: pairs against the published order, hidden cells apart, and the figures."""

import json
import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.tables.results import CellResult, to_json
from tacit.tables.spec import Cell, find_table

ROOT = Path(__file__).resolve().parents[1]
EXPORT = ROOT / "docs" / "results" / "data" / "role_table1_voc2012_linear.json"


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools" / "read_results.py"))


def test_recovery_tells_hidden_from_observed_positives(tool: dict[str, Any], tmp_path: Path) -> None:
    """One class, two positives: the observed one ranks first, the hidden one below both negatives."""
    truth = np.array([[1], [1], [-1], [-1]], dtype=np.int8)
    observed = np.array([[1], [0], [0], [0]], dtype=np.int8)
    scores = np.array([[0.9], [0.1], [0.5], [0.4]], dtype=np.float32)
    np.savez(tmp_path / "scores-train.npz", scores=scores, truth=truth, observed=observed)
    assert tool["recovered"](tmp_path) == pytest.approx((75.0, 100 / 3, 100.0))  # (1 + 2/4) / 2, 1/3, 1


def test_order_lists_every_pair_that_stands_against_the_published_order(tool: dict[str, Any]) -> None:
    lines = list(tool["order"](EXPORT, "clean"))
    pairs = [line for line in lines if line.startswith("| ") and "published" not in line]
    assert any(line.startswith("| AN | WAN | +0.1 | -1.11 ") and line.endswith("| yes |") for line in pairs)
    assert f"\n{36 - len(pairs)} of 36 pairs in the published order" in lines[-1]


def test_rows_that_saw_all_labels_have_no_cost_of_selection(tool: dict[str, Any]) -> None:
    text = "\n".join(tool["selection"](EXPORT))
    assert "| ROLE |" in text and "| BCE |" not in text


def exported(
    folder: Path, table: str, cells: Sequence[Cell], ours: dict[str, tuple[float, ...]], *, protocol: str = "finetune"
) -> Path:
    """Made-up figures of early stopping; the best epoch is one point better, that on observed labels two worse."""

    def by_rule(stopped: tuple[float, ...]) -> dict[str, tuple[float, ...]]:
        others = {"clean": 1, "observed": -2}
        return {"clean-stop": stopped, **{rule: tuple(v + by for v in stopped) for rule, by in others.items()}}

    results = [
        CellResult(
            table=table, recipe=cell.recipe, source=cell.source, row=cell.row.name, protocol=cell.protocol,
            metric="mAP", split="test", seeds=(0, 1, 2), observe_seeds=(1200,) * 3,
            percent=by_rule(values), inputs="lite0", departures=("backbone lite0",), settings={}, oracles=(), images={},
            seconds=1.0, device="cpu", select="clean-stop", unknown="negative",
        )
        for cell in cells
        if (values := ours.get(cell.row.name if cell.protocol != "linear_init" else f"{cell.row.name}+LI"))
    ]  # fmt: skip
    file = folder / f"{table}_voc2012_{protocol}.json"
    file.write_text(json.dumps(to_json(results, command="", date="", version="")))
    return file


@pytest.fixture
def benchmark(tmp_path: Path) -> Path:
    """Five rows in the published order but for EM, beaten by ROLE and by ROLE with a linear start; EntMin far below."""
    cells = find_table("em_benchmark", ROOT / "recipes").choose(["voc2012"], ["finetune", "linear_init"])
    ours = {
        "an": (70.0, 70.1, 70.2),
        "role": (72.0, 72.1, 72.3),
        "role+LI": (73.0, 73.3, 73.2),
        "em": (71.0, 71.1, 71.2),
        "entmin": (40.0, 50.0, 60.0),
    }
    return exported(tmp_path, "em_benchmark", cells, ours)


def test_a_paper_with_one_column_is_read_as_one(tool: dict[str, Any], benchmark: Path) -> None:
    lines = list(tool["order"](benchmark, "clean-stop", together=True))
    assert "| EM | ROLE | +1.32 ± 0.28 | -1.03 [-1.18, -0.89] | yes |" in lines
    assert any(line.startswith("| EM | ROLE+LI | +0.83 ± 0.27 |") for line in lines)
    assert "8 of 10 pairs in the published order; our seeds are sure of 2 of the other 2; 0 of them" in lines[-1]


def test_what_early_stopping_changes(tool: dict[str, Any], benchmark: Path) -> None:
    text = "\n".join(tool["stopping"](benchmark))
    figures = "70.10 ± 0.10 | 71.10 ± 0.10 | 68.10 ± 0.10 | -1.00 [-1.00, -1.00] | +2.00 [+2.00, +2.00]"
    assert f"| AN | {figures} |" in text
    assert "| ROLE |" not in "\n".join(tool["stopping"](EXPORT))  # these runs knew no early stopping


def test_rows_of_a_protocol_without_published_figures_are_held_against_the_papers_others(
    tool: dict[str, Any], tmp_path: Path
) -> None:
    """The paper fine-tunes only: the linear rows of our own are read against its fine-tuned ones."""
    cells = find_table("em_benchmark", ROOT / "recipes").choose(["voc2012"], ["linear"])
    ours = {"an": (83.0, 83.1, 83.2), "focal": (82.0, 82.2, 82.1), "em": (86.0, 86.1, 86.2)}
    lines = list(tool["order"](exported(tmp_path, "em_benchmark", cells, ours, protocol="linear"), "clean-stop"))
    assert "| Focal | AN | +1.70 ± 0.69 | -1.00 [-1.25, -0.75] | yes |" in lines
    assert "2 of 3 pairs in the published order" in lines[-1]


def test_points_of_a_search_by_each_rule(tool: dict[str, Any], tmp_path: Path) -> None:
    """Two seeds, two weights: the mean of what each rule would keep, and at which epochs."""
    runs = [tmp_path / "dw" / name for name in ("seed0", "seed1")]
    for run, by in zip(runs, (0.0, 0.02), strict=True):
        run.mkdir(parents=True)
        entries = [
            {"point": {"weight": weight}, "best": {"clean": {"value": value + by, "epoch": epoch}}}
            for weight, value, epoch in ((0.1, 0.80, 3), (0.5, 0.70, 7))
        ]
        (run / "search.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    lines = list(tool["points"](runs))
    assert lines[0] == "| row | weight | clean: val (epochs) |"
    assert lines[2:] == ["| dw | 0.1 | 81.00 (3, 3) |", "| dw | 0.5 | 71.00 (7, 7) |"]


def test_a_choice_names_the_hyper_parameter_it_made(tool: dict[str, Any]) -> None:
    selected = {"point": {"lr": 0.001, "weight": 0.2}, "epoch": 3}
    assert tool["_point"]({"batch_size": 16, "lr": 0.1}, selected) == "16, 0.001, 3, weight 0.2"


@pytest.fixture(scope="module")
def drawing() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools" / "draw_results.py"))


def test_the_figure_of_the_benchmark(drawing: dict[str, Any], benchmark: Path) -> None:
    (axes,) = drawing["benchmark"](benchmark.parent).axes
    shown = {text.get_text() for text in axes.texts}
    assert shown == {"AN", "ROLE", "ROLE+LI", "EM", "outside: EntMin, published 53.2, ours 50.0"}


def test_the_figure_of_missing_labels(drawing: dict[str, Any], tmp_path: Path) -> None:
    """A line per method over the shares, a level for full labels; the published drawing beside it."""
    ours = {"bce": (90.0,) * 3, "em_20": (80.0,) * 3, "em_50": (85.0,) * 3, "em_80": (88.0,) * 3}
    exported(tmp_path, "em_shares", find_table("em_shares", ROOT / "recipes").choose(protocols=["finetune"]), ours)
    mine, published = drawing["shares"](tmp_path).axes
    lines = {line.get_label(): list(line.get_ydata()) for line in mine.lines}
    assert lines == {"EM": [80.0, 85.0, 88.0], "BCE, all labels": [90.0, 90.0]}
    printed = {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in published.lines}
    assert printed["EM+APL"] == ([20, 50, 80], [80.8, 86.9, 89.1])
    assert printed["BCE negative"] == ([50, 80], [81.1, 87.9])  # at 20 % it lies outside the published axis
    with pytest.raises(SystemExit, match=r"em_benchmark_voc2012_linear\.json"):
        drawing["benchmark"](tmp_path)


def test_the_figure_of_the_order_needs_only_the_repository(drawing: dict[str, Any]) -> None:
    figure = drawing["order"]()
    shown = [{text.get_text() for text in axes.texts} for axes in figure.axes]
    assert shown[0] == shown[1] and len(shown[0]) == 9


def test_the_pages_of_methods_quote_the_results_there_are() -> None:
    """If this fails: `make ledger`."""
    pages = runpy.run_path(str(ROOT / "tools" / "quote_results.py"))["pages"]()
    assert [path.name for path, text in pages.items() if path.read_text() != text] == []
    assert "85.20 ± 0.09" in pages[ROOT / "docs" / "methods" / "role.md"]
