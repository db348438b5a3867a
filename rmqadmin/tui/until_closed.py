"""Work of a screen that goes on while it is closed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from textual.css.query import NoMatches
from textual.screen import Screen
from textual.widget import MountError


@contextmanager
def while_open(screen: Screen[Any]) -> Iterator[None]:
    """For what shows something on ``screen``. One that is being closed, alone or with the whole dashboard, loses its
    widgets one after the other, and its workers last: a widget that is not there by then is no defect, and nothing more
    is shown."""
    try:
        yield
    except (NoMatches, MountError):
        if screen.app.is_running and screen in screen.app.screen_stack:
            raise


async def until_closed(screen: Screen[Any], work: Callable[[], Awaitable[None]]) -> None:
    """Does ``work``, which waits for something and then shows it on ``screen``, as long as that is open."""
    with while_open(screen):
        await work()
