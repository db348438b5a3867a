"""How long clients are without an answer when a set of two brokers loses its master: by kill -9 with an immediate
restart, and by handover (``electMaster``). Ours under our controller, compared with Apache's under Apache's.

The figure is the longest time between two messages that were taken, or consumed, from the event until both brokers are
in sync again (``failover_probes``). A message that was taken and is missing at the end is an error.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.harness.extent import Extent
from bench.harness.figure import Figure, percentile
from bench.harness.servers import server
from bench.replicas.failover_probes import NEEDS, PROBES, QUEUES, TOPIC, Noted, group_of
from rmqclient.admin import AdminClient
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import TopicConfig
from rmqproto.errors import RocketMQError
from tests.interop.cluster import BROKER_NAME, CLUSTER_NAME
from tests.interop.controllers import ApacheControllers, ApacheMember, Controller, OurMember
from tests.interop.programs import tool
from tests.support.servers import until

KILL_MAX_MS = 1000
HANDOVER_MAX_MS = 500
"""A gap up to this passes for a slow answer."""
SETTLED_S = 1.0
"""Clients must have had an answer this long after the event."""
SETTLED_AFTER_START_S = 10.0
"""Our controller elects nobody earlier, because it cannot know yet which brokers are alive."""
P99_COUNT_MIN = 100
"""With fewer rounds, the longest gap is shown instead of p99."""

KILL, HANDOVER = "kill -9", "handover"

Member = ApacheMember | OurMember
Gaps = dict[tuple[str, str], list[float]]
"""Gaps in ms, by event and by what the client does."""


@dataclass(frozen=True)
class OurController:
    namesrv_addr: str
    addr: str


@contextmanager
def our_controller(work: Path) -> Iterator[OurController]:
    with (
        server(["namesrv", "--port", "0"]) as (_, namesrv),
        server(["controller", "--port", "0", "--data", str(work)]) as (_, controller),
    ):
        yield OurController(namesrv["namesrv_addr"], controller["controller_addr"])


@dataclass
class Set:
    """Two brokers and their controller. The first broker begins as the master."""

    controller: Controller
    members: list[Member]
    admin: AdminClient

    def in_sync(self) -> set[str]:
        """The addresses of the brokers in sync."""
        found = self.admin.replica_sets(self.controller.addr, [BROKER_NAME]).replicas_info_table
        return {one.broker_address for each in found.values() for one in each.in_sync_replicas if one.alive}

    def until_both_in_sync(self) -> None:
        until(lambda: self.in_sync() == {member.broker_addr for member in self.members})

    @property
    def master_at(self) -> int:
        found = self.admin.replica_sets(self.controller.addr, [BROKER_NAME]).replicas_info_table[BROKER_NAME]
        return [member.broker_addr for member in self.members].index(found.master_address or "")

    def has_topics(self) -> bool:
        """Creates the topics. False if that failed: a new Apache master closes its connections. Retry topics are
        included, because Go and Node search half a minute for a missing one."""
        addr = self.members[self.master_at].broker_addr
        try:
            for topic in (TOPIC, *(f"%RETRY%{group_of(name)}" for name in NEEDS)):
                config = TopicConfig(topic_name=topic, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
                self.admin.create_topic(addr, config)
        except RocketMQError:
            return False
        return True

    def knows(self, groups: list[str]) -> bool:
        """Whether these consumers have sent both brokers a heartbeat, which they do every 30 s."""
        try:
            for member, group in itertools.product(self.members, groups):
                self.admin.consumer_connection(member.broker_addr, group)
        except RocketMQError:
            return False
        return True

    def kill(self) -> None:
        """Kills the master and restarts it at once, as a supervisor would."""
        member = self.members[self.master_at]
        member.kill()
        member.start()

    def hand_over(self) -> None:
        other = 1 - self.master_at
        now_ms = time.time_ns() // 1_000_000
        self.admin.elect_master(self.controller.addr, CLUSTER_NAME, BROKER_NAME, other + 1, now_ms)

    def bodies(self) -> set[bytes]:
        found: list[bytes] = []
        addr = self.members[self.master_at].broker_addr
        for queue_id in range(QUEUES):
            queue, at = MessageQueue(TOPIC, BROKER_NAME, queue_id), self.admin.min_offset(addr, TOPIC, queue_id)
            while messages := self.admin.pull_message(addr, queue, at).messages:
                found += [message.body for message in messages]
                at = messages[-1].queue_offset + 1
        return set(found)


@dataclass(frozen=True)
class Times:
    gaps: Gaps
    lost: int


def take(extent: Extent) -> list[Figure]:
    probes = [name for name in PROBES if is_there(name)]
    found = {"ours": times(our_controller, OurMember, probes, extent.failovers)}
    if extent.with_apache:
        found["apache"] = times(ApacheControllers, ApacheMember, probes, extent.failovers)
    return list(figures(found))


def is_there(name: str) -> bool:
    """Whether this machine has what that client needs. Prints what is missing."""
    try:
        for each in NEEDS.get(name, ()):
            tool(each)
    except FileNotFoundError as error:
        print(f"failover: without the client of {name}: {error}")
        return False
    return True


def figures(found: dict[str, Times]) -> Iterator[Figure]:
    ours, apache = found["ours"], found.get("apache")
    for (event, does), gaps_ms in ours.gaps.items():
        beside_ms = apache.gaps[event, does] if apache is not None else []
        for name, percent in (("p50", 50), ("p99" if len(gaps_ms) >= P99_COUNT_MIN else "longest", 99)):
            title = f"{event}, {does} nothing, {name} of {len(gaps_ms)}"
            beside = percentile(beside_ms, percent) if beside_ms else None
            bar = KILL_MAX_MS if event == KILL else HANDOVER_MAX_MS
            yield Figure(title, "ms", percentile(gaps_ms, percent), beside, "Apache's", at_most=bar, errors=ours.lost)
    beside = apache.lost if apache is not None else None
    yield Figure("taken by all of that, and missing", "", ours.lost, beside, "Apache's", at_most=0, errors=ours.lost)


def times(
    make_controller: Callable[[Path], object],
    make_member: Callable[[Path, Controller], Member],
    probes: list[str],
    rounds: int,
) -> Times:
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rmq-bench-failover-")))
        controller: Controller = stack.enter_context(make_controller(work / "controller"))  # type: ignore[arg-type]
        admin = stack.enter_context(AdminClient(controller.namesrv_addr))
        members = [make_member(work / name, controller) for name in ("one", "two")]
        of_both = Set(controller, members, admin)
        for member in members:
            stack.callback(member.kill)
            member.start()
            until(lambda: member.broker_addr in of_both.in_sync())  # noqa: B023
            if member is members[0]:
                until(of_both.has_topics)  # the other broker gets them when it first synchronizes
        of_both.until_both_in_sync()
        time.sleep(SETTLED_AFTER_START_S)
        with ExitStack() as clients:
            noted: dict[str, Noted] = {}
            for name in probes:
                addrs = [member.broker_addr for member in members]
                noted |= clients.enter_context(PROBES[name](controller.namesrv_addr, addrs, work / name))
            gaps: Gaps = defaultdict(list)
            for _ in range(rounds):  # Go's consumer takes 30 s, in which all clients have asked for the route
                note(noted, gaps, KILL, of_both.kill, of_both)
            groups = [group_of(name) for name in probes if name in NEEDS]
            until(lambda: of_both.knows(groups))
            for _ in range(rounds):
                note(noted, gaps, HANDOVER, of_both.hand_over, of_both)
        taken = set[bytes]().union(*(each.bodies() for each in noted.values()))
        return Times({key: sorted(each) for key, each in gaps.items()}, len(taken - of_both.bodies()))


def note(noted: dict[str, Noted], gaps: Gaps, name: str, event: Callable[[], None], of_both: Set) -> None:
    """Adds each client's longest gap from before the event until both brokers are in sync again."""
    until_all_since(noted, time.monotonic())
    began = {does: len(each.moments_s) - 1 for does, each in noted.items()}
    event()
    until_all_since(noted, time.monotonic() + SETTLED_S)
    of_both.until_both_in_sync()
    until_all_since(noted, time.monotonic())
    for does, each in noted.items():
        longest_s = max(after - before for before, after in itertools.pairwise(each.moments_s[began[does] :]))
        gaps[name, does].append(longest_s * 1000)


def until_all_since(noted: dict[str, Noted], moment_s: float) -> None:
    for each in noted.values():
        until(lambda: bool(each.moments_s) and each.moments_s[-1] > moment_s)  # noqa: B023
