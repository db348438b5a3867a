"""A producer's message that is not plain: to a retry topic, delayed, with a priority, half of a transaction, or sent
again. It goes the full way: through the rules for producers, and then through ``Put``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqproto.message import properties as props
from rmqproto.message.recall_handle import RecallHandle
from rmqproto.names import RETRY_PREFIX, TRANSACTION_HALF_TOPIC
from rmqserver.broker.sending.put import Put
from rmqserver.broker.sending.rewrites import FOR_PRODUCERS, Sender, half_message
from rmqserver.store.results import Appended

if TYPE_CHECKING:
    from rmqserver.broker.parts import BrokerParts
    from rmqserver.store.new_message import NewMessage


class ProducerPut:
    """The part of a send that does not depend on its frame: any message of any producer can be put with it."""

    def __init__(self, parts: BrokerParts, put: Put):
        self._parts = parts
        self._put = put

    def put(self, message: NewMessage, sender: Sender) -> tuple[Appended, int]:
        """Puts the message. Returns where it went, and the queue that its producer is told: the one in its own topic,
        even if it waits elsewhere. Raises as ``Put.put``. Afterwards the message has a unique key."""
        message.sys_flag |= sender.target.sys_flag
        for rule in FOR_PRODUCERS:
            rule(message, self._parts, sender)
        queue_id = message.queue_id
        half_message(message, self._parts)
        appended = self._put.put(message)
        if message.topic == TRANSACTION_HALF_TOPIC:
            self._parts.transaction_metrics.add(message.properties[props.REAL_TOPIC], 1)
        return appended, queue_id


def recall_handle_of(message: NewMessage, broker_name: str) -> str | None:
    """The handle by which a producer can recall a timer message (``attachRecallHandle``); None for other messages."""
    properties = message.properties
    topic, out_ms = properties.get(props.REAL_TOPIC), properties.get(props.TIMER_OUT_MS)
    if topic is None or out_ms is None or topic.startswith(RETRY_PREFIX):
        return None
    return recall_handle(topic, broker_name, int(out_ms), properties[props.UNIQUE_KEY])


def recall_handle(topic: str, broker_name: str, out_ms: int, unique_key: str) -> str:
    """The handle's time is the slot's plus one millisecond, so that it is rounded down to the same slot."""
    return RecallHandle(topic, broker_name, str(out_ms + 1), unique_key).render()
