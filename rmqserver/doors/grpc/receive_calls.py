"""Receives: a pop that waits, of a topic or of a client's lite topics (``ReceiveMessageActivity``, 5.5.0)."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from rmqproto.codes import ResponseCode
from rmqproto.errors import ProtocolError
from rmqproto.filters.subscription import EVERYTHING, TAG, TagFilter, parse_tags
from rmqproto.headers.lite import PopLiteHeader
from rmqproto.headers.popping import PopHeader
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage, decode_records_untrusted
from rmqproto.names import DLQ_PREFIX
from rmqproto.perm import PERM_READ
from rmqproto.pop import Handle, Source
from rmqserver.broker.consuming.lite.subscriptions import BIND_TOPIC
from rmqserver.core import pack_received
from rmqserver.doors.grpc.call_checks import (
    INVISIBLE_MIN_MS,
    check_filter,
    check_group,
    check_invisible_ms,
    check_topic,
    ms_of,
)
from rmqserver.doors.grpc.codes import OK, CallRefused, Code, status
from rmqserver.doors.grpc.link import framed
from rmqserver.doors.grpc.lite_calls import lite_receipts
from rmqserver.doors.grpc.messages import CLASSES
from rmqserver.doors.grpc.receipts import RENEWED_MS, Receipt
from rmqserver.doors.grpc.stored import MD5, PLAIN_ROLES, put_message, set_ms

if TYPE_CHECKING:
    from rmqserver.broker.broker import Broker
    from rmqserver.broker.consuming.lite.pops import LitePopped
    from rmqserver.broker.consuming.pop.popping import Popped
    from rmqserver.doors.grpc.link import GrpcCall, Guarded
    from rmqserver.doors.grpc.presence import GrpcPeers
    from rmqserver.doors.grpc.settle_calls import SettleCalls

BATCH_MAX = 32
ALL_QUEUES = -1
POLL_MIN_MS, POLL_MAX_MS = 5000, 20_000
DEADLINE_ROOM_MS = 300
"""A poll ends this long before its client's deadline: an answer that meets it is lost, and its messages with it."""
REQUEST_TIMEOUT_DEFAULT_MS = 3000
FROM_LAST = 1
"""initMode of pops: a new group gets what comes from now on."""
_RECEIVED = CLASSES["ReceiveMessageResponse"]
_FOUND = framed(_RECEIVED(status=OK).SerializeToString())

Found = list[tuple[StoredMessage, Receipt, str]]
"""Popped messages with their receipts and lite topics; the last is empty for all others."""


class ReceiveCalls:
    def __init__(self, broker: Broker, clients: GrpcPeers, settling: SettleCalls, guarded: Guarded):
        self._topics = broker.topics
        self._groups = broker.groups
        self._pops = broker.pops
        self._lite_pops = broker.lite_pops
        self._broker_name = broker.config.broker_name
        self._clock_ms = broker.clock_ms
        self._clients = clients
        self._settling = settling
        self._guarded = guarded

    def receive(self, call: GrpcCall, request: Any) -> None:
        topic, group = request.message_queue.topic.name, request.group.name
        poll_ms = self._poll_ms(call, request)
        check_topic(topic)
        check_group(group)
        invisible_ms = RENEWED_MS if request.auto_renew else ms_of(request.invisible_duration)
        if not request.auto_renew:
            check_invisible_ms(invisible_ms, INVISIBLE_MIN_MS)
        wanted = check_filter(request.filter_expression)
        config, known = self._topics.get(topic), self._groups.get(group)
        if config is not None and not (config.perm & PERM_READ and config.read_queue_nums):
            raise CallRefused(Code.FORBIDDEN, "no readable queue")
        count, now_ms = min(max(request.batch_size, 1), BATCH_MAX), self._clock_ms()
        attempt_id, guarded = request.attempt_id or None, partial(self._guarded, call)
        if known is not None and known.attributes.get(BIND_TOPIC):
            lite = PopLiteHeader(
                client_id=self._clients.known(call).client_id, consumer_group=group, topic=topic, max_msg_num=count,
                invisible_time=invisible_ms, poll_time=poll_ms, born_time=now_ms, attempt_id=attempt_id,
            )  # fmt: skip
            self._lite_pops.pop(lite, call, partial(self._lite_popped, call, request, lite), guarded)
            return
        header = PopHeader(
            consumer_group=group, topic=topic, queue_id=ALL_QUEUES, max_msg_nums=count, invisible_time=invisible_ms,
            poll_time=poll_ms, born_time=now_ms, init_mode=FROM_LAST, exp_type=wanted.kind, exp=wanted.expression,
            order=known is not None and known.consume_message_orderly, attempt_id=attempt_id,
        )  # fmt: skip
        self._pops.pop(header, call, partial(self._popped, call, request, header), guarded)

    def _poll_ms(self, call: GrpcCall, request: Any) -> int:
        """How long to wait for a message."""
        left_ms = None if call.deadline_s is None else int((call.deadline_s - time.monotonic()) * 1000)
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
            raise CallRefused(Code.ILLEGAL_POLLING_TIME, text)
        return left_ms - DEADLINE_ROOM_MS

    # --- what was popped ---------------------------------------------------------------------------------------------

    def _popped(self, call: GrpcCall, request: Any, header: PopHeader, code: ResponseCode, popped: Popped) -> None:
        tags = parse_tags(header.exp) if header.exp_type == TAG else EVERYTHING
        if tags is EVERYTHING and popped.offsets and not popped.order_counts and not request.auto_renew:
            packed = self._packed(request, header, popped)
            if packed is not None and not call.closed and not call.has_client_left():
                popped.chunks = []  # it is kept until the answer has left
                call.on_lost = partial(self._give_back_popped, call, request.group.name, header, popped)
                call.answer_packed(_FOUND + packed + framed(self._last().SerializeToString()))
                return
        self._deliver(call, request, code, [(*each, "") for each in self._receipts(header, popped)], tags)

    def _lite_popped(
        self, call: GrpcCall, request: Any, header: PopLiteHeader, code: ResponseCode, popped: LitePopped
    ) -> None:
        self._deliver(call, request, code, lite_receipts(header, popped, self._broker_name))

    def _deliver(
        self, call: GrpcCall, request: Any, code: ResponseCode, found: Found, tags: TagFilter = EVERYTHING
    ) -> None:
        group, topic = request.group.name, request.message_queue.topic.name
        if call.closed or (found and call.has_client_left()):  # the next poll is to get them soon
            self._give_back(call, group, topic, [each[1:] for each in found])
            return
        if code == ResponseCode.POLLING_FULL:
            self.refuse(call, CallRefused(Code.TOO_MANY_REQUESTS, "polling full"))
            return
        answers, delivered, attempts_max = [], [], self._clients.attempts_max(group)
        client = self._clients.find(call) if request.auto_renew else None
        for record, receipt, lite_topic in found:
            answer = _RECEIVED()
            try:
                properties = record.properties
                if not tags.matches(properties.get(props.TAGS)):  # another tag with the same hash
                    self._settling.later(partial(self._settling.ack_quietly, call, group, topic, receipt, lite_topic))
                    continue
                if record.reconsume_times >= attempts_max:
                    self._settling.later(partial(self._settling.bury, call, group, topic, receipt, lite_topic))
                    continue
                put_message(answer.message, record, topic, str(receipt), properties)
            except ProtocolError:  # a damaged message must not cost those beside it
                continue
            answers.append(answer)
            delivered.append((receipt, lite_topic))
            if client is not None:
                self._settling.renewals.hold(group, topic, receipt, client, lite_topic)
        call.on_lost = partial(self._give_back, call, group, topic, delivered)
        nothing = "no match message" if found else "no new message"
        told = OK if answers else status(Code.MESSAGE_NOT_FOUND, nothing)
        call.send(_RECEIVED(status=told), *answers)
        self._end(call)

    def _packed(self, request: Any, header: PopHeader, popped: Popped) -> bytes | None:
        """The popped messages as they are sent; None if one of them is not plain."""
        if header.topic.startswith(DLQ_PREFIX):
            return None
        handles: list[bytes] = []
        for source, offsets in popped.offsets.items():
            before = str(self._handle(header, popped, source, 0)).removesuffix("0").encode()
            handles += [b"%b%d" % (before, offset) for offset in offsets]
        attempts_max = self._clients.attempts_max(request.group.name)
        return pack_received(b"".join(popped.chunks), header.topic.encode(), handles, PLAIN_ROLES, attempts_max, MD5)

    def _give_back(self, call: GrpcCall, group: str, topic: str, found: list[tuple[Receipt, str]]) -> None:
        for receipt, lite_topic in found:
            self._settling.later(partial(self._settling.give_back, group, topic, receipt, call, lite_topic))

    def _give_back_popped(self, call: GrpcCall, group: str, header: PopHeader, popped: Popped) -> None:
        found = [(Receipt(handle, None), "") for handle in self._handles(header, popped)]
        self._give_back(call, group, header.topic, found)

    def refuse(self, call: GrpcCall, refusal: CallRefused) -> None:
        call.send(_RECEIVED(status=status(refusal.code, refusal.text)))
        self._end(call)

    def _end(self, call: GrpcCall) -> None:
        call.answer(self._last())

    def _last(self) -> Any:
        last = _RECEIVED()
        set_ms(last.delivery_timestamp, self._clock_ms())
        return last

    def _receipts(self, header: PopHeader, popped: Popped) -> list[tuple[StoredMessage, Receipt]]:
        """The popped messages with their receipts. A message that is consumed in order is counted by the broker, and
        in its record if it was tried elsewhere before."""
        records = decode_records_untrusted(b"".join(popped.chunks))
        counts = {source: by_offset for source, by_offset, _ in popped.order_counts}
        found = []
        for record, handle in zip(records, self._handles(header, popped), strict=True):
            if times := counts.get((handle.kind, handle.queue_id), {}).get(handle.queue_offset):
                record = msgspec.structs.replace(record, reconsume_times=times)
            found.append((record, Receipt(handle, record.log_offset)))
        return found

    def _handles(self, header: PopHeader, popped: Popped) -> list[Handle]:
        return [
            self._handle(header, popped, source, offset)
            for source, offsets in popped.offsets.items()
            for offset in offsets
        ]

    def _handle(self, header: PopHeader, popped: Popped, source: Source, offset: int) -> Handle:
        kind, queue_id = source
        return Handle(
            popped.starts[source], popped.pop_time_ms, header.invisible_time, popped.revive_queue_id, kind,
            self._broker_name, queue_id, offset,
        )  # fmt: skip
