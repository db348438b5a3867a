"""Assigns connections to brokers and queues, and to processes."""

import os
import time
from collections.abc import Sequence
from itertools import cycle, islice
from typing import Annotated, Any

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.load.load_plan import LanePlan, LoadPlan, LoadQueue
from rmqadmin.core.load.load_run import new_run_id
from rmqadmin.core.names import is_made_by_brokers, topics_of_servers
from rmqadmin.core.results import FoundRows, Row, doc
from rmqadmin.core.topics.routes import writable_queues
from rmqproto.bodies.routes import TopicConfig
from rmqproto.errors import NotFoundError, RequestTimeoutError, UsageError
from rmqproto.hosts import split_address
from rmqproto.names import DLQ_PREFIX, RETRY_PREFIX
from rmqproto.wording import counted

AddressedPlace = tuple[str, LoadQueue]
"""A queue with its broker's address."""


def send_lanes(places: Sequence[AddressedPlace], connection_count: int) -> list[LanePlan]:
    """Spreads connections over the brokers. Each sends to all queues of its broker, starting from a different one."""
    by_broker = _by_broker(places)
    lanes = []
    for number, addr in enumerate(islice(cycle(by_broker), max(connection_count, len(by_broker)))):
        queues, first = by_broker[addr], number // len(by_broker) % len(by_broker[addr])
        lanes.append(_lane(addr, (*queues[first:], *queues[:first]), sends=True))
    return lanes


def pull_lanes(places: Sequence[AddressedPlace], connection_count: int) -> list[LanePlan]:
    """Spreads queues over connections, each queue to one, unless there are more connections than queues."""
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
    """One plan a process, with its connections' share of the rate. ``more``: the other fields of a plan."""
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


_ROUTE_TIMEOUT_S = 10.0
_ASKED_EVERY_S = 0.05


class TopicUse(msgspec.Struct, frozen=True):
    """What a topic has before a load: its messages, and the groups that read it."""

    message_count: int
    groups: list[str]

    def __str__(self) -> str:
        messages = counted(self.message_count, "message")
        groups = f"groups that read it ({', '.join(sorted(self.groups)[:3])})" if self.groups else "no groups"
        return f"{messages} and {groups}"


class LoadTopic:
    """The topic of a load. ``was_made``: this load made it. ``remove`` deletes only such a topic."""

    def __init__(self, admin: AdminClient, name: str, cluster: str | None, queue_nums: int, *, makes: bool):
        self.name = name
        self.was_made = False
        self._admin = admin
        self._cluster = cluster
        self._queue_nums = queue_nums
        self._makes = makes

    def refuse_systems_own(self) -> None:
        """UsageError for topics that belong to brokers, and for retries and dead letters of groups."""
        servers = topics_of_servers(self._admin.cluster_info())
        if is_made_by_brokers(self.name, servers) or self.name.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            raise UsageError(f"{self.name} is not a topic for a load: it is RocketMQ's own", hint="Name another.")

    def use(self) -> TopicUse | None:
        """The topic's use; None if there is no such topic."""
        route = targets.find_route(self._admin, self.name)
        if route is None:
            return None
        count, groups = 0, set[str]()
        for broker in route.broker_datas:
            if (addr := broker.master_addr) is not None:
                offsets = self._admin.topic_stats(addr, self.name).offset_table.values()
                count += sum(each.max_offset - each.min_offset for each in offsets)
                groups.update(self._admin.groups_of_topic(addr, self.name))
        return TopicUse(count, sorted(groups))

    def is_to_be_made(self) -> bool:
        """Whether the topic must be made. NotFoundError if it does not exist and may not be made."""
        if targets.find_route(self._admin, self.name) is not None:
            return False
        if not self._makes:
            raise NotFoundError(
                f"there is no topic {self.name}", hint="--create creates it, and --remove deletes it at the end."
            )
        return True

    def make(self) -> None:
        """Makes the topic if necessary."""
        if not self.is_to_be_made():
            return
        addrs = targets.masters(self._admin, None, self.cluster())
        self.was_made = True
        for addr in addrs:
            config = TopicConfig(
                topic_name=self.name, read_queue_nums=self._queue_nums, write_queue_nums=self._queue_nums
            )
            self._admin.create_topic(addr, config)
        end_s = time.monotonic() + _ROUTE_TIMEOUT_S
        while (route := targets.find_route(self._admin, self.name)) is None or len(route.broker_datas) < len(addrs):
            if time.monotonic() > end_s:
                raise RequestTimeoutError(f"the name servers do not know {self.name} after {_ROUTE_TIMEOUT_S:g} s")
            time.sleep(_ASKED_EVERY_S)

    def cluster(self) -> str:
        """The named cluster, or the only one. UsageError if there are several."""
        if self._cluster is not None:
            return self._cluster.strip()
        return targets.only_cluster(self._admin.cluster_info(), "-c")

    def places(self) -> list[AddressedPlace]:
        """The queues that take messages, with their masters' addresses."""
        found = writable_queues(self._admin.topic_route(self.name), self.name)
        return [(addr, LoadQueue(queue.queue_id)) for queue, addr in found]

    def remove(self) -> None:
        """Deletes the topic if this load made it."""
        if not self.was_made:
            return
        cluster = self.cluster()
        for addr in targets.masters(self._admin, None, cluster):
            self._admin.delete_topic_in_broker(addr, self.name)
        for addr in self._admin.namesrv_addrs:
            self._admin.delete_topic_in_namesrv(addr, self.name, cluster)
        self.was_made = False
