"""mAP against scikit-learn's `average_precision_score`, class by class: same scores, same labels, one process.

40,000 x 80 is the size of the COCO 2014 test split (40,137 x 80, 3.6 % of cells positive); 5,823 x 20 that of VOC 2012,
scored after every epoch. Scores are probabilities with three decimals, so that every class is full of ties. The claim
is the large case with one thread; neither side is parallel, so two threads should change nothing, which is shown.
"""

from __future__ import annotations

import numpy as np
import sklearn
from sklearn.metrics import average_precision_score
from threadpoolctl import threadpool_limits

from tacit.metrics import average_precision, states_from_truth
from timing import Claim, arguments, interleaved, report

WANTED = 20.0


def problem(images: int, classes: int, *, unknown: float, decimals: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Float32 probabilities of a decent classifier (mAP about 0.8) and states with a share of unknown cells."""
    generator = np.random.default_rng(0)
    truth = generator.random((images, classes)) < 0.036
    scores = 1 / (1 + np.exp(3 - 3 * truth - generator.normal(size=truth.shape)))
    if decimals is not None:
        scores = scores.round(decimals)
    states = states_from_truth(truth)
    states[generator.random(truth.shape) < unknown] = 0
    return scores.astype(np.float32), states


def with_sklearn(scores: np.ndarray, truth: np.ndarray, known: np.ndarray | None) -> np.ndarray:
    """The loop people write: one call per class, on its known rows."""
    every = slice(None)
    rows = [every if known is None else known[:, c] for c in range(scores.shape[1])]
    return np.array([average_precision_score(truth[row, c], scores[row, c]) for c, row in enumerate(rows)])


def compare(scores: np.ndarray, states: np.ndarray, *, rounds: int, threads: int) -> tuple[float, float, float]:
    """Median seconds of scikit-learn and of ours, and the largest difference of an AP."""
    truth, known = states == 1, None if states.all() else states != 0
    error = np.abs(average_precision(scores, states) - with_sklearn(scores, truth, known)).max()
    with threadpool_limits(threads):
        seconds = interleaved(
            {
                "sklearn": lambda: with_sklearn(scores, truth, known),
                "tacit": lambda: average_precision(scores, states),
            },
            rounds=rounds,
        )
    return seconds["sklearn"], seconds["tacit"], float(error)


def main() -> None:
    args = arguments(__doc__.splitlines()[0], rounds=9)
    (images, classes), small = ((500, 8), (200, 5)) if args.tiny else ((40_000, 80), (5_823, 20))
    large = f"{images:,} x {classes}"
    cases = {
        f"{large}, ties": problem(images, classes, unknown=0.0, decimals=3),
        f"{large}, no ties": problem(images, classes, unknown=0.0, decimals=None),
        f"{large}, ties, half unknown": problem(images, classes, unknown=0.5, decimals=3),
        f"{small[0]:,} x {small[1]}, ties": problem(*small, unknown=0.0, decimals=3),
    }
    ratios, errors = {}, []
    print(f"{'case':34}{'threads':>8}{'sklearn ms':>12}{'tacit ms':>10}{'ratio':>8}{'max error':>12}")
    for name, (scores, states) in cases.items():
        for threads in (1, 2):
            peer, ours, error = compare(scores, states, rounds=args.rounds, threads=threads)
            ratios[name, threads] = peer / ours
            errors.append(error)
            print(f"{name:34}{threads:8}{peer * 1e3:12.2f}{ours * 1e3:10.2f}{peer / ours:8.1f}{error:12.1e}")
    report(
        Claim(
            claim=f"mAP of {images:,} images x {classes} classes with ties, one thread",
            peer=f"scikit-learn {sklearn.__version__}",
            ratio=round(ratios[f"{large}, ties", 1], 1),
            wanted=WANTED,
            error=max(errors),
        ),
        args.json,
    )


if __name__ == "__main__":
    main()
