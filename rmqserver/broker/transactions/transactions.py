"""Assembles transactions: their ends, their tasks, and the state that is kept from run to run."""

from __future__ import annotations

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
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.checks.run)
            nursery.start_soon(self._write_op_messages)
            nursery.start_soon(self._save_progress)
            nursery.start_soon(self._save_metrics)

    def write_op_messages(self) -> None:
        """Puts the gathered op messages into this round."""
        self.state.op_messages.write()

    def save(self) -> None:
        self.state.save()
        self._metrics.save()

    async def _write_op_messages(self) -> None:
        while True:
            await trio.sleep(self._config.transaction_op_batch_interval_ms / 1000)
            self.write_op_messages()
            self._pending.end_round()

    async def _save_progress(self) -> None:
        while True:
            await trio.sleep(SAVE_EVERY_S)
            self.state.save_when_kept()

    async def _save_metrics(self) -> None:
        while True:
            await trio.sleep(self._config.transaction_metric_flush_interval_ms / 1000)
            self._metrics.save()
