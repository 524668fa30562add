"""Large loss (Kim et al., CVPR 2022): LL-R, LL-Ct and LL-Cp, see `names.py`."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor, nn

from ..functional.batch import step_rows
from ..functional.large_loss import flipped, largest, rejected_share
from ..functional.partial import assume_negative
from ..labels import Labels
from .base import Batch, Clock, Method
from .parts import number_within

UNKNOWN = {
    "reject": "negative, left out where loss is large",
    "correct": "negative, positive where loss is large",
    "keep": "negative, in time positive for good",
}


class LargeLoss(Method):
    """Assume negative, but distrust the labels with the largest losses: reject them, or call them positive."""

    needs: ClassVar[str] = "some positives; negatives may be unknown"

    def __init__(
        self,
        net: nn.Module,
        observed: Labels,
        *,
        scheme: Annotated[
            Literal["reject", "correct", "keep"],
            "reject (LL-R): leave large losses out. correct (LL-Ct): count them as positive in that step. "
            "keep (LL-Cp): and for good",
        ] = "reject",
        delta: Annotated[
            float,
            "percent of all cells. From the second epoch on the share of distrusted ones grows by it every epoch; "
            "keep: stays it (published: 0.1 to 0.5, by search)",
        ] = 0.2,
        program: Annotated[
            Literal["corrected", "published"],
            "published: with three slips of the authors' program (docs/methods/large_loss.md, Deviations)",
        ] = "corrected",
    ) -> None:
        super().__init__(net, observed)
        self.delta = number_within("delta", delta, 0.0, 100.0, "It is in percent of all cells")
        self.published = program == "published"
        self.keeps = scheme == "keep" and not self.published
        self.rejects = scheme == "reject"
        self.unknown = UNKNOWN["correct" if self.published and scheme == "keep" else scheme]
        if self.keeps:
            self.register_buffer("kept", torch.zeros(observed.shape, dtype=torch.int8))
        self._seen: tuple[Tensor, Tensor] | None = None  # of this step, until after_step

    def loss(self, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        logits, labels = self.net(batch.inputs), batch.labels
        if self.keeps:
            labels = torch.where(labels == 0, self._kept().index_select(0, batch.index), labels)
        cells = assume_negative(logits, labels)
        if share := self._share(clock.epoch):
            large = largest(cells, labels == 0, share, spill=self.published)
            other = torch.zeros_like(cells) if self.rejects else flipped(logits, labels)
            cells = torch.where(large.reached, other, cells)
            if self.keeps:
                self._seen = batch.index, large.above
        return {"large_loss": cells.mean()}

    def after_step(self, clock: Clock) -> None:
        """What was above the threshold is positive from now on."""
        if self._seen is not None:
            rows, (above, _) = step_rows(self._seen[0])[0], step_rows(self._seen[1].to(torch.int8))
            kept = self._kept()
            kept.index_copy_(0, rows, kept.index_select(0, rows) | above)
            self._seen = None

    def pseudo_labels(self) -> Tensor | None:
        return self._kept().clone() if self.keeps else None

    def _share(self, epoch: int) -> float | Fraction:
        """Of the cells, those that are distrusted in this epoch."""
        if epoch == 0:
            return 0.0
        return rejected_share(1 if self.keeps else epoch, self.delta, rounding=self.published)

    def _kept(self) -> Tensor:
        return self.get_buffer("kept")
