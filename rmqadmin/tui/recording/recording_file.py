"""The file of `rmqadmin tui --record`: servers' answers, and when the pulse was taken, in steps.

A step holds what happened between two readings of the brokers. Steps are compressed one by one, so a truncated file is
good up to its last whole step. An unchanged answer is not written again.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from threading import Lock
from typing import TypeVar

import msgspec

from rmqproto.errors import UsageError

T = TypeVar("T")

MAGIC = b"rmqadmin recording 2\n"

# A block, behind the magic: the first is the Head, each later one a step.
#   4 bytes  length of the zlib stream, big-endian
#   n bytes  a zlib stream, which has a checksum, of MessagePack: the Head, or a list of RecordedAnswer and PartTaken
_LENGTH_BYTES = 4
WRITTEN_MAX_BYTES = 32 << 20
"""What a writer puts into one block, before the answer that goes beyond. A larger step becomes several."""
UNPACKED_MAX_BYTES = 256 << 20
"""What a reader takes for one block. Far more than a writer's, which counts bodies and a guess of the rest."""
_EVENT_EXTRA_BYTES = 1000


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
    """A part of the pulse was taken, by its name in the sampler. ``brokers`` ends a step."""

    at_ms: int
    part: str


Event = RecordedAnswer | PartTaken


def question_of(address: str, code: int, ext: dict[str, str], body: bytes) -> bytes:
    return msgspec.msgpack.encode((address, int(code), sorted(ext.items()), body))


def packed(events: list[Event] | Head) -> bytes:
    """Packs events, or the head, into a block."""
    data = zlib.compress(msgspec.msgpack.encode(events))
    return len(data).to_bytes(_LENGTH_BYTES, "big") + data


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
        self._size_bytes = 0
        self._last: dict[bytes, RecordedAnswer] = {}
        self._write(MAGIC + packed(head))

    def answered(self, answer: RecordedAnswer) -> None:
        with self._lock:
            before = self._last.get(answer.question)
            if before is None or msgspec.structs.replace(before, at_ms=answer.at_ms) != answer:
                self._last[answer.question] = answer
                self._add(answer, len(answer.question) + len(answer.body))

    def taken(self, at_ms: int, part: str) -> None:
        with self._lock:
            self._add(PartTaken(at_ms, part))

    def _add(self, event: Event, size_bytes: int = 0) -> None:
        self._events.append(event)
        self._size_bytes += size_bytes + _EVENT_EXTRA_BYTES
        if self._size_bytes > WRITTEN_MAX_BYTES:
            self._write_events()

    def end_step(self, at_ms: int) -> None:
        """Notes that the brokers were taken. Blocks until the step is written."""
        with self._lock:
            self._events.append(PartTaken(at_ms, "brokers"))
            self._write_events()

    def _write_events(self) -> None:
        events, self._events, self._size_bytes = self._events, [], 0
        self._write(packed(events))

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
        self.path = path
        self.torn: str | None = None
        try:
            if self._file.read(len(MAGIC)) != MAGIC:
                raise UsageError(f"{path} is not a recording", hint="`rmqadmin tui --record FILE` makes one.")
            self._places = self._find_blocks()
            if len(self._places) < 2:
                raise UsageError(f"{path}: it ended before its first step, and shows nothing")
            self.head = self._block_untrusted(0, Head, "its beginning")
        except UsageError:
            self._file.close()
            raise

    def _find_blocks(self) -> list[int]:
        """Finds the blocks whose bytes are all there. Their checksums are verified when they are read."""
        places: list[int] = []
        size_bytes, at = os.fstat(self._file.fileno()).st_size, len(MAGIC)
        while at < size_bytes:
            self._file.seek(at)
            end = at + _LENGTH_BYTES + int.from_bytes(self._file.read(_LENGTH_BYTES), "big")
            if end > size_bytes:
                self.torn = f"it ends within step {len(places)}"
                break
            places.append(at)
            at = end
        return places

    @property
    def step_count(self) -> int:
        return len(self._places) - 1

    def events(self, step: int) -> list[Event]:
        """The events of one step, counted from 0. UsageError if it is damaged."""
        return self._block_untrusted(step + 1, list[RecordedAnswer | PartTaken], f"step {step + 1}")

    def _block_untrusted(self, at: int, kind: type[T], what: str) -> T:
        """The contents of a block. UsageError if it is damaged."""
        self._file.seek(self._places[at])
        unpacker = zlib.decompressobj()
        try:
            data = self._file.read(int.from_bytes(self._file.read(_LENGTH_BYTES), "big"))
            unpacked = unpacker.decompress(data, UNPACKED_MAX_BYTES)
            if unpacker.eof:
                return msgspec.msgpack.decode(unpacked, type=kind)
        except (zlib.error, msgspec.DecodeError):
            pass
        raise UsageError(f"{self.path}: {what} is damaged")

    def close(self) -> None:
        self._file.close()
