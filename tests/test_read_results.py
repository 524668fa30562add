"""The reading of measured tables: pairs against the published order, hidden cells apart, and the figures."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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


def test_the_figure_of_the_order_needs_only_the_repository() -> None:
    figure = runpy.run_path(str(ROOT / "tools" / "draw_results.py"))["order"]()
    shown = [{text.get_text() for text in axes.texts} for axes in figure.axes]
    assert shown[0] == shown[1] and len(shown[0]) == 9


def test_the_pages_of_methods_quote_the_results_there_are() -> None:
    """If this fails: `make ledger`."""
    pages = runpy.run_path(str(ROOT / "tools" / "quote_results.py"))["pages"]()
    assert [path.name for path, text in pages.items() if path.read_text() != text] == []
    assert "85.20 ± 0.09" in pages[ROOT / "docs" / "methods" / "role.md"]
