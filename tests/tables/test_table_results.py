"""From run directories to means, differences and words about what was another experiment."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tacit.run import RunConfig, RunDirectory
from tacit.tables.results import (
    CellResult,
    average,
    collect,
    difference,
    pairs_in_order,
    read_exports,
    share_of_gap,
    to_json,
)
from tacit.tables.spec import Cell, Table, TableError, find_table

TABLE = find_table("role_table1", Path(__file__).resolve().parents[2] / "recipes")
(AN,) = TABLE.choose(["voc2012"], ["linear"], ["an"])
RECIPE = RunConfig(
    "voc2012",
    backbone="resnet50.tv_in1k",
    image_size=448,
    select="clean",
    also_select=("observed",),
    search="published",
)
COUNTS = {"train": {"images": 4574}, "val": {"images": 1143}, "test": {"images": 5823}}


def finished(folder: Path, config: RunConfig, clean: float, observed: float, **changes: Any) -> Path:
    """A run directory as `tacit train` leaves it, as far as tables look."""
    path = folder / f"seed{config.seed}"
    RunDirectory.claim(path, config, resume=False)
    inputs = f"features:{Path(config.features).stem}" if config.features else config.backbone
    result = {
        "run": {"seed": config.seed, "observe_seed": 1200, "select": "clean", "backbone": inputs},
        "metrics": {"test": {"mAP": clean}, "train": {"mAP": clean + 0.1}},
        "also": {"observed": {"metrics": {"test": {"mAP": observed}, "train": {"mAP": observed}}}},
        "counts": COUNTS, "oracles": ["k"], "seconds": 2.0 + config.seed, "device": "cpu",
    }  # fmt: skip
    (path / "result.json").write_text(json.dumps(result | changes))
    return path


def collected(folder: Path, config: RunConfig = RECIPE, table: Table = TABLE, cell: Cell = AN) -> CellResult:
    paths = [finished(folder, replace(config, seed=seed), 0.8 + 0.01 * seed, 0.7) for seed in (0, 1, 2)]
    result = collect(table, cell, RECIPE, paths)
    assert result is not None
    return result


def test_means_and_spread_by_selection_rule(tmp_path: Path) -> None:
    result = collected(tmp_path)
    assert result.percent == {"clean": (80.0, 81.0, 82.0), "observed": (70.0, 70.0, 70.0)}
    assert result.text("clean") == "81.00 ± 1.00"
    assert result.text("last") == "–"
    assert result.seeds_text() == "seeds 0, 1, 2; labels hidden by 1200"
    assert result.seconds == 3.0


def test_early_stopping_and_what_an_unknown_label_is(tmp_path: Path) -> None:
    stopped = replace(RECIPE, select="clean-stop", also_select=("clean", "observed"))
    run = {"seed": 0, "observe_seed": 1200, "select": "clean-stop", "backbone": RECIPE.backbone, "unknown": "negative"}
    also = {"clean": {"metrics": {"test": {"mAP": 0.85}}}, "observed": {"metrics": {"test": {"mAP": 0.7}}}}
    result = collect(TABLE, AN, stopped, [finished(tmp_path, stopped, 0.8, 0, run=run, also=also)])
    assert result is not None
    assert result.percent == {"clean-stop": (80.0,), "clean": (85.0,), "observed": (70.0,)}
    assert (result.select, result.unknown, result.departures) == ("clean-stop", "negative", ())


def test_label_recovery_reads_the_same_runs(tmp_path: Path) -> None:
    second = find_table("role_table2", Path(__file__).resolve().parents[2] / "recipes")
    (cell,) = second.choose(["voc2012"], ["linear"], ["an"])
    assert collected(tmp_path, table=second, cell=cell).percent["clean"] == (90.0, 91.0, 92.0)


def test_the_recipe_itself_departs_in_nothing(tmp_path: Path) -> None:
    result = collected(tmp_path, replace(RECIPE, device="cpu", data="/data", threads=4))
    assert result.departures == ()
    assert result.settings == {"data": "/data"}


def test_what_makes_it_another_experiment(tmp_path: Path) -> None:
    lite = replace(RECIPE, features="f/lite0.npz", search="lr=1e-3", budget={"epochs": 2}, precision="bf16")
    path = finished(tmp_path, lite, 0.8, 0.7, counts=COUNTS | {"test": {"images": 2912}})
    result = collect(TABLE, AN, RECIPE, [path])
    assert result is not None
    assert set(result.departures) == {
        "backbone features:lite0 (recipe resnet50.tv_in1k)",
        "search lr=1e-3 (recipe published)",
        "epochs 2 (recipe default)",
        "precision bf16 (recipe fp32)",
        "2,912 test images (published 5,823)",
    }
    assert result.settings == {"features": "f/lite0.npz", "search": "lr=1e-3", "precision": "bf16", "epochs": "2"}
    assert result.text("clean") == "80.00"  # one run has no spread


def test_other_images_and_nets(tmp_path: Path) -> None:
    small = replace(RECIPE, protocol="finetune", backbone="tf_efficientnet_lite0", image_size=96)
    found = collected(tmp_path, small).departures
    assert "images of 96 pixels (recipe 448)" in found
    assert "backbone tf_efficientnet_lite0 (recipe resnet50.tv_in1k)" in found


def test_features_named_after_the_backbone_are_its(tmp_path: Path) -> None:
    assert collected(tmp_path, replace(RECIPE, features="train_imagenet_resnet50.npz")).departures == ()


def test_full_labels_have_one_selection(tmp_path: Path) -> None:
    full = replace(RECIPE, observe="full", also_select=())
    result = collect(TABLE, AN, full, [finished(tmp_path, full, 0.8, 0, also={})])
    assert result is not None
    assert result.percent == {"clean": (80.0,), "observed": (80.0,)}
    assert result.observe_seeds == ()
    assert result.seeds_text() == "seed 0; all labels"


def test_nothing_finished(tmp_path: Path) -> None:
    RunDirectory.claim(tmp_path / "run", RECIPE, resume=False)
    assert collect(TABLE, AN, RECIPE, [tmp_path / "run", tmp_path / "none"]) is None


@pytest.mark.parametrize(("change", "named"), [({"val": 0.1}, "val"), ({"features": "other.npz"}, "features")])
def test_no_mean_over_different_experiments(tmp_path: Path, change: dict[str, Any], named: str) -> None:
    paths = [finished(tmp_path, RECIPE, 0.8, 0.7), finished(tmp_path, replace(RECIPE, seed=1, **change), 0.8, 0.7)]
    with pytest.raises(TableError, match=f"same settings .*{named}"):
        collect(TABLE, AN, RECIPE, paths)


def test_differences_are_paired_by_seed(tmp_path: Path) -> None:
    base = collected(tmp_path)
    other = replace(base, seeds=(2, 0), percent={"clean": (85.0, 81.0)})
    found = difference(other, base, "clean")
    assert found is not None
    assert (found.mean, found.seeds) == (2.0, 2)  # 85 - 82 and 81 - 80
    assert found.sd == pytest.approx(2**0.5)
    assert difference(base, base, "clean") is None
    assert difference(other, base, "observed") is None
    assert difference(replace(other, seeds=(7, 8)), base, "clean") is None


def test_orders_and_gaps() -> None:
    assert pairs_in_order([3, 2, 1], [30, 10, 20]) == (2, 3)
    assert pairs_in_order([3, None, 1], [30, 90, 20]) == (1, 1)  # no published number, no order
    assert pairs_in_order([1, 1, 2], [5, 6, 6]) == (1, 2)  # a published tie is no order; ours is then half right
    assert share_of_gap(86.5, 84.2, 86.7) == pytest.approx(0.92)
    assert share_of_gap(1, 2, 2) is None


def test_an_average_is_taken_seed_by_seed(tmp_path: Path) -> None:
    averages = find_table("sr_averages", Path(__file__).resolve().parents[2] / "recipes")
    (cell,) = averages.choose(["voc2012"], rows=["csl"])
    one = collected(tmp_path)
    two = replace(
        one, seeds=(2, 0), observe_seeds=(1200, 1200), percent={"clean": (90.0, 70.0)}, departures=("odd",), settings={}
    )
    found = average(cell, [one, two])
    assert found is not None
    assert (found.recipe, found.row) == ("voc2012/sr/csl_average_finetune", "csl_average")
    assert found.seeds == (0, 2)  # those of both
    assert found.percent == {"clean": (75.0, 86.0)}  # (80 + 70) / 2, (82 + 90) / 2; only one was selected by observed
    assert found.departures == ("odd",)
    assert average(cell, [one, None]) is None
    assert average(cell, [one, replace(two, seeds=(7, 8))]) is None
    assert average(cell, []) is None


def test_a_fifth_of_the_classes_in_the_order_of_their_annotations(tmp_path: Path) -> None:
    table = find_table("sr_openimages_g2", Path(__file__).resolve().parents[2] / "recipes")
    (cell,) = table.choose(rows=["csl"])
    known = {"images": 9, "observed_present": [9, 8, 7, 6, 5, 0], "observed_absent": [0, 0, 0, 0, 0, 4]}
    area = [0.1, 0.2, 0.3, 0.4, None, 0.6]
    changes = {"counts": COUNTS | {"train": known}, "per_class": {"test": {"AP": area}}}
    result = collect(table, cell, RECIPE, [finished(tmp_path, RECIPE, 0.8, 0.7, **changes)])
    assert result is not None
    # Rarest first: 5 and 4 (4 and 5 annotations) are G1, then one class each: G2 is class 3. Rules beside have no AP.
    assert result.percent == {"clean": (40.0,)}


def test_exports_come_back(tmp_path: Path) -> None:
    result = collected(tmp_path)
    content = to_json([result], command="tacit table", date="2026-01-02", version="0")
    assert content["cells"][0]["percent"]["clean"] == {"mean": 81.0, "sd": 1.0, "values": [80.0, 81.0, 82.0]}
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "one.json").write_text(json.dumps(content))
    assert read_exports(folder) == [replace(result, date="2026-01-02")]
    (folder / "two.json").write_text('{"format": 1}')
    with pytest.raises(TableError, match=r"two\.json cannot be read"):
        read_exports(folder)
