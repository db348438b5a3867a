"""Queues are shared out among the connections, and connections among the processes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rmqadmin.core.load.lane_plans import load_plans, pull_lanes, send_lanes
from rmqadmin.core.load.load_plan import LanePlan, LoadQueue

queue_counts = st.lists(st.integers(1, 9), min_size=1, max_size=4)


def places(counts: list[int]) -> list[tuple[str, LoadQueue]]:
    return [(f"10.0.0.{number}:1", LoadQueue(queue)) for number, count in enumerate(counts) for queue in range(count)]


def used(lanes: list[LanePlan]) -> list[tuple[str, int]]:
    return sorted((f"{lane.host}:{lane.port}", queue.queue_id) for lane in lanes for queue in lane.queues)


@given(queue_counts, st.integers(1, 20))
def test_each_sender_has_all_queues_of_its_broker(counts: list[int], connections: int) -> None:
    lanes = send_lanes(places(counts), connections)
    assert len(lanes) == max(connections, len(counts))
    assert {lane.host for lane in lanes} == {f"10.0.0.{number}" for number in range(len(counts))}
    for lane in lanes:
        assert len({queue.queue_id for queue in lane.queues}) == counts[int(lane.host[-1])]


@given(queue_counts, st.integers(1, 20))
def test_each_queue_is_pulled_by_one_unless_there_are_more_connections(counts: list[int], connections: int) -> None:
    wanted = places(counts)
    lanes = pull_lanes(wanted, connections)
    every = sorted((addr, place.queue_id) for addr, place in wanted)
    if connections >= len(every):
        assert len(lanes) == connections
        assert set(used(lanes)) == set(every)
    else:
        assert used(lanes) == every
        assert len(lanes) <= max(connections, len(counts))


@given(st.integers(1, 12), st.integers(1, 5))
def test_processes_share_out_connections_and_rate(lane_count: int, process_count: int) -> None:
    lanes = send_lanes(places([3]), lane_count)
    more: dict[str, Any] = {
        "topic": "T", "group": "G", "size_bytes": 1, "in_flight": 1, "batch_size": 1, "duration_s": 1.0,
        "warm_up_s": 0.0, "interval_s": 1.0, "timeout_s": 1.0,
    }  # fmt: skip
    plans = load_plans(lanes, process_count, 600.0, **more)
    assert len(plans) == min(lane_count, process_count)
    assert sum(len(plan.lanes) for plan in plans) == lane_count
    assert abs(sum(plan.rate for plan in plans) - 600) < 1e-6
    assert len({plan.run_id for plan in plans}) == len(plans)
