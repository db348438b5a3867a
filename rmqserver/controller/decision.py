"""The input and the result of a controller's decisions. Each request is a function without clock or I/O,
``(situation, request) -> decision``; the caller stores the decision's events before it answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rmqproto.bodies.replication import SyncStateSet
from rmqproto.headers.base import Header
from rmqproto.wire import fastjson
from rmqserver.controller.controller_state import BrokerSet, BrokerSets, ControllerEvent


class Standing(NamedTuple):
    """The state of a living replica's log at its last heartbeat: ``epoch`` is its last epoch, -1 for none, and
    ``max_offset`` its end. The lowest ``priority`` is elected first. ``takes_messages`` is False if its store refuses
    messages, because its disk is full or has failed."""

    epoch: int = -1
    max_offset: int = 0
    priority: int = (1 << 31) - 1
    takes_messages: bool = True


class Situation(NamedTuple):
    sets: BrokerSets
    alive: Mapping[tuple[str, int], Standing]
    """By broker name and id."""
    is_settled: bool
    """Whether every replica that is not in ``alive`` is dead. False at first, while a controller that has just started
    waits for heartbeats."""
    elects_unclean: bool
    """Whether a replica outside the in-sync set may become master if none in it can: messages that it lacks are
    lost."""

    def is_alive(self, found: BrokerSet, broker_id: int) -> bool:
        return (found.broker_name, broker_id) in self.alive

    def takes_messages(self, found: BrokerSet, broker_id: int) -> bool:
        """Whether it is alive, and its store takes messages."""
        standing = self.alive.get((found.broker_name, broker_id))
        return standing is not None and standing.takes_messages

    def has_living_master(self, found: BrokerSet) -> bool:
        return found.master_broker_id is not None and self.is_alive(found, found.master_broker_id)


class ControllerDecision(NamedTuple):
    """An answer, and the events that must be stored before it is given."""

    code: int = 0
    remark: str | None = None
    header: Header | None = None
    body: bytes = b""
    events: tuple[ControllerEvent, ...] = ()


STARTED_LATELY = "the controller has just started and does not know yet who is alive: try again in ten seconds"


def set_body(found: BrokerSet) -> bytes:
    """The in-sync set, as in the body of several answers and of notices of a master."""
    return fastjson.dumps(
        SyncStateSet(sync_state_set=list(found.sync_state_set), sync_state_set_epoch=found.sync_state_set_epoch)
    )
