"""Sources are found by name, and refuse options they do not know."""

from pathlib import Path

import pytest

from tacit.data.source import Problem, SourceError, load_source, parse_spec, source_module, source_names


def test_specs_name_a_module_a_variant_and_a_place() -> None:
    assert parse_spec("voc2012:some/devkit") == ("voc", "2012", Path("some/devkit"))
    assert parse_spec("coco") == ("coco", "", None)
    assert parse_spec("my/labels.csv") == ("table", "", Path("my/labels.csv"))
    assert parse_spec("table:labels.csv") == ("table", "", Path("labels.csv"))
    with pytest.raises(SourceError, match=r"no source named 'vok2012'.*coco.*voc"):
        parse_spec("vok2012:devkit")


@pytest.mark.parametrize("name", ["coco", "cub", "nuswide", "table", "voc"])
def test_every_reader_describes_itself(name: str) -> None:
    assert name in source_names()
    module = source_module(name)
    assert module.__doc__
    assert module.__doc__.splitlines()[0].endswith(".")
    assert module.LAYOUT.startswith("Expected")
    assert all(len(line) <= 120 for line in module.LAYOUT.splitlines())


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("voc2012:x", {"dificult": "unknown"}, "'voc' has no option 'dificult'; it has difficult, lists"),
        ("voc2012:x", {"difficult": "maybe"}, "difficult is one of negative, positive, unknown; found 'maybe'"),
        ("coco2014:x", {"rows": "some"}, "rows is one of annotated, all; found 'some'"),
        ("x.csv", {"silence": "golden"}, "silence is one of unknown, absent; found 'golden'"),
        ("x.csv", {"silence": None}, "there is no x.csv"),
    ],
)
def test_options_are_checked_before_any_file_is_read(spec: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(SourceError, match=message):
        load_source(spec, **options)


def test_a_problem_counts_all_and_shows_five() -> None:
    problem = Problem("missing", tuple("abcdefg"))
    assert str(problem) == "missing (7): a, b, c, d, e, … (2 more)"
