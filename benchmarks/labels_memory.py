"""Sparse Labels at the size of OpenImages: one million images, 9,605 classes, ten known labels each.

Promised: within 200 MB, and 128 random rows come out dense in under a millisecond. The peer is what one would write
without Labels: a SciPy CSR matrix of the same int8 states, `matrix[rows].toarray()`, on the same rows in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from scipy.sparse import csr_matrix

from tacit.labels import Labels
from timing import Claim, arguments, interleaved, report

IMAGES, CLASSES, KNOWN, BATCH = 1_000_000, 9_605, 10, 128
MEGABYTES, MILLISECONDS = 200.0, 1.0


@dataclass(frozen=True)
class MemoryClaim(Claim):
    """Beside the ratio, the two absolute promises."""

    megabytes: float = 0.0
    wanted_megabytes: float = MEGABYTES
    milliseconds: float = 0.0
    wanted_milliseconds: float = MILLISECONDS
    peer_megabytes: float = 0.0


def cells(generator: np.random.Generator, images: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ten different classes per image, ascending, three in ten of them present."""
    step = CLASSES // KNOWN
    columns = generator.integers(0, step, (images, KNOWN)) + np.arange(KNOWN) * step
    states = np.where(generator.random(images * KNOWN) < 0.3, 1, -1).astype(np.int8)
    return np.repeat(np.arange(images), KNOWN), columns.ravel(), states


def main() -> None:
    args = arguments(__doc__.splitlines()[0], rounds=500)
    images = 2_000 if args.tiny else IMAGES
    generator = np.random.default_rng(0)
    rows, columns, states = cells(generator, images)
    labels = Labels.from_cells(images, [f"class {i}" for i in range(CLASSES)], rows, columns, states)
    matrix = csr_matrix((states, (rows, columns)), shape=(images, CLASSES))
    batches = [generator.integers(0, images, BATCH) for _ in range(64)]
    for batch in batches:
        assert np.array_equal(labels.rows(batch), matrix[batch].toarray())

    def over_batches(read: Callable[[np.ndarray], np.ndarray]) -> Callable[[], np.ndarray]:
        """Each call reads the next batch; both sides meet the same ones in the same order."""
        turn = iter(range(1 << 62))
        return lambda: read(batches[next(turn) % len(batches)])

    seconds = interleaved(
        {"scipy": over_batches(lambda batch: matrix[batch].toarray()), "tacit": over_batches(labels.rows)},
        rounds=args.rounds,
        warmup=len(batches),
    )
    peer_bytes = matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes
    claim = MemoryClaim(
        claim=f"{BATCH} random rows of {images:,} x {CLASSES:,} labels, {KNOWN} known each",
        peer=f"SciPy {scipy.__version__} csr_matrix[rows].toarray()",
        ratio=round(seconds["scipy"] / seconds["tacit"], 2),
        wanted=1.0,
        megabytes=round(labels.nbytes / 1e6, 1),
        milliseconds=round(seconds["tacit"] * 1e3, 3),
        peer_megabytes=round(peer_bytes / 1e6, 1),
    )
    print(f"Labels: {claim.megabytes} MB, {claim.milliseconds} ms; SciPy: {claim.peer_megabytes} MB, "
          f"{seconds['scipy'] * 1e3:.3f} ms (medians of {args.rounds})")  # fmt: skip
    report(claim, args.json)


if __name__ == "__main__":
    main()
