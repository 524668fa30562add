"""Image files decoded a few batches ahead of whoever works on them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..nets.backbone import Preprocessing
from .decode import ImageError, read_image

AHEAD = 2  # batches decoded while the net works


def read_ahead(
    files: Sequence[str | os.PathLike[str]], orders: Iterable[NDArray[np.int64]], pre: Preprocessing
) -> Iterator[tuple[NDArray[np.int64], Tensor, tuple[str, ...]]]:
    """(rows, pixels [b, 3, s, s] of those that can be read, a line per file that cannot) of each batch, in order.

    Threads decode the next batches while the receiver works on this one.
    """

    def read(row: int) -> Tensor | str:
        try:
            return read_image(files[row], pre.size, pre.interpolation)
        except ImageError as error:
            return str(error)

    ahead: deque[tuple[NDArray[np.int64], list[Future[Tensor | str]]]] = deque()
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for rows in orders:
            ahead.append((rows, [pool.submit(read, int(row)) for row in rows]))
            if len(ahead) > AHEAD:
                yield _decoded(*ahead.popleft())
        while ahead:
            yield _decoded(*ahead.popleft())


def _decoded(
    rows: NDArray[np.int64], futures: list[Future[Tensor | str]]
) -> tuple[NDArray[np.int64], Tensor, tuple[str, ...]]:
    found = [future.result() for future in futures]
    images = [image for image in found if not isinstance(image, str)]
    readable = np.array([not isinstance(image, str) for image in found])
    pixels = torch.stack(images) if images else torch.empty((0, 3, 0, 0), dtype=torch.uint8)
    return rows[readable], pixels, tuple(image for image in found if isinstance(image, str))
