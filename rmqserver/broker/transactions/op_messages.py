"""Gathers ended half messages into op messages, several into one (``TransactionalOpBatchService``, 5.5.0)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rmqserver.broker.sending.put import Put
from rmqserver.broker.transactions.half_messages import op_message
from rmqserver.operation import Refused
from rmqserver.store.results import MessageRefused

if TYPE_CHECKING:
    from rmqproto.message.record import StoredMessage
    from rmqserver.broker.parts import BrokerParts

log = logging.getLogger(__name__)


class _Gathered:
    """The ended half messages of one half queue. ``own_host`` is our address in the half messages."""

    def __init__(self) -> None:
        self.half_offsets: list[int] = []
        self.size_bytes = 0
        self.own_host = b""


class OpMessages:
    def __init__(self, parts: BrokerParts, put: Put):
        self._config = parts.config
        self._clock_ms = parts.clock_ms
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
        message = op_message(queue_id, gathered.half_offsets, self._clock_ms(), gathered.own_host)
        try:
            self._put.put_through(message)
        except (MessageRefused, Refused) as refused:
            log.warning("event=op-message-not-stored queue=%d reason=%r", queue_id, str(refused))
        else:
            del self._gathered[queue_id]
