"""Images: decoded once to uint8; and the random numbers that make views of them, each with an address of its own.

The pixels of a view (views.py) depend on (seed, epoch, row, view) and on nothing else: not on the batch, the order or
the number of loader workers. That is what makes training resumable at any step, bit for bit.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..nets.backbone import Interpolation, Preprocessing
from .checks import Progress
from .decode import ImageError, read_image, resize
from .source import Split

__all__ = ["ImageError", "PixelStore", "Preprocessing", "read_image", "subseed", "uniforms"]

SHOWN = 20  # unreadable files named in an error before "… and n more"


# --- randomness by address ------------------------------------------------------------------------------------------

_WORD = (1 << 64) - 1
_GOLDEN, _MIX1, _MIX2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def uniforms(seed: int, epoch: int | Tensor, rows: Tensor, view: int, draws: int) -> Tensor:
    """[B, draws] numbers in [0, 1), float32, multiples of 2**-24, on the device of `rows` (int64 [B]).

    Counter-based: splitmix64 (Steele, Lea, Flood 2014) hashed over seed, view, epoch, row and draw in turn, so that
    each number has an address and no state. Nothing visits the host: `epoch` may be a 0-d tensor, and the whole can be
    captured as a CUDA graph. The same on every device.
    """
    key = subseed(seed, view)
    per_epoch: int | Tensor
    if isinstance(epoch, Tensor):
        per_epoch = _mix(epoch.to(rows.device, torch.int64) * _signed(_GOLDEN) + _signed(key))
    else:
        per_epoch = _signed(_mix_int((key + epoch * _GOLDEN) & _WORD))
    per_row = _mix(rows * _signed(_GOLDEN) + per_epoch)
    counter = torch.arange(1, draws + 1, device=rows.device)
    bits = _mix(per_row[:, None] + counter * _signed(_GOLDEN))
    return _shift(bits, 40).to(torch.float32) * 2.0**-24


def subseed(seed: int, *parts: int) -> int:
    """A seed in [0, 2**64) derived from another and from what it is for (a stage, a view, …)."""
    word = _mix_int(seed & _WORD)
    for part in parts:
        word = _mix_int((word + (part + 1) * _GOLDEN) & _WORD)
    return word


def _mix_int(word: int) -> int:
    word = ((word ^ (word >> 30)) * _MIX1) & _WORD
    word = ((word ^ (word >> 27)) * _MIX2) & _WORD
    return word ^ (word >> 31)


def _mix(word: Tensor) -> Tensor:
    """splitmix64's finaliser; int64 arithmetic wraps as unsigned does."""
    word = (word ^ _shift(word, 30)) * _signed(_MIX1)
    word = (word ^ _shift(word, 27)) * _signed(_MIX2)
    return word ^ _shift(word, 31)


def _shift(word: Tensor, bits: int) -> Tensor:
    """Logical right shift: `>>` on int64 copies the sign."""
    return (word >> bits) & ((1 << (64 - bits)) - 1)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


# --- the images of a split ------------------------------------------------------------------------------------------


class PixelStore:
    """The images of a split as uint8 rows [B, 3, S, S].

    Decoded once by threads and held where that takes at most `memory_limit_gb`; otherwise decoded whenever asked for,
    by a DataLoader with `workers` processes. The bytes are the same either way. Embedded pixels of the right size are
    used as they are, without a copy.
    """

    def __init__(
        self,
        split: Split,
        size: int,
        *,
        workers: int = 0,
        memory_limit_gb: float | None = None,
        interpolation: Interpolation = "bilinear",
        progress: Progress | None = None,
    ) -> None:
        self.names, self.size, self.workers = split.images, size, workers
        self._reader = _Reader(split.files or (), size, interpolation)
        limit = default_memory_limit() if memory_limit_gb is None else memory_limit_gb * 1e9
        self.tensor: Tensor | None = None  # [N, 3, S, S] where resident
        if split.pixels is not None:
            self.tensor = _embedded(split.pixels, size, interpolation)
        elif split.files is None:
            raise ImageError("this split has neither image files nor pixels; train on features instead.")
        elif 3 * size * size * len(split) <= limit:
            self.tensor = self._reader.read_all(progress)

    def __len__(self) -> int:
        return len(self.names)

    def rows(self, index: NDArray[np.int64]) -> Tensor:
        """uint8 [B, 3, S, S] on the CPU, in the order of `index`."""
        if self.tensor is not None:
            return self.tensor.index_select(0, torch.from_numpy(np.asarray(index, np.int64)))
        with ThreadPoolExecutor(_threads()) as pool:
            return _whole(self._reader.read(index, pool.map))

    def loader(self, order: Sequence[NDArray[np.int64]]) -> Iterator[Tensor]:
        """The rows of each step in turn, read ahead by `workers` processes where nothing is resident."""
        if self.tensor is not None or self.workers == 0:
            yield from map(self.rows, order)
            return
        from torch.utils.data import DataLoader

        data: Any = self._reader
        steps: Any = order
        loader: DataLoader[Any] = DataLoader(data, batch_size=None, sampler=steps, num_workers=self.workers)
        yield from map(_whole, loader)


@dataclass(frozen=True)
class _Reader:
    """A dataset whose items are whole batches.

    It returns failures as text: raised in a worker process, they would come back with its traceback.
    """

    files: Sequence[Path]
    size: int
    interpolation: Interpolation

    def __getitem__(self, index: NDArray[np.int64]) -> tuple[Tensor, list[str]]:
        return self.read(index, map)

    def read(self, index: NDArray[np.int64], mapper: Callable[..., Any]) -> tuple[Tensor, list[str]]:
        images = list(mapper(self.try_one, index))
        failures = [image for image in images if isinstance(image, str)]
        if failures or not images:
            return torch.empty((0, 3, self.size, self.size), dtype=torch.uint8), failures
        return torch.stack(images), []

    def read_all(self, progress: Progress | None) -> Tensor:
        pixels = torch.empty((len(self.files), 3, self.size, self.size), dtype=torch.uint8)
        failures = []

        def place(row: int) -> str | None:
            image = self.try_one(row)
            if isinstance(image, str):
                return image
            pixels[row] = image
            return None

        with ThreadPoolExecutor(_threads()) as pool:
            for done, failure in enumerate(pool.map(place, range(len(self.files))), 1):
                if failure:
                    failures.append(failure)
                if progress:
                    progress(done, len(self.files))
        _refuse(failures, f" of {len(self.files)}")
        return pixels

    def try_one(self, row: int) -> Tensor | str:
        try:
            return read_image(self.files[row], self.size, self.interpolation)
        except ImageError as error:
            return str(error)


def default_memory_limit() -> float:
    """Bytes: half of the machine's memory, or 4 GB where the system does not tell."""
    try:
        return 0.5 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 4e9


def _embedded(pixels: NDArray[np.uint8], size: int, interpolation: Interpolation) -> Tensor:
    with warnings.catch_warnings():  # read-only memory is fine: nothing here writes
        warnings.filterwarnings("ignore", "The given NumPy array is not writ", UserWarning)
        whole = torch.from_numpy(pixels)
    if whole.shape[-2:] == (size, size) or not len(whole):
        return whole
    return torch.cat([resize(whole[i : i + 256], size, interpolation) for i in range(0, len(whole), 256)])


def _whole(batch: tuple[Tensor, list[str]]) -> Tensor:
    pixels, failures = batch
    _refuse(failures, "")
    return pixels


def _refuse(failures: list[str], of: str) -> None:
    if not failures:
        return
    more = f"\n  … and {len(failures) - SHOWN} more" if len(failures) > SHOWN else ""
    raise ImageError(
        f"{len(failures)}{of} images cannot be read:\n  " + "\n  ".join(failures[:SHOWN]) + more + "\n"
        "Replace these files, or take them out of the label table or the split's list.",
        failures,
    )


def _threads() -> int:
    return os.cpu_count() or 1
