"""Cases that the quick tests leave to ``make test-all``."""

from collections.abc import Iterable
from typing import Any

import pytest


def first_is_quick(params: Iterable[Any], count: int = 1) -> list[Any]:
    """The quick tests try the first ``count`` parameters, ``make test-all`` tries all. For cases that differ little and
    cost a process each."""
    return [each if at < count else _slow(each) for at, each in enumerate(params)]


def first_size_is_quick(sizes: Iterable[tuple[int, int]]) -> list[Any]:
    """The same for terminal sizes, each of which is one parameter."""
    return [size if not at else pytest.param(size, marks=pytest.mark.slow) for at, size in enumerate(sizes)]


def _slow(each: Any) -> Any:
    if isinstance(each, tuple):
        return pytest.param(*each, marks=pytest.mark.slow)
    return pytest.param(each, marks=pytest.mark.slow)
