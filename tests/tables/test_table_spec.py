"""Published tables as files: cells in the paper's order, and what is said of a file that does not add up."""

from pathlib import Path

import pytest

from tacit.tables.spec import TableError, find_table, read_table, recipes_folder, table_names

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
SMALL = """
title = "T"
where = "W"
paper = "P"
note = "N"
metric = "mAP"
split = "test"
runs = "t"
baseline = "an"
reference = ""
sources = ["a", "b"]
[images]
a = { test = 3 }
[rows]
an = { label = "AN", labels = "1 P, 0 N" }
[published.linear]
an = [1.5, 2]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "t.toml"
    path.write_text(text)
    return path


def test_the_two_tables_have_all_published_cells() -> None:
    first, second = find_table("role_table1", RECIPES), find_table("role_table2", RECIPES)
    assert table_names(RECIPES)[:2] == ["role_table1", "role_table2"]
    assert len(first.cells) == 9 * 8 + 2 * 4
    assert len(second.cells) == 3 * 4
    figures = {cell.recipe: cell.published for cell in first.cells}
    assert figures["cub/an_ls_linear"] == 15.4
    assert figures["nuswide/role_linear_init"] == 51.0
    assert figures["voc2012/bce_ls_finetune"] == 90.0
    assert {cell.recipe: cell.published for cell in second.cells}["coco2014/role_linear"] == 69.5
    assert second.runs == first.runs == "role_table1"


def test_choose() -> None:
    table = find_table("role_table1", RECIPES)
    chosen = table.choose(["voc2012"], ["linear_init"])
    assert [cell.recipe for cell in chosen] == ["voc2012/an_ls_linear_init", "voc2012/role_linear_init"]
    assert table.choose() == table.cells
    with pytest.raises(TableError, match="no row 'rol'"):
        table.choose(rows=["rol"])
    with pytest.raises(TableError, match="at once"):
        table.choose(protocols=["linear_init"], rows=["bce"])


def test_values_go_to_their_sources(tmp_path: Path) -> None:
    cells = read_table(written(tmp_path, SMALL)).cells
    assert [(cell.recipe, cell.published) for cell in cells] == [("a/an_linear", 1.5), ("b/an_linear", 2.0)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SMALL.replace("[1.5, 2]", "[1.5]"), "one number per source"),
        (SMALL.replace('title = "T"', ""), "no 'title'"),
        (SMALL.replace("[rows]", "[rows"), "cannot be read"),
    ],
)
def test_a_file_that_does_not_add_up(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TableError, match=message):
        read_table(written(tmp_path, text))


def test_recipes_are_found_here_or_where_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TableError, match="no folder"):
        recipes_folder(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert recipes_folder() == RECIPES  # the checkout's
    (tmp_path / "recipes" / "tables").mkdir(parents=True)
    assert recipes_folder() == Path("recipes")
    with pytest.raises(TableError, match="no table named 'x'"):
        find_table("x", RECIPES)
