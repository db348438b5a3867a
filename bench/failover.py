"""For how long nobody's messages are taken when a set of two brokers loses its master: kill -9, and a handover
(``electMaster``). Ours under our controller, beside Apache's under Apache's.

One producer asks the brokers themselves, so it sees the set alone. Another one is ``rmqclient.Producer``, the same on
both sets: it must notice, and find the other broker through the nameserver. Each sends one message after the other;
what counts is the longest time between two that were taken. A message that was taken and is missing at the end is an
error.
"""

from __future__ import annotations

import itertools
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import trio

from bench.extent import Extent
from bench.figure import Figure, percentile
from bench.servers import server
from rmqclient.admin import AdminClient
from rmqclient.message import Message, SendStatus
from rmqclient.producer import Producer
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import RocketMQError
from tests.interop.cluster import BROKER_NAME, CLUSTER_NAME
from tests.interop.controllers import ApacheControllers, ApacheMember, Controller, OurMember
from tests.support.servers import until

TOPIC = "Kept"
KILL_MAX_MS = 1000
PROBE_TIMEOUT_S = 1.0
SETTLED_S = 1.0
"""After the event: what comes later has another cause."""
SETTLED_AFTER_START_S = 10.0
"""Our controller elects nobody before: it cannot know yet who lives."""
PAUSE_S = 0.002
"""Between two messages."""

Member = ApacheMember | OurMember


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


class Probe(Protocol):
    """Sends until it is told to stop. ``bodies`` are those that were taken, ``moments_s`` when."""

    bodies: list[bytes]
    moments_s: list[float]

    def run(self, has_ended: threading.Event) -> None: ...


class DirectProbe:
    """Asks the brokers in turn, and stays with the one that takes messages."""

    def __init__(self, controller: Controller, members: list[Member]):
        self.bodies: list[bytes] = []
        self.moments_s: list[float] = []
        self._members = members

    def run(self, has_ended: threading.Event) -> None:
        queue = MessageQueue(TOPIC, BROKER_NAME, 0)
        at = count = 0
        with AdminClient("127.0.0.1:1", timeout_s=PROBE_TIMEOUT_S) as admin:
            while not has_ended.wait(PAUSE_S):
                count += 1
                body = b"direct %d" % count
                try:
                    answer = admin.send_message(self._members[at].broker_addr, queue, Message(TOPIC, body))
                except RocketMQError:
                    at = 1 - at
                    continue
                if answer.status is SendStatus.SEND_OK:
                    self.bodies.append(body)
                    self.moments_s.append(time.monotonic())


class ClientProbe:
    def __init__(self, controller: Controller, members: list[Member]):
        self.bodies: list[bytes] = []
        self.moments_s: list[float] = []
        self._namesrv_addr = controller.namesrv_addr

    def run(self, has_ended: threading.Event) -> None:
        trio.run(self._run, has_ended)

    async def _run(self, has_ended: threading.Event) -> None:
        async with Producer(self._namesrv_addr, "PID_bench", timeout_s=PROBE_TIMEOUT_S) as producer:
            count = 0
            while not has_ended.is_set():
                count += 1
                body = b"client %d" % count
                try:
                    answer = await producer.send(Message(TOPIC, body))
                except RocketMQError:
                    continue
                finally:
                    await trio.sleep(PAUSE_S)
                if answer.status is SendStatus.SEND_OK:
                    self.bodies.append(body)
                    self.moments_s.append(time.monotonic())


PROBES = {"the set": DirectProbe, "rmqclient": ClientProbe}


@dataclass
class Set:
    """Two brokers and their controller; the first is the master when it begins."""

    controller: Controller
    members: list[Member]
    admin: AdminClient

    def in_sync(self) -> set[str]:
        """The addresses."""
        found = self.admin.replica_sets(self.controller.addr, [BROKER_NAME]).replicas_info_table
        return {one.broker_address for each in found.values() for one in each.in_sync_replicas if one.alive}

    def until_both_in_sync(self) -> None:
        until(lambda: self.in_sync() == {member.broker_addr for member in self.members})

    @property
    def master_at(self) -> int:
        found = self.admin.replica_sets(self.controller.addr, [BROKER_NAME]).replicas_info_table[BROKER_NAME]
        return [member.broker_addr for member in self.members].index(found.master_address or "")

    def kill(self) -> Member:
        """The master, which is returned."""
        member = self.members[self.master_at]
        member.kill()
        return member

    def hand_over(self) -> None:
        other = 1 - self.master_at
        now_ms = time.time_ns() // 1_000_000
        self.admin.elect_master(self.controller.addr, CLUSTER_NAME, BROKER_NAME, other + 1, now_ms)

    def bodies(self) -> set[bytes]:
        found: list[bytes] = []
        addr = self.members[self.master_at].broker_addr
        for queue_id in range(self.admin.topic_config(addr, TOPIC).write_queue_nums):
            queue, at = MessageQueue(TOPIC, BROKER_NAME, queue_id), self.admin.min_offset(addr, TOPIC, queue_id)
            while messages := self.admin.pull_message(addr, queue, at).messages:
                found += [message.body for message in messages]
                at = messages[-1].queue_offset + 1
        return set(found)


@dataclass(frozen=True)
class Times:
    """In ms, sorted; by probe."""

    killed: dict[str, list[float]]
    handed_over: dict[str, list[float]]
    lost: int


def take(extent: Extent) -> list[Figure]:
    found = {"ours": times(our_controller, OurMember, extent.failovers)}
    if extent.with_apache:
        found["apache"] = times(ApacheControllers, ApacheMember, extent.failovers)
    return [figure for probe in PROBES for figure in figures(found, probe)]


def figures(found: dict[str, Times], probe: str) -> Iterator[Figure]:
    lost = found["ours"].lost
    for what, killed in (("kill -9", True), ("handover", False)):
        by_name = {name: (each.killed if killed else each.handed_over)[probe] for name, each in found.items()}
        for name, percent in (("p50", 50), ("p99", 99)):
            ours = percentile(by_name["ours"], percent)
            beside = percentile(by_name["apache"], percent) if "apache" in by_name else None
            title = f"{what}, {probe} takes nothing, {name} of {len(by_name['ours'])}"
            bar = KILL_MAX_MS if killed else None
            yield Figure(title, "ms", ours, beside, "Apache's", at_most=bar, errors=lost)


def times(
    make_controller: Callable[[Path], object], make_member: Callable[[Path, Controller], Member], rounds: int
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
        of_both.until_both_in_sync()
        time.sleep(SETTLED_AFTER_START_S)
        probes = {name: make(controller, members) for name, make in PROBES.items()}
        with running(list(probes.values())):
            killed: dict[str, list[float]] = {name: [] for name in probes}
            handed_over: dict[str, list[float]] = {name: [] for name in probes}
            for _ in range(rounds):
                dead: list[Member] = []
                note(probes, killed, lambda: dead.append(of_both.kill()))  # noqa: B023
                dead[0].start()
                of_both.until_both_in_sync()
                note(probes, handed_over, of_both.hand_over)
                of_both.until_both_in_sync()
        taken = {body for probe in probes.values() for body in probe.bodies}
        lost = len(taken - of_both.bodies())
    return Times(
        {name: sorted(each) for name, each in killed.items()},
        {name: sorted(each) for name, each in handed_over.items()},
        lost,
    )


@contextmanager
def running(probes: list[Probe]) -> Iterator[None]:
    has_ended = threading.Event()
    threads = [threading.Thread(target=probe.run, args=(has_ended,)) for probe in probes]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        has_ended.set()
        for thread in threads:
            thread.join()


def note(probes: dict[str, Probe], found: dict[str, list[float]], event: Callable[[], None]) -> None:
    """Adds, for each probe, how long it was without a message that was taken, around the event."""
    for probe in probes.values():
        count = len(probe.moments_s)
        until(lambda: len(probe.moments_s) > count)  # noqa: B023
    began = {name: len(probe.moments_s) - 1 for name, probe in probes.items()}
    event()
    event_s = time.monotonic()
    for name, probe in probes.items():
        until(lambda: probe.moments_s[-1] > event_s + SETTLED_S)  # noqa: B023
        moments_s = probe.moments_s[began[name] :]
        longest_s = max(after - before for before, after in itertools.pairwise(moments_s))
        found[name].append(longest_s * 1000)
