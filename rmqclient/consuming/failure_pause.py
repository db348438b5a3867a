"""The pause after a failed request, for requests that are repeated for ever."""

from __future__ import annotations

import logging

import trio

from rmqclient.remoting.client_instance import ClientInstance
from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError, RocketMQError

log = logging.getLogger(__name__)

AFTER_FAILURE_S = 0.1
AFTER_FAILURES_S = 3.0
"""The pause doubles from the first to the second of these while requests keep failing. A restarted broker is found
again soon, and one that is gone is not flooded."""

AFTER_FLOW_CONTROL_S = 0.02


class FailurePause:
    def __init__(self, client: ClientInstance):
        self._client = client
        self._next_s = AFTER_FAILURE_S

    def reset(self) -> None:
        """A request has succeeded."""
        self._next_s = AFTER_FAILURE_S

    async def sleep(self) -> None:
        """Sleeps, longer each time until ``reset``."""
        await trio.sleep(self._next_s)
        self._next_s = min(2 * self._next_s, AFTER_FAILURES_S)

    async def after(self, error: RocketMQError, verb: str, queue: MessageQueue) -> None:
        """Sleeps after a failed pull or pop (``verb``), and logs it unless the broker only asks for a moment of
        rest."""
        if isinstance(error, RefusedError) and error.code == ResponseCode.FLOW_CONTROL:
            await trio.sleep(AFTER_FLOW_CONTROL_S)
            return
        log.warning("%s failed queue=%s error=%s", verb, queue, error)
        self._client.routes.refresh_soon()
        await self.sleep()
