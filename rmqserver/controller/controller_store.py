"""The interface to the store of a controller's decisions: ``event_log.py`` implements it for a single controller,
``quorum/quorum_store.py`` for several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from rmqproto.errors import RocketMQError
from rmqserver.controller.controller_state import BrokerSets, ControllerEvent


class LeadershipLost(RocketMQError):
    """This controller no longer leads. Events that were being stored then may be stored or not: the next leader goes on
    from what it finds."""


Kept = Callable[[RocketMQError | None], None]
"""Called once with the outcome for the events: None when they are durable; StorageError if that is unknown, and this
controller must never decide again; LeadershipLost if another controller may decide."""


class ControllerName(NamedTuple):
    id: str
    address: str


class ControllerStore(Protocol):
    """Call ``open`` before the controller serves, run ``run`` as a task, and call ``close`` at the end."""

    def open(self) -> BrokerSets | None:
        """Returns the state if this controller leads and no other can; None if ``run`` has to find out. Raises
        StorageError for a store that cannot be read."""
        ...

    async def run(self, me: ControllerName, lead: Callable[[BrokerSets], None], follow: Callable[[], None]) -> None:
        """Calls ``lead`` with the state when this controller begins to lead, and ``follow`` when it has ceased. Never
        returns."""
        ...

    @property
    def is_leading(self) -> bool:
        """Whether no other controller can have decided anything. Checked before each decision, and before each answer
        from the state."""
        ...

    @property
    def leader(self) -> ControllerName | None:
        """The other controller that leads, if one is known."""
        ...

    def append(self, events: Sequence[ControllerEvent], after: BrokerSets, kept: Kept) -> None:
        """Stores the events of one decision, all or none; ``after`` is the state after them. Calls ``kept`` once, maybe
        before it returns. Call it only while leading, and not before the previous call has called ``kept``."""
        ...

    def close(self) -> None: ...
