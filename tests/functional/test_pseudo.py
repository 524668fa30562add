"""The choice of the lowest values, with ties."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tacit.functional.pseudo import lowest_of_rows


def test_by_hand() -> None:
    values = torch.tensor([[0.3, 0.1, 0.2, 0.1], [0.5, 0.5, 0.5, 0.5], [0.1, 0.2, 0.3, 0.4]])
    assert lowest_of_rows(values, [3, 2, 0]).int().tolist() == [[0, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]]
    assert lowest_of_rows(values, [4, 4, 4]).all()


@given(
    arrays(np.float32, (3, 12), elements=st.sampled_from([0, 0.25, 0.5, 1])),
    st.lists(st.integers(0, 12), min_size=3, max_size=3),
)
def test_equals_a_stable_sort(values: np.ndarray, quotas: list[int]) -> None:
    chosen = lowest_of_rows(torch.from_numpy(values), quotas).numpy()
    for row, quota in enumerate(quotas):
        wanted = np.zeros(12, bool)
        wanted[np.argsort(values[row], kind="stable")[:quota]] = True
        assert (chosen[row] == wanted).all()


def test_more_than_there_are() -> None:
    with pytest.raises(ValueError, match="quota 5 of row 0"):
        lowest_of_rows(torch.zeros(1, 4), [5])
