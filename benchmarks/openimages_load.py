"""Open Images from its label file: images x 9,605 classes, six verified labels each, as sparse Labels in memory.

Promised: nine million images within minutes and 8 GB. A tenth of them is measured here; `--whole` generates and reads
the whole (2.3 GB of text in the temporary folder). The peer is what one would write without Tacit: `csv.reader`,
dictionaries for images and classes, compact arrays, and a SciPy CSR matrix. Each reading has a process of its own, so
that its peak of memory is its own; the processes alternate. Ours also looks for repeated and contradicted labels.
"""

from __future__ import annotations

import csv
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from timing import Claim, argument_parser, report

IMAGES, WHOLE, CLASSES, KNOWN = 900_000, 9_000_000, 9_605, 6
AT_ONCE = 50_000  # images generated at a time
WANTED, GIGABYTES = 2.0, 8.0


@dataclass(frozen=True)
class LoadClaim(Claim):
    """Beside the ratio, seconds and peak memory of both; `wanted_gigabytes` is promised for the whole."""

    seconds: float = 0.0
    gigabytes: float = 0.0
    wanted_gigabytes: float = GIGABYTES
    peer_seconds: float = 0.0
    peer_gigabytes: float = 0.0


def write(folder: Path, part: str, images: int, generator: np.random.Generator, first: int = 0) -> None:
    """A label file in the published layout; image names are hexadecimal and in no order, four labels in ten present."""
    step = CLASSES // KNOWN
    with (folder / f"{part}-annotations-human-imagelabels.csv").open("w") as file:
        file.write("ImageID,Source,LabelName,Confidence\n")
        for start in range(0, images, AT_ONCE):
            count = min(AT_ONCE, images - start)
            columns = generator.integers(0, step, (count, KNOWN)) + np.arange(KNOWN) * step
            present = (generator.random((count, KNOWN)) < 0.4).astype(int)
            names = [
                f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}" for number in range(first + start, first + start + count)
            ]
            file.writelines(
                f"{name},verification,/m/{column:05x},{state}\n"
                for name, row, states in zip(names, columns.tolist(), present.tolist(), strict=True)
                for column, state in zip(row, states, strict=True)
            )


def generate(folder: Path, images: int) -> None:
    generator = np.random.default_rng(0)
    (folder / "classes-trainable.txt").write_text("".join(f"/m/{column:05x}\n" for column in range(CLASSES)))
    write(folder, "train", images, generator)
    write(folder, "test", max(images // 72, 1), generator, first=images)


def ours(folder: Path) -> tuple[int, Any]:
    """Names and labels of both splits, as a run loads them; the photos themselves are not looked for."""
    from tacit.data.source import load_source

    labels = load_source(f"openimages:{folder}", missing="keep").splits["train"].labels
    return len(labels), labels.cells


def peers(folder: Path) -> tuple[int, Any]:
    """The same of both files, with what Python and SciPy bring."""
    lines = (folder / "classes-trainable.txt").read_text().split()
    column_of = {name: column for column, name in enumerate(lines)}
    matrices = [_matrix(folder / f"{part}-annotations-human-imagelabels.csv", column_of) for part in ("train", "test")]
    matrix = matrices[0]
    return matrix.shape[0], lambda: (*matrix.nonzero(), matrix.data)


def _matrix(path: Path, column_of: dict[str, int]) -> Any:
    row_of: dict[str, int] = {}
    rows, columns, states = array("i"), array("i"), array("b")
    with path.open(newline="") as file:
        reader = csv.reader(file)
        next(reader)
        for image, _, label, confidence in reader:
            rows.append(row_of.setdefault(image, len(row_of)))
            columns.append(column_of[label])
            states.append(1 if confidence == "1" else -1)
    where = (np.frombuffer(rows, np.int32), np.frombuffer(columns, np.int32))
    return scipy.sparse.csr_matrix((np.frombuffer(states, np.int8), where), shape=(len(row_of), len(column_of)))


READERS = {"tacit": ours, "csv": peers}


def read_once(name: str, folder: Path) -> None:
    """Of the process that only reads: seconds, peak memory, and what was read, as one line."""
    start = time.perf_counter()
    images, cells = READERS[name](folder)
    seconds, gigabytes = time.perf_counter() - start, peak()
    rows, columns, states = (np.asarray(part, np.int64) for part in cells())
    mixed = int(((rows * CLASSES + columns) * (states + 2) % 1_000_003).sum())
    print(json.dumps({"seconds": seconds, "gigabytes": gigabytes, "read": [images, len(rows), mixed]}))


def peak() -> float:
    """Most memory this process held, in GB. Linux counts the parent's, before the program began, in `ru_maxrss`."""
    status = Path("/proc/self/status")
    if status.is_file():
        held = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(held.split()[1]) * 1024 / 1e9
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes / 1e9 if sys.platform == "darwin" else kilobytes * 1024 / 1e9


def main() -> None:
    parser = argument_parser(__doc__.splitlines()[0], rounds=3)
    parser.add_argument("--whole", action="store_true", help=f"{WHOLE:,} images, once")
    parser.add_argument("--read", nargs=2, metavar=("READER", "FOLDER"), help="one reading, in this process")
    args = parser.parse_args()
    if args.read:
        read_once(args.read[0], Path(args.read[1]))
        return
    images = 2_000 if args.tiny else WHOLE if args.whole else IMAGES
    rounds = 1 if args.tiny or args.whole else args.rounds
    with tempfile.TemporaryDirectory() as name:
        generate(Path(name), images)
        told: dict[str, list[dict[str, Any]]] = {reader: [] for reader in READERS}
        for _ in range(rounds):
            for reader in READERS:
                command = [sys.executable, __file__, "--read", reader, name]
                told[reader].append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
    reads = [line["read"] for lines in told.values() for line in lines]
    assert all(read == reads[0] for read in reads), reads
    seconds = {reader: statistics.median(line["seconds"] for line in lines) for reader, lines in told.items()}
    most = {reader: max(line["gigabytes"] for line in lines) for reader, lines in told.items()}
    claim = LoadClaim(
        claim=f"verified labels of {images:,} images x {CLASSES:,} classes, {KNOWN} each, from CSV to sparse Labels",
        peer=f"csv.reader, SciPy {scipy.__version__} csr_matrix",
        ratio=round(seconds["csv"] / seconds["tacit"], 2),
        wanted=WANTED,
        error=0.0,
        seconds=round(seconds["tacit"], 2),
        gigabytes=round(most["tacit"], 2),
        peer_seconds=round(seconds["csv"], 2),
        peer_gigabytes=round(most["csv"], 2),
    )
    report(claim, args.json)


if __name__ == "__main__":
    main()
