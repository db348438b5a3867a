"""The messages that are made of a half message: the one that consumers see, the copy that goes back to the end of the
half queue, and the one that is given up. Also the op messages, which say which half messages are dealt with
(``TransactionalMessageBridge``, ``EndTransactionProcessor``, 5.5.0)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage
from rmqproto.message.special_messages import OP_SEPARATOR, OP_TAG, number_or
from rmqproto.message.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK
from rmqproto.names import TRANSACTION_CHECK_MAX_TIME_TOPIC, TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC
from rmqserver.broker.sending.put import Put
from rmqserver.operation import Refused
from rmqserver.store.new_message import NewMessage, copy_for
from rmqserver.store.results import MessageRefused

if TYPE_CHECKING:
    from rmqserver.config.broker_config import BrokerConfig

log = logging.getLogger(__name__)


Transaction = tuple[str, int, bytes]
"""Unique key, birth in ms, and the producer's host. A second send of a message has another birth."""


def transaction_of(half: StoredMessage, properties: dict[str, str]) -> Transaction:
    return properties.get(props.UNIQUE_KEY, ""), half.born_timestamp_ms, half.born_host


def committed(half: StoredMessage, properties: dict[str, str]) -> NewMessage:
    """The message that consumers see. ``properties`` are those of the half message, and are changed. Raises
    ProtocolError if they do not say for which queue it is."""
    topic, queue_id = props.real_queue_untrusted(properties)
    del properties[props.REAL_TOPIC], properties[props.REAL_QUEUE_ID]
    message = copy_for(half, topic, queue_id, properties)
    message.sys_flag = half.sys_flag & ~TRANSACTION_MASK | TRANSACTION_COMMIT
    message.prepared_offset = half.log_offset
    return message


def put_back(half: StoredMessage, properties: dict[str, str]) -> NewMessage:
    """A copy for the end of its half queue. It is as Apache's, but keeps the flag, which Apache's copy loses."""
    return copy_for(half, TRANSACTION_HALF_TOPIC, half.queue_id, properties)


def given_up(half: StoredMessage) -> NewMessage:
    """A copy for the operators, who look after messages that no producer has decided on."""
    return copy_for(half, TRANSACTION_CHECK_MAX_TIME_TOPIC, 0, half.properties)


def immunity_ms(properties: dict[str, str], timeout_ms: int) -> int | None:
    """How long after its birth the message's producer does not want to be asked; None if it does not say, and the
    broker's own ``timeout_ms`` counts."""
    text = properties.get(props.CHECK_IMMUNITY_TIME_IN_SECONDS)
    if text is None:
        return None
    seconds = number_or(text, -1)
    return timeout_ms if seconds == -1 else seconds * 1000


class _Gathered:
    """The ended half messages of one half queue. ``own_host`` is our address in the half messages."""

    def __init__(self) -> None:
        self.half_offsets: list[int] = []
        self.size_bytes = 0
        self.own_host = b""


class OpMessages:
    """Gathers ended half messages into op messages, several into one (``TransactionalOpBatchService``, 5.5.0)."""

    def __init__(self, config: BrokerConfig, clock_ms: Callable[[], int], put: Put):
        self._config = config
        self._clock_ms = clock_ms
        self._put = put
        self._gathered: dict[int, _Gathered] = {}

    def add(self, half: StoredMessage) -> None:
        """Notes that the half message has ended. Puts an op message into this round when there are enough for one."""
        gathered = self._gathered.get(half.queue_id)
        if gathered is None:
            gathered = self._gathered[half.queue_id] = _Gathered()
        gathered.half_offsets.append(half.queue_offset)
        gathered.size_bytes += len(str(half.queue_offset)) + 1
        gathered.own_host = half.store_host
        if gathered.size_bytes > self._config.transaction_op_msg_max_size_bytes:
            self._write(half.queue_id, gathered)

    def write(self) -> None:
        """Puts what was gathered into this round. Offsets that cannot be put are kept."""
        for queue_id, gathered in list(self._gathered.items()):
            self._write(queue_id, gathered)

    def _write(self, queue_id: int, gathered: _Gathered) -> None:
        message = NewMessage(
            topic=TRANSACTION_OP_TOPIC,
            queue_id=queue_id,
            flag=0,
            sys_flag=0,
            born_timestamp_ms=self._clock_ms(),
            born_host=gathered.own_host,
            store_host=gathered.own_host,
            reconsume_times=0,
            body="".join(f"{half_offset}{OP_SEPARATOR}" for half_offset in gathered.half_offsets).encode(),
            properties={props.WAIT: "true", props.TAGS: OP_TAG},
        )
        try:
            self._put.put_through(message)
        except (MessageRefused, Refused) as refused:
            log.warning("event=op-message-not-stored queue=%d reason=%r", queue_id, str(refused))
        else:
            del self._gathered[queue_id]
