"""Work of a screen that may outlive the screen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from textual.css.query import NoMatches
from textual.screen import Screen
from textual.widget import MountError


@contextmanager
def while_open(screen: Screen[Any]) -> Iterator[None]:
    """Wraps code that shows something on ``screen``. A screen that closes, alone or with the whole dashboard, loses its
    widgets one by one and its workers last. A missing widget is then no defect: the rest of the code is skipped."""
    try:
        yield
    except (NoMatches, MountError):
        if screen.app.is_running and screen in screen.app.screen_stack:
            raise


async def until_closed(screen: Screen[Any], work: Callable[[], Awaitable[None]]) -> None:
    """Runs ``work``, which waits for something and then shows it on ``screen`` if that is still open."""
    with while_open(screen):
        await work()
