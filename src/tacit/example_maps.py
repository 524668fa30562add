"""Class maps of a few test images, kept beside a run's scores so that a report can show where its net looked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .data.batches import ImageInputs, Inputs
from .labels import PRESENT, States
from .methods.base import Method
from .runtime import Runtime

BEST = 5  # classes of the highest probability kept of an image, beside those that are present
AT_ONCE = 16  # images whose maps of all classes are held together
HALF = float(np.finfo(np.float16).max)


@dataclass(frozen=True, eq=False)
class ExampleMaps:
    """Maps [m, H, W] of (image, class) pairs: `row` into the test split, `column` into the class list."""

    row: NDArray[np.int64]
    column: NDArray[np.int32]
    maps: NDArray[np.float16]
    alpha: float
    k: int

    def arrays(self) -> dict[str, Any]:
        return {"row": self.row, "column": self.column, "maps": self.maps, "alpha": self.alpha, "k": self.k}


def pooling_of(method: Method) -> tuple[float, int]:
    """(alpha, k) of the logits that a method on class maps predicts with: its own, or those of the head."""
    net: Any = method.net
    found: tuple[float, int] = getattr(method, "pooling", None) or net.head.pooling
    return found


@torch.no_grad()
def example_maps(
    method: Method,
    inputs: Inputs,
    rows: NDArray[np.int64],
    scores: NDArray[np.float32],
    truth: States,
    runtime: Runtime,
) -> ExampleMaps | None:
    """Maps of the present and the most probable classes of these rows; None where the net makes none.

    `scores` and `truth` [n, C] are those of the n rows.
    """
    net: Any = method.net
    if not isinstance(inputs, ImageInputs) or not hasattr(net.head, "maps") or not len(rows):
        return None
    method.eval()
    kept: list[tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float16]]] = []
    for at in range(0, len(rows), AT_ONCE):
        some = rows[at : at + AT_ONCE]
        index = torch.from_numpy(some).to(runtime.device)
        with runtime.autocast():
            maps = net.maps(inputs.view("plain", inputs.rows(index), index, (0, 0, 0)).inputs)
        wanted, columns = _wanted(scores[at : at + AT_ONCE], truth[at : at + AT_ONCE])
        held = maps.float().clamp(-HALF, HALF)[torch.from_numpy(wanted), torch.from_numpy(columns)]
        kept.append((some[wanted], columns.astype(np.int32), held.cpu().numpy().astype(np.float16)))
    row, column, held = (np.concatenate(part) for part in zip(*kept, strict=True))
    alpha, k = pooling_of(method)
    return ExampleMaps(row, column, held, alpha, k)


def _wanted(scores: NDArray[np.float32], truth: States) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(position, class) of the cells whose map is kept."""
    wanted = truth == PRESENT
    best = np.argsort(-scores, axis=1, kind="stable")[:, :BEST]
    np.put_along_axis(wanted, best, True, axis=1)
    positions, columns = np.nonzero(wanted)
    return positions.astype(np.int64), columns.astype(np.int64)
