"""Makes every call to the file system fail, once and for good: the same scripted day runs with an error at call 1, at
call 2, and so on to the last. Whichever call fails, the store reports it with a StorageError or a refusal, goes on
serving reads, and keeps what it has acknowledged, after a kill and after a power cut."""

import contextlib
import errno
import itertools
import os
from pathlib import Path
from random import Random

import pytest

from rmqproto.errors import StorageError
from rmqproto.message.record import decode_record_untrusted
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.message_store import DEFAULT_PARTS, MessageStore, StoreParts
from rmqserver.store.options import FlushMode
from rmqserver.store.results import GetStatus, MessageRefused

from .invariants import Violation, check, promise
from .recording_disk import Loss, RecordingDisk
from .workload import HOST, OPTIONS, QUEUES, Workload

SEED = 18
"""Seed of a day in which every kind of file is made and rolled, and the store is closed and opened again."""

STEPS = 10


class Fault:
    """Makes the ``at``-th call fail, and if ``lasts``, all later ones."""

    def __init__(self, code: int, at: int, *, lasts: bool):
        self.count = 0
        self._code = code
        self._at = at
        self._lasts = lasts

    @property
    def has_struck(self) -> bool:
        return self.count >= self._at

    def __call__(self, operation: str, path: str) -> None:
        self.count += 1
        if self.count == self._at or (self._lasts and self.count > self._at):
            raise OSError(self._code, os.strerror(self._code), path)


class Day(Workload):
    """A workload that goes on after errors and refusals."""

    def attempt(self, what: str) -> None:
        """Calls a method. Only these two errors may come out of the store."""
        with contextlib.suppress(StorageError, MessageRefused):
            getattr(self, what)()

    def _send_round(self, count: int) -> None:
        try:
            super()._send_round(count)
        except MessageRefused:
            self.store.commit()
            self._note()

    def _restart(self) -> None:
        self.stop()
        self.start()

    def read_everything(self) -> None:
        """Reads and checks every visible message."""
        for topic, queue_id in QUEUES:
            offset = 0
            while offset < self.store.max_offset(topic, queue_id):
                result = self.store.get(topic, queue_id, offset, 32)
                if result.status is not GetStatus.FOUND:
                    raise Violation(f"{topic}-{queue_id} at {offset}: {result.status}")
                for record in result.records():
                    message = decode_record_untrusted(record)
                    sent = next(s for s in self.ledger.sent if s.log_offset == message.log_offset)
                    if (message.body, message.properties_raw) != (sent.body, sent.properties):
                        raise Violation(f"{topic}-{queue_id} at {offset} is not what was sent")
                offset = result.next_offset
        self.store.query("A", "all", 32, 0, 1 << 60)


def run_day(mode: FlushMode, fault: Fault, parts: StoreParts = DEFAULT_PARTS) -> tuple[Day, RecordingDisk]:
    disk = RecordingDisk()
    day = Day(mode, SEED, disk, parts)
    disk.on_call = fault
    day.attempt("start")
    for _ in range(STEPS):
        if not day.is_open:
            day.attempt("start")
            continue
        day.attempt("step")
        if day.is_open and fault.has_struck:
            day.attempt("read_everything")
    disk.on_call = None
    if day.is_open:
        if fault.has_struck and day.store.flags.has_write_failed:
            with pytest.raises(MessageRefused):
                day.store.append("A", 0, 0, 0, 1, bytes(8), bytes(8), 0, b"", b"")
        day.read_everything()
    return day, disk


def check_day(mode: FlushMode, fault: Fault, seed: int, parts: StoreParts = DEFAULT_PARTS) -> None:
    day, disk = run_day(mode, fault, parts)
    for loss in (Loss.NOTHING, Loss.EVERYTHING if seed % 2 else Loss.SOME):
        rng = Random(seed)
        check(disk.image(loss, rng), promise(day.ledger, disk, mode, loss), mode, rng)
    if day.is_open:
        day.store.abandon()


FAULTS = [(code, lasts) for code in (errno.ENOSPC, errno.EIO, errno.EINTR) for lasts in (False, True)]


def check_every_call(mode: FlushMode, faults: list[tuple[int, bool]], parts: StoreParts = DEFAULT_PARTS) -> None:
    """Call 1 fails with the first of ``faults``, call 2 with the second, and so on, in a cycle."""
    for at, (code, lasts) in enumerate(itertools.cycle(faults), 1):
        fault = Fault(code, at, lasts=lasts)
        try:
            check_day(mode, fault, at, parts)
        except Exception as error:
            error.add_note(f"call {at}, {errno.errorcode[code]}, lasts={lasts}")
            raise
        if not fault.has_struck:
            return


@pytest.mark.slow
@pytest.mark.parametrize("mode", FlushMode, ids=lambda mode: mode.name)
def test_an_error_at_any_call_loses_nothing(mode: FlushMode) -> None:
    check_every_call(mode, FAULTS)


@pytest.mark.crash
@pytest.mark.parametrize(("code", "lasts"), FAULTS)
@pytest.mark.parametrize("mode", FlushMode, ids=lambda mode: mode.name)
def test_each_error_at_any_call_loses_nothing(mode: FlushMode, code: int, lasts: bool) -> None:
    check_every_call(mode, [(code, lasts)])


@pytest.mark.parametrize("step", [2, 7])
def test_a_short_write_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """The system call may always write less than it was asked to."""
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, bytes(data[: -(-len(data) // step)]), at))
    store = MessageStore(tmp_path / "store", OPTIONS, OsDisk(), background=False)
    store.open()
    for number in range(30):
        store.append("A", 0, 0, 0, 1, HOST, HOST, 0, b"body %d" % number, b"KEYS\x01k\x02")
        store.commit()
    assert store.close()
    again = MessageStore(tmp_path / "store", OPTIONS, OsDisk(), background=False)
    again.open()
    found: list[bytes] = []
    while len(found) < again.max_offset("A", 0):
        found += again.get("A", 0, len(found), 32).records()
    assert [decode_record_untrusted(record).body for record in found] == [b"body %d" % number for number in range(30)]
    assert again.close()
