"""A metric against the share of labels: which groups make a line, and what is drawn of it."""

import re
from pathlib import Path

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure as Canvas
from run_factory import World, write_run

from tacit.report import compare, read_runs, render_html
from tacit.report.curves import Curve, draw_curves, share_figure
from tacit.report.style import looks


def labels(panel: str) -> set[str]:
    return set(re.findall(r">([^<>]+)</text>", panel))


def sweep(root: Path, method: str, shares: list[str], seeds: int = 1, **more: object) -> None:
    world = World(classes=["a", "b", "c"], test_images=20)
    for share in shares:
        for seed in range(seeds):
            name = f"{method}-{share}-{seed}-{len(more)}".replace(":", "-")
            write_run(root / name, world, method, seed, observe=share, epochs=1, images=False, **more)


def test_a_line_per_method(tmp_path: Path) -> None:
    shares = [f"known-share:{share}" for share in ("0.1", "0.5", "0.9")]
    sweep(tmp_path, "role", shares, seeds=2)
    sweep(tmp_path, "epr", shares[:2])
    sweep(tmp_path, "bce", ["full"])
    comparison = compare(read_runs([tmp_path]))
    found = share_figure(comparison)
    assert found is not None and found.wide
    assert {"ROLE", "EPR", "10", "50", "90", "known share, percent"} <= labels(found.panels[0])
    assert "BCE" not in labels(found.panels[0])
    assert 'id="shares"' in render_html(comparison, tmp_path / "out.html").read_text()


def test_methods_that_differ_in_options_are_lines_apart(tmp_path: Path) -> None:
    shares = ["known-share:0.1", "known-share:0.5"]
    for alpha in (0.0, 0.5):
        options = {"method": {"alpha": alpha}, "source": {}, "budget": {"epochs": 1}}
        for share in shares:
            world = World(classes=["a", "b", "c"], test_images=20)
            write_run(tmp_path / f"{alpha}{share[-1]}", world, "epr", observe=share, epochs=1, options=options)
    found = share_figure(compare(read_runs([tmp_path])))
    assert found is not None and {"EPR (alpha=0.0)", "EPR (alpha=0.5)"} <= labels(found.panels[0])


def test_one_share_is_no_curve(tmp_path: Path) -> None:
    sweep(tmp_path, "role", ["known-share:0.1"])
    sweep(tmp_path, "epr", ["single-positive", "known-share:0.1"])
    assert share_figure(compare(read_runs([tmp_path]))) is None


def test_means_and_bars_by_hand() -> None:
    axes = Canvas().subplots()
    curves = [Curve("x", {0.5: (0.2, 0.4), 0.1: (0.1,)})]
    draw_curves(axes, curves, looks([False], [False]), x="share", y="mAP", percent_x=True)
    (line,) = axes.get_lines()
    np.testing.assert_allclose(line.get_xydata(), [[10, 10], [50, 30]])
    bars = [c.get_segments() for c in axes.collections if isinstance(c, LineCollection)]
    sd = 100 * np.sqrt(0.02)
    np.testing.assert_allclose(bars, [[[[50, 30 - sd], [50, 30 + sd]]]])
