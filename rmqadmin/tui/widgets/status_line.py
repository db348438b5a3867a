"""The last line above the keys: how many rows, the filter, how old what is shown is, and what went wrong."""

from __future__ import annotations

import time
from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static

from rmqadmin.core.units import duration
from rmqadmin.tui.literal import literal
from rmqadmin.tui.refresh import Feed

_GAP = Content("  ·  ")


class StatusLine(Static):
    """``show`` it anew once a second and whenever a feed changed."""

    def show(self, rows: str, feeds: Sequence[Feed], interval_s: float | None, *, paused: bool) -> None:
        """``interval_s`` None: the screen asks once, and what it shows does not age."""
        parts = [literal(rows)] if rows else []
        if interval_s is not None:
            if paused:
                parts.append(Content.styled("paused", "bold $text-warning"))
            parts += [Content(f"every {interval_s:g} s"), _age(feeds)]
        trouble = _trouble(feeds)
        if trouble is not None:
            parts.append(trouble)
        self.update(_GAP.join(parts), layout=False)


def _age(feeds: Sequence[Feed]) -> Content:
    """The age of the part that was updated the longest ago."""
    updated = [feed.updated_s for feed in feeds if feed.updated_s is not None]
    if not updated:
        return Content("asking …")
    return Content(f"{duration(int(time.monotonic() - min(updated)) * 1000)} old".replace("0 ms", "0 s"))


def _trouble(feeds: Sequence[Feed]) -> Content | None:
    for feed in feeds:
        if feed.error is not None:
            times = f" ({feed.failure_count} times)" if feed.failure_count > 1 else ""
            again = "" if feed.next_s is None else f", again in {max(0, round(feed.next_s - time.monotonic()))} s"
            return literal(f"{feed.error}{times}{again}", "bold $text-error")
    for feed in feeds:
        if feed.problems:
            more = f" (and {len(feed.problems) - 1} more)" if len(feed.problems) > 1 else ""
            return literal(feed.problems[0] + more, "$text-warning")
    return None
