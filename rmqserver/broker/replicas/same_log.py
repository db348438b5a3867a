"""Checks that a slave's log is the beginning of its master's. The protocol of ``DefaultHAService`` does not: an Apache
master that has lost the end of its log goes on in the middle of a record once it has written as much again."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rmqproto.bodies.replication import HaStatus
from rmqproto.bodies.routes import KvTable
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import ProtocolError, RefusedError
from rmqproto.headers.base import Header, NoFields
from rmqproto.headers.consuming import ViewMessageHeader
from rmqproto.wire.command import Command
from rmqproto.wire.fastjson import loads_untrusted
from rmqserver.remoting.connection import Connection
from rmqserver.remoting.loop import Loop
from rmqserver.remoting.outward import Outward, ask, connect, signed
from rmqserver.remoting.pump import PLAIN
from rmqserver.remoting.service import Service

if TYPE_CHECKING:
    from rmqserver.store.message_store import MessageStore

log = logging.getLogger(__name__)

WHAT_TO_DO = "take this store away, or make this broker the master"


class OtherLog(ProtocolError):
    """The slave's log is not the beginning of the master's, and never will be."""


async def check_same_log(link: MasterLink, store: MessageStore) -> int:
    """Returns where the master's log ends; 0 if it does not say. Raises OtherLog if this log is longer, or the master
    has another record in place of its last one; ProtocolError if what comes next has expired at the master; OSError if
    the master is gone. Nothing may be copied meanwhile."""
    end, last = store.written_offset, store.last_record_offset
    try:
        status = loads_untrusted((await link.ask(RequestCode.GET_BROKER_HA_STATUS)).body, HaStatus)
        if end > status.master_commit_log_max_offset:
            there = status.master_commit_log_max_offset
            raise OtherLog(f"this log ends at {end}, and its master's at {there}: {WHAT_TO_DO}")
        if (record := store.get_record(last)) is None or record == await _record_of(link, last):
            return status.master_commit_log_max_offset
        begin = await _begin_of(link)
        if begin <= last:
            raise OtherLog(f"the master has not the record that this log has at {last}: {WHAT_TO_DO}")
        if begin > end:
            raise ProtocolError(f"this log ends at {end}, and its master's begins at {begin} by now: empty this store")
        log.info("event=log-not-compared reason='its last file has expired at the master, and is whole'")
        return status.master_commit_log_max_offset
    except RefusedError as error:  # releases before 5.0 do not know the first request
        log.warning("event=log-not-compared reason=%r", str(error))
        return 0


async def _begin_of(link: MasterLink) -> int:
    """Log offset at which the master's log begins; 0 if it does not say."""
    try:
        answer = await link.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
    except RefusedError:
        return 0
    begin = loads_untrusted(answer.body, KvTable).table.get("commitLogMinOffset", "")
    return int(begin) if begin.isdecimal() else 0


async def _record_of(link: MasterLink, log_offset: int) -> bytes | None:
    """Returns None if the master finds no record there. Raises RefusedError."""
    try:
        return (await link.ask(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageHeader(offset=log_offset))).body
    except RefusedError as error:
        if error.code != ResponseCode.SYSTEM_ERROR or "can not find message" not in error.remark:
            raise
        return None


ASK_TIMEOUT_S = 30.0


class MasterLink(Service):
    """Call ``open`` first, and ``close`` in any case."""

    def __init__(self, loop: Loop, nameservers: Outward | None):
        """Requests to the master use TLS and signatures if those to the nameservers do."""
        super().__init__("master", {})
        self._loop = loop
        self._pump = nameservers.make_pump() if nameservers is not None else PLAIN
        self._credentials = nameservers.credentials if nameservers is not None else None
        self._connection: Connection | None = None

    async def open(self, addr: str) -> None:
        """Raises OSError if the master cannot be reached."""
        self._connection = await connect(self._loop, self, addr, self._pump)

    def close(self) -> None:
        if self._connection is not None and not self._connection.closed:
            self._connection.close("asked all")

    async def ask(self, code: int, header: Header | None = None, timeout_s: float = ASK_TIMEOUT_S) -> Command:
        """Returns the answer. Raises OSError if the master is gone, RefusedError if it refuses."""
        connection = self._connection
        if connection is None or connection.closed:
            raise ConnectionError("the master closed the connection")
        ext = signed(header or NoFields(), b"", self._credentials)
        answer = await ask(connection, code, ext, b"", timeout_s)
        if answer is None:
            raise ConnectionError("no answer from the master")
        if answer.code != ResponseCode.SUCCESS:
            raise RefusedError(answer.code, answer.remark or "", address=connection.address)
        return answer
