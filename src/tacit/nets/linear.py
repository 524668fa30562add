"""The linear head: one weight vector and one bias per class, on pooled features."""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import nn


class LinearHead(nn.Linear):
    """torch's default initialisation, as in the published programs."""

    takes: ClassVar[Literal["pooled", "maps"]] = "pooled"

    def __init__(self, width: int, classes: int) -> None:
        super().__init__(width, classes)
