"""The page of the tests of durability says how many images they take."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rmqserver.store.options import FlushMode
from tests.crash import test_crash_images as images
from tests.crash import test_crash_timers as timers
from tests.crash import test_crash_transactions as transactions

PAGE = (Path(__file__).parents[2] / "docs/durability-tests.md").read_text()


def counts(test: Callable[..., None]) -> list[int]:
    """The numbers of images that ``make test`` takes, and a longer run."""
    (values,) = (mark.args[1] for mark in test.pytestmark if mark.args[0] == "count")  # type: ignore[attr-defined]
    return [value if isinstance(value, int) else value.values[0] for value in values]


def told(name: str) -> list[str]:
    """The last two cells of a test's row."""
    (row,) = (line for line in PAGE.splitlines() if line.startswith(f"| [`{name}.py`]"))
    return [cell.strip() for cell in row.split("|")[3:5]]


def test_each_row_says_how_many_images_its_test_takes() -> None:
    quick, swept = (len(FlushMode) * count for count in counts(images.test_every_promise_holds_on_every_image))
    assert told("test_crash_images") == [f"{swept:,} images", f"{len(FlushMode) * images.IMAGES_CRASH:,} images"]
    assert f"{quick} images of the first row" in " ".join(PAGE.split())
    others: dict[str, Any] = {
        "test_crash_timers": timers.test_no_timer_is_lost_and_none_comes_twice,
        "test_crash_transactions": transactions.test_what_was_committed_is_there_once_and_nothing_else,
    }
    for name, test in others.items():
        assert told(name) == [f"{count:,} images" for count in counts(test)]
