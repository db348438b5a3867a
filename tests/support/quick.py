"""Cases that the quick tests leave to ``make test-all``, or try in one test."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def first_is_quick(params: Iterable[Any], count: int = 1) -> list[Any]:
    """The quick tests try the first ``count`` parameters, ``make test-all`` tries all. For cases that differ little and
    cost a process each."""
    return [each if at < count else _slow(each) for at, each in enumerate(params)]


def first_size_is_quick(sizes: Iterable[tuple[int, int]]) -> list[Any]:
    """The same for terminal sizes, each of which is one parameter."""
    return [size if not at else pytest.param(size, marks=pytest.mark.slow) for at, size in enumerate(sizes)]


def in_one_test(*cases: Any) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """One test that tries all cases; of a tuple, each part is an argument. For checks of a millisecond: a test costs
    five, to be collected by each worker, carried out and reported."""

    def of(check: Callable[..., None]) -> Callable[[], None]:
        def test() -> None:
            for case in cases:
                try:
                    check(*case) if isinstance(case, tuple) else check(case)
                except BaseException as error:
                    error.add_note(f"the case: {case!r}")
                    raise

        test.__doc__ = check.__doc__
        return test

    return of


def _slow(each: Any) -> Any:
    if isinstance(each, tuple):
        return pytest.param(*each, marks=pytest.mark.slow)
    return pytest.param(each, marks=pytest.mark.slow)
