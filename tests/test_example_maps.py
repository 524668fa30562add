"""Class maps kept beside a run's scores: of which images and classes, and that they are the net's."""

import numpy as np
import torch

from tacit.data.batches import FeatureInputs, ImageInputs
from tacit.data.images import PixelStore
from tacit.data.source import Split
from tacit.example_maps import AT_ONCE, BEST, HALF, example_maps, pooling_of
from tacit.labels import Labels
from tacit.methods.base import Method
from tacit.methods.registry import build_method
from tacit.nets.net import make_backbone, make_net
from tacit.runtime import Runtime

CLASSES = tuple("abcdefgh")
CPU = torch.device("cpu")
OBSERVED = Labels.from_dense(np.array([[1] * 8, [-1] * 8], np.int8), CLASSES)


def method_of(name: str = "an", head: str = "class_maps", **options: object) -> Method:
    torch.manual_seed(0)
    return build_method(name, make_net(make_backbone("small", size=24), 8, head=head), OBSERVED, options)


def kept(method: Method, rows: np.ndarray, scores: np.ndarray, truth: np.ndarray):
    pixels = np.random.default_rng(0).integers(0, 256, (40, 3, 24, 24), np.uint8)
    split = Split(tuple(map(str, range(40))), Labels.from_dense(-np.ones((40, 8), np.int8), CLASSES), pixels=pixels)
    inputs = ImageInputs(PixelStore(split, 24), method.net.preprocessing, CPU)
    return example_maps(method, inputs, rows, scores, truth, Runtime("cpu")), pixels


def test_present_and_best_classes_of_more_images_than_are_held_together() -> None:
    rows = np.arange(0, 40, 2)
    assert len(rows) > AT_ONCE
    scores = np.tile(np.linspace(0.9, 0.1, 8, dtype=np.float32), (len(rows), 1))
    truth = -np.ones((len(rows), 8), np.int8)
    truth[:, 7] = 1
    method = method_of()
    found, pixels = kept(method, rows, scores, truth)
    assert found is not None
    assert found.row.tolist() == np.repeat(rows, BEST + 1).tolist()
    assert found.column.tolist() == [*range(BEST), 7] * len(rows)
    inputs = (torch.from_numpy(pixels[rows]).float() / 255 - 0.5) / 0.5
    with torch.no_grad():
        maps = method.eval().net.maps(inputs)
    np.testing.assert_allclose(found.maps.reshape(len(rows), BEST + 1, 3, 3)[:, -1], maps[:, 7], rtol=2e-3, atol=1e-3)


def test_values_beyond_half_precision_are_held_at_its_end() -> None:
    method = method_of()
    torch.nn.init.constant_(method.net.head.classifier.bias, 1e6)
    found, _ = kept(method, np.array([3]), np.ones((1, 8), np.float32), np.ones((1, 8), np.int8))
    assert found is not None and (found.maps == np.float16(HALF)).all()


def test_nets_without_maps_and_inputs_without_places_have_none() -> None:
    rows, scores, truth = np.array([0]), np.ones((1, 8), np.float32), np.ones((1, 8), np.int8)
    assert kept(method_of(head="linear"), rows, scores, truth)[0] is None
    features = FeatureInputs(np.zeros((4, 128), np.float16), CPU)
    assert example_maps(method_of(), features, rows, scores, truth, Runtime("cpu")) is None
    assert kept(method_of(), rows[:0], scores[:0], truth[:0])[0] is None


def test_a_method_with_a_pooling_of_its_own_is_asked_before_the_head() -> None:
    assert pooling_of(method_of()) == (0.0, 5)
    assert pooling_of(method_of("saliency", alpha=0.3, k=2)) == (0.3, 2)
    assert pooling_of(method_of("saliency", test_logit="mean")) == (0.0, 5)
