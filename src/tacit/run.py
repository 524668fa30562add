"""A run's configuration, to and from TOML, and the directory that holds what a run leaves behind."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional

from .errors import UserError
from .files import atomic_write, is_disk_full, read_text

Rule = Literal["observed", "clean", "last", "observed-stop", "clean-stop"]
STOP = "-stop"  # a rule that ends with it keeps the best epoch before the first that was no better
SEEDS = (0, 2**32 - 1)  # of NumPy's legacy streams
RANGES = (
    ("seed", 0, 2**63 - 1),
    ("observe_seed", *SEEDS),
    ("split_seed", *SEEDS),
    ("image_size", 1, 2**14),
    ("workers", 0, 2**9),
    ("threads", 0, 2**9),
)


class RunError(UserError):
    """A run directory or configuration that cannot be used."""


@dataclass(frozen=True)
class RunConfig:
    """Source x observation x net x method x protocol x seed."""

    source: Positional[str]  # scenes, voc2012, coco2014, nuswide, cub, or a label table; NAME:PATH also says where
    method: Annotated[str, "the method; `tacit methods` lists them"] = "an"
    observe: str = "single-positive"  # how labels are hidden; `tacit observe --list` lists the models
    protocol: Literal["linear", "finetune", "linear_init"] = "linear"
    data: str | None = None  # folder of the source's files, unless SOURCE says it after a colon
    features: str | None = None  # cached or brought features (npz, npy, or a folder made by `tacit features`)
    backbone: str = "auto"  # a timm name, or small (the built-in network); auto: small for scenes
    weights: str = "hub"  # hub, none, a .safetensors or .pth file, or package:NAME
    weights_by_order: bool = False  # match a weight file's tensors by order instead of by name
    head: str = "auto"  # of the net: linear, class_maps (see docs/methods/saliency.md); auto: the method's own
    image_size: int | None = None  # side of the square that images are resized to; the published protocol says 448
    seed: int = 0  # training: initial weights, order, augmentation
    observe_seed: int | None = None  # which labels are hidden; unset: the published seed of the observation
    split_seed: int = 1200  # which training images are held out for validation
    val: float = 0.2  # share of the training pool held out; 0 trains on every row and reports the last epoch
    select: Rule = "observed"  # labels that choose the epoch; clean is an oracle; -stop: stop at the first worse epoch
    also_select: tuple[Rule, ...] = ()  # further rules, reported beside the chosen one
    search: str = (
        ""  # try settings, keep the best on validation: published, or "batch_size=8,16 lr=1e-3,1e-4 alpha=.1,.2"
    )
    train_scores: Literal["auto", "epoch", "end", "accumulated"] = "auto"  # label recovery; auto: each epoch if linear
    device: str = "auto"  # auto, cpu, cuda, cuda:1
    precision: Literal["fp32", "bf16"] = "fp32"  # bf16: mixed precision
    workers: int = 0  # processes that decode images which do not fit into memory
    threads: int = 0  # CPU threads of the arithmetic; 0: one for features, all for images
    tracker: tuple[str, ...] = ()  # tensorboard, wandb or mlflow (extras)
    recipe: str | None = None  # which published cell this is, e.g. voc2012/role_linear
    published: float | None = None  # test mAP in percent that the recipe's paper prints for this cell
    published_where: str | None = None  # paper and table
    method_options: dict[str, Any] = field(default_factory=dict)
    head_options: dict[str, Any] = field(default_factory=dict)
    source_options: dict[str, Any] = field(default_factory=dict)
    budget: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, least, most in RANGES:
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise RunError(f"--{name.replace('_', '-')} {value}: give a whole number from {least} to {most}")
        if not 0 <= self.val < 1:
            raise RunError(f"--val is a share of the training images in [0, 1), not {self.val}")
        if self.val == 0 and (blind := [rule for rule in self._asked if rule != "last"]):
            raise RunError(
                f"--val 0 holds out no validation images that {' and '.join(blind)} could choose an epoch by: say "
                "--select last and no --also-select, or hold some out with --val 0.2"
            )
        if self.search and "last" in (self.selection, *self.also_select):
            raise RunError("a search chooses on validation: it does not go with --select last or --val 0")
        for name, value in {"published": self.published, **self.method_options, **self.source_options}.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise RunError(f"--{name.replace('_', '-')} {value}: give a finite number")

    @property
    def _asked(self) -> tuple[Rule, ...]:
        """The selection rules that somebody named; the default one is not told from silence."""
        main: tuple[Rule, ...] = () if self.select == "observed" else (self.select,)
        return tuple(dict.fromkeys((*main, *self.also_select)))

    @property
    def selection(self) -> Rule:
        return "last" if self.val == 0 else self.select

    @property
    def selections(self) -> tuple[Rule, ...]:
        """The rule that chooses, then those reported beside it."""
        return tuple(dict.fromkeys((self.selection, *self.also_select)))


# Settings that say where and how a run is computed, not what is computed.
MACHINE = {"data", "features", "device", "workers", "threads", "tracker", "weights"}


def to_toml(config: RunConfig) -> str:
    """Plain keys first, then tables; unset values are left out."""
    values = asdict(config)
    plain = {k: v for k, v in values.items() if not isinstance(v, dict) and v is not None}
    lines = [f"{key} = {_toml_value(value)}" for key, value in plain.items()]
    for name, table in values.items():
        if isinstance(table, dict) and table:
            lines += ["", f"[{name}]", *(f"{k} = {_toml_value(v)}" for k, v in table.items() if v is not None)]
    return "\n".join(lines) + "\n"


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    # JSON's escapes are TOML's; but TOML wants DEL written as one, and JSON does not.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def from_toml(text: str, where: str) -> RunConfig:
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RunError(f"{where} is not TOML: {error}") from error
    known = {f.name for f in fields(RunConfig)}
    if unknown := sorted(set(values) - known):
        raise RunError(f"{where}: unknown settings {', '.join(unknown)}")
    values |= {k: tuple(v) for k, v in values.items() if isinstance(v, list)}
    for setting in fields(RunConfig):
        if setting.name not in values:
            if setting.default is MISSING and setting.default_factory is MISSING:
                raise RunError(f"{where}: '{setting.name}' is missing")
        elif not _fits(setting, values[setting.name]):
            raise RunError(f"{where}: {setting.name} = {values[setting.name]!r} is of the wrong kind")
    return RunConfig(**values)


def _fits(setting: Field[Any], value: Any) -> bool:
    """Whether a value read from TOML is of the kind of the setting's default."""
    usual = setting.default_factory() if setting.default_factory is not MISSING else setting.default
    if usual is MISSING:
        return isinstance(value, str)
    if usual is None:
        return isinstance(value, str if "str" in str(setting.type) else int | float)
    if isinstance(value, bool) or isinstance(usual, bool):
        return isinstance(value, bool) and isinstance(usual, bool)
    return isinstance(value, int | float if isinstance(usual, float) else type(usual))


class RunDirectory:
    """Files of one run. Everything but `metrics.jsonl`, which grows by lines, is written whole or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_file, self.metrics_file = path / "config.toml", path / "metrics.jsonl"
        self.result_file, self.labels_file = path / "result.json", path / "labels-observed.parquet"
        self.weights_file, self.model_file = path / "model.safetensors", path / "model.json"
        self.checkpoint_file = path / "checkpoint" / "state.safetensors"
        self.search_file = path / "search.jsonl"

    @property
    def finished(self) -> bool:
        return self.result_file.is_file()

    @classmethod
    def claim(cls, path: Path, config: RunConfig, *, resume: bool) -> RunDirectory:
        """Make the directory, or enter it to resume the same run; refuse to mix two runs."""
        here = cls(path)
        if path.exists() and not path.is_dir():
            raise RunError(f"{path} is a file; --out names the folder of one run")
        if here.config_file.is_file():
            if not resume:
                state = "a finished run" if here.finished else "a run that was not finished"
                raise RunError(
                    f"{path} holds {state} already. Add --resume to go on with it, or give --out another name."
                )
            if different := _differences(here.config(), from_toml(to_toml(config), "this run")):
                raise RunError(
                    f"{path} holds another run: {'; '.join(different)}. Resume with the same settings "
                    f"(`tacit train --config {here.config_file} --out {path} --resume`), or give --out another name."
                )
            return here
        if path.is_dir() and any(path.iterdir()):
            raise RunError(f"{path} is not empty and holds no run. Give --out a new or empty folder.")
        here.write(here.config_file, to_toml(config))
        return here

    def leave_untouched(self) -> None:
        """Give up a claim before anything was done under it, so that mended settings may have the same folder."""
        inside = sorted(self.path.rglob("*"), reverse=True)  # what a folder holds comes before the folder
        if {file for file in inside if not file.is_dir()} <= {self.config_file, self.labels_file}:
            for path in inside:
                path.rmdir() if path.is_dir() else path.unlink()

    def config(self) -> RunConfig:
        return from_toml(read_text(self.config_file), str(self.config_file))

    def result(self) -> dict[str, Any]:
        """What result.json says of a finished run."""
        try:
            content = json.loads(read_text(self.result_file))
        except json.JSONDecodeError as error:
            content, why = None, str(error)
        else:
            why = "it is not the result of a run"
        if not isinstance(content, dict) or not {"metrics", "selected", "run"} <= content.keys():
            raise RunError(f"{self.result_file} is damaged ({why}). Restore it from a copy, or run again elsewhere.")
        return content

    def write(self, file: Path, text: str) -> None:
        with atomic_write(file) as temporary:
            temporary.write_text(text, encoding="utf-8")

    def write_json(self, file: Path, content: Mapping[str, Any]) -> None:
        self.write(file, json.dumps(content, indent=1, allow_nan=False) + "\n")

    def append(self, file: Path, line: Mapping[str, Any]) -> None:
        text = json.dumps(line, allow_nan=False) + "\n"
        try:
            with file.open("a", encoding="utf-8") as out:
                out.write(text)
        except OSError as error:
            why = "no space left on the disk" if is_disk_full(error) else error.strerror
            raise RunError(f"cannot write {file}: {why}. Mend that and go on with --resume.") from error

    def lines(self, file: Path) -> list[dict[str, Any]]:
        """JSON lines; a last line cut off by a crash is dropped."""
        if not file.is_file():
            return []
        out: list[dict[str, Any]] = []
        rows = read_text(file).splitlines()
        for number, row in enumerate(rows, 1):
            try:
                out.append(json.loads(row))
            except json.JSONDecodeError as error:
                if number < len(rows):
                    raise RunError(f"{file}, line {number} is not JSON: {error}") from error
        return out

    def rewrite_lines(self, file: Path, lines: list[dict[str, Any]]) -> None:
        self.write(file, "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines))


def _differences(old: RunConfig, new: RunConfig) -> list[str]:
    """Settings that make it another run; where and how it is computed may change."""
    a, b = asdict(old), asdict(new)
    found = [f"{key} was {a[key]!r}, now {b[key]!r}" for key in a if key not in MACHINE and a[key] != b[key]]
    if _file_name(old.features) != _file_name(new.features):  # the folder may move; other features are another input
        found.append(f"features were {old.features!r}, now {new.features!r}")
    return found


def _file_name(path: str | None) -> str | None:
    return None if path is None else path.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
