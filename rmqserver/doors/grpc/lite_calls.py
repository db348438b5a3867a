"""Lite topics: which of them a client subscribes to, and receives from them
(``LiteSubscriptionService``, ``ReceiveMessageActivity``, 5.5.0)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rmqproto.bodies.lite import LiteSubscriptionChange, OffsetOption
from rmqproto.errors import ProtocolError
from rmqproto.message import properties as props
from rmqproto.message.light_queues import LIGHT_QUEUE_ID, light_queue_offset_untrusted
from rmqproto.message.record import StoredMessage, decode_records_untrusted
from rmqproto.names import lite_queue_name
from rmqproto.pop import NORMAL, ORDER_REVIVE_QUEUE_ID, Handle
from rmqserver.broker.consuming.lite.subscriptions import BIND_TOPIC
from rmqserver.doors.grpc.call_checks import check_lite_topic, checked_names
from rmqserver.doors.grpc.codes import OK, CallRefused, Code
from rmqserver.doors.grpc.messages import CLASSES, ZERO_BASED_ENUMS
from rmqserver.doors.grpc.receipts import Receipt

if TYPE_CHECKING:
    from rmqproto.headers.lite import PopLiteHeader
    from rmqserver.broker.consuming.lite.pops import LitePopped
    from rmqserver.broker.consuming.lite.subscriptions import LiteSubscriptions
    from rmqserver.doors.grpc.link import GrpcCall
    from rmqserver.doors.grpc.presence import GrpcPeers

_ACTIONS = ZERO_BASED_ENUMS["LiteSubscriptionAction"].split()
_OFFSET_TYPES = {"policy": "POLICY", "offset": "OFFSET", "tail_n": "TAIL_N", "timestamp": "TIMESTAMP"}


class LiteTopicCalls:
    def __init__(self, subscriptions: LiteSubscriptions, clients: GrpcPeers):
        self._subscriptions = subscriptions
        self._clients = clients

    def sync(self, call: GrpcCall, request: Any) -> None:
        topic, group = checked_names(request.topic, request.group)
        for name in request.lite_topic_set:
            check_lite_topic(name)
        bound = self._subscriptions.attribute(group, BIND_TOPIC)
        if bound != topic:
            text = f"lite group {group} is expected to bind topic {bound or 'null'}, but actual is {topic}"
            raise CallRefused(Code.ILLEGAL_TOPIC, text)
        client = self._clients.known(call)
        action = _ACTIONS[request.action] if 0 <= request.action < len(_ACTIONS) else ""
        change = LiteSubscriptionChange(
            action=action, client_id=client.client_id, group=group, lite_topic_set=list(request.lite_topic_set),
            offset_option=_option_of(request.offset_option) if request.HasField("offset_option") else None,
            topic=topic, version=request.version,
        )  # fmt: skip
        self._subscriptions.change(change, client.client_id, group, topic, client)
        call.answer(CLASSES["SyncLiteSubscriptionResponse"](status=OK))


def _option_of(option: Any) -> OffsetOption | None:
    which = option.WhichOneof("offset_type")
    return None if which is None else OffsetOption(type=_OFFSET_TYPES[which], value=getattr(option, which))


def lite_receipts(header: PopLiteHeader, popped: LitePopped, broker_name: str) -> list[tuple[StoredMessage, Receipt]]:
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
