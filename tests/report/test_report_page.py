"""The page: self-contained, escaped, well formed, with the right numbers; and the tables in their other forms."""

import csv
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from run_factory import World, write_run, write_runs

from tacit.report import compare, print_table, read_runs, render_html, write_csv, write_markdown
from tacit.report.class_figures import histogram
from tacit.report.figures import _window
from tacit.report.gallery import data_uri, gallery
from tacit.report.tables import headline

HOSTILE = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "$\\frac{", "a|b`c*", "=1+1", "{{ 7 * 7 }}"]
VOID = {"meta", "img", "br", "link", "input", "hr"}


class Page(HTMLParser):
    """Tags, references, ids and table cells; fails on tags that do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.references: list[str] = []
        self.ids: list[str] = []
        self.handlers: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.table = ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attributes:
            self.handlers += [name] * name.startswith("on")
            if name in ("src", "href", "xlink:href", "action", "data", "srcset", "poster"):
                self.references.append(value or "")
            if name == "id":
                self.ids.append(value or "")
                self.table = value or "" if tag == "table" else self.table
        if tag == "tr" and self.table:
            self.tables.setdefault(self.table, []).append([])
        if tag in ("td", "th") and self.table:
            self.tables[self.table][-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag
        if tag == "table":
            self.table = ""

    def handle_data(self, text: str) -> None:
        if self.table and ("td" in self.open or "th" in self.open):
            self.tables[self.table][-1][-1] += text


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("usual")
    return write_runs(root, World(test_images=60, unscored=(4,)), ("bce", "an", "epr", "role"), seeds=2, epochs=4)


@pytest.fixture(scope="module")
def text(usual: Path) -> str:
    return render_html(compare(read_runs([usual])), usual / "report.html").read_text()


def test_the_page_is_well_formed_and_asks_nothing_of_the_network(text: str) -> None:
    page = Page(text)
    assert not [r for r in page.references if not r.startswith(("#", "data:image/png;base64,"))]
    assert not re.search(r"https?://|@import|url\((?!#)", text)
    assert not {"link", "iframe", "object", "embed", "base"} & set(page.tags)
    assert "default-src 'none'" in text


def test_ids_are_unique_and_every_reference_is_met(text: str) -> None:
    page = Page(text)
    assert len(page.ids) == len(set(page.ids))
    assert {r[1:] for r in page.references if r.startswith("#")} <= set(page.ids)
    assert set(re.findall(r"url\(#([^)]*)\)", text)) <= set(page.ids)


def test_the_headline_table_holds_the_numbers_of_the_runs(usual: Path, text: str) -> None:
    records = read_runs([usual])
    values = [r.metrics["test"]["mAP"] for r in records if r.run.method == "role"]
    row = next(row for row in Page(text).tables["headline"] if row[0].startswith("ROLE"))
    assert row[1] == "2"
    assert row[2] == f"{100 * np.mean(values):.2f} ± {100 * np.std(values, ddof=1):.2f}"
    assert row[3] == f"86.5ours {100 * np.mean(values) - 86.5:+.2f}".replace("-", "−")


def test_the_headline_says_what_an_unknown_label_was(text: str) -> None:
    heads = [row[0] for row in Page(text).tables["headline"][1:]]
    assert "ROLEunknown: estimated" in heads and "ANunknown: negative" in heads
    assert all("unknown" not in head for head in heads if "full" in head)


def test_every_section_is_there(text: str) -> None:
    page = Page(text)
    wanted = {"results", "training", "by-class", "pictures", "protocol", "cost", "again"}
    wanted |= {"seeds", "selection", "recovery", "loss", "estimates", "classes", "thirds", "histogram"}
    assert wanted <= set(page.ids)
    assert "expected number of positives k = 1.5" in text and "log(p + 1e-5)" in text
    assert "Not scored on test" in text and "bottle" in text
    assert "tacit train --config" in text and "--seed 1 --observe-seed 1200" in text
    assert "unknown negative" in text and "900 MB" in text


def test_hostile_names_stay_text_everywhere(tmp_path: Path) -> None:
    world = World(classes=HOSTILE, test_images=30, name="<b>s</b>")
    result = {"oracles": ["<i>k</i>"], "choices": ["</td><script>"], "unscored": {"test": [HOSTILE[0]]}}
    write_run(tmp_path / "<u>r&", world, "an", epochs=2, **result)
    config = tmp_path / "<u>r&" / "config.toml"
    config.write_text('source = "</pre><script>"')
    comparison = compare(read_runs([tmp_path]), ["</p><script>"])
    page = Page(render_html(comparison, tmp_path / "out.html").read_text())
    assert page.tags.count("script") == 1 and not page.handlers
    assert not {"b", "i", "u"} & set(page.tags) and all(r.startswith(("#", "data:")) for r in page.references)
    assert HOSTILE[5] in {row[0] for row in page.tables["class-table"]}
    write_markdown(comparison, tmp_path / "out.md")
    markdown = (tmp_path / "out.md").read_text()
    assert "<script>" not in markdown and "a\\|b\\`c\\*" in markdown
    write_csv(comparison, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        assert {"'=1+1", HOSTILE[1]} <= {row["class"] for row in csv.DictReader(file)}


def test_one_run_without_extras_still_makes_a_page(tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "r",
        World(test_images=10),
        "an",
        epochs=1,
        images=False,
        also={},
        counts={},
        per_class={},
        options={},
    )
    for name in ("scores-test.npz", "metrics.jsonl", "config.toml"):
        (run / name).unlink()
    page = Page(render_html(compare(read_runs([run])), tmp_path / "one.html").read_text())
    assert not {"pictures", "histogram", "classes", "thirds", "selection", "loss"} & set(page.ids)
    row = page.tables["headline"][1]
    assert re.fullmatch(r"\d\d\.\d\d\d\d\.\d to \d\d\.\d", row[2])  # the value, then its bootstrap interval


def test_runs_that_cannot_be_compared_are_told_loudly(tmp_path: Path) -> None:
    write_run(tmp_path / "a", World(test_images=10), "an", epochs=2)
    write_run(tmp_path / "b", World(test_images=10, name="other", classes=["x", "y", "z"]), "role", epochs=2)
    comparison = compare(read_runs([tmp_path]))
    page = render_html(comparison, tmp_path / "out.html").read_text()
    assert 'role="alert"' in page and "not comparable" in page
    assert not [cell for row in headline(comparison).rows for cell in row.cells if cell.mark]


def test_histograms_count_each_known_cell_once(tmp_path: Path) -> None:
    run = write_run(tmp_path / "r", World(classes=["a", "b"], test_images=3), "an", epochs=1)
    truth = np.array([[1, -1], [0, 1], [-1, -1]], np.int8)
    scores = np.array([[1.0, 0.0], [0.9, 0.5], [np.nan, 0.999]], np.float32)
    np.savez(run / "scores-test.npz", images=np.array(["x", "y", "z"]), scores=scores, truth=truth)
    counts = histogram(compare(read_runs([run])).groups[0])
    assert counts is not None
    assert np.flatnonzero(counts[0]).tolist() == [20, 39] and counts[0].sum() == 2
    assert np.flatnonzero(counts[1]).tolist() == [0, 39] and counts[1].sum() == 2


def test_verdicts_of_the_gallery(tmp_path: Path) -> None:
    run = write_run(tmp_path / "r", World(classes=list("abcd"), test_images=85), "an", epochs=1)
    scores, truth = np.zeros((85, 4), np.float32), -np.ones((85, 4), np.int8)
    truth[7], scores[7] = (1, 1, -1, 0), (0.7, 0.2, 0.9, 0.5)
    np.savez(run / "scores-test.npz", images=np.array([f"{i}.jpg" for i in range(85)]), scores=scores, truth=truth)
    picture = gallery(compare(read_runs([run]))).pictures[1]
    assert picture.name == "7.jpg" and picture.truth == ("a", "b") and picture.small
    marks = [(mark.name, mark.verdict) for mark in picture.answers[0].marks]
    assert marks == [("c", "wrong"), ("a", "correct"), ("d", "unknown"), ("b", "missed")]


def test_small_pictures_are_exact_and_large_ones_are_compressed() -> None:
    assert data_uri(np.zeros((3, 8, 8), np.uint8)).startswith("data:image/png;base64,")
    assert data_uri(np.zeros((3, 300, 300), np.uint8)).startswith("data:image/jpeg;base64,")


def test_csv_is_tidy_and_agrees_with_the_runs(usual: Path, tmp_path: Path) -> None:
    comparison = compare(read_runs([usual]))
    write_csv(comparison, tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    role = {(r["split"], r["metric"], r["class"]): r for r in rows if r["method"] == "role"}
    group = next(g for g in comparison.groups if g.label == "ROLE")
    assert float(role["test", "mAP", ""]["mean"]) == pytest.approx(group.spread("mAP").mean, abs=1e-6)
    assert role["test", "mAP", ""]["seeds"] == "2" and role["test", "AP", "bottle"]["mean"] == ""
    assert float(role["test", "gap closed", ""]["mean"]) == pytest.approx(comparison.gap_closed(group), abs=1e-6)


def test_markdown_tables_are_rectangular_and_mark_the_best(usual: Path, tmp_path: Path) -> None:
    write_markdown(compare(read_runs([usual])), tmp_path / "t.md")
    lines = (tmp_path / "t.md").read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| method | seeds"))
    table = lines[start : start + 6]
    assert len({line.count("|") for line in table}) == 1
    role = next(line for line in table if line.startswith("| ROLE"))
    assert re.search(r"\*\*\d\d\.\d\d ± \d\.\d\d\*\*", role)


@pytest.mark.parametrize("width", [80, 120])
def test_the_terminal_table_is_not_cut(usual: Path, width: int) -> None:
    console = Console(file=io.StringIO(), width=width)
    print_table(compare(read_runs([usual])), console)
    out = console.file.getvalue()  # type: ignore[attr-defined]
    assert "ROLE" in out and "…" not in out and ("CF1" in out) == (width >= 100)
    assert "rows differ in observation" in out


def test_the_axis_of_curves_leaves_out_a_far_start_only() -> None:
    steep = np.array([[10.0, 60.0, 80.0, 82.0, 84.0, 85.0, 84.0, 86.0, 85.0, 84.0]])
    assert _window([steep]) == pytest.approx((80 - 0.36, 86 + 0.36))
    assert _window([np.linspace(70, 86, 10)[None]]) is None
    assert _window([np.full((1, 3), np.nan)]) is None
