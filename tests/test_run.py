"""Configurations to and from TOML, and who may use a run directory."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.run import RunConfig, RunDirectory, RunError, from_toml, to_toml

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
# What is not finite is refused by RunConfig itself (test_bad_input.py).
NUMBER = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**40), 2**40)
OPTIONS = st.dictionaries(
    st.from_regex(r"[a-z][a-z_0-9]{0,8}", fullmatch=True), NUMBER | TEXT | st.booleans(), max_size=3
)


@settings(max_examples=80, deadline=None)
@given(source=TEXT, lr=st.floats(1e-12, 1e12), seed=st.integers(0, 2**62), options=OPTIONS, recipe=st.none() | TEXT)
def test_toml_says_exactly_what_was_configured(source: str, lr: float, seed: int, options: dict, recipe: str) -> None:
    config = RunConfig(
        source, seed=seed, recipe=recipe, tracker=("wandb",), also_select=("clean",), method_options=options,
        budget={"lr": lr, "drop_last": True},
    )  # fmt: skip
    assert from_toml(to_toml(config), "here") == config


def test_unset_values_are_left_out() -> None:
    text = to_toml(RunConfig("scenes", method_options={"weight": None}))
    assert "features" not in text and "weight =" not in text


@pytest.mark.parametrize(
    ("text", "said"),
    [("source = ", "config.toml is not TOML"), ('source = "a"\nspeed = 3\nage = 1', "unknown settings age, speed")],
)
def test_configurations_that_cannot_be_read(text: str, said: str) -> None:
    with pytest.raises(RunError, match=said):
        from_toml(text, "config.toml")


@pytest.mark.parametrize("val", [-0.1, 1.0, 2.0])
def test_a_share_held_out_is_a_share(val: float) -> None:
    with pytest.raises(RunError, match=r"--val is a share of the training images"):
        RunConfig("scenes", val=val)


@pytest.mark.parametrize("changes", [{"select": "last"}, {"val": 0}, {"also_select": ("last",)}])
def test_a_search_needs_validation(changes: dict) -> None:
    with pytest.raises(RunError, match="a search chooses on validation"):
        RunConfig("scenes", search="published", **changes)


def test_without_validation_the_last_epoch_is_kept() -> None:
    assert RunConfig("scenes", val=0).selection == "last"


class TestClaim:
    config = RunConfig("scenes", method="role", method_options={"k": 2.0, "weight": None})

    def test_a_new_directory(self, tmp_path: Path) -> None:
        directory = RunDirectory.claim(tmp_path / "a" / "b", self.config, resume=False)
        assert directory.config() == replace(self.config, method_options={"k": 2.0}) and not directory.finished

    def test_an_empty_directory_will_do(self, tmp_path: Path) -> None:
        assert RunDirectory.claim(tmp_path, self.config, resume=True).config_file.is_file()

    def test_resuming_the_same_run(self, tmp_path: Path) -> None:
        RunDirectory.claim(tmp_path, self.config, resume=False)
        elsewhere = replace(self.config, device="cuda", workers=4, data="/other/disk", threads=2)
        assert RunDirectory.claim(tmp_path, elsewhere, resume=True).path == tmp_path

    @pytest.mark.parametrize("finished", [False, True])
    def test_a_run_is_not_overwritten(self, tmp_path: Path, finished: bool) -> None:
        directory = RunDirectory.claim(tmp_path, self.config, resume=False)
        if finished:
            directory.write(directory.result_file, "{}")
        with pytest.raises(RunError, match="--resume") as refused:
            RunDirectory.claim(tmp_path, self.config, resume=False)
        assert ("not finished" in str(refused.value)) != finished and str(tmp_path) in str(refused.value)

    def test_another_run_is_not_resumed(self, tmp_path: Path) -> None:
        RunDirectory.claim(tmp_path, self.config, resume=False)
        with pytest.raises(RunError, match="seed was 0, now 1") as refused:
            RunDirectory.claim(tmp_path, replace(self.config, seed=1), resume=True)
        assert "--out another name" in str(refused.value)

    def test_a_folder_with_something_else(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.tex").write_text("")
        for resume in (False, True):
            with pytest.raises(RunError, match="not empty and holds no run"):
                RunDirectory.claim(tmp_path, self.config, resume=resume)

    def test_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "run").write_text("")
        with pytest.raises(RunError, match="is a file"):
            RunDirectory.claim(tmp_path / "run", self.config, resume=False)


class TestLines:
    def test_a_line_cut_off_by_a_crash_is_dropped(self, tmp_path: Path) -> None:
        directory = RunDirectory(tmp_path)
        for number in range(3):
            directory.append(directory.metrics_file, {"epoch": number})
        text = directory.metrics_file.read_text()
        directory.metrics_file.write_text(text[:-4])
        assert directory.lines(directory.metrics_file) == [{"epoch": 0}, {"epoch": 1}]
        directory.rewrite_lines(directory.metrics_file, [{"epoch": 0}])
        assert directory.metrics_file.read_text() == '{"epoch": 0}\n'

    def test_a_damaged_line_in_the_middle_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "metrics.jsonl").write_text('{"epoch": 0}\noops\n{"epoch": 2}\n')
        with pytest.raises(RunError, match=r"metrics\.jsonl, line 2 is not JSON"):
            RunDirectory(tmp_path).lines(tmp_path / "metrics.jsonl")

    def test_no_file_no_lines(self, tmp_path: Path) -> None:
        assert RunDirectory(tmp_path).lines(tmp_path / "metrics.jsonl") == []

    def test_nothing_that_is_no_number_is_written(self, tmp_path: Path) -> None:
        directory = RunDirectory(tmp_path)
        with pytest.raises(ValueError, match="JSON"):
            directory.append(directory.metrics_file, {"mAP": float("nan")})
        assert directory.lines(directory.metrics_file) == []
