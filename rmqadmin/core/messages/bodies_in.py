"""Messages to send, from where people have them: a word, a file, standard input; whole, line by line, or as JSON Lines.

They are made one after the other, so that lines are sent as they come.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rmqadmin.core.messages.files.exported_message import as_message
from rmqadmin.core.messages.files.json_lines import LINE_HINT, decode_line_untrusted
from rmqclient.message import Message
from rmqproto.errors import ProtocolError, UsageError

STANDARD_INPUT = "-"
_FILE_MARK = "@"


def whole(source: str) -> bytes:
    """``-`` is standard input, ``@FILE`` a file, and anything else is the body itself. UsageError."""
    if source == STANDARD_INPUT:
        return sys.stdin.buffer.read()
    if source.startswith(_FILE_MARK):
        return _read(source[len(_FILE_MARK) :])
    return source.encode()


def lines(sources: Sequence[str]) -> Iterator[bytes]:
    """The lines of ``-`` and ``@FILE`` without their ends, and words as they are. Empty ones are left out."""
    for source in sources:
        if source == STANDARD_INPUT:
            found: Any = sys.stdin.buffer
        else:
            found = whole(source).splitlines()
        yield from (line for each in found if (line := each.rstrip(b"\r\n")))


def message_of_line(topic: str, line: bytes) -> Message:
    """A message from one line of JSON, without the marks of its use. UsageError."""
    try:
        return as_message(decode_line_untrusted(line), topic)
    except ProtocolError as error:
        raise UsageError(f"not a message: {error}", hint=LINE_HINT) from None


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="@FILE is a file that holds the body.") from None
