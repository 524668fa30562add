"""timm backbones behind our interface: maps, pooling that equals timm's own, preprocessing, descriptions."""

import json

import pytest
import torch

from tacit.nets.backbone import Backbone, BackboneError, Preprocessing, TimmBackbone
from tacit.nets.net import build_backbone

FAMILIES = [
    "test_resnet",
    "mobilenetv3_small_050",
    "test_convnext",
    "test_vit",
    "test_vit2",
    "test_vit3",
    "test_mambaout",
]


@pytest.fixture(scope="module", params=FAMILIES)
def backbone(request: pytest.FixtureRequest) -> TimmBackbone:
    torch.manual_seed(0)
    return TimmBackbone(request.param, "none", size=96).eval()


def images(backbone: Backbone, n: int = 2) -> torch.Tensor:
    size = backbone.preprocessing.size
    return torch.randn(n, 3, size, size, generator=torch.Generator().manual_seed(1))


def test_features_are_timms(backbone):
    x = images(backbone)
    with torch.no_grad():
        wanted = backbone.model.forward_head(backbone.model.forward_features(x), pre_logits=True)
        assert torch.equal(backbone(x), wanted)
    assert wanted.shape == (2, backbone.width)


def test_pooling_the_maps_gives_the_features(backbone):
    if backbone.name in ("test_vit", "test_vit3"):
        pytest.skip("pooled from a class token")
    x = images(backbone)
    with torch.no_grad():
        maps = backbone.maps(x)
        assert maps.ndim == 4 and len(maps) == 2
        torch.testing.assert_close(backbone.pool(maps), backbone(x))


def test_maps_lie_where_their_pixels_are(backbone):
    """A change in the lower left corner of the image changes the maps most there."""
    x = images(backbone, 1)
    y = x.clone()
    y[..., -16:, :16] += 3
    with torch.no_grad():
        change = (backbone.maps(y) - backbone.maps(x)).abs().sum(1)[0]
    row, column = divmod(int(change.argmax()), change.shape[1])
    assert row > change.shape[0] / 2 and column < change.shape[1] / 2


@pytest.mark.parametrize("name", ["test_vit", "test_vit3"])
def test_pooling_without_the_class_token_is_refused(name):
    backbone = TimmBackbone(name, "none", size=64)
    with pytest.raises(BackboneError, match="class token"):
        backbone.pool(backbone.maps(images(backbone)))


def test_maps_of_a_model_that_computes_channels_last():
    backbone = TimmBackbone("swin_tiny_patch4_window7_224", "none").eval()
    x = images(backbone, 1)
    with torch.no_grad():
        maps = backbone.maps(x)
        assert maps.shape == (1, 768, 7, 7)
        torch.testing.assert_close(backbone.pool(maps), backbone(x))


def test_preprocessing_is_that_of_the_weights_but_bilinear():
    assert TimmBackbone("tf_efficientnet_lite0", "none", size=64).preprocessing == Preprocessing(
        (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), 64, "bilinear"
    )
    assert TimmBackbone("test_resnet", "none").preprocessing.size == 160


def test_a_description_is_json_and_builds_the_same_architecture(backbone):
    rebuilt = build_backbone(json.loads(json.dumps(backbone.describe()))).eval()
    rebuilt.load_state_dict(backbone.state_dict())
    assert rebuilt.preprocessing == backbone.preprocessing
    x = images(backbone)
    with torch.no_grad():
        assert torch.equal(rebuilt(x), backbone(x))


def test_a_description_holds_no_path(tmp_path):
    path = tmp_path / "w.pth"
    torch.save(TimmBackbone("test_resnet", "none").model.state_dict(), path)
    described = TimmBackbone("test_resnet", path).describe()
    assert described["weights"] == "w.pth"
    assert str(tmp_path) not in json.dumps(described)


def test_unknown_names_are_refused_with_near_ones():
    with pytest.raises(BackboneError, match=r"resnet50\b"):
        TimmBackbone("resnet_50", "none")
    with pytest.raises(BackboneError, match=r"resnet50\.typo"):
        TimmBackbone("resnet50.typo", "none")
    with pytest.raises(BackboneError, match="kind 'other'"):
        build_backbone({"kind": "other"})


def test_images_that_are_no_whole_patches():
    with pytest.raises(BackboneError, match="a multiple of 16 pixels, not 40"):
        TimmBackbone("test_vit", "none", size=40)
    assert TimmBackbone("test_vit", "none", size=48).preprocessing.size == 48
