"""The ledger of one job on the driver's disk: fences and finished waves, with one line and one fsync for each.

States: planned -> begun -> (fence w -> done w)* -> ended. A fence without its "done" means that messages of that wave
may or may not be at the target. The next run looks before it sends.
"""

from __future__ import annotations

import os
import zlib
from types import TracebackType
from typing import Any

import msgspec

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import StorageError
from rmqreplay.ledger.letters import BrokerSeen, LetterBook
from rmqreplay.source.offset_ranges import OffsetSet
from rmqserver.store.disk.disk import OsDisk, storage_error

LEDGER_FILE = "ledger.jsonl"
FAILURES_FILE = "failures.jsonl"
LOCK_FILE = "lock"
_CRC_MARK = b',"crc":'
BEGUN = " begun"
"""In the lock file, after the driver's pid: the ledger has its first line."""


class Fence(msgspec.Struct, frozen=True, order=True):
    """The end of a target queue before the wave. The wave's messages are at or above ``queue_offset``."""

    topic: str
    broker_name: str
    queue_id: int
    queue_offset: int

    @property
    def queue(self) -> MessageQueue:
        return MessageQueue(self.topic, self.broker_name, self.queue_id)


class Begin(msgspec.Struct, frozen=True, tag_field="t", tag="begin"):
    """The job starts to send. ``excluded`` are the offsets that other jobs had delivered by then; they are fixed
    here. ``fences``: the ends of the target queues; ``brokers``: those whose messages are sent, by name. Ledgers of
    earlier versions lack them."""

    plan: str
    at_ms: int
    excluded: dict[str, list[tuple[int, int]]] = {}
    fences: list[Fence] = []
    brokers: dict[str, BrokerSeen] = {}


class FenceLine(msgspec.Struct, frozen=True, tag_field="t", tag="fence"):
    """Wave ``wave`` may be sent from now on."""

    wave: int
    fences: list[Fence]


class DoneLine(msgspec.Struct, frozen=True, tag_field="t", tag="done"):
    """Every selected message of the wave is delivered, left out for a reason that the plan states, or rejected.
    ``marks``: those of the delivered messages, by queue, in the order of their offsets; none in ledgers of earlier
    versions."""

    wave: int
    delivered: dict[str, list[tuple[int, int]]]
    counts: dict[str, int] = {}
    marks: dict[str, bytes] = {}


class NoteLine(msgspec.Struct, frozen=True, tag_field="t", tag="note"):
    """A note for people, such as an audit's result or a changed rate."""

    text: str
    facts: dict[str, Any] = {}


class EndLine(msgspec.Struct, frozen=True, tag_field="t", tag="end"):
    """All waves are done."""

    at_ms: int


Line = Begin | FenceLine | DoneLine | NoteLine | EndLine
_decoder: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


def encode_line(line: Line) -> bytes:
    """The line as JSON. Its last member is the CRC-32 of everything before it."""
    body = msgspec.json.encode(line)[:-1]
    return body + _CRC_MARK + str(zlib.crc32(body)).encode() + b"}\n"


def decode_line(raw: bytes) -> Line | None:
    """The decoded line; None if it is torn, damaged or not ours."""
    body, mark, crc = raw.rpartition(_CRC_MARK)
    if not mark or not raw.endswith(b"}\n") or crc != str(zlib.crc32(body)).encode() + b"}\n":
        return None
    try:
        return _decoder.decode(body + b"}")
    except msgspec.MsgspecError:
        return None


class LedgerState:
    """The content of the lines, with their order enforced. It does no I/O."""

    def __init__(self) -> None:
        self.begin: Begin | None = None
        self.fences: dict[int, list[Fence]] = {}
        self.done: dict[int, DoneLine] = {}
        self.end: EndLine | None = None
        self.notes: dict[str, dict[str, Any]] = {}
        """The last note of every text."""

    @property
    def open_wave(self) -> int | None:
        """The wave that is fenced and not done. Its messages may or may not be at the target."""
        return next((wave for wave in self.fences if wave not in self.done), None)

    def next_wave(self, wave_count: int) -> int | None:
        """The wave to work on now; None if all are done."""
        return next((wave for wave in range(wave_count) if wave not in self.done), None)

    def delivered(self) -> OffsetSet:
        found = OffsetSet()
        for line in self.done.values():
            found.update(OffsetSet.from_json(line.delivered))
        return found

    def letters(self) -> LetterBook:
        """The marks of all delivered messages."""
        return LetterBook((line.delivered, line.marks) for line in self.done.values())

    def excluded(self) -> OffsetSet:
        return OffsetSet.from_json(self.begin.excluded) if self.begin else OffsetSet()

    def first_fences(self) -> list[Fence]:
        """The lowest fence of every target queue. No message of this job is below it."""
        lowest: dict[MessageQueue, Fence] = {}
        for fences in self.fences.values():
            for fence in fences:
                lowest[fence.queue] = min(fence, lowest.get(fence.queue, fence))
        return sorted(lowest.values())

    def last_fences(self) -> list[Fence]:
        """The newest fences. What the ledger does not know to be delivered is at or above them."""
        if self.fences:
            return self.fences[max(self.fences)]
        return self.begin.fences if self.begin else []

    def problem(self, line: Line) -> str | None:
        """The reason why ``line`` cannot come next; None if it can."""
        if isinstance(line, NoteLine):
            return None
        if isinstance(line, Begin):
            return "begun twice" if self.begin else None
        if self.begin is None:
            return "before the job has begun"
        if self.end is not None:
            return "after the job has ended"
        if isinstance(line, FenceLine) and self.open_wave is not None:
            return f"wave {line.wave} is fenced while wave {self.open_wave} is open"
        if isinstance(line, FenceLine) and line.wave in self.done:
            return f"wave {line.wave} is fenced after it was done"
        if isinstance(line, DoneLine) and line.wave != self.open_wave:
            return f"wave {line.wave} is done and was not open"
        if isinstance(line, EndLine) and self.open_wave is not None:
            return f"ended while wave {self.open_wave} is open"
        return None

    def apply(self, line: Line) -> None:
        if isinstance(line, Begin):
            self.begin = line
        elif isinstance(line, FenceLine):
            self.fences[line.wave] = line.fences
        elif isinstance(line, DoneLine):
            self.done[line.wave] = line
        elif isinstance(line, EndLine):
            self.end = line
        elif isinstance(line, NoteLine):
            self.notes[line.text] = line.facts


def read_ledger(directory: str) -> LedgerState:
    """A job's state, read without a lock and without changes (for other jobs, or for ``--dry-run``)."""
    return _parse(os.path.join(directory, LEDGER_FILE))[0]


def _parse(path: str) -> tuple[LedgerState, int]:
    """The state, and the length in bytes of the valid lines. A bad last line was torn by a crash and does not count. A
    bad line before others is damage: StorageError."""
    state, good_bytes = LedgerState(), 0
    try:
        with open(path, "rb") as file:
            lines = file.readlines()
    except FileNotFoundError:
        return state, 0
    except OSError as error:
        raise storage_error(error, "read", path) from None
    for number, raw in enumerate(lines, 1):
        line = decode_line(raw)
        if line is None:
            if number == len(lines):
                break
            raise StorageError(f"{path}: line {number} is damaged", hint="restore the ledger from a backup")
        problem = state.problem(line)
        if problem:
            raise StorageError(f"{path}: line {number}: {problem}")
        state.apply(line)
        good_bytes += len(raw)
    return state, good_bytes


class Ledger:
    """The open ledger of one job; holds the job's lock. Use as a context manager, or ``close``.

    StorageError if another driver holds the job, the file is damaged, or the directory cannot be written."""

    def __init__(self, directory: str):
        self.directory = directory
        try:
            self._open(directory)
        except OSError as error:
            raise storage_error(error, "write", directory) from None

    def _open(self, directory: str) -> None:
        disk = OsDisk()
        disk.mkdir(directory)
        self._lock, has_begun = _take_lock(os.path.join(directory, LOCK_FILE))
        try:
            self._path = os.path.join(directory, LEDGER_FILE)
            self.state, good_bytes = _parse(self._path)
            if has_begun and self.state.begin is None:
                raise StorageError(
                    f"{self._path} is gone or empty: what the job has sent is not known",
                    hint="restore it from a backup, or plan anew under another --job name",
                )
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            os.ftruncate(self._fd, good_bytes)
            os.lseek(self._fd, good_bytes, os.SEEK_SET)
            os.fsync(self._fd)
            disk.sync_directory(directory)
        except BaseException:
            os.close(self._lock)
            raise

    def append(self, line: Line) -> None:
        """Adds a line, which is durable at return. StorageError if it could not be written: the job must then stop, and
        send nothing that relies on it."""
        problem = self.state.problem(line)
        assert problem is None, problem
        data = encode_line(line)
        try:
            written = os.write(self._fd, data)
            if written != len(data):
                raise OSError(28, "short write", self._path)
            os.fsync(self._fd)
            if isinstance(line, Begin):
                _name_driver(self._lock, has_begun=True)
                os.fsync(self._lock)
        except OSError as error:
            raise storage_error(error, "write", self._path) from None
        self.state.apply(line)

    def reject(self, failures: list[dict[str, Any]]) -> int:
        """Adds rejected messages to the failures file, and returns how many these are: one without a queue is listed
        once, because every wave that scans its place finds it. The file is written before the wave's done line, so that
        none is lost. A wave that runs again may list one with a queue twice."""
        if any(not each["queue"] for each in failures):
            listed = self._remarks_without_queue()
            failures = [each for each in failures if each["queue"] or each["remark"] not in listed]
        if not failures:
            return 0
        try:
            with open(self.failures_path, "ab") as file:
                file.writelines(msgspec.json.encode(failure) + b"\n" for failure in failures)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise storage_error(error, "write", self.failures_path) from None
        return len(failures)

    def _remarks_without_queue(self) -> set[str]:
        try:
            with open(self.failures_path, "rb") as file:
                listed = [msgspec.json.decode(line) for line in file if line.endswith(b"\n")]
        except FileNotFoundError:
            return set()
        return {each["remark"] for each in listed if not each["queue"]}

    @property
    def failures_path(self) -> str:
        return os.path.join(self.directory, FAILURES_FILE)

    def close(self) -> None:
        os.close(self._fd)
        os.close(self._lock)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _take_lock(path: str) -> tuple[int, bool]:
    """The lock, and whether the ledger had its first line before."""
    import fcntl

    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        has_begun = _driver_of(fd)[1]
        _name_driver(fd, has_begun=has_begun)
    except BaseException as error:
        holder = _driver_of(fd)[0] or "unknown"
        os.close(fd)
        if not isinstance(error, BlockingIOError):
            raise
        raise StorageError(
            f"{os.path.dirname(path)}: the job is being run by process {holder}", hint="wait for it, or end it"
        ) from None
    return fd, has_begun


def _driver_of(lock: int) -> tuple[str, bool]:
    pid, begun, _ = os.pread(lock, 32, 0).decode("ascii", "replace").partition(BEGUN)
    return pid.strip(), bool(begun)


def _name_driver(lock: int, *, has_begun: bool) -> None:
    data = f"{os.getpid()}{BEGUN if has_begun else ''}".encode()
    os.pwrite(lock, data, 0)
    os.ftruncate(lock, len(data))
