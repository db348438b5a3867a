"""The file of `rmqadmin tui --record`: servers' answers, and when the pulse was taken, in steps.

A step holds what happened between two readings of the brokers. Steps are compressed one by one, so a truncated file is
good up to its last whole step. An unchanged answer is not written again.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Lock

import msgspec

from rmqproto.errors import UsageError

MAGIC = b"rmqadmin recording 1\n"

# A block, behind the magic: the first is the Head, each later one a step.
#   4 bytes  length of the packed bytes, big-endian
#   4 bytes  CRC-32 of the packed bytes, big-endian
#   n bytes  a zlib stream of MessagePack: the Head, or a list of RecordedAnswer and PartTaken
_BLOCK = struct.Struct(">II")
BLOCK_MAX_BYTES = 64 << 20
UNPACKED_MAX_BYTES = 256 << 20
WRITTEN_MAX_BYTES = 32 << 20
"""What a writer puts into one block, unpacked, so that every reader takes it: even bytes that do not compress, with one
more answer of a frame's full size. A larger step becomes several blocks, each a step to a reader."""

_EVENT_EXTRA_BYTES = 256
"""More than MessagePack adds to the texts and the body of one event."""


class Head(msgspec.Struct, frozen=True):
    """The first block. ``namesrv_text``: the recorded servers. ``began_ms``: the start, since the epoch."""

    namesrv_text: str
    began_ms: int


class RecordedAnswer(msgspec.Struct, frozen=True, tag="answer"):
    """A server's answer to a question. ``question`` is address, code, ext fields and body as ``question_of`` packs
    them. ``code`` is None if the server did not answer or refused; ``remark`` says why, and ``refusal`` is the code of
    a refusal."""

    at_ms: int
    question: bytes
    code: int | None
    remark: str | None = None
    ext: dict[str, str] = {}
    body: bytes = b""
    refusal: int | None = None


class PartTaken(msgspec.Struct, frozen=True, tag="taken"):
    """A part of the pulse was taken: ``brokers``, which ends a step, ``groups`` or ``members``."""

    at_ms: int
    part: str


Event = RecordedAnswer | PartTaken


def question_of(address: str, code: int, ext: dict[str, str], body: bytes) -> bytes:
    return msgspec.msgpack.encode((address, int(code), sorted(ext.items()), body))


def _size_max(event: Event) -> int:
    """A bound of an event's unpacked size."""
    if isinstance(event, PartTaken):
        return _EVENT_EXTRA_BYTES
    texts = sum(4 * (len(name) + len(value)) + 10 for name, value in event.ext.items())
    return _EVENT_EXTRA_BYTES + len(event.question) + len(event.body) + 4 * len(event.remark or "") + texts


def _in_blocks(events: Iterable[Event]) -> Iterator[list[Event]]:
    block: list[Event] = []
    size_bytes = 0
    for event in events:
        size_bytes += _size_max(event)
        block.append(event)
        if size_bytes > WRITTEN_MAX_BYTES:
            yield block
            block, size_bytes = [], 0
    if block:
        yield block


def packed(events: list[Event] | Head) -> bytes:
    """Packs events, or the head, into a block."""
    data = zlib.compress(msgspec.msgpack.encode(events))
    return _BLOCK.pack(len(data), zlib.crc32(data)) + data


class RecordingWriter:
    """Writes a new file. Only its owner may read it, because it holds everything that was shown, including bodies. Any
    thread may use it. UsageError if the file exists or cannot be created."""

    def __init__(self, path: Path, head: Head):
        try:
            self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0)
        except OSError as error:
            raise UsageError(f"--record {path}: {error.strerror}") from None
        self.path = path
        self.error: str | None = None
        """Why nothing is written any more; None if writing works."""
        self._lock = Lock()
        self._events: list[Event] = []
        self._last: dict[bytes, RecordedAnswer] = {}
        self._write(MAGIC + packed(head))

    def answered(self, answer: RecordedAnswer) -> None:
        with self._lock:
            before = self._last.get(answer.question)
            if before is None or msgspec.structs.replace(before, at_ms=answer.at_ms) != answer:
                self._last[answer.question] = answer
                self._events.append(answer)

    def taken(self, at_ms: int, part: str) -> None:
        with self._lock:
            self._events.append(PartTaken(at_ms, part))

    def end_step(self, at_ms: int) -> None:
        """Notes that the brokers were taken. Blocks until the step is written."""
        with self._lock:
            events: list[Event] = [*self._events, PartTaken(at_ms, "brokers")]
            self._events = []
            for block in _in_blocks(events):
                self._write(packed(block))

    def _write(self, data: bytes) -> None:
        if self.error is not None:
            return
        try:
            view = memoryview(data)
            while view:
                view = view[self._file.write(view) :]
        except OSError as error:
            self.error = f"{self.path}: {error.strerror}; nothing is recorded any more"

    def close(self) -> None:
        """Closes the file. Events of an unfinished step are lost."""
        with self._lock:
            self._file.close()


class RecordingReader:
    """Reads a recording, each step when it is asked for. ``torn``: why the rest of the file is left out; None if it is
    whole. UsageError if the file is not a recording, or has no whole step."""

    def __init__(self, path: Path):
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from None
        try:
            if self._file.read(len(MAGIC)) != MAGIC:
                raise UsageError(f"{path} is not a recording", hint="`rmqadmin tui --record FILE` makes one.")
            self._places: list[int] = []
            self.torn: str | None = None
            self.path = path
            first = self._block_untrusted(self._file.tell())
            if first is None:
                raise UsageError(f"{path}: its beginning is damaged")
            try:
                self.head = msgspec.msgpack.decode(first, type=Head)
            except msgspec.DecodeError as error:
                raise UsageError(f"{path}: its beginning is damaged: {error}") from None
            self._find_steps()
            if not self._places:
                raise UsageError(f"{path}: it ended before its first step, and shows nothing")
        except UsageError:
            self._file.close()
            raise

    def _find_steps(self) -> None:
        """Finds the steps whose bytes are all there. Their checksums are verified when they are read."""
        size_bytes = os.fstat(self._file.fileno()).st_size
        at = self._file.tell()
        while at < size_bytes:
            self._file.seek(at)
            head = self._file.read(_BLOCK.size)
            end = at + _BLOCK.size + (_BLOCK.unpack(head)[0] if len(head) == _BLOCK.size else BLOCK_MAX_BYTES)
            if end > size_bytes or end - at > BLOCK_MAX_BYTES:
                self.torn = f"it ends within step {len(self._places) + 1}"
                return
            self._places.append(at)
            at = end

    @property
    def step_count(self) -> int:
        return len(self._places)

    def events(self, step: int) -> list[Event]:
        """The events of one step, counted from 0. UsageError if it is damaged."""
        data = self._block_untrusted(self._places[step])
        try:
            if data is not None:
                return msgspec.msgpack.decode(data, type=list[RecordedAnswer | PartTaken])
        except msgspec.DecodeError:
            pass
        raise UsageError(f"{self.path}: step {step + 1} is damaged")

    def steps(self) -> Iterator[list[Event]]:
        return (self.events(step) for step in range(self.step_count))

    def _block_untrusted(self, at: int) -> bytes | None:
        """The contents of a block; None if it is incomplete or damaged."""
        self._file.seek(at)
        head = self._file.read(_BLOCK.size)
        if len(head) < _BLOCK.size:
            return None
        size_bytes, crc = _BLOCK.unpack(head)
        if size_bytes > BLOCK_MAX_BYTES:
            return None
        data = self._file.read(size_bytes)
        if len(data) < size_bytes or zlib.crc32(data) != crc:
            return None
        unpacker = zlib.decompressobj()
        try:
            found = unpacker.decompress(data, UNPACKED_MAX_BYTES)
        except zlib.error:
            return None
        return found if unpacker.eof else None

    def close(self) -> None:
        self._file.close()
