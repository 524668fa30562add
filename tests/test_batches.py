"""Order, parts, shares of processes, and randomness by address."""

from itertools import chain, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tacit.data.batches import Batches, FeatureInputs, ImageInputs, in_order, permutation
from tacit.data.images import PixelStore, Preprocessing
from tacit.data.source import Split
from tacit.errors import UserError
from tacit.labels import Labels
from tacit.methods.base import Batch, Part, Stage

CPU = torch.device("cpu")
HALF = Preprocessing((0.5, 0.5, 0.5), (0.5, 0.5, 0.5), 8)


def labels_of(rows: int) -> Labels:
    states = np.random.RandomState(3).randint(-1, 2, (rows, 4)).astype(np.int8)
    return Labels.from_dense(states, list("abcd"))


def features_of(rows: int) -> FeatureInputs:
    """Row i's features say i, so that a batch can be checked against its index."""
    return FeatureInputs(np.repeat(np.arange(rows, dtype=np.float16)[:, None], 3, axis=1), CPU)


def batches(rows: int, size: int, *, parts: tuple[Part, ...] = (), seed: int = 0, number: int = 0, **more) -> Batches:
    shard = more.pop("shard", (0, 1))
    stage = Stage("linear", 3, size, 0.1, inputs="features", parts=parts, **more)
    return Batches(features_of(rows), labels_of(rows), stage, number, ("weak",), seed=seed, device=CPU, shard=shard)


def rows_of(found: list[Batch]) -> list[list[int]]:
    return [batch.index.tolist() for batch in found]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.integers(1, 17), st.integers(0, 5))
def test_an_epoch_visits_each_row_once(rows: int, size: int, epoch: int) -> None:
    found = list(batches(rows, size).epoch(epoch))
    assert sorted(row for batch in rows_of(found) for row in batch) == list(range(rows))
    assert [len(batch.index) for batch in found[:-1]] == [size] * (len(found) - 1)


def test_a_batch_holds_its_rows() -> None:
    labels = labels_of(20)
    for batch in batches(20, 6).epoch(1):
        assert torch.equal(batch.inputs[:, 0], batch.index.float())
        assert np.array_equal(batch.labels.numpy(), labels.rows(batch.index.numpy()))
        assert batch.part is None


def test_large_label_tables_stay_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    resident = list(batches(20, 6).epoch(0))
    monkeypatch.setattr("tacit.data.batches.RESIDENT_LABEL_CELLS", 0)
    made = batches(20, 6)
    assert made.states is None
    for a, b in zip(resident, made.epoch(0), strict=True):
        assert torch.equal(a.labels, b.labels) and a.labels.dtype == b.labels.dtype


def test_order_is_a_function_of_its_address() -> None:
    orders = {
        (seed, number, epoch): rows_of(list(batches(30, 30, seed=seed, number=number).epoch(epoch)))[0]
        for seed in (0, 1)
        for number in (0, 1)
        for epoch in (0, 1)
    }
    assert len({tuple(order) for order in orders.values()}) == len(orders)
    assert orders[1, 0, 1] == rows_of(list(batches(30, 30, seed=1).epoch(1)))[0]
    assert not np.array_equal(permutation(30, 0, 1), permutation(30, 1, 0))


def test_an_epoch_can_be_entered_anywhere() -> None:
    made = batches(29, 4)
    whole = rows_of(list(made.epoch(2)))
    for start in range(len(whole) + 1):
        assert rows_of(list(made.epoch(2, start))) == whole[start:]


def test_the_last_partial_batch_can_be_left_out() -> None:
    made = batches(29, 4, drop_last=True)
    assert made.steps == 7 and [len(b.index) for b in made.epoch(0)] == [4] * 7
    with pytest.raises(UserError, match="do not fill a batch of 30"):
        batches(29, 30, drop_last=True)


class TestParts:
    long, short = np.arange(0, 20), np.arange(20, 27)

    def made(self, **more) -> Batches:
        return batches(27, 8, parts=(Part("long", self.long, 6), Part("short", self.short, 3)), **more)

    def test_the_longest_gives_the_length_and_the_shorter_starts_over(self) -> None:
        made = self.made()
        found = list(made.epoch(0))
        assert len(found) == made.steps == 4
        drawn = [[int(i) for i, p in zip(b.index, b.part, strict=True) if p == 0] for b in found]
        assert sorted(chain.from_iterable(drawn)) == self.long.tolist()
        again = [[int(i) for i, p in zip(b.index, b.part, strict=True) if p == 1] for b in found]
        assert [len(rows) for rows in again] == [3, 3, 1, 3]
        assert sorted(chain.from_iterable(again[:3])) == self.short.tolist()
        assert set(again[3]) <= set(self.short.tolist())

    def test_part_numbers_are_right_in_every_step(self) -> None:
        made = self.made()
        for step, batch in enumerate(made.epoch(0)):
            assert torch.equal(batch.part, (batch.index >= 20).long())
            assert len(batch.index) == sum(made.sizes(step))

    def test_laps_are_shuffled_anew(self) -> None:
        made = batches(27, 8, parts=(Part("long", self.long, 2), Part("short", self.short, 7)))
        laps = [tuple(b.index[b.part == 1].tolist()) for b in made.epoch(0)]
        assert len(set(laps)) == len(laps)

    def test_shares_carry_their_part_numbers(self) -> None:
        for rank in range(2):
            for batch in self.made(shard=(rank, 2)).epoch(0):
                assert torch.equal(batch.part, (batch.index >= 20).long())


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 4))
def test_shares_partition_every_step(rows: int, size: int, world: int) -> None:
    whole = list(batches(rows, size).epoch(0))
    shares = [batches(rows, size, shard=(rank, world)) for rank in range(world)]
    found = [list(share.epoch(0)) for share in shares]
    for step, batch in enumerate(whole):
        mine = [share[step].index.tolist() for share in found]
        if len(batch.index) >= world:
            assert list(chain.from_iterable(mine)) == batch.index.tolist()
        else:  # too few to go round: every process sees them all
            assert mine == [batch.index.tolist()] * world


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 4))
def test_weighted_means_of_shares_average_to_the_mean_of_the_step(rows: int, size: int, world: int) -> None:
    values = torch.from_numpy(np.random.RandomState(0).rand(rows))
    shares = [batches(rows, size, shard=(rank, world)) for rank in range(world)]
    for step, whole in enumerate(batches(rows, size).epoch(0)):
        told: list[Tensor] = []
        for share in shares:
            index = list(share.epoch(0))[step].index
            told.append(values[index].mean() * share.weight(step, len(index)))
        assert float(sum(told)) / world == pytest.approx(float(values[whole.index].mean()), abs=1e-12)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Split:
    from PIL import Image

    folder = tmp_path_factory.mktemp("pictures")
    pixels = np.random.RandomState(0).randint(0, 256, (13, 8, 8, 3), dtype=np.uint8)
    files = tuple(folder / f"{i}.png" for i in range(13))
    for file, image in zip(files, pixels, strict=True):
        Image.fromarray(image).save(file)
    return Split(tuple(f.name for f in files), labels_of(13), files=files)


def image_batches(
    split: Split, *, workers: int = 0, limit: float | None = None, shard=(0, 1), size: int = 4
) -> Batches:
    store = PixelStore(split, 8, workers=workers, memory_limit_gb=limit)
    stage = Stage("finetune", 3, size, 0.1)
    inputs = ImageInputs(store, HALF, CPU)
    return Batches(inputs, split.labels, stage, 0, ("weak", "plain"), seed=5, device=CPU, shard=shard)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("workers", [0, 2])
def test_streamed_images_are_the_resident_ones_bit_for_bit(pictures: Split, workers: int) -> None:
    resident, streamed = image_batches(pictures), image_batches(pictures, workers=workers, limit=0)
    assert resident.inputs.resident and not streamed.inputs.resident
    for a, b in zip(resident.epoch(1, 1), streamed.epoch(1, 1), strict=True):
        assert torch.equal(a.index, b.index)
        for view in ("weak", "plain"):
            assert torch.equal(a.views[view].inputs, b.views[view].inputs)


def test_augmentation_follows_the_row_and_not_the_batch(pictures: Split) -> None:
    def by_row(made: Batches, epoch: int) -> dict[int, Tensor]:
        return {int(i): x for b in made.epoch(epoch) for i, x in zip(b.index, b.views["weak"].inputs, strict=True)}

    whole, small = by_row(image_batches(pictures), 2), by_row(image_batches(pictures, size=3), 2)
    assert all(torch.equal(whole[row], small[row]) for row in whole)
    shares = by_row(image_batches(pictures, shard=(0, 2)), 2) | by_row(image_batches(pictures, shard=(1, 2)), 2)
    assert all(torch.equal(whole[row], shares[row]) for row in whole)
    later = by_row(image_batches(pictures), 3)
    assert not all(torch.equal(whole[row], later[row]) for row in whole)


def test_row_order_for_scores() -> None:
    inputs = features_of(20)
    inputs.chunk = 7
    found = list(in_order(inputs, CPU))
    assert torch.cat([index for index, _ in found]).tolist() == list(range(20))
    assert [len(index) for index, _ in found] == [7, 7, 6]
    assert torch.cat([x for _, x in found])[:, 0].tolist() == list(range(20))
    share = list(in_order(inputs, CPU, rows=range(5, 15)))
    assert torch.cat([index for index, _ in share]).tolist() == list(range(5, 15))
    assert all(a[0][-1] < b[0][0] for a, b in pairwise(share))
