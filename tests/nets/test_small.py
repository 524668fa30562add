"""The built-in network: the shapes a head relies on, its description, and that it learns."""

import pytest
import torch
from torch import nn

from tacit.nets.backbone import Backbone
from tacit.nets.net import build_backbone
from tacit.nets.small import SmallNet


@pytest.mark.parametrize(("side", "cells"), [(16, 2), (32, 4), (40, 5), (48, 6)])
def test_maps_stand_for_eight_pixels_and_pool_to_the_width(side: int, cells: int) -> None:
    net = SmallNet()
    maps = net.maps(torch.rand(2, 3, side, side))
    assert maps.shape == (2, net.width, cells, cells)
    assert net.pool(maps).shape == (2, net.width)


def test_forward_is_pooled_maps() -> None:
    net, images = SmallNet(channels=(4, 8, 8)).eval(), torch.rand(3, 3, 40, 40)
    assert isinstance(net, Backbone)
    torch.testing.assert_close(net(images), net.maps(images).flatten(2).mean(2))


def test_memory_format_changes_nothing_but_the_layout() -> None:
    net, images = SmallNet(channels=(4, 8, 8)).eval().double(), torch.rand(2, 3, 40, 40, dtype=torch.float64)
    plain = net(images)
    wide = net.to(memory_format=torch.channels_last)(images.contiguous(memory_format=torch.channels_last))
    torch.testing.assert_close(plain, wide)


def test_rebuilt_from_its_description() -> None:
    net = SmallNet(size=32, channels=(4, 8, 16))
    again = build_backbone(net.describe())
    assert isinstance(again, SmallNet)
    again.load_state_dict(net.state_dict())  # the same tensors, by name and shape
    assert (again.width, again.preprocessing) == (16, net.preprocessing)
    assert again.describe() == net.describe()


def test_learns_a_shape_that_the_mean_colour_does_not_show() -> None:
    """Twelve steps tell horizontal from vertical bars, which have the same mean colour."""
    torch.manual_seed(0)
    images = torch.rand(64, 3, 24, 24) * 0.2
    images[:32, :, 8:12] += 0.6
    images[32:, :, :, 8:12] += 0.6
    target = (torch.arange(64) < 32).float()
    net = nn.Sequential(SmallNet(size=24, channels=(8, 16, 16)), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(12):
        loss = nn.functional.binary_cross_entropy_with_logits(net(images)[:, 0], target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert ((net(images)[:, 0] > 0) == (target > 0)).float().mean() > 0.95
