"""What POP keeps in files, and its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from rmqserver.broker.consuming.lite_topics import Lite
    from rmqserver.broker.consuming.pop.assignment import Assigning
    from rmqserver.broker.consuming.pop.orders import Orders
    from rmqserver.broker.consuming.pop.revive import Reviver
    from rmqserver.broker.consuming.pop.waiting import Waiting
    from rmqserver.broker.sending.pending import PendingPuts
    from rmqserver.config.broker_config import BrokerConfig


class Pop:
    def __init__(
        self, config: BrokerConfig, pending: PendingPuts, orders: Orders, waiting: Waiting, reviver: Reviver,
        assigning: Assigning, lite: Lite,
    ):  # fmt: skip
        self.orders = orders
        self.waiting = waiting
        self.reviver = reviver
        self.lite = lite
        self._config = config
        self._pending = pending
        self._assigning = assigning

    def load(self, offsets_saved_ms: int | None) -> None:
        """To be called after the tables of topics, groups and offsets are loaded. ``offsets_saved_ms``: after a crash,
        when the offsets were last saved. Raises StorageError if a file is not ours."""
        self.orders.load()
        self._assigning.load()
        self.reviver.hold_back()
        if offsets_saved_ms is not None:
            self.reviver.catch_up(offsets_saved_ms)

    def end_round(self) -> None:
        """Lets requests go on that the round's writes have woken, and writes what they take in turn."""
        while self.waiting.go_on():
            self._pending.end_round()

    def save(self) -> None:
        """To be called at the end, after the store is flushed and before the offsets are saved."""
        self.reviver.commit()
        self.orders.save()

    async def run(self) -> None:
        """Runs the tasks until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.reviver.run)
            nursery.start_soon(self._save_orders)
            nursery.start_soon(self.lite.run)

    async def _save_orders(self) -> None:
        while True:
            await trio.sleep(self._config.flush_consumer_offset_interval_ms / 1000)
            self.orders.save()
