"""Work of a screen that goes on while it is closed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from textual.css.query import NoMatches
from textual.screen import Screen
from textual.widget import MountError


async def until_closed(screen: Screen[Any], work: Callable[[], Awaitable[None]]) -> None:
    """Does ``work``, which waits for something and then shows it on ``screen``. A screen that is closed meanwhile loses
    its widgets one after the other, and its workers last: a widget that is not there by then is no defect."""
    try:
        await work()
    except (NoMatches, MountError):
        if screen in screen.app.screen_stack:
            raise
