"""A round of asymmetric pseudo-labels over 65,665 x 80 scores (the COCO 2014 training split), one positive per image.

Ours is the second of five rounds of `em_apl`, given the scores: what the network's pass costs is left out on both
sides. The peer is the plain loop over classes on a matrix of stored labels, as the published program keeps them: find
the zeros of a column, sort their scores, write minus the scores of the first ones back. Scores are float32 with six
decimals, so that there are ties; both take the earlier row, and "apart" is the largest difference of a stored target.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from tacit.labels import Labels
from tacit.methods.base import Clock, Swept
from tacit.methods.em_apl import EntropyMaximisationAPL
from timing import Claim, arguments, interleaved, report

SHARE, WARM_UP, EPOCHS = 0.9, 5, 10
WANTED_MILLISECONDS = 500.0  # "well under a second"


@dataclass(frozen=True)
class RoundClaim(Claim):
    milliseconds: float = 0.0
    wanted_milliseconds: float = WANTED_MILLISECONDS


def problem(images: int, classes: int) -> tuple[Labels, list[np.ndarray]]:
    """One positive per image, and scores of two rounds around 0.5, as EM leaves them."""
    generator = np.random.default_rng(0)
    states = np.zeros((images, classes), np.int8)
    states[np.arange(images), generator.integers(0, classes, images)] = 1
    rounds = [1 / (1 + np.exp(-generator.normal(-0.3, 0.5, states.shape))) for _ in range(2)]
    return Labels.from_dense(states, [f"class {i}" for i in range(classes)]), [
        np.clip(scores.round(6), 1e-6, 1).astype(np.float32) for scores in rounds
    ]


class Ours:
    def __init__(self, observed: Labels, scores: list[np.ndarray]) -> None:
        self.method = EntropyMaximisationAPL(nn.Identity(), observed, share=SHARE, warm_up=WARM_UP)
        self.logits = [torch.from_numpy(s).double().logit().float() for s in scores]
        self.round(0)
        self.after_first = self.method.soft.clone()

    def round(self, number: int) -> None:
        def sweep(*, view: str = "plain", features: bool = False):  # type: ignore[no-untyped-def]
            for index in torch.arange(len(self.logits[number])).split(512):
                yield Swept(index, self.logits[number][index], None)

        self.method.refresh(Clock(0, WARM_UP + number, EPOCHS, 0, 1), sweep)

    def second(self) -> None:
        self.method.soft.copy_(self.after_first)
        self.round(1)


class PlainLoop:
    def __init__(self, observed: Labels, scores: list[np.ndarray]) -> None:
        self.scores = scores
        self.labels = observed.dense().astype(np.float32)
        self.unknown = (self.labels == 0).sum(axis=0)
        self.round(0)
        self.after_first = self.labels.copy()

    def round(self, number: int) -> None:
        for column, unknown in enumerate(self.unknown):
            candidates = np.flatnonzero(self.labels[:, column] == 0)
            order = np.argsort(self.scores[number][candidates, column], kind="stable")
            chosen = candidates[order[: math.floor(SHARE * unknown / (EPOCHS - WARM_UP))]]
            self.labels[chosen, column] = -self.scores[number][chosen, column]

    def second(self) -> None:
        self.labels[:] = self.after_first
        self.round(1)


def main() -> None:
    args = arguments(__doc__.splitlines()[0], rounds=9)
    images, classes = (600, 8) if args.tiny else (65_665, 80)
    torch.set_num_threads(1)
    observed, scores = problem(images, classes)
    ours, peer = Ours(observed, scores), PlainLoop(observed, scores)
    seconds = interleaved({"loop": peer.second, "tacit": ours.second}, rounds=args.rounds)
    made = ours.method.soft.numpy()
    assert ((made > 0) == (peer.labels < 0)).all(), "another choice of cells than the plain loop's"
    error = float(np.abs(np.where(made > 0, made, 0) + np.minimum(peer.labels, 0)).max())
    print(f"plain loop {seconds['loop'] * 1e3:.0f} ms, tacit {seconds['tacit'] * 1e3:.0f} ms, one thread")
    claim = RoundClaim(
        claim=f"a round of pseudo-labels over {images:,} x {classes} scores, one thread",
        peer=f"NumPy {np.__version__}, a loop over classes with argsort",
        ratio=round(seconds["loop"] / seconds["tacit"], 1),
        wanted=1.0,
        error=error,
        milliseconds=round(seconds["tacit"] * 1e3, 1),
    )
    report(claim, args.json)


if __name__ == "__main__":
    main()
