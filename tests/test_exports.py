"""Public names: what `tacit` promises is there, comes from where it says, and costs nothing until it is used."""

import subprocess
import sys

import pytest

import tacit


@pytest.mark.parametrize("name", tacit.__all__)
def test_every_public_name_can_be_imported(name):
    assert getattr(tacit, name) is not None


def test_all_is_what_dir_shows_and_what_is_defined():
    assert dir(tacit) == sorted(tacit.__all__)
    assert set(tacit.__all__) == {*tacit._HOME, "__version__"}
    assert len(set(tacit.__all__)) == len(tacit.__all__)


def test_star_import_gives_exactly_the_public_names():
    names: dict[str, object] = {}
    exec("from tacit import *", names)
    assert set(names) - {"__builtins__"} == set(tacit.__all__)


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'Lables'"):
        tacit.Lables  # noqa: B018


@pytest.mark.parametrize("names", ["tacit", "tacit, tacit.labels, tacit.observe, tacit.data.source, tacit.cli"])
def test_importing_costs_no_torch(names):
    code = f"import sys, {names}; print(sorted({{'torch', 'torchvision', 'timm'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
