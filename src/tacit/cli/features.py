"""`tacit features SOURCE --backbone NAME …` and `tacit features import FILE …`: pooled features, computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from . import console
from .options import parse, source_group
from .recipe import OptionError

if TYPE_CHECKING:
    from ..data.features import FeatureSet
    from ..data.source import Split
    from ..nets.backbone import Backbone

EXTRACT = """Compute a backbone's pooled features of every image of a source, once; an interrupted extraction goes on
where it stopped. `tacit features import FILE` brings in features computed elsewhere instead."""
IMPORT = "Bring in features computed elsewhere: an .npz with names and features, or an .npy with --names."


@dataclass(frozen=True)
class Extract:
    source: tyro.conf.Positional[str]  # a source (`tacit sources`), or a label table's path
    backbone: str  # a timm name, such as resnet50
    weights: str = "hub"  # hub, none, a .safetensors or .pth file, or package:NAME
    weights_by_order: bool = False  # match a weight file's tensors by order instead of by name
    image_size: int | None = None  # side of the square that images are resized to; unset: the pretrained size
    batch_size: int = 64  # images per step
    workers: int = 0  # processes that decode images
    device: str = "auto"  # auto, cpu, cuda, cuda:1
    data: Path | None = None  # folder of the source's files, unless SOURCE says it after a colon
    out: Path | None = None  # folder of the features; unset: in the cache, under their key


@dataclass(frozen=True)
class Import:
    file: tyro.conf.Positional[Path]  # the .npz or .npy
    names: Path | None = None  # image names of an .npy: a text file, one per line, or an .npy of strings
    match: Literal["exact", "stem"] = "exact"  # how names find images: as they are, or without folder and suffix
    source: str | None = None  # check that every image of this source has features
    data: Path | None = None  # folder of that source's files, unless it says so after a colon
    out: Path | None = None  # folder of the features; unset: in the cache, under their key


def run(argv: Sequence[str]) -> int:
    if argv and argv[0] == "import":
        return _import(argv[1:])
    parsed = parse("features", Extract, argv, groups={"source": source_group}, about=EXTRACT, recipes=False)
    config = parsed.config
    for name, least in (("batch_size", 1), ("workers", 0), ("image_size", 1)):
        value = getattr(config, name)
        if value is not None and value < least:
            raise OptionError(f"--{name.replace('_', '-')} {value}: must be at least {least}")
    images = _images(config.source, config.data, parsed.source_options)
    _print(_extract(images, _backbone(config), config))
    return 0


def _import(argv: Sequence[str]) -> int:
    parsed = parse("features import", Import, argv, groups={"source": source_group}, about=IMPORT, recipes=False)
    config = parsed.config
    from ..data.features import import_features

    found = import_features(config.file, names=config.names, match=config.match, out=config.out)
    if config.source:
        images = _images(config.source, config.data, parsed.source_options)
        found.rows_for(images.images)
        console.notice(f"every one of the {len(images):,} images of {config.source} has its features")
    _print(found)
    return 0


def _images(spec: str, data: Path | None, options: dict[str, Any]) -> Split:
    from ..data.features import every_image
    from ..data.source import load_source

    source = load_source(spec, data, **options)
    for problem in source.problems:
        console.warn(str(problem))
    return every_image(source)


def _backbone(config: Extract) -> Backbone:
    from ..nets.net import make_backbone
    from ..runtime import Runtime

    device = Runtime(config.device).device
    options = {"order": True} if config.weights_by_order else {}
    return make_backbone(config.backbone, config.weights, size=config.image_size, **options).to(device)


def _extract(images: Split, backbone: Backbone, config: Extract) -> FeatureSet:
    from ..data.features import extract

    with console.progress("features", len(images)) as bar:
        found = extract(
            images,
            backbone,
            out=config.out,
            batch_size=config.batch_size,
            workers=config.workers,
            progress=lambda done, total, left: bar.to(done, total, left=left),
        )
    if not bar.done:
        console.notice("these features were there already")
    return found


def _print(found: FeatureSet) -> None:
    folder = getattr(found.features, "filename", None)
    print(f"{len(found):,} images x {found.width:,} features ({found.features.dtype}), key {found.key[:12]}")
    if folder:
        print(f"Folder: {Path(folder).parent} (give it to `tacit train … --features`)")
