"""The calls of the service, and what stands before each of them: who calls, and the gates of the remoting door, which
are asked with the request that does there what the call does here."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from rmqproto.codes import RequestCode as R
from rmqproto.headers.request_table import RequestKind, codes_of
from rmqproto.wire.signing import ACCESS_KEY
from rmqserver.doors.grpc.codes import CallRefused, Code, GrpcStatus, refusal_for, refuse_if
from rmqserver.doors.grpc.link import CallKind, GrpcCall, Link
from rmqserver.doors.grpc.messages import SERVICE
from rmqserver.doors.grpc.plain_calls import PlainCalls
from rmqserver.doors.grpc.presence import GrpcPeer, GrpcPeers
from rmqserver.doors.grpc.receive_calls import ReceiveCalls
from rmqserver.doors.grpc.route_calls import RouteCalls
from rmqserver.doors.grpc.security import Guard, needs_of
from rmqserver.doors.grpc.send_calls import SendCalls
from rmqserver.doors.grpc.settle_calls import SettleCalls
from rmqserver.limits import OVERLOAD
from rmqserver.remoting.answer import Request
from rmqserver.remoting.gate import Gate, GatePlace

if TYPE_CHECKING:
    from rmqserver.broker.broker import Broker
    from rmqserver.remoting.connection import Connection

log = logging.getLogger(__name__)

GatesAt = Callable[[Iterable[GatePlace]], list[Gate]]
"""The gates that stand in these places, in their order."""

PLACES = (GatePlace.RATES, GatePlace.FAULTS)
"""Who calls is asked before, and how many wait is counted here: both are told by other means than there."""
RENEW_EVERY_S = 5.0
ROUTES = ("QueryRoute", "QueryAssignment")
"""Calls that a slave answers."""
UNIMPLEMENTED = {f"{SERVICE}/{name}" for name in ("PullMessage", "UpdateOffset", "GetOffset", "QueryOffset")}
"""Calls of the service that Apache's proxy does not have either."""
_PUTS = codes_of(RequestKind.PUT)


class _Named(NamedTuple):
    """What gates read in a header."""

    topic: str | None
    consumer_group: str | None


class GrpcService:
    """The service of one broker. ``run`` is its task."""

    def __init__(self, broker: Broker, gates_at: GatesAt):
        self._broker = broker
        self._gates_at = gates_at
        self._put_refusal = broker.replicas.put_refusal
        self._guard = Guard(broker.auth_settings, broker.auth) if broker.auth_settings.asks else None
        self.clients = GrpcPeers(broker.config, broker.membership, broker.groups, self._client_gone)
        routes = RouteCalls(broker)
        sending = SendCalls(broker)
        self._settling = settling = SettleCalls(broker)
        self._plain = PlainCalls(broker, settling, self._guard)
        receiving = ReceiveCalls(broker, self.clients, settling)
        kinds = (
            CallKind("QueryRoute", R.GET_ROUTEINFO_BY_TOPIC, routes.query),
            CallKind("SendMessage", R.SEND_MESSAGE_V2, sending.send),
            CallKind("EndTransaction", R.END_TRANSACTION, sending.end),
            CallKind("RecallMessage", R.RECALL_MESSAGE, sending.recall),
            CallKind("QueryAssignment", R.QUERY_ASSIGNMENT, routes.assign),
            CallKind("ReceiveMessage", R.POP_MESSAGE, receiving.receive, receiving.refuse),
            CallKind("AckMessage", R.ACK_MESSAGE, settling.ack),
            CallKind("ChangeInvisibleDuration", R.CHANGE_MESSAGE_INVISIBLETIME, settling.change),
            CallKind("ForwardMessageToDeadLetterQueue", R.CONSUMER_SEND_MSG_BACK, settling.forward),
            CallKind("SyncLiteSubscription", R.LITE_SUBSCRIPTION_CTL, receiving.subscribe_lite),
            CallKind("Heartbeat", R.HEART_BEAT, self.clients.heartbeat),
            CallKind("NotifyClientTermination", R.UNREGISTER_CLIENT, self.clients.farewell),
            CallKind("Telemetry", None, self.clients.telemetry, self.clients.refuse),
        )
        self._kinds = {f"/{SERVICE}/{kind.name}".encode(): kind for kind in kinds}

    def link(self, connection: Connection) -> Link:
        return Link(connection, self)

    async def run(self) -> None:
        """Renews what push consumers hold, until cancelled. Then the broker ends, or has another role: its clients are
        those of the next one from then on."""
        try:
            while True:
                await trio.sleep(RENEW_EVERY_S)
                try:
                    self._settling.renewals.renew()
                    self.clients.expire(time.monotonic())
                except Exception:  # our own mistake, which must not end the broker
                    log.exception("event=renewal-failed")
                self._broker.end_round()
        finally:
            self._settling.stop()
            self.clients.leave()

    def kind_of(self, path: bytes) -> CallKind | str:
        """The call of that path, or why there is none."""
        found = self._kinds.get(path)
        if found is not None:
            return found
        text = path.decode("latin-1").lstrip("/")
        return f"Method {text} is unimplemented" if text in UNIMPLEMENTED else f"Method not found: {text}"

    def plain_calls(self) -> PlainCalls | None:
        """What may take the whole calls of one read past ``take``; None while anything stands before each, be it a
        count."""
        counts = self._broker.config.max_requests_in_flight_per_connection > 0
        stops = self._broker.slave is not None or counts or self._gates_at(PLACES) or self._put_refusal() is not None
        return None if stops else self._plain

    def take(self, call: GrpcCall, message: Any) -> None:
        """Takes a message of the client. What it raises is for ``refuse``."""
        kind = call.kind
        try:
            refuse_if(not call.client_id.strip(), Code.CLIENT_ID_REQUIRED, "client id cannot be empty")
            if self._guard is not None:
                needs = needs_of(kind.name, message)
                call.user = self._guard.check(call.metadata, call.real_address, needs)
        except CallRefused as refusal:
            kind.refuse_at_once(call, refusal)
            return
        if self._broker.slave is not None and kind.name not in ROUTES:
            call.fail(GrpcStatus.UNAVAILABLE, "this broker is a slave: its master serves")
        elif kind.code is None:  # it waits as long as its client lives
            kind.take(call, message)
        else:
            self._pass_gates(call, kind.code, message)

    def refuse(self, call: GrpcCall, error: Exception) -> None:
        """Answers a call whose taking has raised."""
        refusal = refusal_for(error, call.kind.name, call.address)
        error.__traceback__ = error.__context__ = None
        call.kind.refuse(call, refusal)

    def _pass_gates(self, call: GrpcCall, code: R, message: Any) -> None:
        """Takes the message at once, later or never. Raises CallRefused or Refused."""

        def go_on(error: Exception | None = None) -> None:
            refused = error or (self._put_refusal() if code in _PUTS else None)
            if refused is not None:
                raise refused
            call.kind.take(call, message)

        most = self._broker.config.max_requests_in_flight_per_connection
        if 0 < most < call.link.waiting_count():
            why = f"{most} requests of this connection wait for their answers (maxRequestsInFlightPerConnection)"
            raise CallRefused(Code.TOO_MANY_REQUESTS, f"{OVERLOAD}: {why}")
        gates = self._gates_at(PLACES)
        if not gates:
            go_on()
            return
        user = {ACCESS_KEY: call.user} if call.user else {}
        asked: Request[Any] = Request(code, 0, _named(message))
        for gate in gates:
            take_over = gate.admit(asked, user, call.link.connection)
            call.is_answer_lost = asked.is_oneway
            if take_over is not None:
                take_over(lambda error: call.guarded(partial(go_on, error)))
                return
        go_on()

    def _client_gone(self, client: GrpcPeer) -> None:
        self._broker.clients.peer_gone(client)
        self._broker.lite.peer_gone(client)
        self._settling.renewals.client_gone(client)


def _named(request: Any) -> _Named:
    messages = getattr(request, "messages", None)
    topic = getattr(messages[0] if messages else getattr(request, "message_queue", request), "topic", None)
    group = getattr(request, "group", None)
    return _Named(topic.name if topic is not None else None, group.name if group is not None else None)
