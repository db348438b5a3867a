"""Messages to send, from where people have them: a word, a file, standard input; whole, line by line, or as JSON Lines.

They are made one after the other, so that lines are sent as they come.
"""

from __future__ import annotations

import base64
import binascii
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rmqclient.message import Message
from rmqproto import properties as props
from rmqproto.errors import UsageError

STANDARD_INPUT = "-"
_FILE_MARK = "@"


class MessageLine(msgspec.Struct, frozen=True):
    """One line of JSON Lines, with the names that ``printMsg -o jsonl`` gives them. What else a line has is passed
    over."""

    body: str | None = None
    body_base64: str | None = None
    tags: str | None = None
    keys: str | list[str] | None = None
    properties: dict[str, str] = {}


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


def message_of_line(topic: str, line: bytes, dropped: frozenset[str]) -> Message:
    """A message from one line of JSON. ``dropped`` are properties that only the broker sets. UsageError."""
    try:
        found = msgspec.json.decode(line, type=MessageLine)
        body = base64.b64decode(found.body_base64 or "", validate=True) if found.body is None else found.body.encode()
    except (msgspec.MsgspecError, binascii.Error) as error:
        hint = 'A line is an object, for example {"body": "text", "tags": "paid", "keys": ["ORDER-1"]}.'
        raise UsageError(f"not a message: {error}", hint=hint) from None
    own = {props.TAGS, props.KEYS}
    return Message(
        topic,
        body,
        tags=found.tags or None,
        keys=found.keys or (),
        properties={name: value for name, value in found.properties.items() if name not in dropped | own},
    )


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="@FILE is a file that holds the body.") from None
