"""Many messages of one queue in one request. Each is stored as a message of its own, without what the broker adds to
one that comes alone (``SendMessageProcessor.sendBatchMessage``, 5.5.0)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqproto.codes import ResponseCode
from rmqproto.message import properties as props
from rmqproto.message.record import TOPIC_V1_LENGTH_MAX
from rmqproto.names import RETRY_PREFIX
from rmqserver.broker.sending.properties import delay_level
from rmqserver.operation import Refused
from rmqserver.store.results import Appended

if TYPE_CHECKING:
    from rmqproto.headers.sending import SendHeader
    from rmqserver.broker.parts import BrokerParts
    from rmqserver.broker.sending.targets import Target


class BatchStored(NamedTuple):
    """``properties`` are those of the batch, not of its messages."""

    first: Appended
    log_offsets: list[int]
    properties: dict[str, str]


class BatchPut:
    def __init__(self, parts: BrokerParts):
        self._parts = parts

    def put(
        self, header: SendHeader, target: Target, queue_id: int, born_host: bytes, store_host: bytes, body: bytes
    ) -> BatchStored:
        """Takes the messages in ``body`` into this round. Raises Refused or MessageRefused if they cannot be taken, and
        ProtocolError if they are not messages; nothing is stored then."""
        topic = header.topic
        if len(topic) > TOPIC_V1_LENGTH_MAX:
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, f"message topic length too long {len(topic)}")
        if topic.startswith(RETRY_PREFIX):
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, f"batch request does not support retry group {topic}")
        properties = props.parse(header.properties)
        if delay_level(properties) > 0:
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, "a batch cannot be delayed")
        first, log_offsets = self._parts.store.append_batch(
            topic, queue_id, header.sys_flag | target.sys_flag, header.born_timestamp, born_host, store_host,
            header.reconsume_times, body,
        )  # fmt: skip
        target.flow.add(len(log_offsets), len(body))
        return BatchStored(first, log_offsets, properties)
