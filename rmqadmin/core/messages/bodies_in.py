"""Message bodies to send: from a word, a file or standard input; taken whole, split at line ends, at NULs or by sizes,
or read as JSON Lines.

They are made one by one, so that each can be sent as soon as it is read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import BinaryIO

from rmqadmin.core.messages.files.exported_message import as_message
from rmqadmin.core.messages.files.json_lines import LINE_HINT, decode_line_untrusted
from rmqclient.message import Message
from rmqproto.errors import ProtocolError, UsageError

STANDARD_INPUT = "-"
_FILE_MARK = "@"
_CHUNK_BYTES = 1 << 16
_SIZE_BYTES = 4
BODY_SIZE_MAX_BYTES = 1 << 27
"""More than any broker accepts: a larger number is not a valid size."""
_SIZED_HINT = "Each body stands behind its size, four bytes, as `msg cat -f '%R%s'` writes it."


def whole(source: str) -> bytes:
    """The one body: ``-`` is standard input, ``@FILE`` a file, and anything else the body itself. UsageError."""
    if source == STANDARD_INPUT:
        return sys.stdin.buffer.read()
    if source.startswith(_FILE_MARK):
        return _read(source[len(_FILE_MARK) :])
    return source.encode()


def lines(sources: Sequence[str]) -> Iterator[bytes]:
    """The lines of ``-`` and ``@FILE`` without line ends, and words as they are. Empty ones are left out."""
    for source in sources:
        yield from (line for each in _stream(source) if (line := each.rstrip(b"\r\n")))


def between_nuls(sources: Sequence[str]) -> Iterator[bytes]:
    """The parts of ``-`` and ``@FILE`` that end with a NUL byte or at the end. Empty ones are left out."""
    for source in sources:
        begun = b""
        for chunk in iter(partial(_stream(source).read, _CHUNK_BYTES), b""):
            *ended, begun = (begun + chunk).split(b"\0")
            yield from filter(None, ended)
        if begun:
            yield begun


def behind_sizes(sources: Sequence[str]) -> Iterator[bytes]:
    """Bodies each preceded by its size, in four bytes, big-endian. UsageError for truncated input, and for an
    impossible size."""
    for source in sources:
        stream = _stream(source)
        for number in count(1):
            head = stream.read(_SIZE_BYTES)
            if not head:
                break
            size_bytes = int.from_bytes(head, "big")
            if len(head) == _SIZE_BYTES and size_bytes > BODY_SIZE_MAX_BYTES:
                raise UsageError(f"{source}: message {number} would have {size_bytes:,} bytes", hint=_SIZED_HINT)
            body = stream.read(size_bytes) if len(head) == _SIZE_BYTES else b""
            if len(head) < _SIZE_BYTES or len(body) < size_bytes:
                raise UsageError(f"{source}: ends inside message {number}", hint=_SIZED_HINT)
            yield body


def _stream(source: str) -> BinaryIO:
    return sys.stdin.buffer if source == STANDARD_INPUT else BytesIO(whole(source))


def message_of_line(topic: str, line: bytes) -> Message:
    """The message in one line of JSON, without the marks of its use. UsageError."""
    try:
        return as_message(decode_line_untrusted(line), topic)
    except ProtocolError as error:
        raise UsageError(f"not a message: {error}", hint=LINE_HINT) from None


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="@FILE is a file that holds the body.") from None
