"""A net: images, or features computed beforehand, to logits [B, C]. A backbone and a head."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ..errors import UserError
from .backbone import Backbone, BackboneError, Preprocessing, TimmBackbone

PLUMBING = {"net", "backbone", "weights", "small"}  # modules of this room that are no heads


class NetError(UserError):
    """A net that cannot be built, or is given what it cannot take."""


class Net(nn.Module):
    """`backbone` may be None: a net on cached features only (the linear protocol)."""

    def __init__(self, backbone: Backbone | None, head: nn.Module, *, head_name: str = "linear") -> None:
        super().__init__()
        self.backbone, self.head, self.head_name = backbone, head, head_name

    @property
    def preprocessing(self) -> Preprocessing | None:
        return None if self.backbone is None else self.backbone.preprocessing

    def forward(self, inputs: Tensor) -> Tensor:
        if inputs.ndim == 2:
            return self._on_features(inputs)
        backbone = self._need_backbone()
        logits: Tensor = self.head(backbone.maps(inputs) if _takes(self.head) == "maps" else backbone(inputs))
        return logits

    def maps(self, images: Tensor) -> Tensor:
        """Class maps [B, C, H, W], where the head makes some."""
        if not hasattr(self.head, "maps"):
            raise NetError(f"the head '{self.head_name}' has no class maps: use the head class_maps.")
        if images.ndim == 2:
            raise NetError("class maps are made of images: pooled features no longer know where.")
        maps: Tensor = self.head.maps(self._need_backbone().maps(images))  # type: ignore[operator]
        return maps

    def features(self, images: Tensor) -> Tensor:
        """Pooled features [B, D]; features given as inputs are returned as they are."""
        if images.ndim == 2:
            return images
        pooled: Tensor = self._need_backbone()(images)
        return pooled

    def train(self, mode: bool = True) -> Net:
        """A frozen backbone stays in evaluation mode, so that its batch statistics are those it was trained with."""
        super().train(mode)
        if self.backbone is not None and not any(p.requires_grad for p in self.backbone.parameters()):
            self.backbone.eval()
        return self

    def describe(self) -> dict[str, Any]:
        """JSON-able; `build_net` makes the same net from it, with random weights."""
        backbone = None if self.backbone is None else self.backbone.describe()
        return {"backbone": backbone, "head": {"name": self.head_name, **_described_head(self.head)}}

    def _on_features(self, features: Tensor) -> Tensor:
        if _takes(self.head) == "maps":
            raise NetError(f"the head '{self.head_name}' needs maps of the image, not pooled features: give it images.")
        logits: Tensor = self.head(features)
        return logits

    def _need_backbone(self) -> Backbone:
        if self.backbone is None:
            raise NetError("this net works on features (it has no backbone): extract them first, or name a backbone.")
        return self.backbone


def make_backbone(name: str, weights: str | Path = "hub", *, size: int | None = None, **options: Any) -> Backbone:
    """A backbone by name: "small" (built in, no weights needed) or any of timm's."""
    if name == "small":
        from .small import SmallNet

        return SmallNet() if size is None else SmallNet(size=size)
    return TimmBackbone(name, weights, size=size, **options)


def build_backbone(described: Mapping[str, Any]) -> Backbone:
    """The architecture that `Backbone.describe()` described, with random weights."""
    kind = described.get("kind")
    if kind == "timm":
        pre = Preprocessing.rebuild(described["preprocessing"])
        return TimmBackbone(described["name"], "none", size=pre.size, interpolation=pre.interpolation)
    if kind == "small":
        from .small import SmallNet

        return SmallNet.rebuild(described)
    raise BackboneError(f"a backbone of kind '{kind}' is not known to this version of Tacit (known: timm, small)")


def make_net(
    backbone: Backbone | None,
    classes: int,
    *,
    head: str = "linear",
    width: int | None = None,
    head_options: Mapping[str, Any] | None = None,
) -> Net:
    """A backbone with a new head; without backbone, `width` is that of the features."""
    if backbone is not None:
        width = backbone.width if takes(head) == "pooled" else backbone.map_width
    elif takes(head) == "maps":
        raise NetError(f"the head '{head}' works on maps of images, and there are features only: name a backbone.")
    if width is None:
        raise NetError("a net without backbone needs the width of the features it will be given.")
    return Net(backbone, find_head(head)(width, classes, **(head_options or {})), head_name=head)


def build_net(description: Mapping[str, Any], classes: int) -> Net:
    """The net that `Net.describe()` described, with random weights; `classes` must be the number it was made for."""
    try:
        head, described = description["head"], description["backbone"]
        width, made_for = int(head["width"]), int(head["classes"])
    except (KeyError, TypeError, ValueError) as error:
        raise NetError(f"not the description of a net (missing or wrong: {error}); was model.json edited?") from error
    if made_for != classes:
        raise NetError(f"the net was made for {made_for} classes, and {classes} are asked of it: another class list?")
    backbone = None if described is None else build_backbone(described)
    options = {key: value for key, value in head.items() if key not in ("name", "width", "classes")}
    return make_net(backbone, classes, head=str(head["name"]), width=width, head_options=options)


def head_names() -> list[str]:
    """Modules of this folder that hold a head."""
    import tacit.nets

    return sorted(m.name for m in pkgutil.iter_modules(tacit.nets.__path__) if m.name not in PLUMBING)


def find_head(name: str) -> type[nn.Module]:
    """The class with a `takes` attribute in `nets/<name>.py`."""
    if name not in head_names():
        raise NetError(f"no head named '{name}'. Heads: {', '.join(head_names())}.")
    module = importlib.import_module(f"tacit.nets.{name}")
    own = (c for _, c in inspect.getmembers(module, inspect.isclass) if c.__module__ == module.__name__)
    return next(c for c in own if issubclass(c, nn.Module) and hasattr(c, "takes"))


def _takes(head: nn.Module | type[nn.Module]) -> str:
    return str(getattr(head, "takes", "pooled"))


def takes(head: str) -> str:
    """What the head of this name is made for: pooled features, or maps."""
    return _takes(find_head(head))


def _described_head(head: nn.Module) -> dict[str, Any]:
    """Its size, and the options it was made with."""
    size = {"width": int(head.in_features), "classes": int(head.out_features)}  # type: ignore[arg-type]
    options: dict[str, Any] = head.options() if hasattr(head, "options") else {}  # type: ignore[operator]
    return size | options
