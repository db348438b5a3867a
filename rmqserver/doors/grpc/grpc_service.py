"""The calls of the service, and what stands before each of them."""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from rmqproto.codes import RequestCode as R
from rmqserver.doors.grpc.call_gates import CallGates, GatesAt
from rmqserver.doors.grpc.codes import CallRefused, Code, GrpcStatus, refusal_for, refuse_if
from rmqserver.doors.grpc.link import CallKind, GrpcCall, Link
from rmqserver.doors.grpc.messages import SERVICE
from rmqserver.doors.grpc.plain_calls import PlainCalls
from rmqserver.doors.grpc.presence import GrpcPeer, GrpcPeers
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
UNIMPLEMENTED = {f"{SERVICE}/{name}" for name in ("PullMessage", "UpdateOffset", "GetOffset", "QueryOffset")}
"""Calls of the service that Apache's proxy does not have either."""


class GrpcService:
    """The service of one broker. ``run`` is its task."""

    def __init__(self, broker: Broker, gates_at: GatesAt):
        self._broker = broker
        self._guard = Guard(broker.auth_settings, broker.auth) if broker.auth_settings.asks else None
        self._gates = CallGates(gates_at, broker)
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
            CallKind("Telemetry", None, self.clients.telemetry, self.clients.refuse, is_stream=True),
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
        """What may take the whole calls of one read past ``take``; None while gates have to be asked about each."""
        return None if self._broker.slave is not None or self._gates.ask_now() else self._plain

    def take(self, call: GrpcCall, message: Any) -> None:
        """Takes a message of the client. What it raises is for ``refuse``."""
        kind = call.kind
        try:
            refuse_if(not call.client_id.strip(), Code.CLIENT_ID_REQUIRED, "client id cannot be empty")
            if self._guard is not None:
                self._guard.check(call, kind.name, message)
        except CallRefused as refusal:
            kind.refuse_at_once(call, refusal)
            return
        if self._broker.slave is not None and kind.name not in ROUTES:
            call.fail(GrpcStatus.UNAVAILABLE, "this broker is a slave: its master serves")
            return
        self._gates.let_pass(call, message, partial(kind.take, call, message))

    def refuse(self, call: GrpcCall, error: Exception) -> None:
        """Answers a call whose taking has raised."""
        refusal = refusal_for(error, call.kind.name, call.address)
        error.__traceback__ = error.__context__ = None
        call.kind.refuse(call, refusal)

    def _client_gone(self, client: GrpcPeer) -> None:
        self._broker.clients.peer_gone(client)
        self._broker.lite.peer_gone(client)
        self._settling.renewals.client_gone(client)
