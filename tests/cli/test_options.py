"""Flags from declarations: who sets a value, what help is found, and what is said about mistakes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import tyro
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.cli.flags import REQUIRED, Group, flags_of, type_name
from tacit.cli.options import OptionError, Parsed, parse


@dataclass(frozen=True)
class Settings:
    source: tyro.conf.Positional[str]  # where the images are
    method: str = "role"
    seed: int = 0
    select: Literal["observed", "clean"] = "observed"
    out: Path | None = None
    method_options: Mapping[str, Any] | None = None
    published: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Budget:
    lr: float | None = None  # learning rate of Adam
    epochs: int | None = None
    drop_last: bool | None = None


class Role:
    """Label estimates.

    alpha: weight of the
        second term
    """

    def __init__(
        self,
        net: object,
        observed: object,
        *,
        k: Annotated[float, "expected positives (VOC 1.5)"],
        alpha: float = 0.2,
        seed: int | None = None,  # of the estimates
        fast: bool = False,
        sizes: tuple[int, ...] = (3, 5),
        mode: Literal["soft", "hard"] = "soft",
    ) -> None: ...


class Plain:
    def __init__(self, net: object, observed: object) -> None: ...


METHODS = {"role": Role, "an": Plain}
GROUPS = {
    "method": lambda seen: Group(seen["method"], METHODS[seen["method"]]),
    "budget": Group("budget", Budget),
}


def read(*words: str) -> Parsed[Settings]:
    return parse("train", Settings, list(words), groups=GROUPS)


def recipe(folder: Path, text: str) -> str:
    path = folder / "recipe.toml"
    path.write_text(text)
    return str(path)


def complaint(*words: str) -> str:
    with pytest.raises(OptionError) as caught:
        read(*words)
    return str(caught.value)


class TestFlagsOf:
    def test_dataclass(self):
        flags = {flag.name: flag for flag in flags_of(Settings)}
        assert flags["source"].positional
        assert flags["source"].required
        assert flags["source"].help == "where the images are"
        assert flags["out"].type == Path | None
        assert flags["seed"].default == 0

    def test_keyword_only_parameters_of_a_class(self):
        flags = {flag.name: flag for flag in flags_of(Role, "method")}
        assert list(flags) == ["k", "alpha", "seed", "fast", "sizes", "mode"]
        assert flags["k"].default is REQUIRED
        assert flags["k"].help == "expected positives (VOC 1.5)"
        assert flags["alpha"].help == "weight of the second term"
        assert flags["seed"].help == "of the estimates"
        assert flags["k"].key == "method.k"

    def test_help_from_a_google_docstring(self):
        def load(root: Path, *, test_share: float = 0.2, other: int = 1) -> None:
            """Read.

            Args:
                root: where.
                test_share: how much is
                    held out.
                other (int): a number.
            """

        flags = {flag.name: flag.help for flag in flags_of(load)}
        assert flags == {"test_share": "how much is held out.", "other": "a number."}

    def test_help_from_comments_above_and_strings_below(self):
        @dataclass(frozen=True)
        class Documented:
            # first line
            # second line
            above: int = 1
            below: int = 2
            """said
            below"""
            beside: int = 3  # type: ignore[misc]
            none: int = 4

        assert [flag.help for flag in flags_of(Documented)] == ["first line second line", "said below", "", ""]

    def test_untyped_options_are_a_mistake_of_the_author(self):
        with pytest.raises(TypeError, match="alpha"):
            flags_of(lambda net, *, alpha=1: None)

    @pytest.mark.parametrize(
        ("kind", "text"),
        [(int, "int"), (Path | None, "path or none"), (Literal["a", "b"], "a | b"), (tuple[int, ...], "int …")],
    )
    def test_type_names(self, kind, text):
        assert type_name(kind) == text


class TestPrecedence:
    def test_defaults(self):
        parsed = read("voc2012", "--k", "1.5")
        assert parsed.config == Settings("voc2012", method_options={"k": 1.5})
        assert parsed.method_options == {
            "k": 1.5, "alpha": 0.2, "seed": None, "fast": False, "sizes": (3, 5), "mode": "soft",
        }  # fmt: skip
        assert parsed.budget == {}
        assert parsed.chosen() == {"source": "voc2012"}

    def test_recipe_then_command_line(self, tmp_path):
        path = recipe(
            tmp_path,
            'source = "voc2012"\nseed = 3\n[method_options]\nk = 2\nalpha = 0.5\nsizes = [7]\n[budget]\nlr = 1e-4\n',
        )
        parsed = read("--config", path, "--alpha", "0.9", "--seed=4")
        assert parsed.config.source == "voc2012"
        assert parsed.config.seed == 4
        assert parsed.method_options["k"] == 2.0
        assert isinstance(parsed.method_options["k"], float)
        assert parsed.method_options["alpha"] == 0.9
        assert parsed.method_options["sizes"] == (7,)
        assert parsed.budget == {"lr": 1e-4}
        assert parsed.recipe == Path(path)
        origins = parsed.provenance
        assert (origins["seed"], origins["source"], origins["select"]) == ("command line", "recipe", "default")
        assert (origins["method.alpha"], origins["method.k"]) == ("command line", "recipe")
        assert origins["budget.lr"] == "recipe"

    def test_what_was_set_travels_in_the_table_field(self, tmp_path):
        path = recipe(tmp_path, "[method_options]\nk = 2\n")
        assert read("voc", "--config", path, "--fast").config.method_options == {"k": 2.0, "fast": True}

    def test_a_table_that_is_no_group_is_only_written(self, tmp_path, capsys):
        path = recipe(tmp_path, "[published]\nvalue = 86.5\n")
        assert read("voc", "--k", "1", "--config", path).config.published == {"value": 86.5}
        assert read("voc", "--k", "1").config.published == {}
        with pytest.raises(SystemExit):
            read("--help")
        assert "published" not in capsys.readouterr().out

    def test_recipe_chooses_the_method(self, tmp_path):
        parsed = read("voc", "--config", recipe(tmp_path, 'method = "an"\n'))
        assert parsed.config.method == "an"
        assert parsed.method_options == {}

    @pytest.mark.parametrize(("words", "value"), [([], None), (["--drop-last"], True), (["--no-drop-last"], False)])
    def test_a_switch_may_stay_open(self, words, value):
        parsed = read(*words, "voc", "--k", "1")
        assert parsed.options["budget"]["drop_last"] is value


VALUES = st.fixed_dictionaries(
    {},
    optional={
        "seed": st.integers(-(2**40), 2**40),
        "select": st.sampled_from(["observed", "clean"]),
        "out": st.from_regex(r"[a-z]{1,8}(/[a-z.]{1,8})?", fullmatch=True).map(Path),
        "method.alpha": st.floats(allow_nan=False, allow_infinity=False),
        "method.seed": st.integers(0, 99),
        "method.fast": st.booleans(),
        "method.sizes": st.lists(st.integers(-9, 9), max_size=4).map(tuple),
        "budget.drop_last": st.booleans(),
    },
)


def typed(key: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        owner, _, name = key.partition(".")
        return [f"--{owner}.{'' if value else 'no-'}{name}"]
    return [f"--{key}", *map(str, value if isinstance(value, tuple) else [value])]


@settings(max_examples=20, deadline=None)
@given(values=VALUES, data=st.data())
def test_what_is_typed_is_what_is_read(values, data):
    order = data.draw(st.permutations(list(values)))
    words = [word for key in order for word in typed(key, values[key])]
    parsed = read("voc", "--k", "1", *words)
    found = {**vars(parsed.config), **{f"{o}.{k}": v for o, kept in parsed.options.items() for k, v in kept.items()}}
    assert {key: found[key] for key in values} == values
    chosen = {key for key, origin in parsed.provenance.items() if origin == "command line"}
    assert chosen == {*values, "source", "method.k"}


class TestSpelling:
    def test_a_taken_name_keeps_its_long_spelling(self):
        parsed = read("voc", "--seed", "1", "--method.seed", "2", "--k", "1")
        assert parsed.config.seed == 1
        assert parsed.method_options["seed"] == 2

    def test_the_long_spelling_always_works(self):
        parsed = read("voc", "--method.k=1.5", "--method.no-fast", "--budget.lr", "0.1")
        assert parsed.method_options["k"] == 1.5
        assert parsed.budget == {"lr": 0.1}
        assert parsed.provenance["method.fast"] == "command line"

    def test_underscores_are_hyphens(self):
        assert read("voc", "--k", "1", "--drop_last").budget == {"drop_last": True}

    @pytest.mark.parametrize(
        "words",
        [
            ["voc", "--k", "1", "--method", "role"],
            ["--k", "1", "voc"],
            ["--method=role", "--k=1", "voc"],
            ["--fast", "--k", "1", "--mode", "hard", "voc"],
            ["--sizes", "1", "2", "--k", "1", "voc"],
        ],
    )
    def test_the_argument_may_stand_anywhere(self, words):
        assert read(*words).config.source == "voc"

    def test_negative_numbers_are_values(self):
        assert read("voc", "--k", "-1.5").method_options["k"] == -1.5

    def test_none(self):
        assert read("voc", "--k", "1", "--out", "None").config.out is None


class TestHelp:
    def test_groups_are_shown_apart_with_defaults(self, capsys):
        with pytest.raises(SystemExit) as stop:
            read("--help")
        assert not stop.value.code
        shown = capsys.readouterr().out
        assert "tacit train" in shown
        assert "role options" in shown
        assert shown.index("--seed") < shown.index("role options") < shown.index("--alpha")
        assert "(default: 0.2)" in shown
        assert "where the images are" in shown

    def test_help_shows_the_chosen_method(self, capsys):
        with pytest.raises(SystemExit):
            read("--help", "--method", "an")
        assert "--alpha" not in capsys.readouterr().out


class TestMistakes:
    def test_misspelt_flag(self):
        said = complaint("voc", "--k", "1", "--alhpa", "3")
        assert said.startswith("--alhpa: did you mean --alpha? role takes --k, --alpha, --method.seed")

    def test_flag_of_another_method(self):
        said = complaint("voc", "--method", "an", "--mode", "hard")
        assert "an takes no options" in said

    def test_unlike_anything(self):
        assert complaint("voc", "--zzzzz").startswith("--zzzzz: `tacit train` has no such flag.")

    def test_missing_argument(self):
        assert complaint("--k", "1") == "tacit train needs SOURCE: where the images are"

    def test_missing_option_of_a_method(self):
        assert complaint("voc").startswith("role needs --k: expected positives (VOC 1.5)")

    def test_surplus_argument(self):
        assert "coco" in complaint("voc", "coco", "--k", "1")

    def test_wrong_number(self):
        said = complaint("voc", "--k", "many")
        assert "--k" in said
        assert "'many'" in said
        assert "╭" not in said

    def test_missing_value(self):
        assert "Missing value for argument '--k'" in complaint("voc", "--k")

    def test_wrong_choice(self):
        said = complaint("voc", "--k", "1", "--select", "cleen")
        assert "cleen" in said
        assert "'observed', 'clean'" in said

    def test_no_such_recipe(self, tmp_path):
        recipe(tmp_path, "")
        said = complaint("voc", "--config", str(tmp_path / "recipes.toml"))
        assert "there is no such file" in said
        assert "recipe.toml" in said

    def test_recipe_that_is_not_toml(self, tmp_path):
        said = complaint("voc", "--config", recipe(tmp_path, "seed: 3\n"))
        assert "not valid TOML" in said
        assert "line 1" in said

    def test_recipe_with_an_unknown_key(self, tmp_path):
        said = complaint("voc", "--config", recipe(tmp_path, "sede = 3\n"))
        assert said.endswith("recipe.toml: there is no 'sede'. Did you mean seed or select?")

    def test_recipe_with_an_unknown_option(self, tmp_path):
        said = complaint("voc", "--config", recipe(tmp_path, "[method_options]\nalfa = 3\n"))
        assert "[method_options] (role): there is no 'alfa'. Did you mean alpha?" in said

    def test_recipe_for_another_method(self, tmp_path):
        said = complaint("voc", "--method", "an", "--config", recipe(tmp_path, "[method_options]\nk = 3\n"))
        assert "(an): there is no 'k'. It takes none." in said

    @pytest.mark.parametrize(
        "line", ['seed = "three"', "seed = 1.5", "seed = true", 'select = "cleen"', "out = 3", "method = 1"]
    )
    def test_recipe_with_a_wrong_type(self, tmp_path, line):
        said = complaint("voc", "--k", "1", "--config", recipe(tmp_path, line + "\n"))
        assert f"recipe.toml, {line.split()[0]}: " in said
        assert "not what belongs here" in said

    def test_recipe_with_a_wrong_type_in_a_table(self, tmp_path):
        said = complaint("voc", "--config", recipe(tmp_path, "[method_options]\nk = 1\nsizes = [1, 'two']\n"))
        assert "[method_options] sizes: [1, 'two'] is not what belongs here (int …)" in said

    def test_recipe_whose_table_is_none(self, tmp_path):
        assert "must be a table" in complaint("voc", "--config", recipe(tmp_path, "method_options = 3\n"))
