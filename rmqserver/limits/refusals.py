"""How requests past a limit are refused: in Apache's words, followed by what to do about it.

Apache's broker refuses with 2 SYSTEM_BUSY when its own queues are full; its producers then try another broker. It never
answers 215 FLOW_CONTROL, but its consumers know that code: they pull again after 20 ms, and after any other refusal
only after 3 s. So pulls that come too fast are refused with 215.
"""

from __future__ import annotations

import logging
from typing import NoReturn

from rmqserver.logs import Seldom
from rmqserver.operation import Refused
from rmqserver.remoting.connection import Connection

log = logging.getLogger(__name__)

OVERLOAD = "[OVERLOAD]system busy, start flow control for a while"
REJECTED = "[REJECTREQUEST]system busy, start flow control for a while"

_REMARK_SHOWN_MAX_CHARS = 200


class Refusals:
    """Each refusal is logged seldom, by what is limited."""

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
