"""LS of the EM table is AN-LS under another name."""

from collections.abc import Callable
from typing import Any


def test_it_is_an_ls(published_step: Callable[..., Any]) -> None:
    published_step("ls", "an_ls_0.1").check()
