"""A trained model on disk (`model.safetensors`, `model.json`) and in use: images or features in, probabilities out.

    model = Model.load("runs/role")
    scores = model.predict(["beach.jpg", "street.png"])  # float32 [2, C], columns as in model.classes

A run directory is one; so is a folder with just these two files. Prediction needs no training data, no labels, and,
where the method predicts with the net alone, not even the method.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .checkpoint import CheckpointError, load, named, save
from .data.ahead import read_ahead
from .data.decode import ImageError, resize
from .data.views import make_view
from .errors import UserError
from .example_maps import pooling_of
from .labels import ABSENT, PRESENT, Labels
from .methods.base import Method
from .methods.registry import build_method
from .nets.backbone import Backbone, Preprocessing
from .nets.net import build_net, make_backbone
from .run import RunConfig, RunDirectory
from .runtime import Runtime

FORMAT = 1
BATCH = 64  # images at a time, as a run scores its own test split

Scores = NDArray[np.float32]
Images: TypeAlias = Sequence[str | os.PathLike[str]] | NDArray[np.uint8] | NDArray[np.floating[Any]]
Progress = Callable[[int, int], None]  # (done, of)
Decide = Literal["half", "one", "per-class"]  # 0.5; the one threshold, or each class's own, chosen on validation


class ModelError(UserError):
    """A folder that holds no usable model, or inputs that the model cannot take."""


class Chunk(NamedTuple):
    """Scores of some images: rows of what was asked for, and what could not be read of the same stretch."""

    rows: NDArray[np.int64]  # [b], ascending
    scores: Scores  # [b, C]
    failures: tuple[str, ...]  # a line per unreadable file


@dataclass(frozen=True)
class Extractor:
    """The backbone whose pooled features a model was trained on; its weights are not kept with the run."""

    backbone: str
    weights: str = "hub"
    by_order: bool = False
    image_size: int | None = None

    @classmethod
    def of(cls, config: RunConfig, backbone: str) -> Extractor:
        weights = str(Path(config.weights).resolve()) if Path(config.weights).is_file() else config.weights
        return cls(backbone, weights, config.weights_by_order, config.image_size)

    def build(self, weights: str | None) -> Backbone:
        order = {"order": True} if self.by_order else {}
        try:
            return make_backbone(self.backbone, weights or self.weights, size=self.image_size, **order)
        except UserError as error:
            raise ModelError(
                f"this model works on features of the backbone {self.backbone}, which cannot be built here: {error} "
                "Or give features computed elsewhere (--features)."
            ) from error


# --- writing ----------------------------------------------------------------------------------------------------------


def write_model(
    directory: RunDirectory,
    method: Method,
    config: RunConfig,
    classes: Sequence[str],
    *,
    preprocessing: Preprocessing | None,
    extractor: Extractor | None,
    chosen: Mapping[str, Any] | None = None,
) -> None:
    """What prediction needs of a trained method: the net, or all that the method's own `predict` may use. `chosen`
    holds the thresholds that validation likes best (`evaluate.Judge.thresholds`)."""
    alone = predicts_alone(method)
    state = named(method.net.state_dict(), "net") if alone else lasting_state(method, config, classes)
    net: Any = method.net
    save(directory.weights_file, state, {"format": FORMAT})
    directory.write_json(
        directory.model_file,
        {
            "format": FORMAT,
            "method": config.method,
            "method_options": config.method_options,
            "predicts": "net" if alone else "method",
            "classes": list(classes),
            "net": net.describe(),
            "inputs": "features" if preprocessing is None else "images",
            "preprocessing": None if preprocessing is None else preprocessing.describe(),
            "features": config.features if preprocessing is None else None,
            "extractor": None if extractor is None else asdict(extractor),
            "thresholds": [0.5] * len(classes),
            "chosen_thresholds": dict(chosen or {"absent": "the model was written without a run"}),
        },
    )


def predicts_alone(method: Method) -> bool:
    """Whether the net is all there is to this method's predictions."""
    return type(method).predict is Method.predict


def lasting_state(method: Method, config: RunConfig, classes: Sequence[str]) -> dict[str, Tensor]:
    """The state without what belongs to the training rows: tensors of another shape had there been two rows."""
    twin = build_method(config.method, method.net, _two_rows(classes), config.method_options).state_dict()
    return {k: v for k, v in method.state_dict().items() if k in twin and twin[k].shape == v.shape}


def _two_rows(classes: Sequence[str]) -> Labels:
    """Labels for a method that will only predict: every class has one positive and one negative."""
    return Labels.from_dense(np.array([[PRESENT] * len(classes), [ABSENT] * len(classes)], np.int8), tuple(classes))


# --- reading ----------------------------------------------------------------------------------------------------------


class Model:
    """Loaded weights, ready to predict, in float32. `classes` names the columns of the scores, `thresholds` [C] says
    from which score on a class counts as present."""

    def __init__(
        self,
        path: Path,
        method: Method,
        classes: tuple[str, ...],
        thresholds: NDArray[np.float32],
        device: torch.device,
        *,
        preprocessing: Preprocessing | None = None,
        extractor: Extractor | None = None,
        weights: str | None = None,
    ) -> None:
        self.path, self.classes, self.thresholds, self.device = path, classes, thresholds, device
        self.inputs: Literal["images", "features"] = "features" if preprocessing is None else "images"
        self._method, self._extractor, self._weights = method.to(device).eval(), extractor, weights
        self._preprocessing = preprocessing
        self._backbone: Backbone | None = None

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        device: str = "auto",
        weights: str | None = None,
        thresholds: Decide = "half",
    ) -> Model:
        """A run directory's model. `weights` says where the backbone's weights are, for a model on features whose
        backbone is not where it was in training; `thresholds`, from which scores on a class counts as present."""
        where = Path(path)
        described = read_description(where)
        try:
            classes, limits = tuple(described["classes"]), thresholds_of(described, where, thresholds)
            pre, extractor = described["preprocessing"], described.get("extractor")
            method = _rebuild(described, classes)
            preprocessing = None if pre is None else Preprocessing.rebuild(pre)
            source = None if extractor is None else Extractor(**extractor)
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"{where / 'model.json'} does not describe a model ({error}); was it edited?") from error
        _fill(method, where)
        target = Runtime(device).device
        return cls(
            where, method, classes, limits, target, preprocessing=preprocessing, extractor=source, weights=weights
        )

    @property
    def needs_features(self) -> bool:
        """True: trained on features that were brought in, so that nobody here knows how to make them from images."""
        return self.inputs == "features" and self._extractor is None

    def predict(self, images: Images, *, batch_size: int = BATCH, progress: Progress | None = None) -> Scores:
        """Probabilities [N, C] of image files, uint8 pixels [N, 3, H, W], or features [N, D]. A file that cannot be
        read is an error here; `stream` goes on without it."""
        parts, failures = [np.empty((0, len(self.classes)), np.float32)], list[str]()
        for chunk in self.stream(images, batch_size=batch_size, progress=progress):
            parts.append(chunk.scores)
            failures += chunk.failures
        self._refuse(failures, len(images))
        return np.concatenate(parts)

    def _refuse(self, failures: Sequence[str], of: int) -> None:
        if failures:
            shown = "\n  ".join(failures[:20])
            raise ImageError(f"{len(failures)} of {of} images cannot be read:\n  {shown}", failures)

    def stream(self, images: Images, *, batch_size: int = BATCH, progress: Progress | None = None) -> Iterator[Chunk]:
        """The scores of any number of images, a batch at a time, in order."""
        if batch_size < 1:
            raise ModelError(f"a batch size of {batch_size}: at least one image at a time")
        done = 0
        for rows, inputs, failures in self._batches(images, batch_size):
            scores = self._scores(inputs) if len(rows) else np.empty((0, len(self.classes)), np.float32)
            done += len(rows) + len(failures)
            if progress:
                progress(done, len(images))
            yield Chunk(rows, scores, failures)

    def check_maps(self) -> None:
        """Refuses a model whose net makes no class maps of images."""
        net: Any = self._method.net
        if self.inputs != "images" or not hasattr(net.head, "maps"):
            raise ModelError(
                f"{self.path} has no class maps: its head is '{net.describe()['head']['name']}', on {self.inputs}. "
                "Train with --head class_maps --protocol finetune, or a method whose head that is (saliency)."
            )

    def maps(self, images: Images, *, batch_size: int = BATCH) -> Scores:
        """Class maps [N, C, H, W] of image files or uint8 pixels. A file that cannot be read is an error."""
        self.check_maps()
        net: Any = self._method.net
        if not len(images):
            raise ModelError("class maps of no image: give at least one")
        parts, failures = list[Scores](), list[str]()
        for rows, inputs, unread in self._batches(images, batch_size):
            failures += unread
            if len(rows):
                with torch.inference_mode():
                    parts.append(net.maps(inputs.to(self.device)).float().cpu().numpy())
        self._refuse(failures, len(images))
        return np.concatenate(parts)

    @property
    def pooling(self) -> tuple[float, int]:
        """(alpha, k) of its logits a + alpha s: a is the mean of a class map, s that of its k strongest places."""
        return pooling_of(self._method)

    @torch.inference_mode()
    def _scores(self, inputs: Tensor) -> Scores:
        return self._method.predict(inputs.to(self.device)).float().cpu().numpy()

    def _batches(self, images: Images, size: int) -> Iterator[tuple[NDArray[np.int64], Tensor, tuple[str, ...]]]:
        """(rows, inputs of the net, failures)."""
        orders = [np.arange(at, min(at + size, len(images))) for at in range(0, len(images), size)]
        if isinstance(images, np.ndarray) and images.dtype != np.uint8:
            table = self._checked_features(images)
            yield from ((rows, torch.from_numpy(table[rows].astype(np.float32)), ()) for rows in orders)
            return
        prepare, pre = self._image_path()
        if isinstance(images, np.ndarray):
            if images.ndim != 4 or images.shape[1] != 3:
                raise ModelError(f"pixels of shape {images.shape}: give uint8 [images, 3, height, width]")
            for rows in orders:
                yield rows, prepare(resize(torch.from_numpy(images[rows]), pre.size, pre.interpolation)), ()
            return
        for rows, pixels, failures in read_ahead(images, orders, pre):
            yield rows, prepare(pixels) if len(rows) else pixels, failures

    def _checked_features(self, features: NDArray[Any]) -> NDArray[Any]:
        net: Any = self._method.net
        width = int(net.describe()["head"]["width"])
        if self.inputs != "features":
            raise ModelError(f"{self.path} was trained on images, end to end: give it images, not features.")
        if features.ndim != 2 or features.shape[1] != width or features.dtype.kind != "f":
            raise ModelError(
                f"features of shape {list(features.shape)} ({features.dtype}): {self.path} was trained on [images, "
                f"{width}] floating point numbers. Use the backbone and preprocessing it was trained with."
            )
        return features

    def _image_path(self) -> tuple[Callable[[Tensor], Tensor], Preprocessing]:
        """From uint8 pixels to the net's inputs, and how the images have to be read."""
        if self._preprocessing is not None:
            return self._normalised(self._preprocessing), self._preprocessing
        if self._extractor is None:
            raise ModelError(
                f"{self.path} was trained on features that were computed elsewhere, so images cannot be turned into "
                "what it knows. Compute the same features of these images and give them with --features."
            )
        if self._backbone is None:
            self._backbone = self._extractor.build(self._weights).to(self.device).eval()
        pre, normalised, backbone = (
            self._backbone.preprocessing,
            self._normalised(self._backbone.preprocessing),
            self._backbone,
        )

        def pooled(pixels: Tensor) -> Tensor:
            with torch.inference_mode():
                found: Tensor = backbone(normalised(pixels))
            return found.half().float()  # features are kept as float16: training saw them so

        return pooled, pre

    def _normalised(self, pre: Preprocessing) -> Callable[[Tensor], Tensor]:
        def normalised(pixels: Tensor) -> Tensor:
            no_draws = torch.empty((len(pixels), 0), device=self.device)
            return make_view("plain", pixels.to(self.device), no_draws, pre).inputs

        return normalised


def read_description(where: Path) -> Mapping[str, Any]:
    file = where / "model.json"
    if not where.exists():
        raise ModelError(f"there is no {where}; give the directory of a run (`tacit train … --out DIR`).")
    if not where.is_dir():
        raise ModelError(f"{where} is a file; give the directory of a run, {where.parent}?")
    if not file.is_file():
        raise ModelError(_why_no_model(where))
    try:
        described = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{file} cannot be read as JSON ({error}). Train again, or restore it from a copy.") from error
    if not isinstance(described, dict) or described.get("format") != FORMAT:
        found = described.get("format") if isinstance(described, dict) else None
        raise ModelError(f"{file}: format {found!r}; this version of Tacit reads format {FORMAT}.")
    classes, limits = described.get("classes"), described.get("thresholds")
    if not isinstance(classes, list) or not isinstance(limits, list) or any(isinstance(x, str) for x in limits):
        raise ModelError(f"{file} does not describe a model (no classes with thresholds); was it edited?")
    if len(classes) != len(limits):
        raise ModelError(f"{file}: {len(limits)} thresholds for {len(classes)} classes; was it edited?")
    return described


def thresholds_of(described: Mapping[str, Any], where: Path, which: Decide) -> NDArray[np.float32]:
    """Thresholds [C] of a model: 0.5, or those that its run chose on validation."""
    classes, file = len(described["classes"]), where / "model.json"
    if which == "half":
        return np.array(described["thresholds"], np.float32)
    chosen = described.get("chosen_thresholds")
    instead = "Use --thresholds half, or say --threshold yourself."
    if chosen is None:
        raise ModelError(f"{file} was written before runs chose thresholds on validation: train again. {instead}")
    if isinstance(chosen, dict) and "absent" in chosen:
        raise ModelError(f"{where} has no chosen thresholds: {chosen['absent']}. {instead}")
    try:
        wanted = chosen["one"] if which == "one" else chosen["per_class"]
        limits = np.broadcast_to(np.array(wanted, np.float32), classes).copy()
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{file}: its chosen thresholds cannot be read ({error}); was it edited? {instead}") from error
    if np.isnan(limits).any():
        raise ModelError(f"{file}: one of its chosen thresholds is no number; was it edited? {instead}")
    return limits


def _why_no_model(where: Path) -> str:
    if (where / "config.toml").is_file():
        return (
            f"{where} holds a run that is not finished, so there is no model yet. Go on with it: "
            f"`tacit train --config {where / 'config.toml'} --out {where} --resume`."
        )
    inside = sorted(str(found.parent) for found in where.glob("*/model.json"))
    if inside:
        return f"{where} is no run, it holds {len(inside)}: name one, such as {inside[0]}."
    return f"{where} holds no run: there is no model.json in it."


def _rebuild(described: Mapping[str, Any], classes: tuple[str, ...]) -> Method:
    """The method as it was built, with random weights; a bare one where the net predicts alone."""
    net = build_net(described["net"], len(classes))
    if described["predicts"] == "net":
        return Method(net, _two_rows(classes))
    return build_method(described["method"], net, _two_rows(classes), described["method_options"])


def _fill(method: Method, where: Path) -> None:
    file = where / "model.safetensors"
    if not file.is_file():
        raise ModelError(f"{file} is missing: the weights belong beside model.json. Restore it, or train again.")
    try:
        tensors, _ = load(file)
        lost = method.load_state_dict(tensors, strict=False)
    except (CheckpointError, RuntimeError) as error:
        raise ModelError(f"{file} does not hold the weights that model.json describes: {error}") from error
    missing = [name for name in lost.missing_keys if name.startswith("net.")]
    if missing or lost.unexpected_keys:
        strange = ", ".join([*(f"no {name}" for name in missing), *lost.unexpected_keys][:5])
        raise ModelError(f"{file} does not hold the weights that model.json describes ({strange}).")
