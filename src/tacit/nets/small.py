"""The small built-in network: learns the embedded scenes in seconds on two cores, and needs no weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from .backbone import Backbone, Preprocessing


class SmallNet(Backbone):
    """Five convolutions, batch-normalised; a cell of the maps stands for 8 x 8 pixels; pooled by the mean.

    size: side of the input images, 40 for the scenes as they are drawn; anything from 16 up will do.
    """

    def __init__(self, *, size: int = 40, channels: tuple[int, int, int] = (32, 64, 128)) -> None:
        super().__init__()
        first, second, third = channels
        self.channels = channels
        self.body = nn.Sequential(
            _convolution(3, first, kernel=5, stride=2),
            _convolution(first, second, stride=2),
            _convolution(second, second),
            _convolution(second, third, stride=2),
            _convolution(third, third),
        )
        self.width = self.map_width = third
        self.preprocessing = Preprocessing(mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5), size=size)

    def maps(self, images: Tensor) -> Tensor:
        out: Tensor = self.body(images)
        return out

    def pool(self, maps: Tensor) -> Tensor:
        return maps.mean(dim=(2, 3))

    def describe(self) -> dict[str, Any]:
        return {"kind": "small", "channels": list(self.channels), "preprocessing": self.preprocessing.describe()}

    @classmethod
    def rebuild(cls, described: Mapping[str, Any]) -> SmallNet:
        first, second, third = (int(width) for width in described["channels"])
        net = cls(channels=(first, second, third))
        net.preprocessing = Preprocessing.rebuild(described["preprocessing"])
        return net


def _convolution(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )
