"""A CSV file of one label per row (ImageID, Source, LabelName, Confidence), read as it streams by.

A file of nine million images has sixty million rows. Of each only seven bytes are kept until the end: the number of
its image within its block, its class, and whether it says present.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..labels import ABSENT, PRESENT
from .source import SourceError

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = ("ImageID", "Source", "LabelName", "Confidence")
VERIFIED = ("verification", "crowdsource-verification")
"""Sources of labels that people gave; a machine's own guesses are "machine" (human rows of V3 and later have these)."""
BLOCK = 1 << 25  # bytes of text at a time: some 700,000 rows
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LabelRows:
    """Known cells of the images of a file, row by row, columns ascending; a contradicted cell is not known."""

    images: pa.Array  # names, in the order in which the file first mentions them
    starts: Ints  # image i owns cells starts[i]:starts[i + 1]
    columns: NDArray[Any]
    states: NDArray[np.int8]
    clash_rows: Ints  # cells said to be both …
    clash_columns: Ints
    repeated_rows: Ints  # … and images with a cell that is said twice, alike
    left_out: pa.Array  # images that have no verified label of a listed class
    other_classes: Counter[str]
    other_sources: Counter[str]


def read_label_rows(path: Path, classes: Sequence[str]) -> LabelRows:
    """The labels that people verified, of the listed classes."""
    import pyarrow as pa

    heard = _Heard(path, pa.array(classes, pa.string()))
    try:
        for block in _blocks(path):
            heard.add(block)
    except (pa.ArrowInvalid, pa.ArrowKeyError, OSError) as error:
        raise SourceError(f"{path} cannot be read as CSV ({error}). Was it downloaded completely?") from error
    if not heard.rows:
        raise SourceError(f"{path} has a header and no labels. Was it downloaded completely?")
    return heard.settled()


def _blocks(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    with path.open("rb") as file:
        header = file.readline(4096).decode("utf-8-sig", "replace").strip().split(",")
    if lost := [name for name in COLUMNS if name not in header]:
        raise SourceError(
            f"{path}: no column {', '.join(lost)}; expected {','.join(COLUMNS)}, found {','.join(header)[:80]}."
        )
    coded = pa.dictionary(pa.int32(), pa.string())
    types = {"ImageID": coded, "Source": coded, "LabelName": coded, "Confidence": pa.float32()}
    return csv.open_csv(
        path,
        read_options=csv.ReadOptions(block_size=BLOCK),
        convert_options=csv.ConvertOptions(column_types=types, include_columns=COLUMNS, strings_can_be_null=False),
    )


@dataclass
class _Heard:
    """What the blocks said so far."""

    path: Path
    classes: pa.Array
    images: list[pa.Array] = field(default_factory=list)  # distinct names of each block
    rows: list[NDArray[np.int32]] = field(default_factory=list)  # position among these
    columns: list[NDArray[Any]] = field(default_factory=list)
    states: list[NDArray[np.int8]] = field(default_factory=list)
    other_classes: Counter[str] = field(default_factory=Counter)
    other_sources: Counter[str] = field(default_factory=Counter)
    read: int = 0

    def add(self, block: pa.RecordBatch) -> None:
        """Keep a block's verified labels, count the rest by what they are."""
        import pyarrow as pa
        import pyarrow.compute as pc

        image, source, label = (block.column(name) for name in COLUMNS[:3])
        verified = pc.is_in(source.dictionary, value_set=pa.array(VERIFIED)).to_numpy(zero_copy_only=False)
        of_class = pc.index_in(label.dictionary, value_set=self.classes).fill_null(-1).to_numpy()
        codes = label.indices.to_numpy()
        column = of_class[codes]
        good = verified[source.indices.to_numpy()]
        _count(self.other_sources, source.dictionary, source.indices.to_numpy()[~good])
        _count(self.other_classes, label.dictionary, codes[good & (column < 0)])
        confidence = block.column("Confidence").to_numpy(zero_copy_only=False)
        self._refuse_shades(image, confidence, good)
        narrow = np.int16 if len(self.classes) < 2**15 else np.int32
        self.images.append(image.dictionary.cast(pa.large_string()))
        self.rows.append(image.indices.to_numpy()[good])
        self.columns.append(column[good].astype(narrow))
        self.states.append(np.where(confidence[good] == 1, np.int8(PRESENT), np.int8(ABSENT)))
        self.read += len(block)

    def _refuse_shades(self, image: pa.Array, confidence: NDArray[np.float32], good: NDArray[np.bool_]) -> None:
        odd = np.flatnonzero(good & (confidence != 0) & (confidence != 1))
        if len(odd):
            at = int(odd[0])
            raise SourceError(
                f"{self.path}, row {self.read + at + 2}: image {image[at].as_py()} has Confidence {confidence[at]:g}; "
                "a verified label has 1 (present) or 0 (absent). Files of machine labels are not read."
            )

    def settled(self) -> LabelRows:
        """All blocks as one: images numbered through, cells in order, each once."""
        images, row = self._numbered()
        number = len(self.classes)
        column = np.concatenate(self.columns)
        state = np.concatenate(self.states)
        self.columns, self.states = [], []
        listed = column >= 0
        has_label = np.zeros(len(images), bool)
        has_label[row[listed]] = True
        row = (np.cumsum(has_label, dtype=np.int32) - 1)[row]
        # Cell and state in one number: sorting bare numbers is several times faster than finding an order.
        key = row[listed].astype(np.int64)
        key *= number
        key += column[listed]
        key *= 2
        key += state[listed] == PRESENT
        key.sort()
        mask = _as_mask(has_label)
        facts = (self.other_classes, self.other_sources)
        return _without_repeats(images.filter(mask), images.filter(_as_mask(~has_label)), key, number, facts)

    def _numbered(self) -> tuple[pa.Array, NDArray[np.int32]]:
        """Distinct images in order of first mention, and the number of each row's image among them."""
        import pyarrow as pa

        coded = pa.concat_arrays(self.images).dictionary_encode()
        begins = np.cumsum([0, *(len(names) for names in self.images)])
        number = coded.indices.to_numpy()
        rows = [number[begin + row] for begin, row in zip(begins[:-1], self.rows, strict=True)]
        self.images, self.rows = [], []
        return coded.dictionary, np.concatenate(rows)


def _count(seen: Counter[str], names: pa.Array, codes: NDArray[Any]) -> None:
    times = np.bincount(codes, minlength=len(names))
    for code in np.flatnonzero(times).tolist():
        seen[names[code].as_py()] += int(times[code])


def _as_mask(chosen: NDArray[np.bool_]) -> pa.Array:
    import pyarrow as pa

    return pa.array(chosen)


def _without_repeats(
    images: pa.Array, left_out: pa.Array, key: Ints, number: int, facts: tuple[Counter[str], Counter[str]]
) -> LabelRows:
    """Sorted keys (cell * 2 + present) to rows of cells; a cell with both keys contradicts itself and stays unknown."""
    key, again = _distinct(key)
    cell = key >> 1
    twin = cell[1:] == cell[:-1]
    clash = cell[1:][twin]
    if len(clash):
        kept = np.ones(len(key), bool)
        kept[1:][twin] = kept[:-1][twin] = False
        key, cell = key[kept], cell[kept]
    states = (key & 1).astype(np.int8)
    states *= 2
    states -= 1
    del key
    starts = np.searchsorted(cell, np.arange(len(images) + 1) * number)
    cell %= number
    columns = cell.astype(np.min_scalar_type(number - 1))
    repeated = np.unique(again // number)
    return LabelRows(images, starts, columns, states, clash // number, clash % number, repeated, left_out, *facts)


def _distinct(key: Ints) -> tuple[Ints, Ints]:
    """Each key once, and the cells of those that came again."""
    new = np.ones(len(key), bool)
    np.not_equal(key[1:], key[:-1], out=new[1:])
    return (key, key[:0]) if new.all() else (key[new], key[~new] >> 1)
