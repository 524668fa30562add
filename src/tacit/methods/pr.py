"""PR: pairwise ranking of known positives above everything else."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from ..functional.partial import pairwise_ranking
from .base import Batch, Clock, Method


class PairwiseRanking(Method):
    """Every known positive should be one whole probability above every label not known to be present."""

    needs: ClassVar[str] = "some positives; negatives may be unknown"
    unknown: str = "ranked below positives"

    def loss(self, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        return {"pr": pairwise_ranking(self.net(batch.inputs), batch.labels).mean()}
