"""Message bodies to send: from a word, a file or standard input; taken whole, split at line ends, at NULs or by sizes,
or read as JSON Lines.

What is known beforehand (words, files, what a pipe gives at once) can be looked at before the first message is sent.
What comes later is read as it comes, so that each message can be sent at once.
"""

import io
import os
import select
import stat
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from rmqadmin.core.files import without_mark
from rmqadmin.core.messages.files.exported_message import ExportedMessage, as_message, was_stored
from rmqadmin.core.messages.files.formats import decode_line_untrusted
from rmqclient.message import Message
from rmqproto.errors import ProtocolError, UsageError

STANDARD_INPUT = "-"
FILE_MARK = "@"
_CHUNK_BYTES = 1 << 16
_SIZE_BYTES = 4
BODY_SIZE_MAX_BYTES = 1 << 27
"""More than any broker accepts: a larger number is not a valid size."""
AHEAD_MAX_BYTES = 64 << 20
AHEAD_S = 1.0
"""How far a pipe is read before the first message is sent: usually to its end."""
_SIZED_HINT = "Each body stands behind its size, four bytes, as `msg cat -f '%R%s'` writes it."


class Piece(NamedTuple):
    """One body, and its place: the ``number``-th line or message of a source, which ``where`` names."""

    data: bytes
    where: str
    number: int


Cut = Callable[[str, BinaryIO], Iterator[Piece]]
"""Cuts the bytes of a source, which the text names for errors, into bodies."""


def whole(source: str) -> bytes:
    """The one body: ``-`` is standard input, ``@FILE`` a file, and anything else the body itself. UsageError."""
    if source == STANDARD_INPUT:
        return sys.stdin.buffer.read()
    if source.startswith(FILE_MARK):
        return _read(source[len(FILE_MARK) :])
    return source.encode()


def uncut(where: str, stream: BinaryIO) -> Iterator[Piece]:
    yield Piece(stream.read(), where, 1)


def lines(where: str, stream: BinaryIO) -> Iterator[Piece]:
    """The lines without line ends; empty ones and a byte order mark are left out."""
    for number, line in enumerate(stream, 1):
        text = (without_mark(line) if number == 1 else line).rstrip(b"\r\n")
        if text:
            yield Piece(text, where, number)


def between_nuls(where: str, stream: BinaryIO) -> Iterator[Piece]:
    """The parts that end with a NUL byte or at the end. Empty ones are left out."""
    number = count(1)
    begun = b""
    for chunk in iter(partial(stream.read, _CHUNK_BYTES), b""):
        *ended, begun = (begun + chunk).split(b"\0")
        yield from (Piece(part, where, next(number)) for part in ended if part)
    if begun:
        yield Piece(begun, where, next(number))


def behind_sizes(where: str, stream: BinaryIO) -> Iterator[Piece]:
    """Bodies each preceded by its size, in four bytes, big-endian. UsageError for truncated input, and for an
    impossible size."""
    for number in count(1):
        head = stream.read(_SIZE_BYTES)
        if not head:
            break
        size_bytes = int.from_bytes(head, "big")
        if len(head) == _SIZE_BYTES and size_bytes > BODY_SIZE_MAX_BYTES:
            raise UsageError(f"{where}: message {number} would have {size_bytes:,} bytes", hint=_SIZED_HINT)
        body = stream.read(size_bytes) if len(head) == _SIZE_BYTES else b""
        if len(head) < _SIZE_BYTES or len(body) < size_bytes:
            raise UsageError(f"{where}: ends inside message {number}", hint=_SIZED_HINT)
        yield Piece(body, where, number)


def message_of_line(topic: str, line: bytes) -> tuple[Message, ExportedMessage]:
    """The message in one line of JSON, without the marks of its use, and all that the line says. UsageError, also for
    what a new message cannot have: nothing that somebody has written is left out in silence."""
    try:
        found = decode_line_untrusted(line)
        message = as_message(found, topic)
    except ProtocolError as error:
        raise UsageError(f"not a message: {error}", hint=error.hint) from None
    if found.body_compression is not None:
        raise UsageError(f"its body is packed ({found.body_compression})", hint="`msg import` sends it as it is.")
    if not was_stored(found):
        if found.topic not in ("", topic):
            raise UsageError(
                f"it names the topic {found.topic}",
                hint=f"Without its topic it goes to {topic}; `msg import` sends each to its own.",
            )
        if found.born_ms is not None:
            raise UsageError("it has born_ms, and is born when it is sent", hint="`msg import` keeps born_ms.")
    return message, found


class BodySource:
    """The bytes of one source. ``known``: those known beforehand, as a stream that ends after the last of them.
    ``where`` names it in errors."""

    def __init__(self, name: str, number: int):
        """``number``: which of the command's sources it is, from 1. UsageError for a file that cannot be read."""
        is_file = name.startswith(FILE_MARK)
        self.where = name[len(FILE_MARK) :] if is_file else f"argument {number}"
        if name == STANDARD_INPUT:
            self.where = "standard input"
        self._rest: BinaryIO | None = None
        self._file: BinaryIO | None = None
        if name != STANDARD_INPUT:
            self._known = whole(name)
        elif _is_file(sys.stdin.buffer):
            self._file, self._known = sys.stdin.buffer, b""
        else:
            self._known, is_whole = _read_ahead(sys.stdin.buffer)
            self._rest = None if is_whole else sys.stdin.buffer

    @property
    def is_known(self) -> bool:
        """Whether nothing can come after what is known."""
        return self._rest is None

    def known(self) -> BinaryIO:
        """May be read before ``stream``; not after it."""
        if self._file is None:
            return BytesIO(self._known)
        return cast(BinaryIO, io.BufferedReader(_FromHere(self._file)))

    def known_lines(self) -> BinaryIO:
        """``known`` up to its last line end, if more may come."""
        return self.known() if self.is_known else BytesIO(self._known[: self._known.rfind(b"\n") + 1])

    def stream(self) -> BinaryIO:
        """All bytes. May be read once."""
        if self._file is not None:
            return self._file
        if self._rest is None:
            return BytesIO(self._known)
        return cast(BinaryIO, io.BufferedReader(_Joined(self._known, self._rest)))


class _FromHere(io.RawIOBase):
    """A file from where it stands, which it leaves there."""

    def __init__(self, file: BinaryIO):
        self._number, self._at = file.fileno(), file.tell()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        count = os.preadv(self._number, [buffer], self._at)
        self._at += count
        return count


class _Joined(io.RawIOBase):
    """Some bytes, then those of a stream as they come."""

    def __init__(self, first: bytes, rest: BinaryIO):
        self._first, self._rest = BytesIO(first), cast(io.BufferedReader, rest)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        return self._first.readinto(buffer) or self._rest.readinto1(buffer)


def _is_file(stream: BinaryIO) -> bool:
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except OSError:  # a stream without a number
        return False


def _read_ahead(stream: BinaryIO) -> tuple[bytes, bool]:
    """What a stream that is not a file gives at once, and whether that was all. From a terminal, nothing: a person may
    want to see each line go."""
    try:
        number = stream.fileno()
    except OSError:
        return stream.read(), True
    if stream.isatty():
        return b"", False
    parts: list[bytes] = []
    size, until_s = 0, time.monotonic() + AHEAD_S
    while size < AHEAD_MAX_BYTES:
        left_s = until_s - time.monotonic()
        if left_s <= 0 or not select.select([number], [], [], left_s)[0]:
            return b"".join(parts), False
        part = cast(io.BufferedReader, stream).read1(_CHUNK_BYTES)
        if not part:
            return b"".join(parts), True
        parts.append(part)
        size += len(part)
    return b"".join(parts), False


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="@FILE is a file that holds the body.") from None
