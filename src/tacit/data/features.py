"""Pooled features, computed once (`extract`) or elsewhere (`import_features`); the linear protocol trains on them."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..files import cache_root
from ..labels import Labels
from .feature_set import (
    FORMAT,
    META,
    FeatureError,
    FeatureSet,
    Match,
    TableWriter,
    one_writer,
    open_features,
    repeated,
    some,
    stem,
)
from .source import Source, Split

if TYPE_CHECKING:
    from ..nets.backbone import Backbone

__all__ = [
    "FeatureError",
    "FeatureSet",
    "every_image",
    "extract",
    "import_features",
    "open_features",
    "stem",
]

Progress = Callable[[int, int, float | None], None]
"""Called with (images done, images in all, seconds left)."""

CHUNK = 4096  # imported rows in memory at a time
NAME_KEYS = ("image", "images", "image_name", "image_names", "name", "names", "file", "files", "filename", "filenames")
FEATURE_KEYS = ("features", "feature", "embeddings", "embedding")


def every_image(source: Source) -> Split:
    """All splits of a source after each other, without labels: what features are extracted of."""
    splits = list(source.splits.values())
    names = tuple(name for split in splits for name in split.images)
    if len(set(names)) < len(names):
        raise FeatureError(
            f"source '{source.name}': several splits hold images of the same name ({some(repeated(names))}). "
            "Extract the features of each split apart."
        )
    unlabelled = Labels.from_dense(np.zeros((len(names), 0), np.int8), ())
    if all(split.pixels is not None for split in splits):
        return Split(names, unlabelled, pixels=np.concatenate([s.pixels for s in splits if s.pixels is not None]))
    if any(split.files is None for split in splits):
        raise FeatureError(f"source '{source.name}' has no images to extract features of; import features instead.")
    return Split(names, unlabelled, files=tuple(file for split in splits for file in split.files or ()))


def extract(
    split: Split,
    backbone: Backbone,
    *,
    out: Path | None = None,
    batch_size: int = 64,
    workers: int = 0,
    progress: Progress | None = None,
) -> FeatureSet:
    """Pooled features of every image: read where they are already there, resumed where they were begun.

    Preprocessing is the backbone's own and deterministic (the "plain" view); the backbone's device does the work.
    `out` is the folder of the set, by default one named after the key under `cache_root()`. Batch size, device and
    workers are no part of the key: they change rounding at most.
    """
    if not len(split):
        raise FeatureError("there are no images to extract features of.")
    meta = _describe_extraction(split, backbone)
    folder = _folder(out, meta)
    with one_writer(folder):
        if (folder / META).exists():
            return _known(folder, meta)
        with TableWriter(folder, (len(split), backbone.width), meta["key"]) as table:
            _extract_rest(split, backbone, table, batch_size, workers, progress)
        table.publish(split.images, meta)
    return open_features(folder)


def import_features(
    path: Path,
    *,
    names: Path | Sequence[str] | None = None,
    match: Match = "exact",
    out: Path | None = None,
) -> FeatureSet:
    """Features computed elsewhere: an .npz that holds names and features, or an .npy [N, D] with `names` beside it.

    `names`: a text file with one image name per line, an .npy of strings, or a sequence. Values are kept as float16.
    `match` is remembered: "stem" lets 2008_000008 be the features of JPEGImages/2008_000008.jpg.
    """
    path = Path(path)
    features, images = _read_foreign(path, names)
    _check_table(path, features, images)
    meta = _describe_import(path, features, images, match)
    folder = _folder(out, meta)
    with one_writer(folder):
        if (folder / META).exists():
            return _known(folder, meta)
        with TableWriter(folder, (len(images), features.shape[1]), meta["key"]) as table:
            for start, chunk in _half_chunks(path, features, images):
                table.write(start, chunk)
        table.publish(images, meta)
    return open_features(folder)


def _folder(out: Path | None, meta: Mapping[str, Any]) -> Path:
    return Path(out) if out is not None else cache_root() / "features" / str(meta["key"])[:24]


def _known(folder: Path, meta: Mapping[str, Any]) -> FeatureSet:
    found = open_features(folder)
    if found.key != meta["key"]:
        facts = ("backbone", "weights_sha256", "preprocessing", "images_sha256", "features_sha256", "match")
        differ = [fact for fact in facts if found.meta.get(fact) != meta.get(fact)]
        raise FeatureError(
            f"{folder} holds other features (they differ in: {', '.join(differ)}). Choose another folder, or remove it."
        )
    return found


def _extract_rest(
    split: Split, backbone: Backbone, table: TableWriter, batch_size: int, workers: int, progress: Progress | None
) -> None:
    from .images import PixelStore

    start, total = table.done // batch_size * batch_size, len(split)
    order = [np.arange(at, min(at + batch_size, total)) for at in range(start, total, batch_size)]
    pre = backbone.preprocessing
    store = PixelStore(split, pre.size, workers=workers, memory_limit_gb=0, interpolation=pre.interpolation)
    began = time.monotonic()
    for rows, features in zip(order, _forward(store.loader(order), backbone), strict=True):
        _refuse_non_finite("the backbone's output", features, [split.images[i] for i in rows])
        table.write(int(rows[0]), features)
        if progress:
            done = int(rows[-1]) + 1
            progress(done, total, (time.monotonic() - began) / (done - start) * (total - done))


def _forward(batches: Iterator[Any], backbone: Backbone) -> Iterator[NDArray[np.float16]]:
    import torch

    from .views import make_view

    device = next(backbone.parameters()).device
    was_training = backbone.training
    backbone.eval()
    try:
        for pixels in batches:
            with torch.inference_mode():
                no_draws = torch.empty((len(pixels), 0), device=device)
                view = make_view("plain", pixels.to(device), no_draws, backbone.preprocessing)
                features = backbone(view.inputs).half().cpu().numpy()
            yield features
    finally:
        backbone.train(was_training)


def _describe_extraction(split: Split, backbone: Backbone) -> dict[str, Any]:
    from ..nets.weights import weights_fingerprint

    described = backbone.describe()
    facts = {
        "format": FORMAT,
        "backbone": described.get("name", described.get("kind")),
        "weights_sha256": weights_fingerprint(backbone),
        "preprocessing": backbone.preprocessing.describe(),
        "images_sha256": _fingerprint_images(split),
    }
    return {**facts, "key": _key(facts), "match": "exact", "weights": described.get("weights"), "from": "extraction"}


def _fingerprint_images(split: Split) -> str:
    """Names and what is cheaply known of the content, because two data sets often name their images alike."""
    digest = hashlib.sha256("\x00".join(split.images).encode())
    if split.pixels is not None:
        digest.update(np.ascontiguousarray(split.pixels).data)
    for file in split.files or ():
        try:
            digest.update(file.stat().st_size.to_bytes(8, "little"))
        except OSError as error:
            raise FeatureError(f"{file}: cannot be read ({error.strerror}).") from error
    return digest.hexdigest()


def _describe_import(path: Path, features: NDArray[Any], images: Sequence[str], match: Match) -> dict[str, Any]:
    digest = hashlib.sha256()
    for _, chunk in _half_chunks(path, features, images):
        digest.update(chunk.data)
    names = hashlib.sha256("\x00".join(images).encode()).hexdigest()
    facts = {"format": FORMAT, "features_sha256": digest.hexdigest(), "images_sha256": names, "match": match}
    return {**facts, "key": _key(facts), "from": path.name, "dtype": str(features.dtype)}


def _key(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _half_chunks(
    path: Path, features: NDArray[Any], images: Sequence[str]
) -> Iterator[tuple[int, NDArray[np.float16]]]:
    """The table as float16, a chunk at a time, refusing what float16 cannot hold."""
    for start in range(0, len(images), CHUNK):
        chunk, names = np.asarray(features[start : start + CHUNK]), images[start : start + CHUNK]
        _refuse_non_finite(str(path), chunk, names)
        with np.errstate(over="ignore"):
            half = np.ascontiguousarray(chunk, np.float16)
        _refuse_non_finite(f"{path}, as float16 (65,504 at most; scale the features)", half, names)
        yield start, half


def _refuse_non_finite(where: str, features: NDArray[Any], images: Sequence[str]) -> None:
    bad = np.flatnonzero(~np.isfinite(features).all(1)).tolist()
    if bad:
        raise FeatureError(f"{where}: values that are not finite, for {some([images[i] for i in bad])}.")


def _check_table(path: Path, features: NDArray[Any], images: Sequence[str]) -> None:
    if features.ndim != 2 or 0 in features.shape:
        raise FeatureError(f"{path}: features must be a table [images, width], not of shape {features.shape}.")
    if features.dtype.kind != "f":
        raise FeatureError(f"{path}: features must be floating point numbers, not {features.dtype}.")
    if len(images) != len(features):
        raise FeatureError(f"{path}: {len(features)} rows of features, but {len(images)} image names.")
    if len(set(images)) < len(images):
        raise FeatureError(f"{path}: image names must be unique; listed more than once: {some(repeated(images))}.")


def _read_foreign(path: Path, names: Path | Sequence[str] | None) -> tuple[NDArray[Any], list[str]]:
    if path.suffix not in (".npz", ".npy"):
        raise FeatureError(f"{path}: features are imported from .npz or .npy files.")
    if path.suffix == ".npy":
        if names is None:
            raise FeatureError(f"{path}: an .npy has no image names; give them (a text file, one name per line).")
        return _load(path, mapped=True), _read_names(names)
    archive = _load(path)
    features = _pick(path, archive, FEATURE_KEYS, "features", lambda a: a.dtype.kind == "f" and a.ndim == 2)
    if names is not None:
        return features, _read_names(names)
    strings = _pick(path, archive, NAME_KEYS, "image names", lambda a: a.dtype.kind in "US" and a.ndim == 1)
    return features, _as_names(path, strings)


def _pick(
    path: Path, archive: Mapping[str, NDArray[Any]], keys: Sequence[str], what: str, fits: Callable[[Any], bool]
) -> NDArray[Any]:
    """The array under a usual key, or else the only one that could be meant."""
    named = [key for key in keys if key in archive]
    candidates = named or [key for key, array in archive.items() if fits(array)]
    if len(candidates) != 1:
        held = ", ".join(f"{key} {array.dtype}{list(array.shape)}" for key, array in archive.items())
        raise FeatureError(f"{path}: which array holds the {what}? Name it '{keys[0]}'. The file has: {held}.")
    return archive[candidates[0]]


def _load(path: Path, *, mapped: bool = False) -> Any:
    """An .npy as an array, an .npz as a dictionary of arrays; never unpickles."""
    if not path.is_file():
        raise FeatureError(f"no file {path}. Say with --features where the features are.")
    try:
        content = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
        return dict(content) if path.suffix == ".npz" else content
    except Exception as error:  # zip, zlib and format errors each have their own kinds
        raise FeatureError(
            f"{path}: cannot be read ({error}). Arrays of Python objects are refused; save names as strings "
            "(`names.astype(str)`)."
        ) from error


def _read_names(names: Path | Sequence[str]) -> list[str]:
    if not isinstance(names, Path):
        return [str(name) for name in names]
    if names.suffix == ".npy":
        return _as_names(names, _load(names))
    try:
        return names.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FeatureError(f"{names}: cannot be read as text with one image name per line ({error}).") from error


def _as_names(path: Path, strings: NDArray[Any]) -> list[str]:
    if strings.ndim != 1 or strings.dtype.kind not in "US":
        raise FeatureError(f"{path}: image names must be a list of strings, not {strings.dtype}{list(strings.shape)}.")
    return [s.decode() if isinstance(s, bytes) else str(s) for s in strings.tolist()]
