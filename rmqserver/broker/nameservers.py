"""What the broker asks of whoever speaks to the nameservers for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Protocol

from rmqproto.bodies.routes import TopicRoute
from rmqserver.broker.replicas.members import AskedNameservers
from rmqserver.remoting.outward import Outward


class Nameservers(Outward, AskedNameservers, Protocol):
    """Who tells the nameservers of the topics."""

    def changed(self, put_names: Collection[str] | None) -> None:
        """These topics are new or not what they were; with None: any may be another."""
        ...

    def when_told(self, callback: Callable[[], None]) -> None:
        """Calls back when the nameservers know of the topics as they are now."""
        ...

    def ask_route(self, topic: str, on_route: Callable[[TopicRoute | None], None]) -> None:
        """Calls back once with the topic's route; with None if no nameserver knows it."""
        ...

    before_return: Callable[[], Awaitable[None]] | None
    """Awaited before one that may have forgotten us is told of us again."""

    @property
    def has_nameservers(self) -> bool:
        """Whether there is anybody to tell."""
        ...

    def when_master_is_known(self, on_master: Callable[[str, str], None]) -> None:
        """Of a slave: calls back with its master's address, and where that has its slaves connect, as often as it is
        told."""
        ...
