"""`tacit methods NAME --plot gradient`, from the words typed to the file and the table."""

import json
import re

import numpy as np
import pytest

from tacit.cli import main
from tacit.cli.method_words import label_of, read_method
from tacit.errors import UserError


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def refused(capsys, *words) -> str:
    assert main(["methods", *words]) == 2
    return " ".join(capsys.readouterr().err.split())


def test_the_drawing_and_its_table(tmp_path, capsys):
    assert main(["methods", "em", "--plot", "gradient"]) == 0
    said = capsys.readouterr()
    svg = (tmp_path / "gradient-em.svg").read_text()
    assert "<svg" in svg
    assert "label unknown" in svg
    assert "written: gradient-em.svg" in said.err
    row = next(line for line in said.out.splitlines() if "unknown" in line)
    assert re.split(r" {2,}", row) == ["em", "unknown", "-0.0045", "-0.0198", "0.0000", "0.0206", "0.0198", "0.0045"]


def test_several_methods_with_options(tmp_path, capsys):
    words = ("em:alpha=0.2", "--plot", "gradient", "--against", "an, em, em", "--out", "here/g.png", "--json")
    assert main(["methods", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [entry["label"] for entry in found] == ["em, alpha 0.2", "an", "em"]
    strong, weak = (np.array(found[at]["curves"]["unknown"]) for at in (0, 2))
    assert np.allclose(strong, 2 * weak)
    assert (tmp_path / "here" / "g.png").read_bytes()[1:4] == b"PNG"


def test_what_cannot_be_drawn_is_refused(tmp_path, capsys):
    assert "'.bmp' says no picture format; use .svg" in refused(capsys, "em", "--plot", "gradient", "--out", "x.bmp")
    assert "no ending" in refused(capsys, "em", "--plot", "gradient", "--out", "x")
    assert "this is a folder" in refused(capsys, "em", "--plot", "gradient", "--out", str(tmp_path))
    assert "needs the NAME" in refused(capsys, "--plot", "gradient")
    assert "add --plot gradient" in refused(capsys, "em", "--against", "an")
    assert "Did you mean alpha" in refused(capsys, "em:alfa=1", "--plot", "gradient")
    assert "no method named 'emm'" in refused(capsys, "em", "--plot", "gradient", "--against", "emm")
    assert "alpha must be float" in refused(capsys, "em:alpha=x", "--plot", "gradient")
    assert "invalid choice" in refused(capsys, "em", "--plot", "gradiant")
    assert not list(tmp_path.iterdir())


def test_methods_in_one_word():
    assert read_method("em") == ("em", {})
    assert read_method("asl:gamma-neg=2:clip=0.1:detach=false:unknown=ignore") == (
        "asl",
        {"gamma_neg": 2, "clip": 0.1, "detach": False, "unknown": "ignore"},
    )
    assert label_of("em", {"alpha": 0.2}) == "em, alpha 0.2"
    for wrong in ("em:alpha", "em:=1", "em:alpha=", "em:"):
        with pytest.raises(UserError, match="NAME:key=value"):
            read_method(wrong)
