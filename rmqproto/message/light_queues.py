"""Light queues as clients see them: a message's offsets in its light queues, which the broker stores among its
properties (``MultiDispatchUtils``, 5.5.0)."""

from __future__ import annotations

from collections.abc import Mapping

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import ProtocolError
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage
from rmqproto.names import LIGHT_QUEUE_PREFIX

LIGHT_QUEUE_ID = 0
"""The only queue id of a light queue."""


def is_light_queue(queue: MessageQueue) -> bool:
    return queue.topic.startswith(LIGHT_QUEUE_PREFIX)


def light_queue_offset_untrusted(properties: Mapping[str, str], name: str) -> int:
    """The queue offset in the light queue of that name. ProtocolError if the message has none."""
    names = properties.get(props.MULTI_DISPATCH, "").split(",")
    offsets = properties.get(props.MULTI_QUEUE_OFFSET, "").split(",")
    found = dict(zip(names, offsets, strict=False)).get(name, "")
    if not (found.isascii() and found.isdecimal()):
        raise ProtocolError(f"a message in light queue {name} does not say at which offset")
    return int(found)


def queue_offset_in_untrusted(stored: StoredMessage, topic: str) -> int:
    """The queue offset in the queue of ``topic`` from which the record was read. For a light queue it differs from the
    record's own. ProtocolError as above."""
    if topic.startswith(LIGHT_QUEUE_PREFIX):
        return light_queue_offset_untrusted(stored.properties, topic)
    return stored.queue_offset
