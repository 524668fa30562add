"""Budgets, what may be changed about them, and searches."""

import pytest

from tacit.protocols import PROTOCOLS, ProtocolError, budgets, search_grid


def test_the_published_budgets() -> None:
    (linear,), (finetune,) = budgets("linear", {}), budgets("finetune", {})
    assert (linear.epochs, linear.inputs, linear.trains) == (25, "features", "head")
    assert (finetune.epochs, finetune.inputs, finetune.trains) == (10, "images", "all")
    assert budgets("linear_init", {}) == (linear, finetune)
    assert all(protocol.about for protocol in PROTOCOLS.values())


def test_changes_go_to_the_last_budget_and_linear_ones_to_the_first() -> None:
    first, last = budgets("linear_init", {"epochs": 3, "lr": None, "linear_epochs": 5, "linear_lr": 0.5})
    assert (first.epochs, first.lr, last.epochs, last.lr) == (5, 0.5, 3, PROTOCOLS["finetune"].budgets[0].lr)


@pytest.mark.parametrize(
    ("protocol", "changes", "said"),
    [
        ("linaer", {}, "no protocol named 'linaer'"),
        ("linear", {"linear_epochs": 2}, "linear_epochs belongs to protocol linear_init"),
        ("linear", {"epochs": 0}, "epochs of the linear budget must be above 0, not 0"),
        ("linear", {"batch_size": -1}, "batch_size of the linear budget"),
        ("finetune", {"lr": 0.0}, "lr of the finetune budget"),
        ("finetune", {"lr": float("nan")}, "lr of the finetune budget"),
        ("linear", {"weight_decay": -0.1}, "weight_decay must not be below 0"),
    ],
)
def test_budgets_that_are_refused(protocol: str, changes: dict, said: str) -> None:
    with pytest.raises(ProtocolError, match=said):
        budgets(protocol, changes)


def test_the_published_search_is_two_by_four() -> None:
    grid = search_grid("published")
    assert len(grid) == 8
    assert grid[0] == {"batch_size": 8, "lr": 0.01} and grid[-1] == {"batch_size": 16, "lr": 1e-5}


def test_a_declared_search() -> None:
    assert search_grid("lr=1e-3,1e-4 epochs=5") == [{"lr": 1e-3, "epochs": 5}, {"lr": 1e-4, "epochs": 5}]
    assert search_grid("") == []


@pytest.mark.parametrize("text", ["lr", "lr=", "speed=3", "lr=fast", "batch_size=1.5", "publish"])
def test_searches_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ProtocolError, match="--search"):
        search_grid(text)


@pytest.mark.parametrize("text", ["lr=0", "batch_size=0,8", "epochs=-1", "lr=nan", "weight_decay=-1"])
def test_points_of_a_search_are_budgets_too(text: str) -> None:
    with pytest.raises(ProtocolError, match=r"above 0|below 0"):
        search_grid(text)
