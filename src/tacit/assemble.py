"""From a configuration to what a run needs: the source, observed labels, inputs on the device, a fresh method.

Loaded sources and decoded images are kept for the next run of the same process: a table is many runs on one data set.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from .data.batches import FeatureInputs, ImageInputs, Inputs, steps_of
from .data.feature_set import FeatureSet, open_features
from .data.features import every_image, extract, import_features
from .data.images import PixelStore
from .data.source import Source, Split, load_source
from .data.splits import hide_and_hold_out
from .data.views import kinds_of
from .errors import UserError
from .evaluate import Judge, check_held
from .labels import Labels
from .methods.base import Method, Stage
from .methods.registry import build_method, find_method, method_options, numeric_options
from .nets.backbone import Backbone, Preprocessing
from .nets.net import Net, make_backbone, make_net, takes
from .nets.weights import check_weights
from .observations import parse_observation
from .observe import warnings_for
from .protocols import of_budget, of_method, search_grid
from .run import RunConfig
from .runtime import Runtime

Report = Callable[[int, int], None]  # (done, of)


@dataclass(frozen=True, eq=False)
class Bench:
    """Everything a run is made of, except its method. `splits` holds truth and goes to the judge, never further."""

    config: RunConfig
    source: Source
    splits: dict[str, Split]  # train, val (unless everything trains), test
    observed: Labels  # of the training rows
    judge: Judge
    observe_seed: int
    warnings: tuple[str, ...]
    _held: dict[str, dict[str, Inputs]] = field(default_factory=dict, repr=False)

    def inputs(self, kind: str, runtime: Runtime, progress: Report | None = None) -> dict[str, Inputs]:
        """Features or images of every split, on the device; kept for the next trial until the other kind is asked."""
        if kind not in self._held:
            self._held.clear()
            make = _feature_inputs if kind == "features" else _image_inputs
            self._held[kind] = make(self, runtime, progress)
        return self._held[kind]

    def net(self, kind: str, inputs: dict[str, Inputs]) -> Net:
        """A fresh net for these inputs; its head draws from torch's global generator."""
        if kind == "features":
            table = inputs["train"]
            assert isinstance(table, FeatureInputs)
            return make_net(None, len(self.source.classes), width=table.table.shape[1])
        head, options = head_name(self.config), self.config.head_options
        net = make_net(fresh_backbone(self.config), len(self.source.classes), head=head, head_options=options)
        # On CPU and GPU alike: a step of a depthwise network takes half the time.
        return net.to(memory_format=torch.channels_last)

    def method(self, net: nn.Module, runtime: Runtime, options: Mapping[str, Any] | None = None) -> Method:
        """A fresh method; `options` are hyper-parameters that a search sets."""
        told = {**self.config.method_options, **(options or {})}
        return build_method(self.config.method, net, self.observed, told).to(runtime.device)

    def rehearse(self, budgets: Sequence[Stage], points: Iterable[Mapping[str, Any]]) -> str:
        """What a method refuses about its hyper-parameters, these labels or the length of training, it refuses here:
        before anything was trained. Returns what an unknown label is to it, in words."""
        told = dict[str, None]()
        for point in points:
            options = {**self.config.method_options, **of_method(point)}
            method = build_method(self.config.method, nn.Identity(), self.observed, options)
            for budget in budgets:
                mine = replace(budget, **of_budget(point)) if budget is budgets[-1] else budget
                kinds_of(method.views, mine.augment)
                for stage in method.stages(mine):
                    steps_of(stage, len(self.observed))
            told[method.unknown] = None
        return "; or ".join(told)


def backbone_name(config: RunConfig) -> str:
    if config.backbone != "auto":
        return config.backbone
    if config.source.startswith("scenes"):
        return "small"
    raise UserError(
        "--backbone: name a timm model (for example --backbone resnet50), or small for the built-in network. "
        "With --features FILE the linear protocol needs none."
    )


def head_name(config: RunConfig) -> str:
    return find_method(config.method).head if config.head == "auto" else config.head


def fresh_backbone(config: RunConfig) -> Backbone:
    """The backbone with its pretrained weights, as every run starts."""
    name = backbone_name(config)
    if name == "small":
        return make_backbone(name, size=_small_size(config))
    return make_backbone(
        name, config.weights, size=config.image_size, **({"order": True} if config.weights_by_order else {})
    )


def source_of(config: RunConfig) -> Source:
    return _load(config.source, config.data, tuple(sorted(config.source_options.items())))


@lru_cache(maxsize=2)
def _load(spec: str, data: str | None, options: tuple[tuple[str, Any], ...]) -> Source:
    return load_source(spec, Path(data) if data else None, **dict(options))


def assemble(config: RunConfig) -> Bench:
    """Load, hide, hold out; the truth goes to the judge."""
    source = source_of(config)
    for needed in ("train", "test"):
        if needed not in source.splits or not len(source.splits[needed]):
            raise UserError(
                f"{config.source} has no images in a split '{needed}': a run needs images to train on and images to be "
                "judged by. A label table names them in its column 'split'."
            )
    observation = parse_observation(config.observe)
    seed = observation.published_seed if config.observe_seed is None else config.observe_seed
    hidden = hide_and_hold_out(source, observation, seed, val=config.val, split_seed=config.split_seed)
    train, val, test = hidden["train"], hidden.get("val"), source.splits["test"]
    splits = {"train": train.split, "test": test} | ({"val": val.split} if val else {})
    observed = train.observed
    for name, held in splits.items():
        if name != "train":
            check_held(name, held.labels)
    judge = Judge(
        train=train.split.labels,
        test=test.labels,
        val=val.split.labels if val else None,
        val_observed=val.observed if val else None,
        train_observed=observed,
    )
    warnings = warnings_for(observed)
    if config.selection != "last" and judge.val is not None:
        blank = np.zeros(judge.val.shape, np.float32)
        if judge.selection(config.selection, blank) is None:
            warnings.append(
                f"none of the classes can be scored on the {len(judge.val)} validation images: epochs cannot be "
                "compared, and the last one is kept. A larger --val helps."
            )
    return Bench(config, source, splits, observed, judge, seed, tuple(warnings))


def _image_inputs(bench: Bench, runtime: Runtime, progress: Report | None) -> dict[str, Inputs]:
    config, preprocessing = bench.config, fresh_preprocessing(bench.config)
    out: dict[str, Inputs] = {}
    for name, split in bench.splits.items():
        key = (config.source, config.data, tuple(sorted(config.source_options.items())), split.images)
        store = _store(_Key(key, split), preprocessing.size, config.workers, preprocessing.interpolation, progress)
        out[name] = ImageInputs(store, preprocessing, runtime.device)
    return out


def fresh_preprocessing(config: RunConfig) -> Preprocessing:
    name = backbone_name(config)
    return fresh_backbone_shape(name, _small_size(config) if name == "small" else config.image_size)


def _small_size(config: RunConfig) -> int:
    """The built-in network takes embedded images as they are drawn, and 64 pixels of any others."""
    pixels = source_of(config).splits["train"].pixels
    return config.image_size or (64 if pixels is None else pixels.shape[-1])


@lru_cache(maxsize=4)
def fresh_backbone_shape(name: str, size: int | None) -> Preprocessing:
    """How a timm backbone wants its images; no weights are needed to know."""
    return make_backbone(name, "none", size=size).preprocessing


@dataclass(frozen=True)
class _Key:
    """A split that hashes by where it came from, for the cache of decoded images."""

    key: tuple[Any, ...]
    split: Split

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.key == other.key


@lru_cache(maxsize=3)
def _store(key: _Key, size: int, workers: int, interpolation: Any, progress: Report | None) -> PixelStore:
    return PixelStore(key.split, size, workers=workers, interpolation=interpolation, progress=progress)


def _feature_inputs(bench: Bench, runtime: Runtime, progress: Report | None) -> dict[str, Inputs]:
    config = bench.config
    found = brought_features(config.features) if config.features else _extracted(bench, runtime, progress)
    return {name: FeatureInputs(found.for_images(split.images), runtime.device) for name, split in bench.splits.items()}


@lru_cache(maxsize=2)
def brought_features(path: str) -> FeatureSet:
    """Features named on the command line: a folder of ours, or a file from elsewhere, its names without suffix."""
    where = Path(path)
    return open_features(where) if where.is_dir() else import_features(where, match="stem")


def _extracted(bench: Bench, runtime: Runtime, progress: Report | None) -> FeatureSet:
    """Features of every image of the source by the configured backbone: computed once, then read from the cache."""
    backbone = fresh_backbone(bench.config).to(runtime.device)
    told = (lambda done, of, left: progress(done, of)) if progress else None
    return extract(every_image(bench.source), backbone, workers=bench.config.workers, progress=told)


def search_points(config: RunConfig) -> list[dict[str, Any]]:
    """Every setting that a run tries: one without changes, where there is no search."""
    return search_grid(config.search, numeric_options(config.method)) or [{}]


def check_fit(config: RunConfig, budgets: tuple[Stage, ...]) -> None:
    """What can be refused before any file is read."""
    method = find_method(config.method)
    if method.needs_images and any(stage.inputs == "features" for stage in budgets):
        raise UserError(
            f"{config.method} works on images, and protocol {config.protocol} trains on cached features. "
            "Use --protocol finetune."
        )
    _check_head(config, budgets)
    if any(stage.inputs == "images" for stage in budgets) or not config.features:
        check_weights(config.weights)
    if config.protocol == "linear" and not config.features and backbone_name(config) == "small":
        raise UserError(
            "the built-in small network has no pretrained weights, so there are no features to train a linear "
            "classifier on. Use --protocol finetune, or name a backbone, or give --features."
        )


def _check_head(config: RunConfig, budgets: tuple[Stage, ...]) -> None:
    own, asked = find_method(config.method).head, head_name(config)
    if own != "linear" and asked != own:
        raise UserError(f"{config.method} needs the head {own}: leave --head {asked} out.")
    if both := [name for name in config.head_options if name in method_options(config.method)]:
        raise UserError(
            f"{config.method} has {' and '.join(both)} of its own, which the head's would not change: "
            f"give {', '.join(f'--{name}' for name in both)} instead of {', '.join(f'--head.{name}' for name in both)}."
        )
    if takes(asked) == "maps" and any(stage.inputs == "features" for stage in budgets):
        raise UserError(
            f"the head {asked} makes maps of images, and protocol {config.protocol} trains on cached features. "
            "Use --protocol finetune."
        )


def set_threads(config: RunConfig, stage: Stage) -> None:
    """Steps on features are too small to share: with two threads they spend their time waiting for each other."""
    if config.threads:
        torch.set_num_threads(config.threads)
    elif stage.inputs == "features":
        torch.set_num_threads(1)
    else:
        asked = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]  # "4,2" is for nested regions
        torch.set_num_threads(int(asked) if asked.isdecimal() and int(asked) else os.cpu_count() or 1)
