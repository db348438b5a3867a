"""The retry history of a message as lines of text, for a tab and for the side pane of a wide terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.messages.message_history import StoredCopy, failure_facts
from rmqadmin.core.terminal_text import printable
from rmqadmin.core.units import elapsed
from rmqproto.times import iso_local

_LABEL_WIDTH = 14
_TITLE = "every time it was stored"


def history_lines(message: FoundMessage, copies: Sequence[StoredCopy] | None) -> list[str]:
    """The failure according to the message, then two lines for each copy: what it is and when it was stored, and where.
    ``copies`` is None if not asked yet."""
    lines = [f"{printable(label):{_LABEL_WIDTH}} {printable(value)}" for label, value in failure_facts(message)]
    lines += ["", f"{_TITLE}: asking …" if copies is None else _TITLE]
    before_ms: int | None = None
    for copy in copies or ():
        later = "" if before_ms is None else f", {elapsed(copy.stored_ms - before_ms)} later"
        lines.append(f"{copy.what:{_LABEL_WIDTH}} {iso_local(copy.stored_ms)}{later}")
        place = f"{copy.topic} {copy.broker_name} queue {copy.queue_id} @ {copy.queue_offset}"
        lines.append(f"{'':{_LABEL_WIDTH}} {printable(place)}")
        before_ms = copy.stored_ms
    return lines
