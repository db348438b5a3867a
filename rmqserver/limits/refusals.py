"""How what is past a limit is refused: in Apache's words, which say what to do about it behind.

Apache's broker refuses where its own queues are full, with 2 SYSTEM_BUSY, which its producers take as a reason to try
another broker. 215 FLOW_CONTROL it never answers, but its consumers know it: they pull again after 20 ms, and after any
other refusal only after 3 s. So pulls that come too fast are refused with that.
"""

from __future__ import annotations

import logging
from typing import NoReturn

from rmqserver.logs import Seldom
from rmqserver.remoting.answer import Refused
from rmqserver.remoting.connection import Connection

log = logging.getLogger(__name__)

OVERLOAD = "[OVERLOAD]system busy, start flow control for a while"
REJECTED = "[REJECTREQUEST]system busy, start flow control for a while"

_REMARK_SHOWN_MAX_CHARS = 200


class Refusals:
    """Each of them is logged seldom, by what is limited."""

    def __init__(self) -> None:
        self._seldom = Seldom()

    def refuse(self, connection: Connection, name: str, code: int, remark: str) -> NoReturn:
        """Raises Refused. The connection rests: a flood takes no more from others than a refusal now and then."""
        connection.rest()
        if self._seldom.is_due(name):
            log.warning(
                "event=limited peer=%s code=%d reason=%r", connection.peer, code, remark[:_REMARK_SHOWN_MAX_CHARS]
            )
        raise Refused(code, remark)
