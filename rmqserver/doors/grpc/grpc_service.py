"""The calls of the service, and what stands before each of them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from rmqproto.errors import ProtocolError
from rmqserver.broker.errors import as_refused
from rmqserver.doors.grpc.call_gates import CallGates, GatesAt
from rmqserver.doors.grpc.codes import CallRefused, Code, GrpcStatus, refusal_of, status
from rmqserver.doors.grpc.link import GrpcCall, Link
from rmqserver.doors.grpc.lite_calls import LiteTopicCalls
from rmqserver.doors.grpc.messages import CLASSES, SERVICE
from rmqserver.doors.grpc.plain_calls import PlainCalls
from rmqserver.doors.grpc.presence import GrpcPeer, GrpcPeers, id_of
from rmqserver.doors.grpc.receive_calls import ReceiveCalls
from rmqserver.doors.grpc.route_calls import RouteCalls
from rmqserver.doors.grpc.security import Guard
from rmqserver.doors.grpc.send_calls import SendCalls
from rmqserver.doors.grpc.settle_calls import SettleCalls

if TYPE_CHECKING:
    from rmqserver.broker.broker import Broker
    from rmqserver.remoting.connection import Connection

log = logging.getLogger(__name__)

RENEW_EVERY_S = 5.0
ROUTES = ("QueryRoute", "QueryAssignment")
"""Calls that a slave answers."""
Take = Callable[[GrpcCall, Any], None]
Refuse = Callable[[GrpcCall, CallRefused], None]


class ServedCall:
    """One call of the service."""

    def __init__(self, name: str, take: Take, refuse: Refuse | None = None, *, is_stream: bool = False):
        self.name = name
        self.is_stream = is_stream
        self.request = CLASSES["TelemetryCommand" if is_stream else f"{name}Request"]
        self.response = CLASSES["TelemetryCommand" if is_stream else f"{name}Response"]
        self.take = take
        self.refuse = refuse or self._answer_refusal

    def _answer_refusal(self, call: GrpcCall, refusal: CallRefused) -> None:
        call.answer(self.response(status=status(refusal.code, refusal.text)))


class GrpcService:
    """The service of one broker. ``run`` is its task."""

    def __init__(self, broker: Broker, gates_at: GatesAt):
        self._broker = broker
        self._guard = Guard(broker.auth_settings, broker.auth) if broker.auth_settings.asks else None
        self._gates = CallGates(gates_at, broker, self._guarded)
        self.clients = GrpcPeers(broker.config, broker.membership, broker.groups, self._client_gone)
        routes = RouteCalls(broker, self._guarded)
        sending = SendCalls(broker, self._guarded)
        self._settling = settling = SettleCalls(broker, self._guarded)
        self._plain = PlainCalls(broker, settling)
        receiving = ReceiveCalls(broker, self.clients, settling, self._guarded)
        lite = LiteTopicCalls(broker.pop.lite.subscriptions, self.clients)
        kinds = (
            ServedCall("QueryRoute", routes.query),
            ServedCall("SendMessage", sending.send),
            ServedCall("EndTransaction", sending.end),
            ServedCall("RecallMessage", sending.recall),
            ServedCall("QueryAssignment", routes.assign),
            ServedCall("ReceiveMessage", receiving.receive, receiving.refuse),
            ServedCall("AckMessage", settling.ack),
            ServedCall("ChangeInvisibleDuration", settling.change),
            ServedCall("ForwardMessageToDeadLetterQueue", settling.forward),
            ServedCall("SyncLiteSubscription", lite.sync),
            ServedCall("Heartbeat", self.clients.heartbeat),
            ServedCall("NotifyClientTermination", self.clients.farewell),
            ServedCall("Telemetry", self.clients.telemetry, self.clients.refuse, is_stream=True),
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

    def kind_of(self, path: bytes) -> ServedCall | str:
        found = self._kinds.get(path)
        if found is not None:
            return found
        text = path.decode("latin-1").lstrip("/")
        if text.startswith(f"{SERVICE}/") and text.endswith(
            ("PullMessage", "UpdateOffset", "GetOffset", "QueryOffset")
        ):
            return f"Method {text} is unimplemented"
        return f"Method not found: {text}"

    def plain_calls(self) -> PlainCalls | None:
        """None while somebody has to be asked about each call, or all wait for one answer."""
        if self._guard is not None or self._broker.slave is not None or self._gates.ask_now():
            return None
        return self._plain

    def take(self, call: GrpcCall, request: Any) -> None:
        kind = call.kind
        assert isinstance(kind, ServedCall)
        try:
            if not id_of(call).strip():
                raise CallRefused(Code.CLIENT_ID_REQUIRED, "client id cannot be empty")
            if self._guard is not None:
                self._guard.check(call, kind.name, request)
        except CallRefused as refusal:  # with the status alone, even where a call's own refusals say more
            call.answer(kind.response(status=status(refusal.code, refusal.text)))
            return
        if self._broker.slave is not None and kind.name not in ROUTES:
            call.fail(GrpcStatus.UNAVAILABLE, "this broker is a slave: its master serves")
            return
        self._gates.let_pass(call, kind.name, request, partial(kind.take, call, request))

    def refuse(self, call: GrpcCall, error: Exception) -> None:
        kind = call.kind
        assert isinstance(kind, ServedCall)
        error.__traceback__ = error.__context__ = None
        if isinstance(error, CallRefused):
            kind.refuse(call, error)
            return
        refused = as_refused(error)
        if refused is not None:
            kind.refuse(call, refusal_of(refused))
        elif isinstance(error, ProtocolError):
            kind.refuse(call, CallRefused(Code.INTERNAL_SERVER_ERROR, str(error)))
        else:
            log.error("event=call-failed call=%s peer=%s", kind.name, call.address, exc_info=error)
            kind.refuse(call, CallRefused(Code.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}"))

    def _guarded(self, call: GrpcCall, go_on: Callable[[], None]) -> None:
        if call.closed:
            return
        try:
            go_on()
        except Exception as error:
            self.refuse(call, error)

    def _client_gone(self, client: GrpcPeer) -> None:
        self._broker.clients.peer_gone(client)
        self._broker.pop.lite.peer_gone(client)
        self._settling.renewals.client_gone(client)
