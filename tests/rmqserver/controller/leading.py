"""A leading controller store, without the controller."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from rmqproto.errors import RocketMQError
from rmqserver.controller.controller_state import BrokerSets, ControllerEvent, apply_all
from rmqserver.controller.controller_store import ControllerName, ControllerStore


class LedStore:
    """A store and its state. ``sets`` is the state at the start, with everything that was kept since."""

    def __init__(self, store: ControllerStore):
        self.store = store
        self.sets: BrokerSets = {}
        self.leads = trio.Event()
        self.has_ceased = trio.Event()

    def lead(self, sets: BrokerSets) -> None:
        self.sets = sets
        self.leads.set()

    def follow(self) -> None:
        if self.leads.is_set():
            self.has_ceased.set()

    async def keep(self, *events: ControllerEvent) -> None:
        """Returns once the events are kept, or raises the store's error."""
        after = apply_all(self.sets, events)
        done = trio.Event()
        outcomes: list[RocketMQError | None] = []

        def kept(error: RocketMQError | None) -> None:
            outcomes.append(error)
            done.set()

        self.store.append(events, after, kept)
        await done.wait()
        (error,) = outcomes
        if error is not None:
            raise error
        self.sets = after


@asynccontextmanager
async def running(store: ControllerStore, name: str = "n0") -> AsyncIterator[LedStore]:
    """Runs a store, which may lead or not."""
    found = LedStore(store)
    sets = store.open()
    if sets is not None:
        found.lead(sets)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.run, ControllerName(name, f"127.0.0.1:{name}"), found.lead, found.follow)
            yield found
            nursery.cancel_scope.cancel()
    finally:
        store.close()


@asynccontextmanager
async def leading(store: ControllerStore, name: str = "n0") -> AsyncIterator[LedStore]:
    async with running(store, name) as found:
        await found.leads.wait()
        yield found
