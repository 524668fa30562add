"""Nets: images or features to logits; described, rebuilt, frozen."""

import json

import pytest
import torch
from torch import nn

from tacit.nets.backbone import TimmBackbone
from tacit.nets.net import Net, NetError, build_net, find_head, head_names, make_backbone, make_net


@pytest.fixture
def net() -> Net:
    torch.manual_seed(0)
    return make_net(TimmBackbone("test_resnet", "none", size=64), 5).eval()


IMAGES = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))


def test_logits_are_the_head_on_pooled_features(net):
    with torch.no_grad():
        features = net.features(IMAGES)
        assert features.shape == (2, 96)
        assert torch.equal(net(IMAGES), features @ net.head.weight.T + net.head.bias)
        assert torch.equal(net(features), net(IMAGES)), "features may be given instead of images"
        assert net.features(features) is features


def test_the_head_has_torchs_own_initialisation():
    torch.manual_seed(3)
    head = find_head("linear")(7, 4)
    torch.manual_seed(3)
    assert torch.equal(head.weight, nn.Linear(7, 4).weight)


def test_a_head_that_takes_maps_gets_them(net):
    class Maps(nn.Module):
        takes = "maps"

        def forward(self, maps):
            return maps.amax((2, 3))

    on_maps = Net(net.backbone, Maps(), head_name="maps").eval()
    with torch.no_grad():
        assert torch.equal(on_maps(IMAGES), net.backbone.maps(IMAGES).amax((2, 3)))
    with pytest.raises(NetError, match="needs maps"):
        on_maps(torch.zeros(2, 96))


def test_without_backbone_only_features():
    net = make_net(None, 5, width=96)
    assert net(torch.zeros(2, 96)).shape == (2, 5) and net.preprocessing is None
    with pytest.raises(NetError, match="features"):
        net(IMAGES)
    with pytest.raises(NetError, match="width"):
        make_net(None, 5)


@pytest.mark.parametrize("kind", ["timm", "none", "small"])
def test_a_description_rebuilds_the_net(net, kind):
    if kind != "timm":
        net = make_net(make_backbone("small", size=64) if kind == "small" else None, 5, width=96).eval()
    rebuilt = build_net(json.loads(json.dumps(net.describe())), 5).eval()
    rebuilt.load_state_dict(net.state_dict())
    inputs = torch.randn(2, 96) if kind == "none" else IMAGES
    with torch.no_grad():
        assert torch.equal(rebuilt(inputs), net(inputs))
    assert rebuilt.preprocessing == net.preprocessing


def test_a_description_of_other_classes_is_refused(net):
    with pytest.raises(NetError, match="made for 5 classes, and 6"):
        build_net(net.describe(), 6)
    with pytest.raises(NetError, match=r"model\.json"):
        build_net({"head": {}}, 5)


def test_a_frozen_backbone_keeps_weights_and_batch_statistics(net):
    net.backbone.requires_grad_(False)
    net.train()
    before = {k: v.clone() for k, v in net.state_dict().items()}
    net(IMAGES).sum().backward()
    torch.optim.SGD([p for p in net.parameters() if p.requires_grad], 0.1).step()
    changed = {k for k, v in net.state_dict().items() if not torch.equal(v, before[k])}
    assert changed == {"head.weight", "head.bias"}
    net.backbone.requires_grad_(True)
    net.train()(IMAGES).sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    assert net.backbone.training and not torch.equal(
        net.state_dict()["backbone.model.bn1.running_mean"], before["backbone.model.bn1.running_mean"]
    )


def test_heads_are_found_by_their_file():
    assert "linear" in head_names() and not {"net", "backbone", "weights", "small"} & set(head_names())
    with pytest.raises(NetError, match=r"Heads: .*linear"):
        find_head("round")
