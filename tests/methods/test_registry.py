"""The folder is the registry: names, options, and what a wrong one is told."""

import subprocess
import sys
from pathlib import Path

import pytest
from torch import nn

import tacit.methods
from tacit.labels import Labels
from tacit.methods.names import NAMES
from tacit.methods.registry import (
    PLUMBING,
    MethodError,
    build_method,
    find_method,
    method_names,
    method_options,
    numeric_options,
)
from tacit.methods.wan import WeakAssumeNegative


def test_every_file_is_a_method_or_known_plumbing() -> None:
    files = {path.stem for path in Path(tacit.methods.__path__[0]).glob("*.py")} - {"__init__"}
    assert set(method_names()) == (files - PLUMBING) | set(NAMES)
    assert not set(NAMES) & files
    assert {"bce", "bce_ls", "an", "an_ls", "wan", "epr", "role", "pr"} <= set(method_names())


def test_listing_names_does_not_import_torch() -> None:
    code = (
        "import sys; from tacit.methods.registry import method_names; method_names(); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_method_is_found_by_its_file() -> None:
    assert find_method("wan") is WeakAssumeNegative


@pytest.mark.parametrize(
    ("wrong", "hint"), [("roll", "did you mean role"), ("bce-ls", "did you mean bce_ls"), ("base", "Methods: an, ")]
)
def test_unknown_method(wrong: str, hint: str) -> None:
    with pytest.raises(MethodError, match=hint):
        find_method(wrong)


def test_options_are_typed_and_explained() -> None:
    k, eps = method_options("epr").values()
    assert (k.name, k.type, k.default, k.required) == ("k", float, None, True)
    assert "VOC 1.5" in k.help and "oracle" in k.help
    assert (eps.name, eps.type, eps.default, eps.required) == ("eps", float, 0.0, False)
    assert method_options("wan")["weight"].type == float | None
    assert method_options("pr") == {}


def test_a_missing_k_names_the_published_values(observed: Labels) -> None:
    for name in ("epr", "role"):
        with pytest.raises(
            MethodError, match=rf"{name} needs k .*VOC 1\.5, COCO 2\.9, NUS-WIDE 1\.9, CUB 31\.4.*oracle"
        ):
            build_method(name, nn.Identity(), observed)


def test_an_unknown_option_is_told_its_neighbours(observed: Labels) -> None:
    with pytest.raises(
        MethodError, match=r"no hyper-parameter 'wieght' \(did you mean weight\?\)\. wan takes weight, eps"
    ):
        build_method("wan", nn.Identity(), observed, {"wieght": 0.1})
    with pytest.raises(MethodError, match="pr takes no hyper-parameters"):
        build_method("pr", nn.Identity(), observed, {"eps": 0.1})


@pytest.mark.parametrize("value", ["1.5", True, None, [1.5]])
def test_a_value_of_another_type_is_refused(observed: Labels, value: object) -> None:
    with pytest.raises(MethodError, match="epr: k must be float"):
        build_method("epr", nn.Identity(), observed, {"k": value})


def test_whole_numbers_and_optional_values_fit(observed: Labels) -> None:
    epr = build_method("epr", nn.Identity(), observed, {"k": 2})
    assert isinstance(epr.k, float)
    assert build_method("wan", nn.Identity(), observed, {"weight": None}).weight == 0.5


@pytest.mark.parametrize("name", NAMES)
def test_a_name_decides_only_options_there_are(name: str) -> None:
    preset, whole = NAMES[name], method_options(NAMES[name].method)
    assert {*preset.fixed, *preset.defaults} <= set(whole)
    left = method_options(name)
    assert set(left) == set(whole) - set(preset.fixed)
    assert {key: left[key].default for key in preset.defaults} == dict(preset.defaults)


def test_numbers_that_a_search_may_try() -> None:
    assert numeric_options("em_apl") == {"alpha": float, "beta": float, "share": float, "warm_up": int, "eps": float}
    assert numeric_options("wan") == {"weight": float, "eps": float}
