"""Groups, references and what differs between protocols; numbers by hand."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from run_factory import World, write_run

from tacit.report import Comparison, compare, read_runs
from tacit.report.compare import display_name

WORLD = World(classes=["a", "b", "c", "d"], test_images=12)
FINGERPRINTS = {
    "observed": WORLD.fingerprint("single-positive", 1200),
    "test": WORLD.fingerprint("test"),
    "train": WORLD.fingerprint("train"),
}


def run(root: Path, method: str, seed: int, value: float, **more: Any) -> Path:
    """A run whose test mAP is `value`."""
    return write_run(
        root / f"{method}-{seed}-{len(list(root.iterdir()))}",
        WORLD,
        method,
        seed,
        epochs=2,
        metrics={"test": {"mAP": value, "hamming_loss": 1 - value, "coverage": 0.2}},
        **more,
    )


def edit(directory: Path, **changes: Any) -> None:
    path = directory / "result.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def compared(root: Path) -> Comparison:
    return compare(read_runs([root]))


def by_label(comparison: Comparison) -> dict[str, Any]:
    return {group.label: group for group in comparison.groups}


@pytest.fixture
def three(tmp_path: Path) -> Comparison:
    for seed, shift in enumerate((0.0, 0.02, 0.04)):
        run(tmp_path, "an", seed, 0.50 + shift)
        run(tmp_path, "role", seed, 0.65 + shift / 2)
        run(tmp_path, "bce", seed, 0.80 + shift, observe="full")
    return compared(tmp_path)


def test_runs_that_differ_only_in_seeds_are_one_row(three: Comparison) -> None:
    assert [group.label for group in three.groups] == ["BCE · full labels", "AN", "ROLE"]
    spread = by_label(three)["AN"].spread("mAP")
    assert spread.n == 3
    assert spread.mean == pytest.approx(0.52) and spread.sd == pytest.approx(0.02)


def test_paired_difference_and_its_interval_by_hand(three: Comparison) -> None:
    difference = three.difference(by_label(three)["ROLE"])
    assert difference is not None  # differences 0.15, 0.14, 0.13: mean 0.14, sd 0.01, t(0.975, 2) = 4.302653
    reach = 4.302653 * 0.01 / math.sqrt(3)
    assert difference.mean == pytest.approx(0.14) and difference.seeds == 3
    assert (difference.low, difference.high) == pytest.approx((0.14 - reach, 0.14 + reach), abs=1e-6)
    assert three.difference(by_label(three)["AN"]) is None


def test_gap_closed_by_hand(three: Comparison) -> None:
    groups = by_label(three)
    assert three.gap_closed(groups["ROLE"]) == pytest.approx((0.66 - 0.52) / (0.82 - 0.52))
    assert three.gap_closed(groups["AN"]) == 0 and three.gap_closed(groups["BCE · full labels"]) == 1


def test_no_gap_without_full_labels_or_where_they_are_no_better(tmp_path: Path) -> None:
    run(tmp_path, "an", 0, 0.5)
    run(tmp_path, "role", 0, 0.6)
    assert math.isnan(compared(tmp_path).gap_closed(by_label(compared(tmp_path))["ROLE"]))
    run(tmp_path, "bce", 0, 0.4, observe="full")
    assert math.isnan(compared(tmp_path).gap_closed(by_label(compared(tmp_path))["ROLE"]))


def test_seeds_that_do_not_pair_up_give_no_difference(tmp_path: Path) -> None:
    run(tmp_path, "an", 0, 0.5)
    run(tmp_path, "role", 1, 0.6)
    comparison = compared(tmp_path)
    assert comparison.difference(by_label(comparison)["ROLE"]) is None


def test_ranks_leave_out_full_labels_and_follow_the_direction(three: Comparison) -> None:
    assert three.ranks([0.9, 0.5, 0.6]) == ["", "second", "best"]
    assert three.ranks([0.9, 0.5, 0.6], lower_is_better=True) == ["", "best", "second"]
    assert three.ranks([0.9, 0.6, 0.6]) == ["", "", ""]
    assert three.ranks([0.9, 0.6, math.nan]) == ["", "", ""]


def test_labels_name_only_what_sets_rows_apart(tmp_path: Path) -> None:
    for k in (1.5, 3.0):
        options = {"method": {"k": k, "eps": 0.0}, "source": {}, "budget": {"epochs": 2}}
        run(tmp_path, "role", 0, 0.6, options=options)
    run(tmp_path, "bce", 0, 0.6, observe="one-positive-one-negative")
    labels = sorted(by_label(compared(tmp_path)))
    assert labels == ["BCE · 1 P + 1 N", "ROLE (k=1.5)", "ROLE (k=3.0)"]
    assert display_name("bce_ls") == "BCE-LS" and display_name("large_loss") == "large loss"


def test_what_a_search_chose_does_not_split_a_group(tmp_path: Path) -> None:
    for seed, lr in enumerate((0.01, 0.001)):
        options = {"method": {}, "source": {}, "budget": {"epochs": 25, "lr": lr}}
        run(tmp_path, "an", seed, 0.5, options=options, search=[{"lr": lr, "epoch": 1, "value": 0.4}])
    (group,) = compared(tmp_path).groups
    assert len(group.runs) == 2


def test_a_repeated_run_is_left_out_and_told(tmp_path: Path) -> None:
    run(tmp_path, "an", 0, 0.5)
    run(tmp_path, "an", 0, 0.7)
    comparison = compared(tmp_path)
    assert comparison.groups[0].spread("mAP").n == 1
    assert "same seeds" in comparison.notices[0]


def parts(root: Path) -> dict[str, str]:
    return {part.name: part.severity for part in compared(root).parts}


def test_the_same_protocol_has_no_differing_part(tmp_path: Path) -> None:
    run(tmp_path, "an", 0, 0.5)
    run(tmp_path, "role", 0, 0.5)
    assert parts(tmp_path) == {}


def test_an_observation_that_differs_is_a_note(tmp_path: Path) -> None:
    run(tmp_path, "an", 0, 0.5)
    run(tmp_path, "bce", 0, 0.5, observe="full")
    assert parts(tmp_path) == {"observation": "note"}


def test_other_test_labels_are_an_alarm_and_nobody_is_best(tmp_path: Path) -> None:
    run(tmp_path, "an", 0, 0.5)
    edit(run(tmp_path, "role", 0, 0.6), fingerprints={**FINGERPRINTS, "test": "0" * 64})
    assert parts(tmp_path) == {"test labels": "alarm"}
    comparison = compared(tmp_path)
    assert not comparison.comparable and comparison.ranks([0.5, 0.6]) == ["", ""]


def test_other_labels_from_the_same_observation_and_seed_are_an_alarm(tmp_path: Path) -> None:
    run(tmp_path, "an", 0, 0.5)
    edit(run(tmp_path, "role", 0, 0.6), fingerprints={**FINGERPRINTS, "observed": "0" * 64})
    assert parts(tmp_path) == {"observed labels": "alarm"}


def test_other_budgets_and_selection_are_warnings(tmp_path: Path) -> None:
    run(tmp_path, "an", 0, 0.5)
    options = {"method": {}, "source": {}, "budget": {"epochs": 50, "batch_size": 16, "lr": 0.001}}
    kept = {"epoch": 1, "stage": "linear", "value": 0.5, "metric": "mAP", "labels": "clean", "unknown": "negative"}
    run(tmp_path, "role", 0, 0.6, options=options, selected=kept)
    assert parts(tmp_path) == {"selection": "warning", "budget: epochs": "warning"}


def test_a_fingerprint_that_differs_for_no_recorded_reason_is_told(tmp_path: Path) -> None:
    run(tmp_path, "an", 0, 0.5)
    run(tmp_path, "role", 0, 0.6, fingerprint="f" * 64)
    (part,) = compared(tmp_path).parts
    assert part.severity == "warning" and "not recorded" in part.name


def test_thirds_follow_the_true_training_frequency(tmp_path: Path) -> None:
    world = World(classes=list("abcdefg"), test_images=5)
    counts = {"train": {"images": 100, "present": [5, 90, 10, 40, 3, 70, 1]}}
    aps = [0.1, 0.9, 0.2, 0.6, None, 0.8, 0.3]
    write_run(tmp_path / "r", world, "an", epochs=1, counts=counts, per_class={"test": {"AP": aps}})
    head, middle, tail = compared(tmp_path).thirds()
    assert [t.columns.tolist() for t in (head, middle, tail)] == [[1, 5, 3], [2, 0], [4, 6]]
    assert (head.most, head.fewest, tail.fewest) == (90, 40, 1)


def test_settings_that_only_the_choices_tell_apart_make_two_rows(tmp_path: Path) -> None:
    run(tmp_path, "an", 0, 0.5)
    run(tmp_path, "an", 0, 0.5, choices=["precision bf16"])
    assert sorted(by_label(compared(tmp_path))) == ["AN", "AN (precision bf16)"]


def test_recorded_protocol_parts_are_named_in_words(tmp_path: Path) -> None:
    for method, size in (("an", 96), ("role", 128)):
        edit(run(tmp_path, method, 0, 0.5), protocol={"val": 0.2, "image_size": size, "test": "x"})
    assert parts(tmp_path) == {"image size": "warning"}
