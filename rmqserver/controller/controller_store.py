"""Where controllers keep what they have decided, as the controller sees it: ``event_log.py`` for one that is alone,
``quorum/quorum_store.py`` for several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from rmqproto.errors import RocketMQError
from rmqserver.controller.controller_state import BrokerSets, ControllerEvent


class LeadershipLost(RocketMQError):
    """This controller does not lead any more. Whether events that were being kept then are there is not known: who
    leads next goes on from what is there."""


Kept = Callable[[RocketMQError | None], None]
"""Told once what became of events: None when they are there for good. StorageError if nobody knows, and this
controller must never decide again; LeadershipLost if another may."""


class ControllerName(NamedTuple):
    id: str
    address: str


class ControllerStore(Protocol):
    """``open`` it before the controller serves, ``run`` it as a task, ``close`` it at the end."""

    def open(self) -> BrokerSets | None:
        """The state, if this controller leads and no other can; None if that is found out by ``run``. StorageError for
        what cannot be read."""
        ...

    async def run(self, me: ControllerName, lead: Callable[[BrokerSets], None], follow: Callable[[], None]) -> None:
        """Calls ``lead`` with the state when this controller begins to lead, ``follow`` when it has ceased. Never
        returns."""
        ...

    @property
    def is_leading(self) -> bool:
        """Whether no other controller can have decided anything. Asked before each decision, and each answer from the
        state."""
        ...

    @property
    def leader(self) -> ControllerName | None:
        """Another one that leads, as far as is known."""
        ...

    def append(self, events: Sequence[ControllerEvent], after: BrokerSets, kept: Kept) -> None:
        """Keeps the events of one decision, all or none; ``after`` is the state behind them. Calls ``kept`` once, maybe
        before it returns. Only while leading, and not before the call before has called ``kept``."""
        ...

    def close(self) -> None: ...
