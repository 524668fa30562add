"""The head class_maps: its logits, its gradient in closed form, its maps, and what it refuses."""

import pytest
import torch
from torch import nn

from tacit.errors import UserError
from tacit.nets.backbone import TimmBackbone
from tacit.nets.class_maps import ClassMapsHead
from tacit.nets.net import NetError, build_net, make_net
from tacit.nets.small import SmallNet

IMAGES = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))


def test_without_alpha_it_is_the_linear_head() -> None:
    torch.manual_seed(0)
    backbone = SmallNet(size=64)
    linear, maps = make_net(backbone, 5).eval(), make_net(backbone, 5, head="class_maps").eval()
    maps.head.classifier.weight.data = linear.head.weight.data[:, :, None, None]
    maps.head.classifier.bias.data = linear.head.bias.data
    with torch.no_grad():
        torch.testing.assert_close(maps(IMAGES), linear(IMAGES), rtol=1e-5, atol=1e-5)


def test_gradient_of_the_maps() -> None:
    """Proposition 2: 1/(HW) everywhere, alpha/k more at the k strongest places."""
    head = ClassMapsHead(3, 1, alpha=0.5, k=2)
    head.classifier = nn.Identity()  # type: ignore[assignment]
    maps = torch.tensor([[[[0.1, 3.0], [-1.0, 2.0]]]], requires_grad=True)
    logit = head(maps)
    assert logit.item() == pytest.approx(4.1 / 4 + 0.5 * 2.5)
    logit.sum().backward()
    assert maps.grad is not None
    assert maps.grad.flatten().tolist() == pytest.approx([0.25, 0.5, 0.25, 0.5])


@pytest.mark.parametrize("name", ["test_resnet", "test_efficientnet", "test_vit"])
def test_maps_of_timm_backbones(name: str) -> None:
    torch.manual_seed(0)
    net = make_net(TimmBackbone(name, "none"), 4, head="class_maps", head_options={"alpha": 0.5, "k": 3}).eval()
    images = torch.randn(2, 3, net.preprocessing.size, net.preprocessing.size)
    with torch.no_grad():
        maps = net.maps(images)
        assert maps.ndim == 4 and maps.shape[:2] == (2, 4)
        flat = maps.flatten(2)
        wanted = flat.mean(2) + 0.5 * flat.sort(2, descending=True).values[..., :3].mean(2)
        torch.testing.assert_close(net(images), wanted)


def test_described_and_rebuilt() -> None:
    net = make_net(SmallNet(size=64), 5, head="class_maps", head_options={"alpha": 0.25, "k": 2}).eval()
    twin = build_net(net.describe(), 5).eval()
    twin.load_state_dict(net.state_dict())
    with torch.no_grad():
        assert torch.equal(net(IMAGES), twin(IMAGES))
    assert (twin.head.alpha, twin.head.k) == (0.25, 2)


def test_k_larger_than_the_map() -> None:
    net = make_net(SmallNet(size=64), 5, head="class_maps", head_options={"alpha": 0.5, "k": 65})
    with pytest.raises(UserError, match="k = 65 strongest places, and the backbone's maps have 64"):
        net(IMAGES)


@pytest.mark.parametrize("options", [{"alpha": -1.0}, {"k": 0}, {"alpha": float("nan")}])
def test_options_out_of_range(options: dict[str, float]) -> None:
    with pytest.raises(UserError, match="class_maps"):
        ClassMapsHead(3, 2, **options)  # type: ignore[arg-type]


def test_features_have_no_maps() -> None:
    with pytest.raises(NetError, match="works on maps"):
        make_net(None, 5, width=6, head="class_maps")
    with pytest.raises(NetError, match="no class maps"):
        make_net(SmallNet(size=64), 5).maps(IMAGES)
    with pytest.raises(NetError, match="no longer know where"):
        make_net(SmallNet(size=64), 5, head="class_maps").maps(torch.zeros(2, 128))
