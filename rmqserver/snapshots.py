"""The files of a closed store: removed, copied to a snapshot, or restored. A snapshot lies in ``snapshots/NAME`` below
the store, on its file system, and is removed with it."""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import trio

from rmqproto.bodies.own_requests import SnapshotName, SnapshotNames
from rmqproto.codes import OwnRequestCode, ResponseCode
from rmqproto.errors import UsageError
from rmqproto.wire.fastjson import dumps, loads_untrusted
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request, refusal, send_answer, success
from rmqserver.remoting.connection import Connection
from rmqserver.remoting.service import Handler

SNAPSHOTS = "snapshots"
SNAPSHOTS_MAX = 100

STORE_PARTS = (
    "commitlog", "consumequeue", "index", "config", "checkpoint", "timerwheel", "timerlog", "abort", "failed_flush",
    "producerSequences", "queueEnds", "queueFiles",
)  # fmt: skip
"""The parts of a store. Anything else in its directory is not ours to remove."""

_PIECE_BYTES = 1 << 20


class StoreFiles:
    """``root`` is the store's directory. Methods take as long as the copying does; OSError of the file system. If a
    method fails, the store is as before, but ``clear`` may leave a part of it."""

    def __init__(self, root: str):
        self._root = Path(root)
        self._snapshots = self._root / SNAPSHOTS

    def clear(self) -> None:
        for part in STORE_PARTS:
            _remove(self._root / part)

    def check_room(self, name: str) -> None:
        """UsageError if there are too many snapshots to add this one."""
        names = self.names()
        if name not in names and len(names) >= SNAPSHOTS_MAX:
            raise UsageError(f"there are {SNAPSHOTS_MAX} snapshots, and no more are taken")

    def names(self) -> list[str]:
        try:
            return sorted(path.name for path in self._snapshots.iterdir() if not path.name.startswith("."))
        except FileNotFoundError:
            return []

    def save(self, name: str) -> None:
        """Replaces an older snapshot of that name."""
        unfinished = self._snapshots / ".unfinished"
        _remove(unfinished)
        unfinished.mkdir(parents=True)
        _copy_parts(self._root, unfinished)
        _remove(self._snapshots / name)
        unfinished.rename(self._snapshots / name)

    def restore(self, name: str) -> None:
        """The snapshot stays, and can be restored again."""
        unfinished = self._snapshots / ".unfinished"
        _remove(unfinished)
        unfinished.mkdir()
        _copy_parts(self._snapshots / name, unfinished)
        replaced = self._snapshots / ".replaced"
        _remove(replaced)
        replaced.mkdir()
        _move_all([*_moves(self._root, replaced), *_moves(unfinished, self._root)])
        unfinished.rmdir()
        _remove(replaced)


def _moves(source: Path, target: Path) -> list[tuple[Path, Path]]:
    return [(source / part, target / part) for part in STORE_PARTS if (source / part).exists()]


def _move_all(moves: list[tuple[Path, Path]]) -> None:
    """Makes all moves, in order; or none, with OSError."""
    done: list[tuple[Path, Path]] = []
    try:
        for source, target in moves:
            source.rename(target)
            done.append((source, target))
    except OSError:
        for source, target in reversed(done):
            target.rename(source)
        raise


def _copy_parts(source: Path, target: Path) -> None:
    for part in STORE_PARTS:
        if (source / part).is_dir():
            shutil.copytree(source / part, target / part, copy_function=_copy_file)
        elif (source / part).exists():
            _copy_file(source / part, target / part)


def _copy_file(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Keeps holes: files of a store are made at full size, and most of it is never written."""
    with open(source, "rb") as old, open(target, "xb") as new:
        size, at = os.fstat(old.fileno()).st_size, 0
        new.truncate(size)
        while at < size:
            try:
                at = os.lseek(old.fileno(), at, os.SEEK_DATA)
            except OSError:  # only a hole is left
                break
            data = os.pread(old.fileno(), _PIECE_BYTES, at)
            os.pwrite(new.fileno(), data, at)
            at += len(data)
    shutil.copystat(source, target)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


log = logging.getLogger(__name__)

STORE_CODES = frozenset(
    int(code)
    for code in (OwnRequestCode.RESET, OwnRequestCode.SNAPSHOT, OwnRequestCode.RESTORE, OwnRequestCode.GET_SNAPSHOTS)
)

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Reopen(Protocol):
    def __call__(self, asker: Connection, change: Callable[[], None], *, sow: bool) -> Awaitable[None]:
        """Closes the broker, makes ``change`` to its files in a thread, and opens it again even if ``change`` failed.
        OSError of ``change``. Only the connection of ``asker`` stays open. With ``sow``, the content of ``--seed`` is
        put again."""


class _Job(NamedTuple):
    what: str
    change: Callable[[], None]
    sow: bool
    request: Request[Any]
    connection: Connection


class StoreAdmin:
    """Our own requests for tests that reset a whole broker: to empty, or to a snapshot. ``run`` is a task; it carries
    out one request at a time."""

    def __init__(self, root: str, reopen: Reopen):
        """``root`` is the store's directory."""
        self._files = StoreFiles(root)
        self._reopen = reopen
        self._job: _Job | None = None
        self._has_job = trio.Event()

    def handlers(self) -> dict[int, Handler]:
        return {
            OwnRequestCode.RESET: self.reset,
            OwnRequestCode.SNAPSHOT: self.snapshot,
            OwnRequestCode.RESTORE: self.restore,
            OwnRequestCode.GET_SNAPSHOTS: self.names,
        }

    def reset(self, request: Request[Any], connection: Connection) -> None:
        self._take("reset", self._files.clear, request, connection, sow=True)

    def snapshot(self, request: Request[Any], connection: Connection) -> None:
        name = _name_untrusted(request)
        try:
            self._files.check_room(name)
        except UsageError as error:
            raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from None
        self._take(f"snapshot of {name}", lambda: self._files.save(name), request, connection)

    def restore(self, request: Request[Any], connection: Connection) -> None:
        name = _name_untrusted(request)
        if name not in self._files.names():
            raise Refused(ResponseCode.QUERY_NOT_FOUND, f"there is no snapshot {name}")
        self._take(f"restoring {name}", lambda: self._files.restore(name), request, connection)

    def names(self, request: Request[Any], connection: Connection) -> bytes:
        return success(request, body=dumps(SnapshotNames(names=self._files.names())))

    def _take(
        self, what: str, change: Callable[[], None], request: Request[Any], connection: Connection, *, sow: bool = False
    ) -> None:
        if self._job is not None:
            raise Refused(ResponseCode.SYSTEM_BUSY, f"{self._job.what} is under way")
        self._job = _Job(what, change, sow, request, connection)
        self._has_job.set()

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            await self._has_job.wait()
            self._has_job = trio.Event()
            assert self._job is not None
            job = self._job
            try:
                await self._reopen(job.connection, job.change, sow=job.sow)
                answer = success(job.request)
                log.info("event=store-changed what=%r", job.what)
            except OSError as error:
                answer = refusal(job.request, ResponseCode.SYSTEM_ERROR, f"{job.what} failed: {error}")
            self._job = None
            send_answer(job.request, job.connection, answer)


def _name_untrusted(request: Request[Any]) -> str:
    name = loads_untrusted(request.body, SnapshotName).name
    if not _NAME.fullmatch(name):
        raise Refused(ResponseCode.INVALID_PARAMETER, f"{name[:100]!r} is no name: letters, digits, - and _, up to 64")
    return name
