"""Assembles transactions: their ends, their tasks, and the state that is kept from run to run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from rmqserver.broker.relays.relay import SAVE_EVERY_S
from rmqserver.broker.sending.put import Put
from rmqserver.broker.transactions.checks import Checks
from rmqserver.broker.transactions.end_transaction import EndTransactions
from rmqserver.broker.transactions.state import TransactionState

if TYPE_CHECKING:
    from rmqserver.broker.parts import BrokerParts


class Transactions:
    """``load`` it when store and tables are there. At the end: ``write_op_messages``, then, when the store is flushed,
    ``save``; the offsets are saved after that."""

    def __init__(self, parts: BrokerParts, put: Put):
        self.state = TransactionState(parts, put)
        self.ends = EndTransactions(parts, put, self.state)
        self.checks = Checks(parts, put, self.state)
        self._config = parts.config
        self._pending = parts.pending
        self._metrics = parts.transaction_metrics

    def load(self) -> None:
        """Raises StorageError if a file is not ours."""
        self._metrics.load()
        self.state.load()

    async def run(self) -> None:
        """Runs the tasks until cancelled."""
        config, metrics = self._config, self._metrics
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.checks.run)
            nursery.start_soon(self._every, lambda: config.transaction_op_batch_interval_ms / 1000, self._write_now)
            nursery.start_soon(self._every, lambda: SAVE_EVERY_S, self.state.save_when_kept)
            nursery.start_soon(self._every, lambda: config.transaction_metric_flush_interval_ms / 1000, metrics.save)

    def write_op_messages(self) -> None:
        """Puts the gathered op messages into this round."""
        self.state.op_messages.write()

    def save(self) -> None:
        self.state.save()
        self._metrics.save()

    def _write_now(self) -> None:
        self.write_op_messages()
        self._pending.end_round()

    async def _every(self, interval_s: Callable[[], float], act: Callable[[], None]) -> None:
        while True:
            await trio.sleep(interval_s())
            act()
