"""The line above the keys: the number of rows, the filter, the age of the contents, and errors."""

from __future__ import annotations

import time
from collections.abc import Sequence

from textual.content import Content

from rmqadmin.core.terminal_text import shortened_at_end
from rmqadmin.core.units import elapsed
from rmqadmin.tui.literal import literal
from rmqadmin.tui.refresh import Feed
from rmqadmin.tui.widgets.tables.cut_line import in_lines
from rmqadmin.tui.widgets.told_line import ToldLine

_GAP = Content("  ·  ")
_PADDING = 2


class StatusLine(ToldLine):
    """Call ``show`` once a second and whenever a feed changed. An error takes a second line if the first has no room,
    and a third if it needs that. Interval and age are always shown."""

    _line_count = 1

    def show(self, rows: str, feeds: Sequence[Feed], interval_s: float | None, *, paused: bool) -> None:
        """``interval_s`` is None if the screen asks once and its contents do not age."""
        asking = []
        if interval_s is not None:
            if paused:
                asking.append(Content.styled("paused", "bold $text-warning"))
            asking += [Content(f"every {interval_s:g} s"), _age(feeds)]
        trouble = _trouble(feeds, asks_again=interval_s is not None and not paused)
        told = [literal(rows)] if rows else []
        room = (self.size.width or self.app.size.width) - _PADDING
        line = _GAP.join([*told, *asking, *([trouble] if trouble else [])])
        lines = [line]
        if line.cell_length > room and not asking:
            begin = rows[:room].rpartition(" ")[0] or rows[:room]
            lines = [literal(begin), _GAP.join([literal(rows[len(begin) :].strip()), *([trouble] if trouble else [])])]
        elif line.cell_length > room:
            rest = _GAP.join(asking)
            left = room - rest.cell_length - _GAP.cell_length
            first = [literal(shortened_at_end(rows, left)), *asking] if rows and left > 0 else asking
            lines = [_GAP.join(first), *(_folded(trouble, room) if trouble else [])]
        self.tell(Content("\n").join(lines), layout=len(lines) != self._line_count)
        self._line_count = len(lines)


def _age(feeds: Sequence[Feed]) -> Content:
    """The age of the least recently updated part."""
    updated = [feed.updated_s for feed in feeds if feed.updated_s is not None]
    if not updated:
        return Content("no answer yet" if any(feed.error for feed in feeds) else "asking …")
    return Content(f"{elapsed((time.monotonic() - min(updated)) * 1000)} old")


def _folded(text: Content, width: int) -> list[Content]:
    """One or two lines. The second may be longer than ``width``."""
    first = in_lines(text, width).split("\n")[0]
    rest = text.plain[len(first.plain) :].lstrip()
    return [first, text[-len(rest) :]] if rest else [first]


def _trouble(feeds: Sequence[Feed], *, asks_again: bool) -> Content | None:
    """The first error, or else the first problem. ``asks_again``: whether feeds that failed ask again by themselves."""
    for feed in feeds:
        if feed.error is not None:
            times = f" ({feed.failure_count} times)" if feed.failure_count > 1 else ""
            again = ""
            if asks_again and feed.next_s is not None:
                again = f", again in {max(0, round(feed.next_s - time.monotonic()))} s"
            return literal(f"{feed.error}{times}{again}", "bold $text-error")
    for feed in feeds:
        if feed.problems:
            more = f" (and {len(feed.problems) - 1} more)" if len(feed.problems) > 1 else ""
            return literal(feed.problems[0] + more, "$text-warning")
    return None
