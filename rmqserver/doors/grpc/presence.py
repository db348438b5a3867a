"""Which clients are there: their settings, their telemetry streams, and what the broker asks them
(``ClientActivity``, ``GrpcClientSettingsManager``, ``GrpcClientChannel``, 5.5.0)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rmqproto.bodies.groups import ConsumerData, Heartbeat, ProducerData
from rmqproto.bodies.statistics import ConsumerRunningInfo, running_properties
from rmqproto.codes import LANGUAGES, RequestCode, ResponseCode, version_name
from rmqproto.errors import ProtocolError
from rmqproto.headers.base import Header
from rmqproto.headers.consuming import RunningInfoHeader, UnregisterClientHeader
from rmqproto.headers.popping import UnsubscribeLiteHeader
from rmqproto.headers.sending import CheckTransactionHeader
from rmqproto.message.record import decode_record_untrusted
from rmqproto.wire import fastjson
from rmqserver.broker.errors import TooManyClients
from rmqserver.doors.grpc.call_checks import check_group, check_topic
from rmqserver.doors.grpc.client_settings import (
    CONSUMES,
    check_consumer,
    consumer_groups,
    merged,
    producer_groups,
    subscriptions_of,
)
from rmqserver.doors.grpc.codes import OK, CallRefused, Code, GrpcStatus, refuse_if
from rmqserver.doors.grpc.messages import CLASSES, value
from rmqserver.doors.grpc.security import PRODUCER
from rmqserver.doors.grpc.send_calls import transaction_id
from rmqserver.doors.grpc.stored import put_message

if TYPE_CHECKING:
    from rmqserver.broker.clients.membership import Membership
    from rmqserver.broker.tables.groups import GroupTable
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.doors.grpc.link import GrpcCall
    from rmqserver.operation import OnPeerAnswer

QUESTIONS_MAX = 256
"""Open questions to one client; further ones count as unanswered."""
CLIENTS_MAX = 100_000
SETTINGS_MAX_BYTES = 64 << 20
"""The settings of all clients."""

_COMMAND = CLASSES["TelemetryCommand"]
_NO_SETTINGS: Any = CLASSES["Settings"]()
"""Of a client that has not told any; they are never changed."""
_VERSIONS = {version_name(ordinal): ordinal for ordinal in range(700)}


class _Answer(NamedTuple):
    """What a client has answered, as clients of the remoting protocol would."""

    code: int
    remark: str | None
    body: bytes


class GrpcPeer:
    """A client of this door: a peer of operations from its settings to its farewell, whatever its connections do."""

    def __init__(self, clients: GrpcPeers, call: GrpcCall):
        self.client_id, self.user = call.client_id, call.user
        self.closed = False
        self.settings = _NO_SETTINGS
        self.has_told_settings = False
        """Whether they are the client's own, and not what its calls say."""
        self.groups: set[str] = set()
        """Those that it consumes in, beside the one of its settings."""
        self._clients = clients
        self._began_ms = time.time_ns() // 1_000_000
        self._questions: dict[str, tuple[float, int, OnPeerAnswer]] = {}
        self._telemetry: GrpcCall | None = None
        self.came_by(call)

    def came_by(self, call: GrpcCall) -> None:
        """Uses a telemetry stream for what the broker asks, in place of an earlier one."""
        if call.kind.is_stream:
            self._telemetry = call
        self.address, self.born_host = call.address, call.born_host
        self.local_addr, self.local_host = call.local_addr, call.local_host
        language = call.metadata.get(b"x-mq-language", b"").decode("latin-1")
        self.language = language if language in LANGUAGES else "OTHER"
        text = call.metadata.get(b"x-mq-client-version", b"").decode("latin-1")
        self.version = _VERSIONS.get("V" + text.replace(".", "_"), _VERSIONS["V5_5_0"])
        self.seen_s = time.monotonic()

    # --- as a peer of operations -------------------------------------------------------------------------------------

    @property
    def is_listening(self) -> bool:
        return self._telemetry is not None and not self._telemetry.closed

    def notify(self, code: int, header: Header, body: bytes = b"") -> None:
        """Passes on the check of a transaction, and which lite topic another client took over; other notices are for
        clients that share queues among themselves."""
        command = _COMMAND()
        asked = command.recover_orphaned_transaction_command
        if isinstance(header, UnsubscribeLiteHeader):
            command.notify_unsubscribe_lite_command.lite_topic = header.lite_topic or ""
            command.status.CopyFrom(OK)  # Node's client wants one with a command that it does not know
        elif isinstance(header, CheckTransactionHeader) and _put_record(asked.message, body):
            system = asked.message.system_properties
            system.delivery_attempt = 1
            place = header.commit_log_offset, header.tran_state_table_offset
            asked.transaction_id = transaction_id(*place, system.message_id)
        else:
            return
        self._tell(command)

    def ask(self, code: int, header: Header, body: bytes, on_answer: OnPeerAnswer, timeout_s: float) -> None:
        """Asks for the stacks of its threads (307), or to consume a message now (309); other questions are not for
        clients of this door. What it has told already is not asked for."""
        command, nonce = _COMMAND(), secrets.token_hex(16)
        if isinstance(header, RunningInfoHeader) and not header.jstack_enable:
            return on_answer(self._running_info(None))
        if code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            command.print_thread_stack_trace_command.nonce = nonce
        elif code == RequestCode.CONSUME_MESSAGE_DIRECTLY and _put_record(command.verify_message_command.message, body):
            command.verify_message_command.nonce = nonce
        else:
            return on_answer(None)
        if len(self._questions) >= QUESTIONS_MAX or not self._tell(command):
            return on_answer(None)
        self._questions[nonce] = time.monotonic() + timeout_s, code, on_answer
        return None

    def answered(self, told: Any, command: Any) -> None:
        """Takes what the client tells by a command in answer to a question; another client's, or a late one, is
        none."""
        found = self._questions.pop(told.nonce, None)
        if found is not None:
            is_stack = found[1] == RequestCode.GET_CONSUMER_RUNNING_INFO
            found[2](self._running_info(told.thread_stack_trace) if is_stack else _consumed(command))

    def _running_info(self, jstack: str | None) -> _Answer:
        kind = CONSUMES.get(self.settings.client_type, "")
        is_orderly = self.settings.subscription.fifo
        info = ConsumerRunningInfo(
            jstack=jstack, properties=running_properties(kind, self._began_ms, "", is_orderly=is_orderly),
            subscription_set=subscriptions_of(self.settings),
        )  # fmt: skip
        return _Answer(ResponseCode.SUCCESS, None, fastjson.dumps(info))

    def expire(self, now_s: float) -> None:
        """Ends questions that are not answered in time, and lets a stream go that has ended, with its connection."""
        if not self.is_listening:
            self._telemetry = None
        late = [nonce for nonce, (until_s, _, _) in self._questions.items() if until_s <= now_s]
        for nonce in late:
            self._questions.pop(nonce)[2](None)

    def flush(self) -> None:
        if self._telemetry is not None:
            self._telemetry.flush()

    def close(self, reason: str) -> None:
        """The client is gone: its heartbeats have stopped, or it said farewell."""
        if not self.closed:
            self.closed = True
            self._clients.gone(self)
            if self._telemetry is not None:
                self._telemetry.finish()
            for _, _, on_answer in self._questions.values():
                on_answer(None)
            self._questions.clear()

    def _tell(self, command: Any) -> bool:
        if self._telemetry is None or not self.is_listening:
            return False
        self._telemetry.send(command)
        return True


class GrpcPeers:
    """``on_gone`` is called with a client that leaves."""

    def __init__(
        self, config: BrokerConfig, membership: Membership, groups: GroupTable, on_gone: Callable[[GrpcPeer], None]
    ):
        self._config = config
        self._by_key: dict[tuple[str, str], GrpcPeer] = {}
        """By user and client id: a user has no access to another's clients."""
        self._settings_bytes = 0
        self._membership = membership
        self._groups = groups
        self._on_gone = on_gone

    def find(self, call: GrpcCall) -> GrpcPeer | None:
        """The client of a call, if it has sent settings."""
        return self._by_key.get((call.user, call.client_id))

    def gone(self, client: GrpcPeer) -> None:
        key = client.user, client.client_id
        if self._by_key.get(key) is client:
            del self._by_key[key]
            self._settings_bytes -= client.settings.ByteSize()
        self._on_gone(client)

    def leave(self) -> None:
        """Ends their telemetry streams, whereupon they introduce themselves again."""
        for client in list(self._by_key.values()):
            client.close("the broker ends")

    def expire(self, now_s: float) -> None:
        """Ends what is late of each client, and clients that say nothing. To be called every few seconds."""
        for client in list(self._by_key.values()):
            client.expire(now_s)
            if now_s - client.seen_s > self._config.channel_expired_timeout_ms / 1000:
                client.close("its heartbeats have stopped")

    # --- telemetry ---------------------------------------------------------------------------------------------------

    def telemetry(self, call: GrpcCall, command: Any) -> None:
        kind = command.WhichOneof("command")
        if kind == "settings":
            self._take_settings(call, command.settings)
            return
        client = self.find(call)
        if client is not None and kind in ("thread_stack_trace", "verify_message_result", "verify_message_command"):
            client.answered(getattr(command, kind), command)

    def refuse(self, call: GrpcCall, refusal: CallRefused) -> None:
        """A refused command ends the stream with a status of gRPC."""
        is_illegal = Code.BAD_REQUEST <= refusal.code < Code.UNAUTHORIZED
        code = GrpcStatus.INVALID_ARGUMENT if is_illegal else GrpcStatus.INTERNAL
        call.fail(code, f"process client telemetryCommand failed. {refusal.text}")

    def _take_settings(self, call: GrpcCall, settings: Any) -> None:
        which = settings.WhichOneof("pub_sub")
        if which is None:
            call.fail(GrpcStatus.INVALID_ARGUMENT, "there is no publishing or subscription data in settings")
            return
        for topic in settings.publishing.topics:
            check_topic(topic.name)
        if which == "subscription":
            check_consumer(settings)
            self._check_known(settings.subscription.group.name)
        self._introduce(call, settings).has_told_settings = True
        call.send(_COMMAND(status=OK, settings=merged(settings, self._groups)))

    def consumer(self, call: GrpcCall, kind: str, group: str, topic: str, expression: Any = None) -> GrpcPeer:
        """A consumer by what it does. Before it sends settings to this broker, its calls say what they would: after a
        restart Python's client sends them minutes later. Raises TooManyClients."""
        client = self.find(call)
        known = client.settings.subscription.subscriptions if client is not None else ()
        if client is not None and (client.has_told_settings or any(each.topic.name == topic for each in known)):
            return client
        settings = CLASSES["Settings"](client_type=value("ClientType", kind))
        if client is not None:
            settings.CopyFrom(client.settings)
        settings.subscription.group.name = group
        settings.subscription.subscriptions.add(topic={"name": topic}, expression=expression)
        return self._introduce(call, settings)

    def _introduce(self, call: GrpcCall, settings: Any) -> GrpcPeer:
        """Takes the client with these settings part. They replace those before, which may name other topics or another
        group. Raises TooManyClients."""
        client = self.find(call)
        before = client.settings if client is not None else _NO_SETTINGS
        more_bytes = settings.ByteSize() - before.ByteSize()
        if self._settings_bytes + more_bytes > SETTINGS_MAX_BYTES:
            raise TooManyClients(f"settings of more than {SETTINGS_MAX_BYTES} bytes")
        if client is None:
            if len(self._by_key) >= CLIENTS_MAX:
                raise TooManyClients(f"{CLIENTS_MAX} clients take part, and no more are taken")
            client = self._by_key[call.user, call.client_id] = GrpcPeer(self, call)
        self._settings_bytes += more_bytes
        client.came_by(call)
        client.settings = settings
        self._register(client)
        for group in producer_groups(before) - producer_groups(settings):
            self._membership.unregister(UnregisterClientHeader(producer_group=group), client)
        for group in consumer_groups(before) - consumer_groups(settings) - client.groups:
            self._membership.unregister(UnregisterClientHeader(consumer_group=group), client)
        return client

    def _check_known(self, group: str) -> None:
        """It is made, if that is allowed."""
        refuse_if(self._groups.find(group) is None, Code.ILLEGAL_CONSUMER_GROUP, f"group not found: {group}")

    # --- heartbeats --------------------------------------------------------------------------------------------------

    def heartbeat(self, call: GrpcCall, request: Any) -> None:
        client = self.known(call)
        client.seen_s = time.monotonic()
        if client.settings.WhichOneof("pub_sub") == "subscription" and request.client_type != PRODUCER:
            check_group(request.group.name)
            self._check_known(request.group.name)
            client.groups.add(request.group.name)
        self._register(client)
        call.answer(CLASSES["HeartbeatResponse"](status=OK))

    def farewell(self, call: GrpcCall, request: Any) -> None:
        client = self.known(call)
        client.close("it says farewell")
        if consumer_groups(client.settings):
            check_group(request.group.name)
        call.answer(CLASSES["NotifyClientTerminationResponse"](status=OK))

    def known(self, call: GrpcCall) -> GrpcPeer:
        """Raises CallRefused if the client has not sent settings."""
        client = self.find(call)
        if client is None:
            raise CallRefused(Code.UNRECOGNIZED_CLIENT_TYPE, "cannot find client settings for this client")
        return client

    def _register(self, client: GrpcPeer) -> None:
        settings, kind = client.settings, CONSUMES.get(client.settings.client_type, "")
        subscriptions, own = subscriptions_of(settings), consumer_groups(settings)
        groups = sorted(client.groups | own) if own else ()
        beat = Heartbeat(
            client_id=client.client_id,
            producer_data_set=[ProducerData(group_name=name) for name in sorted(producer_groups(settings))],
            consumer_data_set=[
                ConsumerData(group_name=name, consume_type=kind, subscription_data_set=subscriptions) for name in groups
            ],
        )
        _, tell_members = self._membership.heartbeat(beat, client, client.language, client.version, settings.ByteSize())
        tell_members()


def _put_record(message: Any, raw: bytes) -> bool:
    """Puts a stored message into an empty one. False if it cannot be read."""
    try:
        record = decode_record_untrusted(raw)
        put_message(message, record, record.properties, record.topic, None)
    except ProtocolError:
        return False
    return True


def _consumed(command: Any) -> _Answer:
    is_consumed = command.status.code == Code.OK
    body = {
        "autoCommit": True, "consumeResult": "CR_SUCCESS" if is_consumed else "CR_LATER", "order": False,
        "remark": "from gRPC client", "spentTimeMills": 0,
    }  # fmt: skip
    return _Answer(ResponseCode.SUCCESS, None, msgspec.json.encode(body))
