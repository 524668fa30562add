"""NUS-WIDE: Flickr photos with 81 concepts, from the published NumPy files or the original text files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..labels import Labels
from .checks import (
    Check,
    Missing,
    first_rows,
    need_file,
    need_root,
    on_disk,
    read_lines,
    settle,
    two_states,
    without_positive,
)
from .source import Problem, Source, SourceError, Split

CLASSES = (
    "airport", "animal", "beach", "bear", "birds", "boats", "book", "bridge", "buildings", "cars", "castle", "cat",
    "cityscape", "clouds", "computer", "coral", "cow", "dancing", "dog", "earthquake", "elk", "fire", "fish", "flags",
    "flowers", "food", "fox", "frost", "garden", "glacier", "grass", "harbor", "horses", "house", "lake", "leaf", "map",
    "military", "moon", "mountain", "nighttime", "ocean", "person", "plane", "plants", "police", "protest", "railroad",
    "rainbow", "reflection", "road", "rocks", "running", "sand", "sign", "sky", "snow", "soccer", "sports", "statue",
    "street", "sun", "sunset", "surf", "swimmers", "tattoo", "temple", "tiger", "tower", "town", "toy", "train", "tree",
    "valley", "vehicle", "water", "waterfall", "wedding", "whales", "window", "zebra",
)  # fmt: skip

LAYOUT = """\
Expected, either the files published with the single-positive paper ("val" there is the test split):
  formatted_{train,val}_images.npy (names), formatted_{train,val}_labels.npy (images x 81, 0 or 1)
or the original distribution:
  Concepts81.txt (optional; also in ConceptsList/), ImageList/{TrainImagelist,TestImagelist}.txt,
  Groundtruth/TrainTestLabels/Labels_<concept>_{Train,Test}.txt
and the photos in Flickr/, images/, or beside the files (--images says another place)."""

_PARTS = {"train": ("train", "Train"), "test": ("val", "Test")}  # split -> part in the NumPy files, in the text files
_CONCEPT_FILES = ("Concepts81.txt", "ConceptsList/Concepts81.txt", "Concepts81/Concepts81.txt")
_DIGITS, _BLANKS = np.frombuffer(b"01", np.uint8), np.frombuffer(b" \t\r\n", np.uint8)


def load(
    root: Path | None,
    variant: str,
    *,
    images: Path | None = None,
    missing: Missing = "drop",
    check: Check = "none",
) -> Source:
    """Read the pool and the test split of NUS-WIDE; about 22 % of its rows show none of the 81 concepts, and stay.

    Results on the NumPy files and on the original lists are not results on the same data: the former hold 150,000 and
    60,260 photos that could still be fetched in 2020, the latter 161,789 and 107,859.

    Args:
        root: the folder with `formatted_*.npy`, or with `ImageList` and `Groundtruth`.
        variant: none exists.
        images: folder of the photos.
        missing: what to do about listed images that do not exist.
        check: look into the image files before training.
    """
    base = need_root(root, "nuswide", LAYOUT)
    if variant:
        raise SourceError(f"nuswide{variant}: NUS-WIDE has no variants; say nuswide:{base}.")
    classes, classes_from = _concepts(base)
    published = (base / "formatted_train_images.npy").is_file()
    splits: dict[str, Split] = {}
    problems: list[Problem] = [] if published else _unknown_concepts(base, classes)
    for split, (array_part, text_part) in _PARTS.items():
        read = _read_arrays(base, array_part, classes) if published else _read_texts(base, text_part, classes)
        names, states = read[0], two_states(read[1])
        folder = _photos(base, images, names)
        unique, again = first_rows(names, split)
        problems += again + without_positive(split, names, states)
        files = tuple(folder / name for name in names)
        splits[split] = Split(tuple(names), Labels.from_dense(states, classes), files).take(unique)
    notes = {"layout": "formatted .npy" if published else "original text files", "class order": classes_from}
    return settle(Source("nuswide", classes, splits, tuple(problems), notes), missing=missing, check=check)


def _concepts(base: Path) -> tuple[tuple[str, ...], str]:
    for name in _CONCEPT_FILES:
        if (base / name).is_file():
            found = tuple(read_lines(base / name, LAYOUT))
            if set(found) != set(CLASSES):
                odd = sorted(set(found) ^ set(CLASSES))
                raise SourceError(
                    f"{base / name} is not the list of the 81 concepts; it differs in {', '.join(odd[:5])}."
                )
            return found, name
    return CLASSES, "as in Concepts81.txt (file not present)"


def _photos(base: Path, images: Path | None, names: Sequence[str]) -> Path:
    """The folder that holds the most of the first photos; the error about missing ones names it."""
    if images is not None:
        return images if images.is_dir() else base / images
    candidates = [base / "Flickr", base / "images", base / "Images", base]
    counts = [int(on_disk([folder / name for name in names[:100]]).sum()) for folder in candidates]
    return candidates[int(np.argmax(counts))]


def _read_arrays(base: Path, part: str, classes: Sequence[str]) -> tuple[list[str], NDArray[np.bool_]]:
    names = _load_array(base / f"formatted_{part}_images.npy")
    labels = _load_array(base / f"formatted_{part}_labels.npy")
    if names.ndim != 1 or names.dtype.kind not in "US":
        raise SourceError(f"formatted_{part}_images.npy: expected a list of names, found {names.dtype} {names.shape}.")
    if labels.shape != (len(names), len(classes)) or labels.dtype.kind not in "biuf":
        raise SourceError(
            f"formatted_{part}_labels.npy: expected numbers of shape ({len(names)}, {len(classes)}), one row per image "
            f"and one column per concept; found {labels.dtype} {labels.shape}."
        )
    if not ((labels == 0) | (labels == 1)).all():
        raise SourceError(
            f"formatted_{part}_labels.npy: true labels are 0 or 1, found {', '.join(map(str, np.unique(labels)[:5]))} "
            "(files named _labels_obs hold observed labels, which are something else)."
        )
    if names.dtype.kind == "S":
        names = np.char.decode(names, "utf-8")
    return [str(name).replace("\\", "/") for name in names], labels.astype(bool)


def _load_array(path: Path) -> NDArray[Any]:
    try:
        loaded = np.load(need_file(path, LAYOUT), allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        if "allow_pickle" not in str(error):
            raise SourceError(f"{path} is no complete NumPy file ({error}). Download it again.") from error
        kind = "str" if "images" in path.name else "float"
        raise SourceError(
            f"{path} holds pickled objects, which can run code when read, so it is refused. If you trust its origin, "
            f"save it again once: "
            f'python -c "import numpy as n; p={str(path)!r}; n.save(p, n.load(p, allow_pickle=True).astype({kind}))"'
        ) from error
    if not isinstance(loaded, np.ndarray):
        raise SourceError(f"{path} is an archive (npz) by its content; expected one array.")
    return loaded


def _read_texts(base: Path, part: str, classes: Sequence[str]) -> tuple[list[str], NDArray[np.bool_]]:
    lines = read_lines(base / "ImageList" / f"{part}Imagelist.txt", LAYOUT)
    names = [line.replace("\\", "/") for line in lines]
    if not names:
        raise SourceError(f"{base / 'ImageList' / f'{part}Imagelist.txt'} lists no image.\n{LAYOUT}")
    folder = base / "Groundtruth" / "TrainTestLabels"
    truth = np.empty((len(names), len(classes)), bool)
    for column, concept in enumerate(classes):
        path = folder / f"Labels_{concept}_{part}.txt"
        values = _zeros_and_ones(path)
        if len(values) != len(names):
            raise SourceError(f"{path} has {len(values)} labels for the {len(names)} images of {part}Imagelist.txt.")
        truth[:, column] = values
    return names, truth


def _zeros_and_ones(path: Path) -> NDArray[np.bool_]:
    """A file of one 0 or 1 per line; read as bytes, because there are 22 million such lines."""
    raw = np.frombuffer(need_file(path, LAYOUT).read_bytes(), np.uint8)
    digit = np.isin(raw, _DIGITS)
    if not (digit | np.isin(raw, _BLANKS)).all():
        strange = bytes(raw[~(digit | np.isin(raw, _BLANKS))][:1]).decode("latin-1")
        raise SourceError(f"{path}: expected one 0 or 1 per line, found {strange!r}.")
    if (digit[1:] & digit[:-1]).any():
        raise SourceError(f"{path}: expected one 0 or 1 per line, found numbers of several digits.")
    ones: NDArray[np.bool_] = raw[digit] == ord("1")
    return ones


def _unknown_concepts(base: Path, classes: Sequence[str]) -> list[Problem]:
    """Label files of concepts that are not among the 81."""
    known = {f"Labels_{concept}_{part}.txt" for concept in classes for _, part in _PARTS.values()}
    others = sorted(
        f.name for f in (base / "Groundtruth" / "TrainTestLabels").glob("Labels_*.txt") if f.name not in known
    )
    return [Problem("label files of unknown concepts, ignored", tuple(others))] if others else []
