"""One call of the listener: its time limit, its result, statistics and traces."""

from __future__ import annotations

import logging

import trio

from rmqclient.consuming.rates import Rates
from rmqclient.listener import LATER, SUCCESS, ConsumeStatus, Listener, as_async
from rmqclient.message import ReceivedMessage
from rmqclient.tracing import Traces
from rmqproto.trace import CONSUMED_WELL, FAILED, RAISED, TIMED_OUT

log = logging.getLogger(__name__)


class ListenerCall:
    """``await call(message)``."""

    def __init__(
        self, listener: Listener, concurrency: int, timeout_s: float, rates: Rates, traces: Traces | None = None
    ):
        """``concurrency``: threads for a listener that is a plain function."""
        self._listener = as_async(listener, concurrency)
        self._timeout_s = timeout_s
        self._rates = rates
        self._traces = traces

    async def __call__(self, message: ReceivedMessage) -> ConsumeStatus:
        """The listener's status for one message; LATER if its time is over. Raises what the listener raises."""
        started_s = trio.current_time()
        status, outcome = LATER, RAISED
        request_id = self._traces.delivered(message) if self._traces is not None else ""
        try:
            with trio.move_on_after(self._timeout_s) as scope:
                status = await self._listener(message) or SUCCESS
                outcome = CONSUMED_WELL if status.is_success else FAILED
            if scope.cancelled_caught:
                outcome = TIMED_OUT
                log.warning("listener timed out id=%s topic=%s", message.message_id, message.topic)
        finally:
            now_s = trio.current_time()
            spent_ms = (now_s - started_s) * 1000
            self._rates.consumed(message.topic, now_s, spent_ms, is_success=status.is_success)
            if self._traces is not None:
                self._traces.consumed(message, request_id, spent_ms, outcome)
        return status

    async def guarded(self, message: ReceivedMessage) -> ConsumeStatus:
        """As the call, but an exception of the listener is logged and counts as LATER."""
        try:
            return await self(message)
        except Exception:  # the edge of the application's code: the message comes again
            log.exception("listener failed id=%s topic=%s", message.message_id, message.topic)
            return LATER
