"""The ledger names every published cell: what we got, or why nothing."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tacit.tables.ledger import Reason, command, ledger, read_reasons
from tacit.tables.results import CellResult, read_exports
from tacit.tables.spec import UNPRINTED, TableError, find_table, table_names

ROOT = Path(__file__).resolve().parents[2]
TABLES = [find_table(name, ROOT / "recipes") for name in table_names(ROOT / "recipes")]
RESULTS = ROOT / "docs" / "results"
AN = CellResult(
    table="role_table1", recipe="voc2012/an_linear", source="voc2012", row="an", protocol="linear",
    metric="mAP", split="test", seeds=(0, 1), observe_seeds=(1200, 1200),
    percent={"clean": (84.0, 84.4), "observed": (83.0, 83.0)}, inputs="features:lite0",
    departures=("backbone features:lite0 (recipe resnet50.tv_in1k)",),
    settings={"features": "lite0.npz", "search": "batch_size=8 lr=1e-3"}, oracles=(), images={"test": 2912},
    seconds=1.0, device="cpu", date="2026-01-02",
)  # fmt: skip
COCO = Reason(("coco2014",), ("linear", "finetune", "linear_init"), "no images")


def line_of(text: str, recipe: str) -> str:
    return next(line for line in text.splitlines() if f"{recipe}.toml" in line)


def test_the_committed_ledger_is_in_step() -> None:
    """If this fails: `tacit table --ledger docs/results/ledger.md`."""
    now = ledger(TABLES, read_exports(RESULTS / "data"), read_reasons(RESULTS / "absent.toml"))
    assert (RESULTS / "ledger.md").read_text() == now


def test_every_published_cell_is_there() -> None:
    text = ledger(TABLES, [], [])
    cells = [cell for table in TABLES for cell in table.cells if table.in_print]
    printed = sum(cell.printed != UNPRINTED for cell in cells)
    rows = {(cell.table, cell.file) for cell in cells if cell.printed != UNPRINTED}
    assert text.count("| not run yet |") == len(rows)
    assert sum(int(n) for n in re.findall(r"without a published figure: (\d+) more", text)) == len(cells) - printed
    assert f"{printed} published cells: 0 ran as published, 0 ran as another" in text
    assert f"{len(cells) - printed} more cells are ours" in text
    assert "em/search" not in text  # a search is no table


def test_a_published_spread_and_every_rule_that_was_followed() -> None:
    percent = {"clean-stop": (82.0, 82.4), "clean": (83.0, 83.4), "observed": (81.0, 81.4)}
    ours = replace(AN, table="em_benchmark", recipe="voc2012/em/an_finetune", protocol="finetune", percent=percent)
    text = ledger(TABLES, [ours], [])
    assert "| 85.89 ± 0.38 | 82.20 ± 0.28 | 83.20 ± 0.28 | 81.20 ± 0.28 |" in line_of(text, "voc2012/em/an_finetune")
    assert "| row | labels | published | clean-stop | clean | observed | runs | state |" in text


def test_a_row_that_only_we_have_is_not_said_to_be_published() -> None:
    ours = replace(AN, table="em_benchmark", recipe="voc2012/em/an_linear")
    text = ledger(TABLES, [replace(ours, departures=())], [])
    assert "| – | 84.20 ± 0.28 |" in line_of(text, "voc2012/em/an_linear")
    assert "ran as in the recipe (1)" in line_of(text, "voc2012/em/an_linear")
    assert "0 ran as published, 0 ran as another experiment" in text
    assert "1 of them ran." in text


def test_a_reason_may_speak_of_some_tables_only() -> None:
    reason = Reason(("voc2012",), ("finetune",), "no weights", partial=True, tables=("role_table1",))
    text = ledger(TABLES, [], [reason])
    assert line_of(text, "voc2012/an_finetune").endswith("| not run yet (1) |")
    assert line_of(text, "voc2012/em/an_finetune").endswith("| not run yet |")


def test_cells_of_one_recipe_that_did_not_run_share_a_line() -> None:
    ours = replace(
        AN, table="sr_ablation", recipe="coco2014/sr/sr_cr_50_finetune", source="coco2014", protocol="finetune"
    )
    text = ledger([table for table in TABLES if table.name == "sr_ablation"], [ours], [])
    assert "[SR + CR (w/o SR), 50 %](../../recipes/coco2014/sr/sr_cr_finetune.toml) | P and N | 80.8 | 84.20" in text
    assert text.count("coco2014/sr/sr_cr_finetune.toml") == 2
    assert "| 76.2 (10 %), 79.3 (30 %), 81.5 (70 %), 82.1 (90 %) | – |" in text


def test_cells_of_ours_that_have_not_run_are_counted() -> None:
    ours = replace(AN, table="sr_ablation", recipe="voc2012/sr/saliency_10_finetune", protocol="finetune")
    text = ledger([table for table in TABLES if table.name == "sr_ablation"], [ours], [])
    assert "[SR + CR (w/ SR), 10 %](../../recipes/voc2012/sr/saliency_finetune.toml) | P and N | – | 84.20" in text
    assert "without a published figure: 62 more, of the recipes in `recipes/voc2012/sr`." in text
    assert "without a published figure: 28 more, of the recipes in `recipes/coco2014/sr`." in text


def test_methods_of_others_stand_beside_ours_and_are_no_cells() -> None:
    text = ledger([table for table in TABLES if table.name == "sr_averages"], [], [])
    assert "not in this repository: SSGRL 74.1, GCN-ML 74.4, SST 76.7, HST 77.9, SARB 77.9, SARB (arXiv) 78.4." in text
    assert "| [SR](../../recipes/vg200/sr/saliency_finetune.toml) | P and N | 49.2 (average) |" in text
    assert "12 published cells:" in text


def test_another_backbone_is_never_called_as_published() -> None:
    text = ledger(TABLES, [AN], [COCO])
    line = line_of(text, "voc2012/an_linear")
    assert "84.20 ± 0.28 | 83.00 ± 0.00" in line
    assert "ran as another experiment (1)" in line
    weights = Reason(("voc2012",), ("linear",), "no weights", partial=True)
    line = line_of(ledger(TABLES, [AN], [weights]), "voc2012/an_linear")
    numbered = {note for note in ("(1)", "(2)") if note in line}
    assert numbered == {"(1)", "(2)"}  # how it ran, and what is missing
    assert "as published not" in line
    assert "Differs from the recipe: backbone features:lite0" in text
    assert "0 ran as published, 1 ran as another experiment" in text
    assert "ran as published (1)" in line_of(ledger(TABLES, [replace(AN, departures=())], []), "voc2012/an_linear")


def test_reasons() -> None:
    text = ledger(TABLES, [], [COCO, Reason(("voc2012",), ("linear",), "no weights", partial=True)])
    assert line_of(text, "coco2014/role_finetune").endswith("| cannot run here (1) |")
    assert line_of(text, "voc2012/role_linear").endswith("| not run yet (1) |")
    assert "(1) no images" in text


def test_runs_exported_twice_count_once() -> None:
    text = ledger(TABLES, [AN, replace(AN, date="2026-02-03"), replace(AN, seeds=(2, 3))], [])
    assert text.count("| ran as another experiment (") == 2


def test_the_command_makes_the_same_runs() -> None:
    assert command(replace(AN, observe_seeds=(1200, 1201))) == (
        "tacit table role_table1 --source voc2012 --protocol linear --seeds 0,1 --observe-seeds 1200,1201 "
        '--set features=lite0.npz "search=batch_size=8 lr=1e-3"'
    )


def test_a_result_of_no_cell_is_refused() -> None:
    with pytest.raises(TableError, match="no such cell"):
        ledger(TABLES, [replace(AN, recipe="voc2012/anx_linear")], [])


def test_reasons_that_cannot_be_read(tmp_path: Path) -> None:
    assert read_reasons(tmp_path / "none.toml") == []
    (tmp_path / "absent.toml").write_text('[[absent]]\nsources = ["a"]\n')
    with pytest.raises(TableError, match="protocols"):
        read_reasons(tmp_path / "absent.toml")
