"""Assigns connections to brokers and queues, and to processes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import cycle, islice
from typing import Annotated, Any

import msgspec

from rmqadmin.core.load.load_plan import LanePlan, LoadPlan, LoadQueue
from rmqadmin.core.load.load_run import new_run_id
from rmqadmin.core.results import FoundRows, Row, doc
from rmqclient.addresses import split_address
from rmqproto.bodies.base import MessageQueue

AddressedPlace = tuple[str, LoadQueue]
"""A queue with its broker's address."""


def addressed_places(queues: Iterable[tuple[MessageQueue, str]]) -> list[AddressedPlace]:
    return [(addr, LoadQueue(queue.queue_id)) for queue, addr in queues]


def send_lanes(places: Sequence[AddressedPlace], connection_count: int) -> list[LanePlan]:
    """Spreads connections over the brokers. Each sends to all queues of its broker, starting from a different one."""
    by_broker = _by_broker(places)
    lanes = []
    for number, addr in enumerate(islice(cycle(by_broker), max(connection_count, len(by_broker)))):
        queues, first = by_broker[addr], number // len(by_broker) % len(by_broker[addr])
        lanes.append(_lane(addr, (*queues[first:], *queues[:first]), sends=True))
    return lanes


def pull_lanes(places: Sequence[AddressedPlace], connection_count: int) -> list[LanePlan]:
    """Spreads queues over the connections. No two connections read the same queue, unless there are more connections
    than queues."""
    if connection_count >= len(places):
        return [_lane(addr, (place,), sends=False) for addr, place in islice(cycle(places), connection_count)]
    by_broker = _by_broker(places)
    lanes: list[LanePlan] = []
    for index, (addr, queues) in enumerate(by_broker.items()):
        left = connection_count - len(lanes) - (len(by_broker) - index - 1)
        count = max(1, min(len(queues), round(connection_count * len(queues) / len(places)), left))
        lanes += [_lane(addr, tuple(queues[number::count]), sends=False) for number in range(count)]
    return lanes


def _by_broker(places: Sequence[AddressedPlace]) -> dict[str, list[LoadQueue]]:
    found: dict[str, list[LoadQueue]] = {}
    for addr, place in places:
        found.setdefault(addr, []).append(place)
    return found


def _lane(addr: str, queues: tuple[LoadQueue, ...], *, sends: bool) -> LanePlan:
    host, port = split_address(addr)
    return LanePlan(host, port, sends, queues)


def process_count_for(lane_count: int) -> int:
    """Half of the processors; the other half is left for brokers that may run on this machine."""
    return max(1, min(lane_count, len(os.sched_getaffinity(0)) // 2))


def load_plans(lanes: Sequence[LanePlan], process_count: int, rate: float, **more: Any) -> list[LoadPlan]:
    """One plan per process; the rate is divided by the number of connections. ``more`` are the other fields of a
    plan."""
    shares = [lanes[number::process_count] for number in range(process_count)]
    plan = LoadPlan(lanes=[], rate=0.0, run_id="", **more)
    return [
        msgspec.structs.replace(plan, lanes=list(share), rate=rate * len(share) / len(lanes), run_id=new_run_id())
        for share in shares
        if share
    ]


class PlannedLoadRow(Row, frozen=True):
    broker_addr: Annotated[str, doc("broker", key=True)]
    action: Annotated[str, doc("send or pull", key=True)]
    connections: Annotated[int, doc("connections to it")]
    queue_ids: Annotated[list[int], doc("queues that they use")]


class PlannedLoad(FoundRows[PlannedLoadRow], frozen=True):
    """With --dry-run: what would be done on which broker."""

    said: str | None

    def remark(self) -> str | None:
        return self.said


def planned_load(lanes: Sequence[LanePlan]) -> PlannedLoad:
    by_broker: dict[tuple[str, str], list[LanePlan]] = {}
    for lane in lanes:
        host = f"[{lane.host}]" if ":" in lane.host else lane.host
        by_broker.setdefault((f"{host}:{lane.port}", "send" if lane.sends else "pull"), []).append(lane)
    rows = [
        PlannedLoadRow(
            broker_addr=addr,
            action=action,
            connections=len(of_broker),
            queue_ids=sorted({queue.queue_id for lane in of_broker for queue in lane.queues}),
        )
        for (addr, action), of_broker in sorted(by_broker.items())
    ]
    return PlannedLoad(rows, None)


def load_on_new_topic(topic: str, cluster: str) -> PlannedLoad:
    return PlannedLoad([], f"the topic {topic} would be made in {cluster}, and its queues used")
