"""What every benchmark shares: candidates measured in turn within one process, medians, and one JSON line per claim.

Interleaving matters: a machine that slows down for a second slows both sides, so a ratio survives what absolute times
do not.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Claim:
    """Ours against a named peer: `ratio` is how many times faster, `wanted` the least that was promised."""

    claim: str
    peer: str
    ratio: float
    wanted: float
    error: float | None = None

    def line(self) -> str:
        return json.dumps(asdict(self))


def interleaved(candidates: Mapping[str, Callable[[], object]], *, rounds: int, warmup: int = 1) -> dict[str, float]:
    """Median seconds of each candidate over `rounds`, all of them run once per round, in turn."""
    for _ in range(warmup):
        for run in candidates.values():
            run()
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, run in candidates.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def argument_parser(description: str, *, rounds: int) -> argparse.ArgumentParser:
    """The flags of every benchmark: --rounds, --json and --tiny."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, help=f"measured rounds of each candidate (default {rounds})")
    parser.add_argument("--json", type=Path, help="also append the claim's line to this file")
    parser.add_argument("--tiny", action="store_true", help="a size that proves nothing but that the script runs")
    parser.set_defaults(rounds=rounds)
    return parser


def arguments(description: str, *, rounds: int) -> argparse.Namespace:
    """The flags as given; --tiny without --rounds measures two rounds."""
    args = argument_parser(description, rounds=rounds).parse_args()
    if args.tiny:
        args.rounds = min(args.rounds, 2)
    return args


def report(claim: Claim, path: Path | None) -> None:
    """Print the claim as the last line and, if asked, append it with its script and machine to a file."""
    print(claim.line())
    if path is not None:
        whole = {"script": Path(sys.argv[0]).stem, **asdict(claim), "machine": machine()}
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(whole) + "\n")


def machine() -> str:
    """What a reader needs to place the figures: processor, cores, versions, day. No names of hosts or people."""
    cpuinfo = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*:\s*(.*)", cpuinfo.read_text()) if cpuinfo.is_file() else []
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parts = [f"{names[0] if names else platform.processor() or platform.machine()}, {cores} cores"]
    parts.append(f"Python {platform.python_version()}")
    torch = sys.modules.get("torch")
    if torch is not None:
        parts.append(f"PyTorch {torch.__version__}")
        parts += [torch.cuda.get_device_name()] if torch.cuda.is_available() else []
    parts.append(f"NumPy {np.__version__}")
    return ", ".join([*parts, f"{datetime.now(UTC):%Y-%m-%d}"])
