"""A Source: images with true labels and named splits, and everything that was wrong with them.

`load_source("voc2012:path/to/VOCdevkit")` finds the module by name (`data/voc.py`, variant "2012"): the folder is the
registry. A module offers `load(root, variant, *, options…) -> Source`; its keyword options become command-line flags.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, overload

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..labels import Labels

# Modules of this room that are no sources.
PLUMBING = {"ahead", "augment", "batches", "checks", "decode", "feature_set", "features", "images", "label_rows"}
PLUMBING |= {"source", "splits", "views", "scene_drawing", "scene_glyphs", "scene_places", "scene_shapes"}


class SourceError(UserError):
    """Something in a data set's files is missing or contradictory."""


@dataclass(frozen=True)
class Problem:
    """One kind of thing that was wrong with the files, with every place it was found."""

    what: str
    where: tuple[str, ...]

    def __str__(self) -> str:
        shown = ", ".join(self.where[:5]) + (f", … ({len(self.where) - 5} more)" if len(self.where) > 5 else "")
        return f"{self.what} ({len(self.where)}): {shown}"


class FilesIn(Sequence[Path]):
    """Files of one folder by name, each a Path only when it is asked for: nine million at once would fill gigabytes."""

    def __init__(self, folder: Path, names: Iterable[str]) -> None:
        self.folder, self.names = folder, tuple(names)

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, row: int) -> Path: ...
    @overload
    def __getitem__(self, row: slice) -> FilesIn: ...
    def __getitem__(self, row: int | slice) -> Path | FilesIn:
        return FilesIn(self.folder, self.names[row]) if isinstance(row, slice) else self.folder / self.names[row]

    def take(self, index: NDArray[Any]) -> FilesIn:
        return FilesIn(self.folder, (self.names[i] for i in index.tolist()))


@dataclass(frozen=True, eq=False)
class Split:
    """Images of one split, in the published row order, with what is truly known of them."""

    images: tuple[str, ...]  # names, unique; relative paths where there are files
    labels: Labels
    files: Sequence[Path] | None = None  # where each image lies, or …
    pixels: NDArray[np.uint8] | None = None  # … the images themselves [N, 3, H, W]
    areas: NDArray[np.float32] | None = None  # [N, C] area of the largest object per class, where boxes exist

    def __len__(self) -> int:
        return len(self.images)

    def take(self, index: NDArray[Any]) -> Split:
        files = self.files
        if files is not None:
            files = files.take(index) if isinstance(files, FilesIn) else tuple(files[i] for i in index)
        return Split(
            tuple(self.images[i] for i in index.tolist()),
            self.labels.take(index),
            files,
            None if self.pixels is None else self.pixels[index],
            None if self.areas is None else self.areas[index],
        )


@dataclass(frozen=True, eq=False)
class Source:
    """`splits` has "train" (the pool, from which a protocol holds validation out) and "test"; a person's own
    table may bring a "val" of its own."""

    name: str
    classes: tuple[str, ...]
    splits: Mapping[str, Split]
    problems: tuple[Problem, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)  # declared readings, e.g. {"difficult": "negative"}


def source_names() -> list[str]:
    """Modules of this folder that are sources."""
    import tacit.data

    return sorted(m.name for m in pkgutil.iter_modules(tacit.data.__path__) if m.name not in PLUMBING)


def parse_spec(spec: str) -> tuple[str, str, Path | None]:
    """'voc2012:devkit' -> ('voc', '2012', Path('devkit')); a bare label table -> ('table', '', path)."""
    if spec.lower().endswith((".csv", ".parquet", ".tsv")) and not spec.startswith("table:"):
        return "table", "", Path(spec)
    name, _, path = spec.partition(":")
    match = re.fullmatch(r"([a-z_]+?)(\d*)", name)
    names = source_names()
    if not match or match[1] not in names:
        raise SourceError(
            f"no source named '{name}'. Sources: {', '.join(names)} (with a year or variant where one exists, as in "
            "voc2012, coco2014), or the path of a label table (.csv, .parquet). `tacit sources` describes them."
        )
    return match[1], match[2], Path(path) if path else None


def source_module(name: str) -> ModuleType:
    return importlib.import_module(f"tacit.data.{name}")


def load_source(spec: str, root: Path | None = None, **options: Any) -> Source:
    """The source named by `spec`; `root` is where its files lie unless the spec says so after a colon."""
    name, variant, inside = parse_spec(spec)
    load: Callable[..., Source] = source_module(name).load
    _check_options(name, load, options)
    return load(inside or root, variant, **options)


def _check_options(source: str, load: Callable[..., Source], options: Mapping[str, Any]) -> None:
    """Refuse what a source does not know: a misspelt reading of the labels must not pass for the default one."""
    known = {name: hint for name, hint in get_type_hints(load).items() if name not in ("root", "variant", "return")}
    for name, value in options.items():
        if name not in known:
            raise SourceError(f"source '{source}' has no option '{name}'; it has {', '.join(known) or 'none'}.")
        hints = get_args(known[name]) if get_origin(known[name]) in (Union, UnionType) else (known[name],)
        choices = [choice for hint in hints if get_origin(hint) is Literal for choice in get_args(hint)]
        if choices and value not in choices and not (value is None and NoneType in hints):
            raise SourceError(f"source '{source}': {name} is one of {', '.join(choices)}; found '{value}'.")
