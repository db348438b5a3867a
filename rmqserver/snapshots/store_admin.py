"""Our own requests that reset a whole broker: to empty, or to a snapshot. They are for tests."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
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
from rmqserver.snapshots.store_files import StoreFiles

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
    """``run`` is a task; it carries out one request at a time."""

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
