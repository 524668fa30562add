"""Class maps: the classifier as a 1 x 1 convolution before pooling, so that every class has a map of its own."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from torch import Tensor, nn

from ..errors import UserError
from ..functional.saliency import saliency_logits


class ClassMapsError(UserError, ValueError):
    """Options of the head that do not fit each other or the backbone's maps."""


class ClassMapsHead(nn.Module):
    """logits = mean of each class map + alpha x mean of its k strongest places.

    alpha = 0 is the linear head written another way: averaging and a linear map commute.
    """

    takes: ClassVar[Literal["pooled", "maps"]] = "maps"

    def __init__(
        self,
        width: int,
        classes: int,
        *,
        alpha: Annotated[float, "weight of the mean of the k strongest places of a class map (published: 0.5)"] = 0.0,
        k: Annotated[int, "how many strongest places of a class map count (published: 5)"] = 5,
    ) -> None:
        super().__init__()
        if not 0 <= alpha < float("inf"):
            raise ClassMapsError(f"alpha = {alpha:g} of the head class_maps: give a number of at least 0")
        if k < 1:
            raise ClassMapsError(f"k = {k} of the head class_maps: at least one place must count")
        self.in_features, self.out_features, self.alpha, self.k = width, classes, alpha, k
        self.classifier = nn.Conv2d(width, classes, 1)

    def maps(self, maps: Tensor) -> Tensor:
        """Class maps [B, C, H, W] of a backbone's maps [B, D, H, W]."""
        out: Tensor = self.classifier(maps)
        return out

    def forward(self, maps: Tensor) -> Tensor:
        self.check(maps.shape[2] * maps.shape[3])
        return saliency_logits(self.maps(maps), alpha=self.alpha, k=self.k)

    def check(self, places: int) -> None:
        """Refuses a k that the maps have no room for."""
        if self.alpha and self.k > places:
            raise ClassMapsError(
                f"k = {self.k} strongest places, and the backbone's maps have {places}: give a smaller k, or larger "
                "images (--image-size)"
            )

    @property
    def pooling(self) -> tuple[float, int]:
        """(alpha, k) of its logits."""
        return self.alpha, self.k

    def options(self) -> dict[str, Any]:
        return {"alpha": self.alpha, "k": self.k}
