"""Groups of classes by training annotations, by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.metrics.groups import frequency_groups, grouped_map
from tacit.metrics.inputs import MetricError

NAN = float("nan")


def test_rarest_first_and_equals_in_class_order() -> None:
    assert [g.tolist() for g in frequency_groups([5, 0, 5, 9, 1], 2)] == [[1, 4, 0], [2, 3]]


def test_a_class_without_ap_is_left_out_of_its_group() -> None:
    rare, often = grouped_map([0.5, 0.25, NAN, 1.0], [10, 3, 4, 20], 2)
    assert (rare.name, rare.classes.tolist(), rare.fewest, rare.most) == ("G1", [1, 2], 3, 4)
    assert (rare.scored, rare.mAP) == (1, 0.25)
    assert (often.name, often.scored, often.mAP) == ("G2", 2, 0.75)
    assert math.isnan(grouped_map([NAN, 1.0], [1, 2], 2)[0].mAP)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60), st.data())
def test_every_class_is_in_one_group_and_none_is_rarer_than_those_before(often: list[int], data: st.DataObject) -> None:
    groups = frequency_groups(often, data.draw(st.integers(1, len(often))))
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(often)))
    sizes = {len(group) for group in groups}
    assert max(sizes) - min(sizes) <= 1
    values = [often[c] for group in groups for c in group]
    assert values == sorted(values)


def test_five_equal_groups_have_the_mean_of_all() -> None:
    """The published tables: All is the mean of G1 to G5."""
    generator = np.random.default_rng(0)
    area = generator.random(5000)
    groups = grouped_map(area, generator.integers(1, 10_000, 5000))
    assert [len(g.classes) for g in groups] == [1000] * 5
    assert np.mean([g.mAP for g in groups]) == pytest.approx(area.mean())


@pytest.mark.parametrize("groups", [0, 3])
def test_more_groups_than_classes_are_refused(groups: int) -> None:
    with pytest.raises(MetricError, match="use 1 to 2"):
        grouped_map([0.1, 0.2], [1, 2], groups)
    with pytest.raises(MetricError, match="do not pair up"):
        grouped_map([0.1], [1, 2])
