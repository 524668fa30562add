"""Tables and progress: plain where nobody watches, silent where silence was asked for."""

import io
import sys

import pytest

from tacit.cli import console


@pytest.fixture(autouse=True)
def _loud():
    yield
    console.set_quiet(False)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_tables_are_aligned_and_uncut(capsys):
    console.table(("class", "count"), [("cat", 1200), ("a" * 150, None)], right=("count",))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "class".ljust(150) + "  count"
    assert lines[1] == "cat".ljust(150) + "  1,200"
    assert lines[2] == "a" * 150 + "      –"


def test_tables_on_a_terminal_show_markup_as_text(monkeypatch):
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    console.table(("class",), [("[red]cat[/red]",)])
    assert "[red]cat[/red]" in out.getvalue()


def test_progress_without_a_terminal_is_one_line_at_the_end(capsys):
    with console.progress("features", 10) as bar:
        for _ in range(5):
            bar.advance(2, note="b.jpg")
        assert capsys.readouterr().err == ""
    said = capsys.readouterr().err
    assert said.startswith("features: 10 images in 0.")
    assert said.endswith(", b.jpg\n")


def test_no_work_no_line(capsys):
    with console.progress("features", 10):
        pass
    assert capsys.readouterr().err == ""


def test_quiet_progress_says_nothing(capsys):
    console.set_quiet(True)
    with console.progress("features", 10) as bar:
        bar.advance(10)
    console.notice("by the way")
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar_with_the_time_left(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "120")
    with console.progress("features", 10) as bar:
        bar.to(2)
        bar.to(4, left=75, note="b.jpg")
    shown = screen.getvalue()
    assert "4/10" in shown
    assert "1 min 15 s left" in shown
    assert "b.jpg" in shown


def test_the_estimate_counts_from_the_first_report(monkeypatch):
    now = iter([0.0, 100.0, 110.0])
    monkeypatch.setattr(console.time, "monotonic", lambda: next(now))
    seen = []
    bar = console.Bar("features", 1000, "images")
    bar._drawn = (type("Drawing", (), {"update": lambda self, task, **kw: seen.append(kw["left"])})(), 0)
    bar.to(500)  # found done already
    bar.to(600)  # a hundred in ten seconds: four hundred take forty
    assert seen == ["", "40 s left"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.42, "0.4 s"), (9.96, "10 s"), (59.4, "59 s"), (59.6, "1 min"), (200, "3 min 20 s"), (7500, "2 h 5 min")],
)
def test_duration(seconds, text):
    assert console.duration(seconds) == text
