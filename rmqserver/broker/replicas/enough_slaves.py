"""Lets a SYNC_MASTER whose slaves may act for it refuse messages that would wait for more slaves than there are
(``CommitLog.asyncPutMessage``, ``enableSlaveActingMaster``, 5.5.0): their producer goes to another broker at once, and
no message is stored twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rmqproto.codes import SEND_CODES, ResponseCode
from rmqproto.message.properties import parse
from rmqserver.broker.sending.properties import wants_safe
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request

if TYPE_CHECKING:
    from rmqserver.broker.replicas.ha_master import HaMaster
    from rmqserver.broker.replicas.members import Addrs
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler


class EnoughSlaves:
    def __init__(self, replicas: HaMaster):
        self._replicas = replicas
        self._alive_count: int | None = None
        """Number of brokers of this name that a nameserver knows, including this one; None if none has answered."""

    def members_found(self, found: Sequence[Addrs]) -> None:
        """``found`` has the answer of each nameserver that has answered."""
        self._alive_count = max(map(len, found))

    def handlers(self, table: Mapping[int, Handler]) -> dict[int, Handler]:
        """Handlers that replace some of the table's."""
        return {code: self._send_by(table[code]) for code in SEND_CODES if code in table}

    def _send_by(self, send: Handler) -> Handler:
        def handle(request: Request[Any], connection: Connection) -> bytes | None:
            if self._is_short and wants_safe(parse(request.header.properties)):
                raise Refused(ResponseCode.SYSTEM_ERROR, "in-sync replicas not enough")
            return send(request, connection)

        return handle

    @property
    def _is_short(self) -> bool:
        needed = self._replicas.copies_needed
        if needed <= 1:
            return False
        there = 1 + self._replicas.in_sync_count
        return needed > (there if self._alive_count is None else min(there, self._alive_count))
