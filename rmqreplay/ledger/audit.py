"""Compares a ledger with the target: that each message that it lists as delivered is there once, and that it has not
lost its last lines. After a damaged file was cut off, or an old copy was put in its place, the job has sent messages of
which the ledger knows nothing, and would send them again."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rmqreplay.ledger.ledger import Fence, LedgerState
from rmqreplay.ledger.letters import Place, origin_of
from rmqreplay.plans.plan import Plan
from rmqreplay.sending.delivery import DeliveryError
from rmqreplay.sending.target import replay_ids_in
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


def audit(fences: Sequence[Fence], cluster: LiveCluster, job: str, delivered: OffsetSet) -> AuditResult:
    """Reads the target from the job's first fences to its end. DeliveryError if part of it has been deleted."""
    seen: set[Place] = set()
    result = AuditResult(expected=delivered.count)
    for replay_id in replay_ids_in(cluster, fences, job):
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


def _example(places: list[str], place: Place) -> None:
    if len(places) < EXAMPLES_MAX:
        places.append(f"{queue_text(place[0])}@{place[1]}")


def has_lost_lines(state: LedgerState, plan: Plan, cluster: LiveCluster) -> bool:
    """Whether the target has messages of the job that are neither delivered nor of the open wave. False if the target
    has deleted messages since the newest fences, because then nobody can tell."""
    known = state.delivered()
    if state.open_wave is not None:
        known.update(OffsetSet(plan.wave(state.open_wave)))
    try:
        found = replay_ids_in(cluster, state.last_fences(), plan.replay_job)
        places = (origin_of(each, plan.replay_job) for each in found)
        return any(place is not None and place not in known for place in places)
    except DeliveryError:
        return False
