"""Refuses a request on a connection with too many unanswered ones: sends that wait for the disk or a slave, pulls that
wait for messages. It stands before all other gates, or requests that those refuse would be answered but not counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rmqproto.codes import ResponseCode
from rmqserver.limits.refusals import OVERLOAD, Refusals
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
