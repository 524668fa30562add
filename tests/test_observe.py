"""Observation models: the published streams bit for bit, and what each model promises."""

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.random import RandomState

from tacit.errors import UserError
from tacit.labels import Labels
from tacit.observations import observations, parse_observation
from tacit.observe import (
    CELLS_AT_ONCE,
    known_share,
    labelled_rows,
    positives,
    warnings_for,
    weighted_positive,
)

TRUTHS = hnp.arrays(np.int8, st.tuples(st.integers(1, 8), st.integers(1, 6)), elements=st.integers(-1, 1))
WITHOUT_FILES = [
    "full",
    "single-positive",
    "one-positive-one-negative",
    "one-positive-all-negatives",
    "known-share:0.3",
    "positive-share:0.5",
    "labelled-share:0.4",
    "class-quota:2,1",
    "single-positive-frequent",
    "single-positive-largest",
]


def _labels(matrix: Any) -> Labels:
    matrix = np.asarray(matrix, np.int8)
    return Labels.from_dense(matrix, [f"c{i}" for i in range(matrix.shape[1])])


def _ones(rows: int, classes: int) -> Labels:
    return _labels(np.ones((rows, classes), np.int8))


# ------------------------------------------------------------------------------------------------ published numbers


@pytest.mark.parametrize(
    ("recorded", "spec"),
    [
        ("1P_0N", "single-positive"),
        ("1P_1N", "one-positive-one-negative"),
        ("1P_allN", "one-positive-all-negatives"),
        ("allP_allN", "full"),
    ],
)
def test_published_positives(golden_single_positive: dict[str, Any], recorded: str, spec: str) -> None:
    golden = golden_single_positive["observation_model"]
    truth = _labels(np.array(golden["full_labels_01"]) * 2 - 1)
    observation = parse_observation(spec)
    assert observation(truth).dense().tolist() == golden[recorded]
    assert observation(truth.to_sparse()).dense().tolist() == golden[recorded]


def test_positives_equal_the_plain_program() -> None:
    """The published loop, written out: both shuffles on every row, whatever is kept."""
    truth = np.where(RandomState(3).random_sample((60, 9)) < 0.3, 1, -1).astype(np.int8)
    truth[::7] = 0
    for num_pos, num_neg in ((1, 0), (1, 1), (1, -1), (2, 3), (-1, 2), (0, 1)):
        rng, wanted = RandomState(5), np.zeros_like(truth)
        for i, row in enumerate(truth):
            for state, num in ((1, num_pos), (-1, num_neg)):
                found = np.flatnonzero(row == state)
                rng.shuffle(found)
                wanted[i, found if num == -1 else found[:num]] = state
        assert (positives(_labels(truth), RandomState(5), num_pos, num_neg).dense() == wanted).all()


def test_published_first_uniforms(golden_partial_labels: dict[str, Any]) -> None:
    known = parse_observation("known-share:0.5")(_ones(3, 4))
    assert known.dense().tolist() == golden_partial_labels["label_mask_first_values"]["expected"]["known_at_0.5"]


@pytest.mark.parametrize(
    ("name", "rows", "classes", "shares"),
    [
        ("label_mask_counts_VOC2007_trainval", 5011, 20, [f"0.{i}" for i in range(1, 10)]),
        ("label_mask_counts_VG200_train_82904", 82904, 200, ["0.1"]),
    ],
)
def test_published_mask_counts(
    golden_partial_labels: dict[str, Any], name: str, rows: int, classes: int, shares: list[str]
) -> None:
    expected = golden_partial_labels[name]["expected"]
    truth = _ones(rows, classes)
    for share in shares:
        known = parse_observation(f"known-share:{share}")(truth).dense() != 0
        assert known.sum() == expected[f"p{share}"]["n_known"]
        assert (~known.any(1)).sum() == expected[f"p{share}"]["images_without_any_known_label"]


def test_published_coco_mask_leaves_27_images_bare() -> None:
    (warning,) = warnings_for(parse_observation("known-share:0.1")(_ones(82783, 80)))
    assert warning == "27 of 82783 images have no known label at all."


def test_published_labelled_images(golden_semi_supervised: dict[str, Any]) -> None:
    checked = 0
    for key, want in golden_semi_supervised["splits"]["expected"].items():
        if not isinstance(want, dict):
            continue
        share, seed = float(key.split("_p")[1].split("_")[0]), int(key.rpartition("seed")[2])
        labelled, unlabelled = labelled_rows(want["n"], RandomState(seed), share)
        assert (len(labelled), len(unlabelled)) == (want["n_labelled"], want["n_unlabelled"])
        assert labelled[:10].tolist() == want["first10"]
        assert hashlib.sha256(np.sort(labelled).tobytes()).hexdigest() == want["sha256_of_sorted_int64_labelled"]
        checked += 1
    assert checked == 24
    want = golden_semi_supervised["splits"]["expected"]["VOC2012_p0.05_seed1"]
    rows = np.unique(parse_observation("labelled-share:0.05")(_ones(5717, 2)).cells()[0])
    assert hashlib.sha256(rows.astype(np.int64).tobytes()).hexdigest() == want["sha256_of_sorted_int64_labelled"]


def test_the_mask_does_not_depend_on_how_many_rows_are_drawn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = _ones(50, 7)
    whole = known_share(truth, RandomState(0), 0.4)
    monkeypatch.setattr("tacit.observe.CELLS_AT_ONCE", 20)
    assert CELLS_AT_ONCE > 20
    assert known_share(truth, RandomState(0), 0.4) == whole


def test_coco_is_observed_in_seconds(shared_data: Path) -> None:
    archive = np.load(shared_data / "coco2014_image_labels.npz")
    matrix = archive["Y"][archive["is_train2014"].astype(bool)].astype(np.int8) * 2 - 1
    matrix = matrix[(matrix == 1).any(1)]
    assert matrix.shape == (82081, 80)
    truth = Labels.from_dense(matrix, [str(name) for name in archive["classes"]])
    start = time.perf_counter()
    observed = parse_observation("single-positive")(truth)
    assert time.perf_counter() - start < 10
    assert observed.counts().present.sum() == 82081
    assert (matrix[observed.cells()[:2]] == 1).all()
    assert warnings_for(observed) == []


# ------------------------------------------------------------------------------------------------ promises


@settings(max_examples=60)
@given(TRUTHS, st.integers(0, 2**32 - 1), st.sampled_from(WITHOUT_FILES))
def test_knowledge_is_only_removed_and_storage_does_not_matter(matrix: np.ndarray, seed: int, spec: str) -> None:
    areas = np.arange(matrix.size, dtype=np.float32).reshape(matrix.shape)
    truth, observation = _labels(matrix), parse_observation(spec)
    observed = observation(truth, seed, areas)
    seen = observed.dense()
    assert ((seen == matrix) | (seen == 0)).all()
    assert observation(truth, seed, areas) == observed
    sparse = observation(truth.to_sparse(), seed, areas)
    assert sparse == observed
    assert sparse.is_sparse
    assert (truth.dense() == matrix).all()
    if spec.startswith("single-positive"):
        assert ((seen == 1).sum(1) == (matrix == 1).any(1)).all()
        assert not (seen == -1).any()


@given(TRUTHS, st.integers(0, 99), st.floats(0.01, 1), st.floats(0.01, 1))
def test_shares_are_nested(matrix: np.ndarray, seed: int, one: float, other: float) -> None:
    truth, (low, high) = _labels(matrix), sorted((one, other))
    for name in ("known-share", "positive-share", "labelled-share"):
        less = parse_observation(f"{name}:{low}")(truth, seed).dense()
        more = parse_observation(f"{name}:{high}")(truth, seed).dense()
        assert ((less == more) | (less == 0)).all()


@given(TRUTHS, st.integers(0, 99), st.integers(0, 4), st.integers(0, 4))
def test_quotas_are_kept_where_there_is_enough(matrix: np.ndarray, seed: int, most: int, least: int) -> None:
    truth = _labels(matrix)
    counts = parse_observation(f"class-quota:{most},{least}")(truth, seed).counts()
    assert (counts.present == np.minimum(truth.counts().present, most)).all()
    assert (counts.absent == np.minimum(truth.counts().absent, least)).all()


def test_a_seed_decides_and_the_published_one_is_the_default() -> None:
    truth = _ones(40, 6)
    observation = parse_observation("single-positive")
    assert observation.published_seed == 1200
    assert observation(truth) == observation(truth, 1200)
    assert observation(truth) != observation(truth, 1201)


def test_share_one_hides_nothing() -> None:
    truth = _labels(RandomState(0).randint(-1, 2, (9, 5)))
    for name in ("known-share", "labelled-share"):
        assert parse_observation(f"{name}:1")(truth) == truth


def test_weights_bias_the_positive_in_proportion() -> None:
    """Three present classes, weights 1 : 3 : 0; 4,000 rows put the share within 0.03 of 3/4 (more than 4 sigma)."""
    observed = weighted_positive(_ones(4000, 3), RandomState(0), [1, 3, 0])
    share = observed.counts().present / 4000
    assert abs(share[1] - 0.75) < 0.03
    assert share[2] == 0
    assert share.sum() == 1


def test_a_row_with_only_weight_zero_keeps_nothing() -> None:
    observed = weighted_positive(_labels([[1, 1], [-1, 1]]), RandomState(0), [1, 0])
    assert observed.dense().tolist() == [[1, 0], [0, 0]]


def test_most_frequent_class() -> None:
    truth = _labels([[1, 1, -1], [-1, 1, 1], [1, 1, 1], [1, -1, -1], [-1, -1, 1]])  # 3, 3, 3
    more = _labels([*truth.dense().tolist(), [-1, -1, 1]])  # class 2 leads
    observed = parse_observation("single-positive-frequent")(more).dense()
    assert observed[[1, 2, 4, 5]].tolist() == [[0, 0, 1]] * 4
    assert observed[3].tolist() == [1, 0, 0]
    tied = {tuple(parse_observation("single-positive-frequent")(truth, seed).dense()[0]) for seed in range(20)}
    assert tied == {(1, 0, 0), (0, 1, 0)}


def test_largest_object() -> None:
    truth = _labels([[1, 1, -1], [1, 1, 1], [-1, -1, -1]])
    areas = [[4.0, 5.0, 9.0], [np.nan, 0.5, 0.1], [1, 1, 1]]
    observed = parse_observation("single-positive-largest")(truth, areas=areas)
    assert observed.dense().tolist() == [[0, 1, 0], [0, 1, 0], [0, 0, 0]]


# ------------------------------------------------------------------------------------------------ names and messages


def test_the_list_and_the_parser_know_the_same_names(tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_text("class,weight\nc0,1\n")
    arguments = {"SHARE": "0.5", "POSITIVES,NEGATIVES": "3,4", "FILE": str(tmp_path / "w.csv"), "": ""}
    for kind in observations():
        spec = f"{kind.name}:{arguments[kind.argument]}" if kind.argument else kind.name
        observation = parse_observation(spec)
        assert observation.spec == spec
        assert observation.published_seed == kind.published_seed
        assert kind.describe and "{" not in kind.describe + observation.describe
    assert len({kind.name for kind in observations()}) == len(observations()) == 11


@pytest.mark.parametrize(
    ("spec", "canonical"),
    [("known-share:.10", "known-share:0.1"), (" full ", "full"), ("class-quota: 10, 20", "class-quota:10,20")],
)
def test_one_spelling_per_observation(spec: str, canonical: str) -> None:
    assert parse_observation(spec).spec == canonical
    assert parse_observation(spec) == parse_observation(canonical)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("single-positiv", "Did you mean 'single-positive'.*known-share:SHARE"),
        ("", "no observation named ''.*There are: full"),
        ("known-share", "needs an argument: known-share:SHARE"),
        ("full:0.1", "takes no argument: write 'full'"),
        ("full:", "ends in a colon"),
        ("known-share:ten", "'ten' is not a share"),
        ("known-share:0", "a share of 0"),
        ("positive-share:1.5", "a share of 1.5"),
        ("labelled-share:nan", "a share of nan"),
        ("class-quota:1000", "not two quotas"),
        ("class-quota:-1,3", "not two quotas"),
        ("single-positive-weights:absent.csv", "cannot read absent.csv"),
    ],
)
def test_bad_specs_say_what_to_write(spec: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_observation(spec)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("w.csv", "cat,1\n", "must begin with the line 'class,weight'"),
        ("w.csv", "class,weight\ncat,-1\n", r"'cat' has the weight '-1'"),
        ("w.csv", "class,weight\ncat,much\n", "'much'; give a number"),
        ("w.csv", "class,weight\ncat,1\ncat,2\n", "line 3: 'cat' has a weight already"),
        ("w.csv", "class,weight\ncat\n", "line 2: expected"),
        ("w.csv", "class,weight\ncat,1\n", "1 classes have none, e.g. dog; write 0"),
        ("w.json", '{"cat": 1, "dgo": 1}', "'dgo' is not one of the 2 classes. Did you mean 'dog'"),
        ("w.json", "[1, 2]", "must hold an object"),
        ("w.json", "{", "is not JSON"),
        ("w.json", '{"cat": null, "dog": 1}', "'cat' has the weight None"),
    ],
)
def test_bad_weights_say_where(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=message):
        parse_observation(f"single-positive-weights:{tmp_path / name}")(Labels.from_dense([[1, 1]], ["cat", "dog"]))


def test_weights_from_both_kinds_of_file(tmp_path: Path) -> None:
    truth = Labels.from_dense(np.ones((50, 2), np.int8), ['a "b", c', "dog"])
    (tmp_path / "w.csv").write_text('class,weight\n"a ""b"", c",0\ndog,2\n')
    (tmp_path / "w.json").write_text(json.dumps({"dog": 2, 'a "b", c': 0}))
    for name in ("w.csv", "w.json"):
        observed = parse_observation(f"single-positive-weights:{tmp_path / name}")(truth)
        assert observed.counts().present.tolist() == [0, 50]


def test_calls_that_cannot_work_are_refused() -> None:
    truth = _ones(2, 3)
    with pytest.raises(UserError, match="this source has no boxes"):
        parse_observation("single-positive-largest")(truth)
    with pytest.raises(UserError, match=r"areas of shape \(2, 2\) do not fit labels of shape \(2, 3\)"):
        parse_observation("single-positive-largest")(truth, areas=np.ones((2, 2)))
    with pytest.raises(UserError, match="seed -1"):
        parse_observation("single-positive")(truth, -1)
    with pytest.raises(UserError, match="give 0 or more, or -1 for all"):
        positives(truth, RandomState(0), -2)


def test_warnings_name_the_classes_left_bare() -> None:
    observed = Labels.from_dense([[1, 0, -1], [0, 0, 0]], ["cat", "dog", "elk"])
    bare, silent = warnings_for(observed)
    assert bare.startswith("2 of 3 classes have no known positive")
    assert ": dog, elk." in bare
    assert silent == "1 of 2 images have no known label at all."
    assert warnings_for(Labels.from_dense([[1]], ["cat"])) == []
