"""Axes from words: decimal ranges, one spelling of a number, points in the order of curves, averages over the axis."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.run import RunConfig
from tacit.tables.axes import Axis, AxisError, check_axes, number_of_points, observation_axis, points, values_of
from tacit.tables.sweeps import Curve, Done, Reached, shared_settings, validation_of


def test_ranges() -> None:
    assert values_of("0.1..0.9", float, "") == tuple(f"0.{i}" for i in range(1, 10))
    assert values_of(".5..1:.25", float, "") == ("0.5", "0.75", "1")
    assert values_of("1..5", int, "") == ("1", "2", "3", "4", "5")
    assert values_of("-1..1:1", float, "") == ("-1", "0", "1")
    assert values_of("1e-4,1E-3,0.0100,16", float, "") == ("0.0001", "0.001", "0.01", "16")
    assert values_of("0.3..0.3", float, "") == ("0.3",)
    assert values_of("fp32, bf16", str, "") == ("fp32", "bf16")


@given(st.integers(-50, 50), st.integers(0, 40), st.integers(1, 30), st.integers(0, 4))
def test_a_range_is_what_its_ends_and_step_say(low: int, count: int, step: int, digits: int) -> None:
    scale = Decimal(10) ** -digits
    first, last, each = low * scale, (low + count * step) * scale, step * scale
    found = values_of(f"{first:f}..{last:f}:{each:f}", float, "")
    assert [Decimal(value) for value in found] == [first + at * each for at in range(count + 1)]


@pytest.mark.parametrize("text", ["1..2..3", "nan..1", "0..inf", "1,x", "1..2:", "", ",", "1..1e9"])
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(AxisError):
        values_of(text, float, "--vary x")


def test_the_axis_of_an_observation() -> None:
    axis = observation_axis("labelled-share:0.1..0.3:0.2")
    assert axis == Axis("labelled-share", "observe", ("0.1", "0.3"), "labelled-share:")
    assert axis.setting("0.3") == "observe=labelled-share:0.3"
    for plain in ("known-share:0.1", "single-positive", "class-quota:10,10", "single-positive-weights:../w.csv"):
        assert observation_axis(plain) is None


def test_points_move_along_the_first_axis_first() -> None:
    axes = (Axis("known-share", "observe", ("0.1", "0.2"), "known-share:"), Axis("k", "method.k", ("1", "2")))
    found = list(points(axes))
    assert [point.folder for point in found] == [f"known-share={s},k={k}" for k in (1, 2) for s in (0.1, 0.2)]
    assert found[3].settings == ("observe=known-share:0.2", "method.k=2")
    assert len(found) == number_of_points(axes) == 4


def test_points_have_folders_of_their_own() -> None:
    check_axes([Axis("weights", "weights", ("a/b", "a/c"))])
    with pytest.raises(AxisError, match="would share the folder weights=a-b"):
        check_axes([Axis("weights", "weights", ("a/b", "a:b"))])


def test_what_all_points_share() -> None:
    config = RunConfig("scenes", method="role", observe="known-share:0.3", seed=4, observe_seed=0)
    at_point = RunConfig(**{**vars(config), "method_options": {"k": 2, "p": 1}, "budget": {"lr": 0.1}, "val": 0.1})
    axes = [Axis("known-share", "observe", ()), Axis("k", "method.k", ()), Axis("lr", "budget.lr", ())]
    wanted = RunConfig("scenes", method="role", method_options={"p": 1}, val=0.1)
    assert shared_settings(at_point, axes) == wanted


def curve(values: dict[str, dict[int, tuple[float, float]]]) -> Curve:
    """{share: {seed: (mAP, CF1)}} as fractions."""

    def done(seed: int, found: tuple[float, float]) -> Done:
        test = {"mAP": found[0], "CF1": found[1]}
        return Done(RunConfig("scenes", seed=seed), {"metrics": {"test": test}})

    reached = (
        Reached({"share": at}, tuple(done(seed, found) for seed, found in runs.items()), 2)
        for at, runs in values.items()
    )
    return Curve("bce", "share", tuple(reached))


def test_averages_over_the_axis_by_hand() -> None:
    """Seed 0: mAP (50 + 70) / 2 = 60; seed 1: (54 + 72) / 2 = 63. CF1 on its own: 30 and 40."""
    found = curve({"0.1": {0: (0.50, 0.2), 1: (0.54, 0.3)}, "0.2": {0: (0.70, 0.4), 1: (0.72, 0.5)}})
    average = found.average("mAP")
    assert average is not None
    assert (average.mean, average.sd) == (pytest.approx(61.5), pytest.approx(4.5**0.5))
    other = found.average("CF1")
    assert other is not None and other.mean == pytest.approx(35)
    lacking = curve({"0.1": {0: (0.5, 0.2), 1: (0.5, 0.3)}, "0.2": {0: (0.7, 0.4)}})
    assert lacking.average("mAP") is None
    assert curve({"0.1": {}, "0.2": {}}).average("mAP") is None


def test_how_validation_was_made() -> None:
    assert validation_of(RunConfig("s", val=0)) == "none: every row trains, last epoch"
    assert validation_of(RunConfig("s")) == "20 % held out, epoch by observed labels"
    assert validation_of(RunConfig("s", select="clean", val=0.1)) == "10 % held out, epoch by clean labels"
    assert validation_of(RunConfig("s", select="last")) == "20 % held out, last epoch"
