"""Every recipe parses through the command line's own options and says what the published protocol says."""

import runpy
import tomllib
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from torch import nn

from tacit.cli.table import recipe_config
from tacit.data.views import kinds_of
from tacit.labels import Labels
from tacit.methods.registry import build_method, method_options
from tacit.observations import parse_observation
from tacit.protocols import budgets, search_grid
from tacit.run import RunConfig
from tacit.schedules import schedule
from tacit.tables.spec import Cell, find_table, runs_of, table_names

ROOT = Path(__file__).resolve().parents[1]
RECIPES = ROOT / "recipes"
TABLE = find_table("role_table1", RECIPES)
EM, SHARES = find_table("em_benchmark", RECIPES), find_table("em_shares", RECIPES)
EM_CELLS = [
    cell for name in ("em_benchmark", "em_shares", "em_coefficients") for cell in find_table(name, RECIPES).cells
]
SR_TABLES = ("sr_ablation", "sr_averages", "sr_k", "sr_openimages", "pumlc_shares")
SR_RUNS = {run.file: run for name in SR_TABLES for run in runs_of(find_table(name, RECIPES).cells)}
CELLS = [cell for name in table_names(RECIPES) for cell in find_table(name, RECIPES).cells]


@cache
def config_of(cell: Cell) -> RunConfig:
    return recipe_config(RECIPES, cell)


@pytest.mark.parametrize("cell", TABLE.cells, ids=lambda cell: cell.recipe)
def test_recipe(cell: Cell) -> None:
    config = config_of(cell)
    assert (config.source, config.protocol, config.recipe) == (cell.source, cell.protocol, cell.recipe)
    assert (config.published, config.published_where) == (cell.published, TABLE.where)
    assert (config.backbone, config.image_size, config.selection) == ("resnet50.tv_in1k", 448, "clean")
    assert config.also_select == (() if config.observe == "full" else ("observed",))
    parse_observation(config.observe)
    assert len(search_grid(config.search)) == 8
    stages = budgets(config.protocol, config.budget)
    assert [stage.epochs for stage in stages] == {"linear": [25], "finetune": [10], "linear_init": [25, 10]}[
        cell.protocol
    ]
    assert all(stage.drop_last for stage in stages)
    options = method_options(config.method)
    assert set(config.method_options) == {name for name, option in options.items() if option.required}


def test_what_the_rows_are_told_of_the_labels() -> None:
    told = {cell.row.name: config_of(cell).observe for cell in TABLE.choose(["cub"], ["linear"])}
    assert told["bce"] == told["bce_ls"] == "full"
    assert told["iun"] == "one-positive-all-negatives"
    assert told["iu"] == "one-positive-one-negative"
    assert {told[row] for row in ("an", "an_ls", "wan", "epr", "role")} == {"single-positive"}


@pytest.mark.parametrize(("source", "k"), [("voc2012", 1.5), ("coco2014", 2.9), ("nuswide", 1.9), ("cub", 31.4)])
def test_expected_positives(source: str, k: float) -> None:
    for cell in TABLE.choose([source], rows=["epr", "role"]):
        assert config_of(cell).method_options == {"k": k}


@pytest.mark.parametrize(
    ("recipe", "lr", "batch_size"),
    [
        ("voc2012/an_ls_linear_init", 1e-4, 8),
        ("nuswide/an_ls_linear_init", 1e-4, 16),
        ("coco2014/role_linear_init", 1e-3, 16),
        ("cub/role_linear_init", 1e-3, 8),
    ],
)
def test_linear_phase_before_finetuning(recipe: str, lr: float, batch_size: int) -> None:
    (cell,) = (cell for cell in TABLE.cells if cell.recipe == recipe)
    linear, _ = budgets("linear_init", config_of(cell).budget)
    assert (linear.lr, linear.batch_size) == (lr, batch_size)


@pytest.mark.parametrize("cell", EM_CELLS, ids=lambda cell: cell.recipe)
def test_recipe_of_the_em_paper(cell: Cell) -> None:
    """What holds for all: no search and the authors' stopping where they published, options that their method has."""
    config = config_of(cell)
    assert (config.source, config.protocol, config.recipe) == (cell.source, cell.protocol, cell.recipe)
    assert (config.published, config.published_where is None) == (cell.published, cell.published is None)
    assert (config.backbone, config.image_size) == ("resnet50.tv_in1k", 448)
    linear, full = cell.protocol == "linear", config.observe == "full"
    rules = ("clean", "clean-stop", "observed") if linear else ("clean-stop", "clean", "observed")
    assert (config.selection, *config.also_select) == (rules[:2] if full else rules)
    stage = budgets(config.protocol, config.budget)[-1]
    assert (stage.epochs, stage.drop_last) == (25 if linear else 10, False)
    if not linear:
        published = {"voc2012": (8, 1e-5), "coco2014": (16, 1e-5), "nuswide": (16, 1e-5), "cub": (8, 1e-4)}
        assert (stage.batch_size, stage.lr) == published[cell.source]
    options = method_options(config.method)
    assert set(config.method_options) <= set(options)
    numeric = dict.fromkeys(options, float)
    points = {"em_benchmark": 8 if linear else 0, "em_shares": 2 if linear else 0}
    grid = search_grid(config.search, numeric)
    assert len(grid) == points[cell.table] if cell.table in points else len(grid) >= 2


@pytest.mark.parametrize(
    ("source", "alpha", "beta", "warm_up"),
    [("voc2012", 0.2, 0.02, 5), ("coco2014", 0.1, 0.9, 5), ("nuswide", 0.1, 0.2, 4), ("cub", 0.01, 0.4, 3)],
)
def test_constants_of_em(source: str, alpha: float, beta: float, warm_up: int) -> None:
    em, em_apl = EM.choose([source], ["finetune"], ["em", "em_apl"])
    assert config_of(em).method_options == {"alpha": alpha}
    constants = {"alpha": alpha, "beta": beta, "share": 0.9, "warm_up": warm_up}
    assert config_of(em_apl).method_options == constants


def test_what_the_general_setting_is_told_of_the_labels() -> None:
    told = {cell.row.name: config_of(cell) for cell in SHARES.choose(protocols=["linear"])}
    assert told["bce"].observe == "full"
    assert (told["em_apl_20"].method, told["em_apl_20"].observe) == ("em_apl", "known-share:0.2")
    assert told["bce_ignore_50"].method_options == {"unknown": "ignore"}
    assert told["bce_negative_80"].method_options == {"unknown": "negative"}
    assert {config.observe_seed for name, config in told.items() if name != "bce"} == {1200}


@pytest.mark.parametrize("cell", SR_RUNS.values(), ids=lambda cell: cell.file)
def test_recipe_of_the_paper_of_saliency(cell: Cell) -> None:
    """Of every row: the last epoch beside the observed choice, so that --val none needs no other change."""
    config = config_of(cell)
    really_partial = cell.source == "openimages"
    assert (config.source, config.protocol, config.recipe) == (cell.source, "finetune", cell.file)
    assert config.observe_seed is None  # the published seed 0 of known-share
    assert config.observe == "full" if really_partial else parse_observation(config.observe).published_seed == 0
    assert (config.backbone, config.image_size) == ("resnet101.tv_in1k", 224 if really_partial else 448)
    assert (config.selection, config.also_select) == ("observed", ("last",))
    assert config.published is None or really_partial  # elsewhere one recipe serves many figures
    assert config.source_options == ({"rows": "all", "columns": "id"} if cell.source == "coco2014" else {})
    assert set(config.method_options) <= set(method_options(config.method))
    (stage,) = budgets(config.protocol, config.budget)
    schedule(stage.schedule, stage.epochs)
    if config.method == "saliency":
        assert (stage.optimizer, stage.momentum, stage.weight_decay, stage.batch_size) == ("sgd", 0.9, 1e-4, 32)
        assert (stage.lr, stage.head_lr, stage.schedule, stage.epochs) == (0.01, 10.0, "cosine", 30)
    else:
        assert stage.optimizer == "adam"
    kinds = kinds_of(built_views(config), stage.augment)
    assert list(kinds.values()) in (["crop"], ["crop", "strong_crop"], ["strong"])


def built_views(config: RunConfig) -> tuple[str, ...]:
    """The views of the method with the recipe's options."""
    labels = Labels.from_dense(np.array([[1, -1]] * 4, np.int8), ("a", "b"))
    return build_method(config.method, nn.Linear(3, 2), labels, config.method_options).views


def test_rows_of_the_ablation_of_saliency() -> None:
    options = {
        cell.row.base: dict(config_of(cell).method_options)
        for cell in find_table("sr_ablation", RECIPES).choose(["coco2014"])
        if cell.row.at == "10 %"
    }
    assert options == {
        "s_bce": {"pseudo": "none", "regularise": "none", "normalise": "cells"},
        "bn_bce": {"pseudo": "none", "regularise": "none"},
        "bn_bce_pl": {"pseudo": "same-view", "regularise": "none"},
        "bn_bce_cr": {"regularise": "none"},
        "bn_bce_sr": {"pseudo": "none"},
        "sr_cr": {"regularise": "supervised"},
        "saliency": {},
    }


def test_a_row_goes_along_its_axis() -> None:
    ablation, places = find_table("sr_ablation", RECIPES), find_table("sr_k", RECIPES)
    told = [config_of(cell).observe for cell in ablation.choose(["voc2012"], rows=["saliency"])]
    assert told == [f"known-share:0.{tenth}" for tenth in range(1, 10)]
    for share in ("20", "50"):
        configs = [config_of(cell) for cell in places.choose(["coco2014"], rows=[f"places_{share}"])]
        assert [config.method_options["k"] for config in configs] == [1, 2, 3, 4, 5]
        assert {config.observe for config in configs} == {f"known-share:0.{share[0]}"}


def test_without_validation_a_recipe_of_saliency_reports_the_last_epoch() -> None:
    (cell, *_) = find_table("sr_ablation", RECIPES).cells
    config = recipe_config(RECIPES, cell, ["val=none"])
    assert (config.val, config.selections) == (0.0, ("last",))


def test_a_search_leaves_open_what_the_benchmark_fills_in() -> None:
    for cell in find_table("em_coefficients", RECIPES).cells:
        (filled,) = EM.choose(["voc2012"], [cell.protocol], [cell.row.name])
        ((option, value),) = config_of(filled).method_options.items()
        tried = {point[option] for point in search_grid(config_of(cell).search, {option: float})}
        assert option not in config_of(cell).method_options
        assert value in tried


def test_recipes_are_in_step_with_tables_results_and_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails: `python tools/make_recipes.py`."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    written = runpy.run_path(str(ROOT / "tools" / "make_recipes.py"))["recipes"]()
    assert len(written) == 80 + 74 + 26 + 12 + len(SR_RUNS)
    stale = [path.name for path, text in written.items() if not path.is_file() or path.read_text() != text]
    assert stale == []


def test_every_cell_of_every_table_has_its_recipe() -> None:
    assert [cell.recipe for cell in CELLS if not (RECIPES / f"{cell.file}.toml").is_file()] == []


def test_every_recipe_of_the_published_data_sets_is_a_cell() -> None:
    known = {cell.file for cell in CELLS}
    sources = dict.fromkeys(cell.source for cell in CELLS)
    paths = [path for source in sources for path in (RECIPES / source).rglob("*.toml")]
    assert {path.relative_to(RECIPES).with_suffix("").as_posix() for path in paths} == known


def test_a_recipe_holds_only_what_differs_from_the_defaults() -> None:
    content = tomllib.loads((RECIPES / "voc2012" / "role_linear.toml").read_text())
    assert not {"seed", "val", "split_seed", "device", "weights"} & set(content)
