"""Bad input to what EM and its table brought: rules without validation, searches, method words, surfaces, decoders."""

from __future__ import annotations

import builtins
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from small_runs import forget, linear, run, small_machine, table, write_world
from tacit.cli import main
from tacit.data import decode
from tacit.errors import UserError
from tacit.landscape import LandscapeError, Place, Plane, _moved, landscape
from tacit.protocols import ProtocolError, search_grid
from tacit.run import RunConfig, RunError

__all__ = ["small_machine", "table"]
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
SMALL = Plane(grid=3)


@pytest.fixture
def tacit_train(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def train(*words: str) -> tuple[int, str]:
        given = ["train", str(table), "--epochs", "3", "--batch-size", "7", "--lr", "0.01", "--device", "cpu"]
        here = [] if "--features" in words else ["--features", str(table.parent / "features.npz")]
        code = main([*given, *here, "--out", str(tmp_path / "run"), *words])
        return code, " ".join(capsys.readouterr().err.split())

    return train


@pytest.fixture(scope="module")
def finished(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("finished") / "run"
    run(linear(table, method="em"), out)
    return out


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copy"))


@pytest.mark.parametrize("rules", [{"select": "clean"}, {"select": "clean-stop"}, {"also_select": ("observed",)}])
def test_a_rule_that_has_nothing_to_choose_by(rules: dict[str, Any]) -> None:
    with pytest.raises(RunError, match=r"--val 0 holds out no validation images that .* could choose an epoch by"):
        RunConfig("scenes", val=0, **rules)
    assert RunConfig("scenes", val=0, select="last").selections == ("last",)


def test_a_blank_search() -> None:
    with pytest.raises(ProtocolError, match="--search is blank"):
        search_grid("  ")


def test_points_that_differ_in_the_last_digit_have_folders_of_their_own(table: Path, tmp_path: Path) -> None:
    run(linear(table, method="em", search="alpha=0.1234567,0.12345671"), tmp_path / "run")
    names = {folder.name for folder in (tmp_path / "run" / "search").iterdir()}
    assert names == {"alpha=0.1234567", "alpha=0.12345671"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--drop-last", "--search", "batch_size=7,64"], "30 training images do not fill a batch of 64"),
        (["--method", "em", "--search", "alpha=0.1,-3"], "alpha = -3 is out of range"),
        (["--features", "/nowhere/features.npz"], "no file /nowhere/features.npz. Say with --features"),
        (["--lr", "1e30", "--method", "l2r", "--l2", "1"], "became NaN or infinite"),
    ],
)
def test_a_refused_start_leaves_the_folder_free(tacit_train: Any, tmp_path: Path, words: list[str], said: str) -> None:
    """Also where one point of a search is wrong, and where the inputs turn out to be missing."""
    code, told = tacit_train(*words)
    assert code == 2 and said in told
    assert not list((tmp_path / "run").glob("*"))
    assert tacit_train()[0] == 0


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("em:entropy=up", "em: entropy must be maximise or minimise, not 'up'"),
        ("em:alpha=0.1:alpha=0.2", "alpha is set twice"),
    ],
)
def test_words_of_a_drawing(capsys: pytest.CaptureFixture[str], tmp_path: Path, word: str, said: str) -> None:
    assert main(["methods", word, "--plot", "gradient", "--out", str(tmp_path / "a.svg")]) == 2
    assert said in " ".join(capsys.readouterr().err.split()) and not (tmp_path / "a.svg").exists()


class TestDamagedSurface:
    @pytest.mark.parametrize(
        "damage",
        [
            {"loss": np.zeros((2, 3))},
            {"done": np.zeros(2, bool)},
            {"done": np.zeros(3)},
            {"steps": np.zeros(())},
            {"story": np.array("[]")},
        ],
    )
    def test_arrays_that_do_not_belong_together(self, copy: Path, damage: dict[str, Any]) -> None:
        landscape(copy, SMALL)
        file = copy / "landscape.npz"
        with np.load(file) as held:
            arrays = dict(held)
        np.savez(file, **(arrays | damage))
        with pytest.raises(LandscapeError, match=r"landscape\.npz cannot be read .* again with --again"):
            landscape(copy, SMALL)
        assert landscape(copy, SMALL, again=True).done.all()

    @pytest.mark.parametrize("name", ["landscape.npz", "scores-train.npz"])
    def test_no_archive(self, copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
        """NumPy's own words would advise to unpickle it."""
        (copy / name).write_text("x")
        assert main(["compare", str(copy), "--report", str(tmp_path / "page.html")]) == 2
        told = " ".join(capsys.readouterr().err.split())
        assert f"{name} cannot be read (it is no NumPy archive)" in told and "allow_pickle" not in told
        assert not (tmp_path / "page.html").exists()


def test_a_surface_of_a_run_whose_table_has_moved(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    run(linear(write_world(before), method="em"), tmp_path / "run")
    forget()
    before.rename(after)
    with pytest.raises(UserError, match=r"there is no .*before/labels\.csv"):
        landscape(tmp_path / "run", SMALL)
    place = Place(data=str(after), features=str(after / "features.npz"))
    assert landscape(tmp_path / "run", SMALL, place).done.all()


@pytest.mark.parametrize(
    ("source", "moved"), [("voc2012:/old", "voc2012"), ("voc2012", "voc2012"), ("/old/labels.csv", "/new/labels.csv")]
)
def test_where_the_files_are_now_wins_over_where_they_were(source: str, moved: str) -> None:
    assert _moved(source, "/new") == moved


def test_the_model_of_a_surface_is_missing(copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    with pytest.raises(LandscapeError, match=r"the run.s model is missing or damaged\. Restore it"):
        landscape(copy, SMALL)


def test_a_span_that_is_too_long_is_told_its_limit() -> None:
    with pytest.raises(LandscapeError, match="up to 100"):
        Plane(span=1000)


def test_one_thread_at_a_time_imports_the_decoder(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run on features opens its first images in threads: torchvision's modules import each other, and fail then."""
    usual, inside, together = builtins.__import__, set[int](), list[int]()

    def slow(name: str, *more: Any) -> Any:
        if not name.startswith("torchvision"):
            return usual(name, *more)
        inside.add(threading.get_ident())
        together.append(len(inside))
        time.sleep(0.01)
        try:
            return usual(name, *more)
        finally:
            inside.discard(threading.get_ident())

    monkeypatch.setattr(builtins, "__import__", slow)
    decode._torchvision_decoder.cache_clear()
    images = sorted(table.parent.glob("*.png"))[:4]
    with ThreadPoolExecutor(len(images)) as pool:
        assert [tuple(image.shape) for image in pool.map(lambda path: decode.read_image(path, 6), images)] == [
            (3, 6, 6)
        ] * len(images)
    assert together and max(together) == 1
