"""Work of a screen that may outlive the screen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any, TypeVar

from textual.css.query import NoMatches
from textual.dom import DOMNode, NoScreen
from textual.screen import Screen
from textual.widget import MountError

R = TypeVar("R")


@contextmanager
def while_open(screen: Screen[Any]) -> Iterator[None]:
    """Wraps code that shows something on ``screen``. A screen that closes, alone or with the whole dashboard, loses its
    widgets one by one and its workers last. A widget that is missing, or on no screen, is then no defect: the rest of
    the code is skipped."""
    try:
        yield
    except (NoMatches, NoScreen, MountError):
        if screen.app.is_running and screen in screen.app.screen_stack:
            raise


def close(screen: Screen[R], result: R | None = None) -> None:
    """Closes a screen that may have been closed meanwhile: Textual would then close the one below it."""
    if screen.is_current:
        screen.dismiss(result)


S = TypeVar("S", bound=Screen[Any])


def while_mounted(show: Callable[[S], None]) -> Callable[[S], None]:
    """Of a method that shows something: it does nothing before its screen has widgets, and ``while_open`` ends it while
    they go. Timers and what waits for a refresh may call it then."""

    @wraps(show)
    def shown(screen: S) -> None:
        if screen.is_mounted:
            with while_open(screen):
                show(screen)

    return shown


def begin(
    node: DOMNode,
    work: Callable[..., Awaitable[None]],
    *args: Any,
    group: str = "default",
    exclusive: bool = False,
    exit_on_error: bool = True,
) -> None:
    """Runs ``work(*args)`` as a worker of ``node``. The worker calls it: a coroutine that is made for a worker which is
    called off before it begins is never awaited, and Python warns of that."""
    called: Callable[[], Awaitable[None]] = partial(work, *args)
    node.run_worker(called, group=group, exclusive=exclusive, exit_on_error=exit_on_error)


async def until_closed(screen: Screen[Any], work: Callable[..., Awaitable[None]], *args: Any) -> None:
    """Runs ``work(*args)``, which waits for something and then shows it on ``screen`` if that is still open."""
    with while_open(screen):
        await work(*args)
