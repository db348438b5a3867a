"""The life of transactions: their tasks, and the state that is kept from run to run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from rmqserver.broker.relays.relay import SAVE_EVERY_S

if TYPE_CHECKING:
    from rmqserver.broker.sending.pending import PendingPuts
    from rmqserver.broker.tables.transaction_metrics import TransactionMetrics
    from rmqserver.broker.transactions.checks import Checks
    from rmqserver.broker.transactions.state import TransactionState
    from rmqserver.config.broker_config import BrokerConfig


class Transactions:
    """``load`` it when store and tables are there. At the end: ``write_op_messages``, then, when the store is flushed,
    ``save``; the offsets are saved after that."""

    def __init__(
        self, config: BrokerConfig, pending: PendingPuts, metrics: TransactionMetrics, state: TransactionState,
        checks: Checks,
    ):  # fmt: skip
        self.state = state
        self.checks = checks
        self._config = config
        self._pending = pending
        self._metrics = metrics

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
