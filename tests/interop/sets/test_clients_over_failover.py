"""Real clients keep sending and consuming while a set of two brokers of ours, under our controller, loses its master by
a planned handover or by kill -9. No acknowledged message is missing, queues keep their order, and consumers go on where
they were.

How long no message is accepted is printed, but never asserted. Java and Go ask for a new route every 30 seconds, and no
answer of a broker makes them ask sooner. Until then they depend on the former master, by then a slave, which passes
their requests on. Java can be told to ask more often, as the Java client that asks every second is; so can Node's
witness.
"""

import itertools
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.replication import ReplicaSet
from tests.support import servers
from tests.support.broker_set import is_settled
from tests.support.servers import Fresh, topic_config, until

from ..client import Client
from ..cluster import BROKER_NAME, CLUSTER_NAME
from ..controllers import OurMember
from ..events import Message
from ..other_clients import start
from ..steady import sending
from ..witness import Witness

pytestmark = pytest.mark.interop

BEFORE, BEHIND = 60, 60
"""How many messages are accepted before the master is lost, and how many by its successor."""
BACK_MAX_MS = 5000
QUEUES = 4
JAVA_THAT_ASKS = "java, every second"
STAY = ("java", "go")
"""Clients that keep asking the former master for half a minute. It is started again at once, and passes on what they
send."""


@dataclass(frozen=True)
class OurSet:
    namesrv_addr: str
    addr: str
    """The controller's address."""
    admin: AdminClient
    members: list[OurMember] = field(default_factory=list)

    def known(self) -> ReplicaSet | None:
        return self.admin.replica_sets(self.addr, [BROKER_NAME]).replicas_info_table.get(BROKER_NAME)

    def in_sync(self) -> set[str]:
        found = self.known()
        return {each.broker_address for each in found.in_sync_replicas if each.alive} if found is not None else set()

    def until_in_sync(self) -> None:
        until(lambda: self.in_sync() == {member.broker_addr for member in self.members})

    @property
    def master(self) -> OurMember:
        found = self.known()
        return next(each for each in self.members if found is not None and each.broker_addr == found.master_address)

    def offsets(self, member: OurMember, group: str, topic: str) -> dict[int, int | None]:
        """The group's committed offsets as that member knows them, by queue."""
        ask = self.admin.consumer_offset
        return {queue_id: ask(member.broker_addr, group, topic, queue_id) for queue_id in range(QUEUES)}

    def until_known_to_both(self, group: str, topic: str) -> dict[int, int | None]:
        """The offsets of a group without members, once both brokers know them."""
        one, two = self.members
        until(lambda: any(self.offsets(one, group, topic).values()))
        until(lambda: self.offsets(one, group, topic) == self.offsets(two, group, topic))
        return self.offsets(one, group, topic)

    def kill(self) -> OurMember:
        dead = self.master
        dead.kill()
        return dead

    def hand_over(self) -> None:
        found = self.known()
        assert found is not None
        other = next(each.broker_id for each in found.in_sync_replicas if each.broker_id != found.master_broker_id)
        self.admin.elect_master(self.addr, CLUSTER_NAME, BROKER_NAME, other, time.time_ns() // 1_000_000)

    def stored(self, topic: str) -> dict[int, list[bytes]]:
        """Bodies at the master, by queue."""
        addr, found = self.master.broker_addr, dict[int, list[bytes]]()
        for queue_id in range(QUEUES):
            bodies = found[queue_id] = []
            while messages := self.admin.pull_message(
                addr, MessageQueue(topic, BROKER_NAME, queue_id), len(bodies)
            ).messages:
                bodies += [message.body for message in messages]
        return found


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurSet]:
    work = tmp_path_factory.mktemp("set")
    with ExitStack() as stack:
        controller = stack.enter_context(servers.controller(work / "controller"))
        namesrv = stack.enter_context(servers.namesrv(work / "namesrv"))
        admin = stack.enter_context(AdminClient(namesrv.namesrv_addr))
        made = OurSet(namesrv.namesrv_addr, controller.controller_addr, admin)
        for name in ("one", "two"):
            member = OurMember(work / name, made)
            stack.callback(member.kill)
            member.start()
            made.members.append(member)
            made.until_in_sync()
        until(lambda: is_settled(admin, made.addr))
        yield made


def client_of(name: str, namesrv_addr: str, home: Path) -> Client:
    if not name.startswith("java"):
        return start(name, namesrv_addr, home)
    options = ("-Dwitness.pollNameServerMs=1000",) if name == JAVA_THAT_ASKS else ()
    return Witness(namesrv_addr, home, java_options=options)


def longest_back_ms(messages: list[Message]) -> int:
    """The furthest step back within a queue, measured by the store times of its messages."""
    longest, newest = 0, dict[int, int]()
    for message in messages:
        longest = max(longest, newest.get(message.queue_id, 0) - message.store_timestamp)
        newest[message.queue_id] = max(newest.get(message.queue_id, 0), message.store_timestamp)
    return longest


def check_order(messages: list[Message]) -> None:
    """Messages that are delivered for the first time come in the queue's order."""
    newest = dict[int, int]()
    for message in messages:
        expected = newest.get(message.queue_id, -1) + 1
        assert message.queue_offset <= expected, f"queue {message.queue_id}: {message.queue_offset} before {expected}"
        newest[message.queue_id] = max(message.queue_offset, expected - 1)


@pytest.mark.parametrize("loss", ["handover", "kill -9"])
@pytest.mark.parametrize("name", ["java", JAVA_THAT_ASKS, "go", "node"])
def test_a_client_lives_through_the_loss_of_the_master(
    two: OurSet, tmp_path: Path, fresh: Fresh, name: str, loss: str
) -> None:
    two.until_in_sync()
    topic, group, resting = fresh("OverFailover"), fresh("GroupOverFailover"), fresh("RestingOverFailover")
    for made in (topic, f"%RETRY%{group}", f"%RETRY%{resting}"):  # Go and Node take 30 s to find a retry topic
        two.admin.create_topic(two.master.broker_addr, topic_config(made, QUEUES))
    with client_of(name, two.namesrv_addr, tmp_path / name) as client:
        consumer = client.consume(group, topic, orderly=name != "node")  # Node has no orderly consumer
        with sending(client, topic) as taken:
            until(lambda: len(taken.moments_s) >= BEFORE)
            consumer.until_count(BEFORE)
            early = client.consume(resting, topic)
            early.until_count(BEFORE // 2)
            early.stop()
            committed = two.until_known_to_both(resting, topic)
            dead = two.kill() if loss == "kill -9" else two.hand_over()
            lost_s = time.monotonic()
            if dead is not None and name in STAY:
                dead.start()
            until(lambda: sum(each > lost_s for each in taken.moments_s) >= BEHIND)
            if dead is not None and name not in STAY:
                dead.start()  # it comes back as a slave while the client goes on
        longest_s = max(after - before for before, after in itertools.pairwise(taken.moments_s))
        told = {b"%d" % number for numbers in taken.numbers.values() for number in numbers}
        consumer.until(lambda messages: told <= {each.body for each in messages}, "all that was told to be stored")
        messages = consumer.stop()
        late = client.consume(resting, topic)
        wanted = {(queue_id, offset) for queue_id, offset in committed.items() if offset is not None}
        late.until(lambda found: wanted <= {(each.queue_id, each.queue_offset) for each in found}, "what comes next")
        assert all(each.queue_offset >= (committed[each.queue_id] or 0) for each in late.stop()), "where it was"
    stored = two.stored(topic)
    for queue_id, numbers in taken.numbers.items():
        bodies = [int(body) for body in stored[queue_id]]
        kept = set(numbers)
        assert [number for number in bodies if number in kept] == numbers, "each once, in the order of the answers"
    back_ms = longest_back_ms(messages)
    print(f"{name}, {loss}: nothing taken for {longest_s * 1000:.0f} ms, {taken.refused} refused, {back_ms} ms back")
    assert back_ms <= BACK_MAX_MS
    if name != "node":
        check_order(messages)
