"""What limits, injected faults and the state of a set's member say to a call: the gates of the remoting door, asked
with the request that does there what the call does here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqproto.headers.request_table import RequestKind, codes_of
from rmqproto.wire.signing import ACCESS_KEY
from rmqserver.doors.grpc.codes import Code, refuse_if
from rmqserver.limits import OVERLOAD
from rmqserver.remoting.answer import Request
from rmqserver.remoting.gate import Gate, GatePlace

if TYPE_CHECKING:
    from rmqserver.broker.broker import Broker
    from rmqserver.doors.grpc.link import GrpcCall

GatesAt = Callable[[Iterable[GatePlace]], list[Gate]]
"""The gates that stand in these places, in their order."""

PLACES = (GatePlace.RATES, GatePlace.FAULTS)
"""Who calls is asked before, and how many wait is counted here: both are told by other means than there."""

_PUTS = codes_of(RequestKind.PUT)


class _Named(NamedTuple):
    """What the gates read in a header."""

    topic: str | None
    consumer_group: str | None


class CallGates:
    def __init__(self, gates_at: GatesAt, broker: Broker):
        self._gates_at = gates_at
        self._config = broker.config
        self._put_refusal = broker.replicas.put_refusal

    def ask_now(self) -> bool:
        """Whether anything stands before a call now, be it a count."""
        counts = self._config.max_requests_in_flight_per_connection > 0
        return counts or bool(self._gates_at(PLACES)) or self._put_refusal() is not None

    def let_pass(self, call: GrpcCall, request: Any, go_on: Callable[[], None]) -> None:
        """Goes on at once, later or never. Raises CallRefused or Refused."""
        code = call.kind.code
        if code is None:  # telemetry waits as long as its client lives
            go_on()
            return
        if code in _PUTS:
            go_on = partial(self._put, go_on)
        most = self._config.max_requests_in_flight_per_connection
        why = f"{most} requests of this connection wait for their answers (maxRequestsInFlightPerConnection)"
        refuse_if(0 < most < call.link.waiting_count(), Code.TOO_MANY_REQUESTS, f"{OVERLOAD}: {why}")
        gates = self._gates_at(PLACES)
        if gates:
            self._ask(gates, call, Request(code, 0, _named(request)), go_on)
        else:
            go_on()

    def _ask(self, gates: list[Gate], call: GrpcCall, asked: Request[Any], go_on: Callable[[], None]) -> None:
        user = {ACCESS_KEY: call.user} if call.user else {}
        for gate in gates:
            take_over = gate.admit(asked, user, call.link.connection)
            call.is_answer_lost = asked.is_oneway
            if take_over is not None:
                take_over(lambda error: call.guarded(go_on if error is None else partial(_raise, error)))
                return
        go_on()

    def _put(self, go_on: Callable[[], None]) -> None:
        refused = self._put_refusal()
        if refused is not None:
            raise refused
        go_on()


def _named(request: Any) -> _Named:
    messages = getattr(request, "messages", None)
    topic = getattr(messages[0] if messages else getattr(request, "message_queue", request), "topic", None)
    group = getattr(request, "group", None)
    return _Named(topic.name if topic is not None else None, group.name if group is not None else None)


def _raise(error: Exception) -> None:
    raise error
