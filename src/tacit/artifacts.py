"""The files of a finished run beside result.json: observed labels, the model, scores, thumbnails, class maps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .assemble import Bench, backbone_name
from .data.batches import ImageInputs, Inputs
from .data.source import Split
from .evaluate import Scores
from .example_maps import example_maps
from .files import atomic_write
from .label_table import LabelTable, write_label_table
from .labels import Labels
from .methods.base import Method
from .model import Extractor, write_model
from .protocols import of_method
from .result import Verdict
from .run import RunDirectory
from .runtime import Runtime
from .thumbnails import thumbnails


def write_observed(directory: RunDirectory, bench: Bench) -> None:
    """What the method was told, and what validation could see."""
    images, split = list(bench.splits["train"].images), ["train"] * len(bench.observed)
    parts: list[Labels] = [bench.observed]
    if bench.judge.val_observed is not None:
        images += bench.splits["val"].images
        split += ["val"] * len(bench.judge.val_observed)
        parts.append(bench.judge.val_observed)
    write_label_table(directory.labels_file, LabelTable(tuple(images), Labels.stack(parts), tuple(split)))


def write_model_of(
    directory: RunDirectory, bench: Bench, method: Method, inputs: dict[str, Inputs], verdict: Verdict
) -> None:
    test = inputs["test"]
    config = replace(bench.config, method_options={**bench.config.method_options, **of_method(verdict.main.point)})
    on_images = isinstance(test, ImageInputs)
    write_model(
        directory,
        method,
        config,
        bench.source.classes,
        preprocessing=test.preprocessing if isinstance(test, ImageInputs) else None,
        extractor=None if on_images or config.features else Extractor.of(config, backbone_name(config)),
        chosen=verdict.thresholds,
    )


def write_scores(directory: RunDirectory, name: str, bench: Bench, told: Scores) -> None:
    split = bench.splits[name]
    arrays: dict[str, Any] = {"images": np.array(split.images), "scores": told, "truth": split.labels.dense()}
    observed = {"train": bench.observed, "val": bench.judge.val_observed}.get(name)
    if observed is not None:
        arrays["observed"] = observed.dense()
    _write_arrays(directory.path / f"scores-{name}.npz", **arrays)


def write_examples(directory: RunDirectory, test: Split) -> NDArray[np.int64]:
    """Thumbnails of some test images for the report's grid, where the source has images; returns their rows."""
    index, pixels = thumbnails(test)
    if len(index):
        _write_arrays(directory.path / "examples-test.npz", index=index, pixels=pixels)
    return index


def write_maps(
    directory: RunDirectory,
    bench: Bench,
    method: Method,
    inputs: dict[str, Inputs],
    verdict: Verdict,
    rows: NDArray[np.int64],
    runtime: Runtime,
) -> None:
    """Class maps of these test images, where the net makes some."""
    truth = bench.splits["test"].labels.take(rows).dense()
    found = example_maps(method, inputs["test"], rows, verdict.told["test"][rows], truth, runtime)
    if found is not None:
        _write_arrays(directory.path / "maps-test.npz", **found.arrays())


def _write_arrays(path: Path, **arrays: Any) -> None:
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)
