"""The gates between decoding and handler: which peer may send which request. Every request passes them: in any codec
and spelling, oneway or not, and even if the service does not know its code."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from rmqserver.remoting.answer import Request
from rmqserver.remoting.connection import Connection

GoOn = Callable[[Exception | None], None]
"""Has a request handled after all; with an error, that is its answer."""

TakeOver = Callable[[GoOn], None]
"""Gets the function that continues a request, and calls it later, or never."""


class Gate(Protocol):
    """A service asks it before it calls a handler. A service without a gate pays nothing for it."""

    @property
    def wants_ext(self) -> bool:
        """Whether ``admit`` needs the raw ext fields, such as AccessKey and Signature. They cost a second decoding of
        the header; if they are not wanted, an empty mapping replaces them."""
        ...

    def admit(self, request: Request[Any], ext: Mapping[str, str], connection: Connection) -> TakeOver | None:
        """None if the request may pass. Raises Refused, or an error that the service turns into one, if it may not. A
        gate that keeps the request, for a while or for good, returns a TakeOver; it has then copied ``request.body``.

        ``request.code`` is the code of the handler that will be called. ``request.header`` is its typed header, or
        NoFields for an unknown code and for ext fields that do not fit the header. Those are refused after the gate.
        """


AtSight = Callable[[Request[Any], bytes, Connection], bool]
"""A gate's look at a request with its typed header, the JSON header's bytes, and the connection: True if ``admit``
would certainly let the request pass, and needs no ext fields for that. Only asked of a gate that stands alone."""

Undecoded = Callable[[Connection, int, bytes, bytes], bool]
"""The same before a request is decoded: of its connection, code, header in any codec, and body. A look changes
nothing."""


class GatePlace(enum.IntEnum):
    """Where a gate stands: requests pass them in this order, and what one takes over, the next never sees."""

    IN_FLIGHT = 0
    """Before anything costs something."""
    USERS = 1
    RATES = 2
    """Behind the users, whom it counts."""
    FORWARDING = 3
    """Behind all that refuse."""
    FAULTS = 4
    """Only there while tests want it."""
