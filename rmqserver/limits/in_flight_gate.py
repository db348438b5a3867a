"""Refuses a request on a connection with too many unanswered ones: sends that wait for the disk or a slave, pulls that
wait for messages. It stands before all other gates, or requests that those refuse would be answered but not counted."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NoReturn

from rmqproto.codes import ResponseCode
from rmqserver.logs import Seldom
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request
from rmqserver.remoting.connection import Connection
from rmqserver.remoting.connection_limits import ConnectionLimits
from rmqserver.remoting.counted_connection import CountedConnection
from rmqserver.remoting.gate import TakeOver


class InFlightGate:
    """The gate of one service."""

    wants_ext = False

    def __init__(self, limits: ConnectionLimits):
        self._limits = limits
        self._refusals = Refusals()

    def admit(self, request: Request[Any], ext: Mapping[str, str], connection: Connection) -> TakeOver | None:
        """Never takes a request over."""
        if isinstance(connection, CountedConnection) and not request.is_oneway:
            connection.in_flight += 1  # refused requests too: they are answered
            most = self._limits.max_requests_in_flight_per_connection
            if 0 < most < connection.in_flight:
                why = f"{most} requests of this connection wait for their answers (maxRequestsInFlightPerConnection)"
                self._refusals.refuse(connection, connection.address, ResponseCode.SYSTEM_BUSY, f"{OVERLOAD}: {why}")
        return None


log = logging.getLogger(__name__)

OVERLOAD = "[OVERLOAD]system busy, start flow control for a while"
REJECTED = "[REJECTREQUEST]system busy, start flow control for a while"

_REMARK_SHOWN_MAX_CHARS = 200


class Refusals:
    """Refuses in Apache's words, followed by what to do about it. Each refusal is logged seldom, by what is limited.

    Apache's broker refuses with 2 SYSTEM_BUSY when its own queues are full; its producers then try another broker. It
    never answers 215 FLOW_CONTROL, but its consumers know that code: they pull again after 20 ms, and after any other
    refusal only after 3 s. So pulls that come too fast are refused with 215."""

    def __init__(self) -> None:
        self._seldom = Seldom()

    def refuse(self, connection: Connection, name: str, code: int, remark: str) -> NoReturn:
        """Raises Refused. The connection rests, so a flood costs others no more than an occasional refusal."""
        connection.rest()
        if self._seldom.is_due(name):
            log.warning(
                "event=limited peer=%s code=%d reason=%r", connection.address, code, remark[:_REMARK_SHOWN_MAX_CHARS]
            )
        raise Refused(code, remark)
