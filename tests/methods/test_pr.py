"""PR: the published numbers, gradient included."""

from collections.abc import Callable
from typing import Any


def test_published_program(published_step: Callable[..., Any]) -> None:
    published_step("pr", "pr_pairwise_ranking").check()
