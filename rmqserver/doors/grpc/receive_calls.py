"""Receives: a pop that waits, of a topic or of a client's lite topics, and which of these it subscribes to
(``ReceiveMessageActivity``, ``LiteSubscriptionService``, 5.5.0)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from rmqproto.allocate import POP_ALL_QUEUES
from rmqproto.bodies.lite import LiteSubscriptionChange, OffsetOption
from rmqproto.codes import PERM_READ, ResponseCode
from rmqproto.errors import ProtocolError
from rmqproto.filters.subscription import EVERYTHING, TAG, TagFilter, parse_tags
from rmqproto.headers.popping import INIT_FROM_MAX, PopHeader, PopLiteHeader
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage, decode_records_untrusted
from rmqproto.message.special_messages import LIGHT_QUEUE_ID, light_queue_offset_untrusted
from rmqproto.names import DLQ_PREFIX, lite_queue_name
from rmqproto.pop import NORMAL, ORDER_REVIVE_QUEUE_ID, Handle, Source
from rmqserver.broker.consuming.holds import DEADLINE_SWEEP_S
from rmqserver.broker.consuming.lite_subscriptions import BIND_TOPIC
from rmqserver.core import pack_received
from rmqserver.doors.grpc.call_bytes import packed
from rmqserver.doors.grpc.call_checks import (
    INVISIBLE_MIN_MS,
    check_filter,
    check_invisible_ms,
    check_lite_topic,
    checked_names,
    ms_of,
)
from rmqserver.doors.grpc.client_settings import BATCH_MAX, POLL_MAX_MS, attempts_max
from rmqserver.doors.grpc.codes import OK, CallRefused, Code, refuse_if, status
from rmqserver.doors.grpc.messages import CLASSES, LITE_ACTIONS
from rmqserver.doors.grpc.receipts import RENEWED_MS, Receipt
from rmqserver.doors.grpc.stored import MD5, PLAIN_ROLES, put_message, set_ms

if TYPE_CHECKING:
    from rmqserver.broker.broker import Broker
    from rmqserver.broker.consuming.lite_pops import LitePopped
    from rmqserver.broker.consuming.pop.popping import Popped
    from rmqserver.doors.grpc.link import GrpcCall
    from rmqserver.doors.grpc.presence import GrpcPeers
    from rmqserver.doors.grpc.settle_calls import SettleCalls

POLL_MIN_MS = 5000
DEADLINE_ROOM_MS = int(DEADLINE_SWEEP_S * 1000) + 300
"""A poll is to end this long before its client's deadline: an answer that meets it is lost, and a sweep may be late."""
KNOWS_POLLING_TIME = b"5.0.3"
"""The first version of clients that knows ILLEGAL_POLLING_TIME."""
REQUEST_TIMEOUT_DEFAULT_MS = 3000
_RECEIVED = CLASSES["ReceiveMessageResponse"]

Found = list[tuple[StoredMessage, Receipt]]
"""Popped messages with their receipts."""


class ReceiveCalls:
    def __init__(self, broker: Broker, clients: GrpcPeers, settling: SettleCalls):
        self._topics = broker.topics
        self._groups = broker.groups
        self._pops = broker.pops
        self._lite_pops = broker.lite_pops
        self._lite_subscriptions = broker.lite.subscriptions
        self._broker_name = broker.config.broker_name
        self._clock_ms = broker.clock_ms
        self._clients = clients
        self._settling = settling

    def receive(self, call: GrpcCall, request: Any) -> None:
        poll_ms = self._poll_ms(call, request)
        topic, group = checked_names(request.message_queue.topic, request.group)
        invisible_ms = RENEWED_MS if request.auto_renew else ms_of(request.invisible_duration)
        if not request.auto_renew:
            check_invisible_ms(invisible_ms, INVISIBLE_MIN_MS)
        wanted = check_filter(request.filter_expression)
        config, known = self._topics.get(topic), self._groups.get(group)
        is_mute = config is not None and not (config.perm & PERM_READ and config.read_queue_nums)
        refuse_if(is_mute, Code.FORBIDDEN, "no readable queue")
        count, now_ms = min(max(request.batch_size, 1), BATCH_MAX), self._clock_ms()
        attempt_id = request.attempt_id or None
        if known is not None and known.attributes.get(BIND_TOPIC):
            lite = PopLiteHeader(
                client_id=self._clients.known(call).client_id, consumer_group=group, topic=topic, max_msg_num=count,
                invisible_time=invisible_ms, poll_time=poll_ms, born_time=now_ms, attempt_id=attempt_id,
            )  # fmt: skip

            def on_popped(code: ResponseCode, popped: LitePopped) -> None:
                self._deliver(call, request, code, _lite_receipts(lite, popped, self._broker_name))

            self._lite_pops.pop(lite, call, on_popped, call.guarded)
            return
        if request.auto_renew and known is not None:
            self._clients.consumer(call, "PUSH_CONSUMER", group, topic, request.filter_expression)
        header = PopHeader(
            consumer_group=group, topic=topic, queue_id=POP_ALL_QUEUES, max_msg_nums=count, invisible_time=invisible_ms,
            poll_time=poll_ms, born_time=now_ms, init_mode=INIT_FROM_MAX, exp_type=wanted.kind, exp=wanted.expression,
            order=known is not None and known.consume_message_orderly, attempt_id=attempt_id,
        )  # fmt: skip
        self._pops.pop(header, call, partial(self._popped, call, request, header), call.guarded)

    def subscribe_lite(self, call: GrpcCall, request: Any) -> None:
        topic, group = checked_names(request.topic, request.group)
        for name in request.lite_topic_set:
            check_lite_topic(name)
        bound = self._lite_subscriptions.attribute(group, BIND_TOPIC)
        text = f"lite group {group} is expected to bind topic {bound or 'null'}, but actual is {topic}"
        refuse_if(bound != topic, Code.ILLEGAL_TOPIC, text)
        client = self._clients.consumer(call, "LITE_PUSH_CONSUMER", group, topic)
        action = LITE_ACTIONS[request.action] if 0 <= request.action < len(LITE_ACTIONS) else ""
        change = LiteSubscriptionChange(
            action=action, client_id=client.client_id, group=group, lite_topic_set=list(request.lite_topic_set),
            offset_option=_option_of(request.offset_option) if request.HasField("offset_option") else None,
            topic=topic, version=request.version,
        )  # fmt: skip
        self._lite_subscriptions.change(change, client.client_id, group, topic, client)
        call.answer(CLASSES["SyncLiteSubscriptionResponse"](status=OK))

    def _poll_ms(self, call: GrpcCall, request: Any) -> int:
        """How long to wait for a message."""
        left_ms = call.left_ms()
        if request.HasField("long_polling_timeout"):
            wanted_ms = ms_of(request.long_polling_timeout)
        elif left_ms is None:
            wanted_ms = POLL_MAX_MS
        else:
            client = self._clients.find(call)
            timeout_ms = ms_of(client.settings.request_timeout) if client is not None else 0
            wanted_ms = left_ms - (timeout_ms or REQUEST_TIMEOUT_DEFAULT_MS) // 2
        wanted_ms = min(max(wanted_ms, POLL_MIN_MS), POLL_MAX_MS)
        if left_ms is None or wanted_ms <= left_ms - DEADLINE_ROOM_MS:
            return wanted_ms
        if left_ms < POLL_MIN_MS:
            text = "The deadline time remaining is not enough for polling, please check network condition"
            is_known = call.metadata.get(b"x-mq-client-version", b"") >= KNOWS_POLLING_TIME
            raise CallRefused(Code.ILLEGAL_POLLING_TIME if is_known else Code.BAD_REQUEST, text)
        return left_ms - DEADLINE_ROOM_MS

    # --- what was popped ---------------------------------------------------------------------------------------------

    def _popped(self, call: GrpcCall, request: Any, header: PopHeader, code: ResponseCode, popped: Popped) -> None:
        tags = parse_tags(header.exp) if header.exp_type == TAG else EVERYTHING
        messages = self._packed(header, popped, tags)
        if messages is None:
            self._deliver(call, request, code, self._found(header, popped), tags)
        else:
            popped.chunks = []  # the rest is kept until the answer has left
            self._hand_over(call, request, OK, messages, lambda: self._receipts(header, popped))

    def _packed(self, header: PopHeader, popped: Popped, tags: TagFilter) -> bytes | None:
        """The popped messages as they are sent; None if one of them is not plain."""
        if not popped.offsets or popped.order_counts or header.topic.startswith(DLQ_PREFIX):
            return None
        handles: list[bytes] = []
        for source, offsets in popped.offsets.items():
            before = str(self._handle(header, popped, source, 0)).removesuffix("0").encode()
            handles += [b"%b%d" % (before, offset) for offset in offsets]
        return pack_received(
            b"".join(popped.chunks), header.topic.encode(), handles, PLAIN_ROLES, tags.tags,
            attempts_max(self._groups.get(header.consumer_group)), MD5,
        )  # fmt: skip

    def _deliver(
        self, call: GrpcCall, request: Any, code: ResponseCode, found: Found, tags: TagFilter = EVERYTHING
    ) -> None:
        if code == ResponseCode.POLLING_FULL:
            self.refuse(call, CallRefused(Code.TOO_MANY_REQUESTS, "polling full"))
            return
        answers, delivered, attempts = [], [], attempts_max(self._groups.get(request.group.name))
        for record, receipt in found:
            answer = _RECEIVED()
            try:
                properties = record.properties
                if not tags.matches(properties.get(props.TAGS)):  # another tag with the same hash
                    self._settling.later(partial(self._settling.ack_quietly, call, receipt))
                    continue
                if record.reconsume_times >= attempts:
                    self._settling.later(partial(self._settling.bury, call, receipt))
                    continue
                put_message(answer.message, record, properties, receipt.topic, str(receipt))
            except ProtocolError:  # a damaged message must not cost those beside it
                continue
            answers.append(packed(answer))
            delivered.append(receipt)
        nothing = "no match message" if found else "no new message"
        told = OK if answers else status(Code.MESSAGE_NOT_FOUND, nothing)
        self._hand_over(call, request, told, b"".join(answers), lambda: delivered)

    def _hand_over(
        self, call: GrpcCall, request: Any, told: Any, messages: bytes, receipts: Callable[[], list[Receipt]]
    ) -> None:
        """Answers with the messages, or gives them back if the client would not get them."""

        def give_back() -> None:
            for receipt in receipts():
                self._settling.later(partial(self._settling.give_back, receipt, call))

        if call.closed or (messages and call.link.connection.has_peer_left()):  # the next poll is to get them soon
            give_back()
        elif not call.link.has_room_for(len(messages)):
            # Its connection would end if it also left this unread: all its polls may have been answered at once.
            give_back()
            self.refuse(call, CallRefused(Code.TOO_MANY_REQUESTS, "answers of this connection are not read yet"))
        else:
            client = self._clients.find(call) if request.auto_renew else None
            if client is not None:
                for receipt in receipts():
                    self._settling.renewals.hold(receipt, client)
            call.on_lost = give_back
            self._answer(call, told, messages)

    def refuse(self, call: GrpcCall, refusal: CallRefused) -> None:
        self._answer(call, refusal.status)

    def _answer(self, call: GrpcCall, told: Any, messages: bytes = b"") -> None:
        first = _FIRST_OK if told is OK else packed(_RECEIVED(status=told))
        last = _RECEIVED()
        set_ms(last.delivery_timestamp, self._clock_ms())
        call.answer_packed(b"".join((first, messages, packed(last))))

    # --- receipts ----------------------------------------------------------------------------------------------------

    def _found(self, header: PopHeader, popped: Popped) -> Found:
        """A message that is consumed in order is counted by the broker, and in its record if it was tried elsewhere
        before."""
        records = decode_records_untrusted(b"".join(popped.chunks))
        counts = {source: by_offset for source, by_offset, _ in popped.order_counts}
        found = []
        for record, receipt in zip(records, self._receipts(header, popped), strict=True):
            handle = receipt.handle
            if times := counts.get((handle.kind, handle.queue_id), {}).get(handle.queue_offset):
                record = msgspec.structs.replace(record, reconsume_times=times)
            found.append((record, receipt._replace(log_offset=record.log_offset)))
        return found

    def _receipts(self, header: PopHeader, popped: Popped) -> list[Receipt]:
        """Without log offsets."""
        return [
            Receipt(header.consumer_group, header.topic, self._handle(header, popped, source, offset))
            for source, offsets in popped.offsets.items()
            for offset in offsets
        ]

    def _handle(self, header: PopHeader, popped: Popped, source: Source, offset: int) -> Handle:
        kind, queue_id = source
        return Handle(
            popped.starts[source], popped.pop_time_ms, header.invisible_time, popped.revive_queue_id, kind,
            self._broker_name, queue_id, offset,
        )  # fmt: skip


_FIRST_OK = packed(_RECEIVED(status=OK))


def _lite_receipts(header: PopLiteHeader, popped: LitePopped, broker_name: str) -> Found:
    """The popped messages with their receipts. Each has the queue offset of its light queue, and is counted by the
    broker, not in its record."""
    found = []
    records = decode_records_untrusted(b"".join(popped.records))
    for record, count in zip(records, popped.counts, strict=True):
        try:
            lite_topic = record.properties.get(props.LITE_TOPIC, "")
            offset = light_queue_offset_untrusted(record.properties, lite_queue_name(header.topic, lite_topic))
        except ProtocolError:
            continue
        handle = Handle(
            0, popped.now_ms, header.invisible_time, ORDER_REVIVE_QUEUE_ID, NORMAL, broker_name, LIGHT_QUEUE_ID, offset
        )
        seen = msgspec.structs.replace(record, reconsume_times=count, queue_offset=offset)
        found.append((seen, Receipt(header.consumer_group, header.topic, handle, record.log_offset, lite_topic)))
    return found


def _option_of(option: Any) -> OffsetOption | None:
    which = option.WhichOneof("offset_type")
    return None if which is None else OffsetOption(type=which.upper(), value=getattr(option, which))
