"""What the commands about stores have in common: the directory, and a line that says how far a check is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

import typer

from rmqadmin.core import units

StoreDir = Annotated[str, typer.Argument(metavar="DIR", help="The store's directory: the one that holds commitlog/.")]

_SHOWN_AFTER_S, _SHOWN_EVERY_S = 1.0, 0.2


class BytesDone:
    """Call it with what is being done, how many bytes of it are done, and of how many."""

    def __init__(self, show: Callable[[str | None], None]):
        self._show = show
        self._started = time.monotonic()
        self._next_s = self._started + _SHOWN_AFTER_S

    def __call__(self, doing: str, done_bytes: int, total_bytes: int) -> None:
        now = time.monotonic()
        if now < self._next_s:
            return
        self._next_s = now + _SHOWN_EVERY_S
        text = f"{doing}: {now - self._started:.0f} s"
        if done_bytes:
            rate = units.size(round(done_bytes / max(now - self._started, 0.001)))
            text += f", {units.size(done_bytes)} of at most {units.size(total_bytes)}, {rate}/s"
        self._show(text)

    def clear(self) -> None:
        self._show(None)
