"""Assembles POP: its operations, what it keeps in files, and its tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from rmqserver.broker.consuming.lite.lite_topics import Lite
from rmqserver.broker.consuming.pop.acks import Acks
from rmqserver.broker.consuming.pop.assignment import AskRoute, Assigning
from rmqserver.broker.consuming.pop.in_flight import InFlight
from rmqserver.broker.consuming.pop.looks import Looks
from rmqserver.broker.consuming.pop.orders import Orders
from rmqserver.broker.consuming.pop.pop import Pops
from rmqserver.broker.consuming.pop.popping import Popping
from rmqserver.broker.consuming.pop.revive import Reviver
from rmqserver.broker.consuming.pop.revive_log import ReviveLog
from rmqserver.broker.consuming.pop.waiting import Post, Waiting
from rmqserver.broker.sending.put import Put

if TYPE_CHECKING:
    from rmqserver.broker.parts import BrokerParts


class Pop:
    def __init__(self, parts: BrokerParts, put: Put, wake: Callable[[], None], post: Post, ask_route: AskRoute):
        """``wake`` makes a round of the loop end soon, with ``end_round``; ``post`` has something called in the next
        one; ``ask_route`` asks a nameserver."""
        self._parts = parts
        revive_log, in_flight = ReviveLog(parts), InFlight(parts.clock_ms())
        self.orders = Orders(parts)
        self.waiting = Waiting(parts, wake, post)
        self.popping = Popping(parts, revive_log, self.orders, in_flight)
        self.reviver = Reviver(parts, put, revive_log, in_flight)
        self.lite = Lite(parts, self.waiting)
        self.acks = Acks(parts, revive_log, self.orders, self.waiting, in_flight, self.lite.pops)
        self.assigning = Assigning(parts, ask_route)
        self.pops = Pops(parts, self.popping, self.waiting, put)
        self.looks = Looks(parts, self.popping, self.orders, self.waiting)

    def load(self, offsets_saved_ms: int | None) -> None:
        """To be called after the tables of topics, groups and offsets are loaded. ``offsets_saved_ms``: after a crash,
        when the offsets were last saved. Raises StorageError if a file is not ours."""
        self.orders.load()
        self.assigning.load()
        self.reviver.hold_back()
        if offsets_saved_ms is not None:
            self.reviver.catch_up(offsets_saved_ms)

    def end_round(self) -> None:
        """Lets requests go on that the round's writes have woken, and writes what they take in turn."""
        while self.waiting.go_on():
            self._parts.pending.end_round()

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
            await trio.sleep(self._parts.config.flush_consumer_offset_interval_ms / 1000)
            self.orders.save()
