"""Finds out whether a ledger has lost its last lines: a damaged file was cut off, or an old copy was put in its place.
The job has then sent messages of which the ledger knows nothing, and would send them again."""

from __future__ import annotations

from rmqreplay.ledger.ledger import LedgerState
from rmqreplay.plans.plan import Plan
from rmqreplay.sending.delivery import DeliveryError
from rmqreplay.sending.replay_ids import origin_of
from rmqreplay.sending.target import replay_ids_since
from rmqreplay.source.live import LiveCluster
from rmqreplay.source.offset_ranges import OffsetSet


def has_lost_lines(state: LedgerState, plan: Plan, cluster: LiveCluster) -> bool:
    """Whether the target has messages of the job that are neither delivered nor of the open wave. False if the target
    has deleted messages since the newest fences, because then nobody can tell."""
    fences = state.last_fences()
    known = state.delivered()
    if state.open_wave is not None:
        known.update(OffsetSet(plan.wave(state.open_wave)))
    addresses = {fence.broker_name: cluster.master(fence.topic, fence.broker_name) for fence in fences}
    try:
        found = replay_ids_since(fences, addresses.__getitem__, plan.replay_job, cluster.connections)
        places = (origin_of(each, plan.replay_job) for each in found)
        return any(place is not None and place not in known for place in places)
    except DeliveryError:
        return False
