"""What the controller's decisions are made from, and what one is. Every request is a function of both, without clock
and without I/O: ``(situation, request) -> decision``; whoever carries it out keeps its events before it answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rmqproto.bodies.replication import SyncStateSet
from rmqproto.headers.base import Header
from rmqproto.wire import fastjson
from rmqserver.controller.controller_state import BrokerSet, BrokerSets, ControllerEvent


class Standing(NamedTuple):
    """How far a living replica is, by its last heartbeat. ``epoch`` is the last of its log, -1 for none; ``max_offset``
    the log offset of its end; the lowest ``priority`` is elected first."""

    epoch: int = -1
    max_offset: int = 0
    priority: int = (1 << 31) - 1


class Situation(NamedTuple):
    sets: BrokerSets
    alive: Mapping[tuple[str, int], Standing]
    """By broker name and id."""
    is_settled: bool
    """Who is not in ``alive`` is dead. False at first: nobody was heard of before the controller started."""
    elects_unclean: bool
    """A replica outside of the in-sync set may become master if nobody in it can: what only the others had is lost."""

    def is_alive(self, found: BrokerSet, broker_id: int) -> bool:
        return (found.broker_name, broker_id) in self.alive

    def has_living_master(self, found: BrokerSet) -> bool:
        return found.master_broker_id is not None and self.is_alive(found, found.master_broker_id)


class ControllerDecision(NamedTuple):
    """An answer, and what has to be kept before it is given."""

    code: int = 0
    remark: str | None = None
    header: Header | None = None
    body: bytes = b""
    events: tuple[ControllerEvent, ...] = ()


STARTED_LATELY = "the controller has just started and does not know yet who is alive: try again in ten seconds"


def set_body(found: BrokerSet) -> bytes:
    """The in-sync set, as several answers and the notice of a role have it."""
    return fastjson.dumps(
        SyncStateSet(sync_state_set=list(found.sync_state_set), sync_state_set_epoch=found.sync_state_set_epoch)
    )
