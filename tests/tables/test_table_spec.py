"""Published tables as files: cells in the paper's order, and what is said of a file that does not add up."""

from pathlib import Path

import pytest

from tacit.tables.spec import Other, TableError, find_table, read_table, recipes_folder, runs_of, table_names

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


ALONG = """
[axis]
setting = "observe"
label = "{} %"
[axis.values]
10 = "known-share:0.1"
90 = "known-share:0.9"
[averages.linear]
an = [3.5, "-"]
[others.linear]
"X-ray" = [4, 5.25]
"""
AXIS = SMALL.replace("[1.5, 2]", '[[1.5, "-"], [2, 3]]') + ALONG


def written(folder: Path, text: str) -> Path:
    path = folder / "t.toml"
    path.write_text(text)
    return path


def test_the_two_tables_have_all_published_cells() -> None:
    first, second = find_table("role_table1", RECIPES), find_table("role_table2", RECIPES)
    assert {"role_table1", "role_table2"} < set(table_names(RECIPES))
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
    ("value", "cell"),
    [
        ('"89.09 ± 0.17"', (89.09, 0.17, "89.09 ± 0.17")),
        ('"70.70"', (70.7, None, "70.70")),  # as many digits as the paper prints
        ('"~78.5"', (78.5, None, "~78.5")),
        ('"< 78.2"', (None, None, "< 78.2")),
        ('"-"', (None, None, "–")),
        ("90", (90.0, None, "90.0")),
    ],
)
def test_figures_as_papers_print_them(tmp_path: Path, value: str, cell: tuple[float | None, float | None, str]) -> None:
    found = read_table(written(tmp_path, SMALL.replace("[1.5, 2]", f"[1.5, {value}]"))).cells[1]
    assert (found.published, found.sd, found.printed) == cell


def test_rows_that_only_we_have_and_recipes_in_a_folder(tmp_path: Path) -> None:
    text = SMALL.replace('runs = "t"', 'runs = "t"\nrecipes = "deep/er"') + '[unpublished.finetune]\nb = ["an"]\n'
    table = read_table(written(tmp_path, text))
    assert [cell.recipe for cell in table.cells] == [
        f"{at}/deep/er/an_{p}" for at, p in (("a", "linear"), ("b", "linear"), ("b", "finetune"))
    ]
    assert (table.cells[2].published, table.cells[2].printed, table.in_print) == (None, "–", True)
    assert not read_table(written(tmp_path, text.replace("[1.5, 2]", '["-", "-"]'))).in_print


def test_a_row_along_an_axis_is_one_recipe_and_a_cell_per_value(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, AXIS))
    first, second = table.cells[:2]
    assert [cell.recipe for cell in table.cells[:4]] == [f"{at}/an_{p}_linear" for at in "ab" for p in (10, 90)]
    assert {cell.file for cell in table.cells} == {"a/an_linear", "b/an_linear"}
    assert (first.published, first.settings, first.row.label) == (1.5, ("observe=known-share:0.1",), "AN, 10 %")
    assert (second.printed, second.settings) == ("–", ("observe=known-share:0.9",))
    assert table.choose(["b"], rows=["an"]) == tuple(cell for cell in table.cells if cell.source == "b")
    assert table.choose(["b"], rows=["an_90"]) == (table.cells[3],)


def test_an_average_stands_for_its_runs(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, AXIS))
    average, nameless = table.cells[4:]
    assert (average.recipe, average.row.label, average.published) == ("a/an_average_linear", "AN, average", 3.5)
    assert (average.members, average.settings) == (table.cells[:2], ())
    assert nameless.printed == "–"
    assert runs_of([average]) == table.cells[:2]
    assert runs_of(table.cells) == table.cells[:4]  # no run twice


def test_an_average_may_be_all_that_is_printed(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, SMALL.replace("[published.linear]\nan = [1.5, 2]", "") + ALONG))
    assert [cell.recipe for cell in table.cells] == ["a/an_average_linear", "b/an_average_linear"]
    assert [run.settings for run in runs_of(table.cells[1:])] == [
        ("observe=known-share:0.1",),
        ("observe=known-share:0.9",),
    ]


def test_figures_of_others_have_no_recipe(tmp_path: Path) -> None:
    others = read_table(written(tmp_path, AXIS)).others
    assert others == (Other("a", "linear", "X-ray", "4.0"), Other("b", "linear", "X-ray", "5.2"))


def test_a_table_like_another_has_its_rows_and_figures_of_its_own(tmp_path: Path) -> None:
    written(tmp_path, AXIS)
    mine = tmp_path / "f1.toml"
    mine.write_text('like = "t"\ntitle = "F"\nmetric = "OF1"\n[published.linear]\nan = [[7, 8], [9, "-"]]\n')
    table = read_table(mine)
    assert (table.title, table.metric, table.runs, table.split) == ("F", "OF1", "t", "test")
    assert [cell.published for cell in table.cells] == [7, 8, 9, None]  # no average: it is not said
    assert table.others == ()
    (tmp_path / "f2.toml").write_text('like = "f1"\n')
    with pytest.raises(TableError, match="itself like 't'"):
        read_table(tmp_path / "f2.toml")


def test_the_tables_of_saliency_and_its_rivals() -> None:
    ablation = {
        metric: {cell.recipe: cell.published for cell in find_table(name, RECIPES).cells}
        for metric, name in (("mAP", "sr_ablation"), ("OF1", "sr_ablation_of1"), ("CF1", "sr_ablation_cf1"))
    }
    row = "coco2014/sr/bn_bce_cr_70_finetune"
    assert [ablation[metric][row] for metric in ("mAP", "OF1", "CF1")] == [79.1, 77.8, 73.4]
    assert all(sum(figure is not None for figure in cells.values()) == 7 * 5 for cells in ablation.values())
    averages = find_table("sr_averages_cf1", RECIPES)
    assert {cell.recipe: cell.published for cell in averages.cells}["vg200/sr/csl_average_finetune"] == 48.0
    assert len(runs_of(averages.choose(["vg200"], rows=["csl"]))) == 9
    assert {cell.recipe: cell.printed for cell in find_table("sr_k", RECIPES).cells}[
        "coco2014/sr/places_50_3_finetune"
    ] == "81.21"
    shared = ("sr_ablation", "sr_averages", "sr_k", "sr_openimages_g1", "pumlc_shares_of1")
    assert {find_table(name, RECIPES).runs for name in shared} == {"sr"}


@pytest.mark.parametrize("name", ["pumlc_shares", "pumlc_shares_of1", "sr_averages"])
def test_printed_averages_are_means_of_printed_shares(name: str) -> None:
    for cell in find_table(name, RECIPES).cells:
        printed = [run.published for run in cell.members if run.published is not None]
        if len(printed) == 9 and cell.published is not None:
            assert cell.published == pytest.approx(sum(printed) / 9, abs=0.06)


def test_the_tables_of_em() -> None:
    benchmark, shares = find_table("em_benchmark", RECIPES), find_table("em_shares", RECIPES)
    published = [cell for cell in benchmark.cells if cell.published is not None]
    assert len(published) == 15 * 4
    assert all(cell.sd for cell in published)
    figures = {cell.recipe: (cell.published, cell.sd) for cell in published}
    assert figures["cub/em/em_apl_finetune"] == (21.84, 0.34)
    assert figures["nuswide/em/role_linear_init"] == (45.98, 0.26)
    assert figures["coco2014/em/entmin_finetune"] == (32.52, 5.55)
    assert len(benchmark.choose(["voc2012"], ["linear"])) == 14
    assert [len(shares.choose(protocols=[protocol])) for protocol in ("finetune", "linear")] == [13, 13]
    assert not find_table("em_coefficients", RECIPES).in_print


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SMALL.replace("[1.5, 2]", "[1.5]"), "one number per source"),
        (SMALL.replace("[1.5, 2]", '[1.5, "about 2"]'), "'about 2' is not a published figure"),
        (SMALL + '[unpublished.linear]\nb = ["anx"]\n', "no 'anx'"),
        (SMALL.replace('title = "T"', ""), "no 'title'"),
        (SMALL.replace("[rows]", "[rows"), "cannot be read"),
        ('like = "none"', "none.toml cannot be read"),
        (SMALL + ALONG, r"one number per value of the axis \(10, 90\)"),
        (SMALL + "[averages.linear]\nan = [1, 2]\n", "needs an .axis."),
        (AXIS.replace("[axis]", "[axis]\nstep = 1"), "setting, label and values"),
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
