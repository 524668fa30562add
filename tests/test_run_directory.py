"""A run directory holds one run: what may change when it is entered again, and what may not."""

from dataclasses import replace
from pathlib import Path

import pytest

from tacit.run import RunConfig, RunDirectory, RunError

CONFIG = RunConfig("voc2012", features="here/resnet.npz")


def test_data_and_features_may_move(tmp_path: Path) -> None:
    RunDirectory.claim(tmp_path / "run", CONFIG, resume=False)
    moved = replace(CONFIG, data="/elsewhere", features="there/resnet.npz", threads=2)
    assert RunDirectory.claim(tmp_path / "run", moved, resume=True).config() == CONFIG


@pytest.mark.parametrize("features", ["here/clip.npz", None])
def test_other_features_are_another_run(tmp_path: Path, features: str | None) -> None:
    RunDirectory.claim(tmp_path / "run", CONFIG, resume=False)
    with pytest.raises(RunError, match=r"features were 'here/resnet.npz', now"):
        RunDirectory.claim(tmp_path / "run", replace(CONFIG, features=features), resume=True)


def test_the_same_run_is_not_entered_by_accident(tmp_path: Path) -> None:
    RunDirectory.claim(tmp_path / "run", CONFIG, resume=False)
    with pytest.raises(RunError, match="--resume"):
        RunDirectory.claim(tmp_path / "run", CONFIG, resume=False)
