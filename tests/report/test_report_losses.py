"""Gradient regimes and loss surfaces in the report: read from files, drawn on one scale, wrong files named."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from run_factory import World, write_runs
from test_report_page import Page

from tacit.report import ReportError, compare, read_runs, render_html
from tacit.report.landscapes import Surface, common_levels, landscape_figures, read_surface, read_surfaces
from tacit.report.page import group_looks
from tacit.report.regimes import Drawn, caption, draw_file, panels_of, read_regime, regime_of
from tacit.report.style import looks

STEPS = np.linspace(-1, 1, 5)
P = [0.1, 0.5, 0.9]


def write_surface(
    run: Path, steep: float, *, own: bool = True, loss: str = "an", done: int = 5, base: float = 0.2
) -> None:
    squares = base + steep * (STEPS[:, None] ** 2 + STEPS[None, :] ** 2)
    name = "landscape.npz" if own else f"landscape-{loss}.npz"
    story = {"own": own, "loss": loss, "images": 512}
    np.savez(run / name, steps=STEPS, loss=squares, done=np.arange(5) < done, story=np.array(json.dumps(story)))


def regime(unknown: dict[str, list[float]], notes: tuple[str, ...] = ()) -> dict[str, object]:
    curves = {"present": [-0.9, -0.5, -0.1], **unknown}
    return {"format": 1, "unknown": "negative", "probabilities": P, "curves": curves, "notes": list(notes)}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return write_runs(tmp_path, World(test_images=40), ("an", "epr"), seeds=2, epochs=2, images=False)


def text_of(runs: Path) -> str:
    return render_html(compare(read_runs([runs])), runs / "page.html").read_text()


def test_flatness_is_the_mean_rise_in_a_disc():
    steps = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    surface = Surface(steps, 3 + steps[:, None] ** 2 + 2 * steps[None, :] ** 2, {})
    # Within 0.5: the middle (0), two points half a step along the first direction (0.25 each), two along the second.
    assert surface.mean_rise(0.5) == pytest.approx((0 + 2 * 0.25 + 2 * 0.5) / 5)
    assert surface.solution == 3
    assert surface.rise.max() == 3


def test_a_surface_with_a_hole_has_no_flatness():
    loss = np.ones((5, 5))
    loss[2, 3] = np.inf
    assert np.isnan(Surface(STEPS, loss, {}).mean_rise())


def test_all_surfaces_share_their_levels(runs):
    write_surface(runs / "an-0", 0.5)
    write_surface(runs / "epr-0", 0.01)
    levels = common_levels([read_surfaces(runs / name)[""] for name in ("an-0", "epr-0")])
    assert levels[0] == 0
    assert levels[-1] == pytest.approx(1.0)  # the higher of the two corners
    assert (np.diff(levels) > 0).all()


def test_the_page_draws_surfaces_side_by_side(runs):
    for number, (name, steep) in enumerate({"an-0": 0.5, "an-1": 0.3, "epr-0": 0.01}.items()):
        write_surface(runs / name, steep)
        write_surface(runs / name, steep + number, own=False, loss="em", base=-0.1)
    text = text_of(runs)
    page = Page(text)
    assert {"landscape", "landscape0", "landscape1"} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert "Each run under its own loss" in text
    assert "Under the loss em" in text
    figure = text[text.index('id="landscape0"') : text.index('id="landscape1"')]
    assert figure.count("<svg role") == 5  # two maps, two reliefs, the profile
    mean = (0.5 + 0.3) / 2 * 0.2  # of AN's two seeds: (4 * 0.25) / 5 = 0.2 per unit of steepness
    assert f"AN {mean:.3g} ±" in figure
    assert "EPR 0.002" in figure
    assert "0.2 at the solution" in figure


def test_surfaces_of_another_plane_are_named_not_drawn(runs):
    write_surface(runs / "an-0", 0.5)
    write_surface(runs / "epr-0", 0.5)
    with np.load(runs / "epr-0" / "landscape.npz") as file:
        kept = dict(file)
    np.savez(runs / "epr-0" / "landscape.npz", **{**kept, "steps": 2 * STEPS})
    comparison = compare(read_runs([runs]))
    (figure,) = landscape_figures(comparison, group_looks(comparison))
    assert len(figure.panels) == 3
    assert figure.legend == (0,)
    assert "other images or directions: EPR." in figure.caption


def test_unfinished_surfaces_and_runs_without_any_are_left_out(runs):
    write_surface(runs / "an-0", 0.5, done=3)
    comparison = compare(read_runs([runs]))
    assert read_surfaces(runs / "an-0") == {}
    assert landscape_figures(comparison, group_looks(comparison)) == []
    text = text_of(runs)
    assert 'id="landscape"' not in text
    assert 'id="gradients"' not in text
    assert 'href="#landscape"' not in text


@pytest.mark.filterwarnings("error")
def test_surfaces_that_are_no_numbers_can_be_drawn(runs):
    write_surface(runs / "an-0", 0.5)
    write_surface(runs / "epr-0", 0.5)
    broken = runs / "epr-0" / "landscape.npz"
    with np.load(broken) as file:
        kept = dict(file)
    kept["loss"][0, 0] = np.inf
    np.savez(broken, **kept)
    comparison = compare(read_runs([runs]))
    (figure,) = landscape_figures(comparison, group_looks(comparison))
    assert "EPR 0.1" in figure.caption


@pytest.mark.parametrize("change", [{"loss": np.ones((5, 4))}, {"steps": np.ones(4)}, {"story": np.array("{")}])
def test_a_damaged_surface_is_named(runs, change):
    write_surface(runs / "an-0", 0.5)
    path = runs / "an-0" / "landscape.npz"
    with np.load(path) as file:
        np.savez(path, **{**dict(file), **change})
    with pytest.raises(ReportError, match=r"landscape.npz cannot be read.*--again"):
        read_surface(path)


def test_the_page_draws_the_regimes_of_all_methods(runs):
    (runs / "an-1" / "gradients.json").write_text(json.dumps(regime({"unknown": [0.1, 0.5, 0.9]})))
    weak = regime({"unknown": [-0.01, 0.0, 0.01], "unknown, estimated at 0.3": [0.1, 0.2, 0.3]}, ("k = 1.5 is known",))
    (runs / "epr-0" / "gradients.json").write_text(json.dumps(weak))
    text = text_of(runs)
    figure = text[text.index('id="regimes"') :]
    figure = figure[: figure.index("</figure>")]
    assert len(Page(text).ids) == len(set(Page(text).ids))
    assert [title for title in ("label present", "label unknown", "label absent") if f">{title}<" in figure] == [
        "label present",
        "label unknown",
    ]
    assert ">label unknown, shapes<" in figure  # the weak curve cannot be seen beside the strong one
    assert ">estimated at 0.3<" in figure
    assert "EPR: k = 1.5 is known." in figure
    assert "AN: negative" in figure
    assert re.search(r'href="#gradients"', text)


def test_strong_curves_need_no_second_panel():
    look = looks([False], [False])[0]
    alike = [
        Drawn(name, regime_of(regime({"unknown": [0.1, 0.5, top]})), look) for name, top in (("a", 0.9), ("b", 0.5))
    ]
    assert panels_of(alike) == ["present", "unknown"]
    assert "second panel" not in caption(alike)
    assert "Thin lines" not in caption(alike)


@pytest.mark.parametrize("kind", ["svg", "png", "pdf"])
def test_a_file_of_its_own(tmp_path, kind):
    look = looks([False], [False])[0]
    path = tmp_path / f"g.{kind}"
    draw_file([Drawn("em", regime_of(regime({"unknown": [-0.02, 0.0, 0.02], "absent": P})), look)], path, kind)
    start = path.read_bytes()[:300]
    assert {"svg": b"<svg", "png": b"PNG", "pdf": b"%PDF"}[kind] in start


@pytest.mark.parametrize(
    "content",
    ["{", "[]", "{}", json.dumps(regime({"unknown": [0.1]})), json.dumps({**regime({}), "curves": {"a": "b"}})],
)
def test_damaged_curves_are_named(runs, content):
    (runs / "an-0" / "gradients.json").write_text(content)
    with pytest.raises(ReportError, match=r"gradients.json is not as tacit writes it"):
        read_regime(runs / "an-0")
