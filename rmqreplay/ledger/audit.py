"""Checks at the target that each message that the ledger lists as delivered is there once."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rmqproto.bodies.base import MessageQueue
from rmqreplay.ledger.ledger import Fence
from rmqreplay.sending.replay_ids import origin_of
from rmqreplay.sending.target import replay_ids_since
from rmqreplay.source.live import LiveCluster
from rmqreplay.source.offset_ranges import OffsetSet, queue_text

EXAMPLES_MAX = 10


class AuditResult(msgspec.Struct, kw_only=True):
    """``missing``: delivered according to the ledger, but not at the target. ``doubled``: copies beyond the first.
    ``unexpected``: at the target under this job's name, but not in its ledger. The lists name up to ten of each."""

    expected: int = 0
    found: int = 0
    missing: int = 0
    doubled: int = 0
    unexpected: int = 0
    missing_places: list[str] = []
    doubled_places: list[str] = []

    @property
    def is_good(self) -> bool:
        return not (self.missing or self.doubled or self.unexpected)


def audit(
    fences: Sequence[Fence],
    cluster: LiveCluster,
    job: str,
    delivered: OffsetSet,
) -> AuditResult:
    """Reads the target from the job's first fences to its end. DeliveryError if part of it has been deleted."""
    addresses = {fence.broker_name: cluster.master(fence.topic, fence.broker_name) for fence in fences}
    seen: set[tuple[MessageQueue, int]] = set()
    result = AuditResult(expected=delivered.count)
    for replay_id in replay_ids_since(fences, addresses.__getitem__, job, cluster.connections):
        place = origin_of(replay_id, job)
        if place is None:
            continue
        if place in seen:
            result.doubled += 1
            _example(result.doubled_places, place)
        elif place not in delivered:
            result.unexpected += 1
        seen.add(place)
    present = OffsetSet.of_offsets(place for place in seen if place in delivered)
    result.found = present.count
    result.missing = result.expected - result.found
    if result.missing:
        for each in delivered:
            for offset in range(each.start, each.end):
                if len(result.missing_places) < EXAMPLES_MAX and (each.queue, offset) not in seen:
                    _example(result.missing_places, (each.queue, offset))
    return result


def _example(places: list[str], place: tuple[MessageQueue, int]) -> None:
    if len(places) < EXAMPLES_MAX:
        places.append(f"{queue_text(place[0])}@{place[1]}")
