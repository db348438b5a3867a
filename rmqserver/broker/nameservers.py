"""What the broker asks of the part that speaks to the nameservers."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from rmqproto.bodies.routes import TopicRoute
from rmqserver.remoting.outward import Outward


class Nameservers(Outward, Protocol):
    """Tells the nameservers of the broker and its topics."""

    def changed(self, put_names: Collection[str] | None) -> None:
        """These topics are new or have changed; None: any topic may have changed."""
        ...

    def when_told(self, callback: Callable[[], None]) -> None:
        """Calls back when the nameservers know the topics as they are now."""
        ...

    def ask_route(self, topic: str, on_route: Callable[[TopicRoute | None], None]) -> None:
        """Calls back once with the topic's route, or with None if it is not known."""
        ...

    def when_master_is_known(self, on_master: Callable[[str, str], None]) -> None:
        """For a slave: calls back with its master's address, and the address to which slaves connect, every time they
        are told."""
        ...
