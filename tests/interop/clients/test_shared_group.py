"""One group with members of several kinds: which member has which queue, and that no message is missed while members
come and go.

Unprompted, the Java members rebalance every ten minutes. Within a test they do so because the broker notifies them.
"""

from collections.abc import Iterator

import pytest

from tests.support.python_member import PythonMember
from tests.support.servers import Fresh

from ..cluster import Cluster
from ..events import Outgoing
from ..witness import Consumer, Witness, eventually

pytestmark = pytest.mark.interop

QUEUES = 8
ROUND_COUNT = 40
TEN_MINUTES_MS = 600_000


@pytest.fixture(scope="module")
def member_java(cluster: Cluster) -> Iterator[Witness]:
    """A Java client that only runs members; only the broker tells it about changes in its groups."""
    home = cluster.work / "java-members"
    with Witness(cluster.namesrv_addr, home, rebalance_interval_ms=TEN_MINUTES_MS) as witness:
        yield witness


def send_round(java: Witness, topic: str, number: int) -> set[bytes]:
    """Sends equally many messages to every queue. Returns their bodies, which are unique to the round."""
    bodies = [b"round %d message %d" % (number, i) for i in range(ROUND_COUNT)]
    java.send(topic, [Outgoing(body=body, queue_id=i % QUEUES) for i, body in enumerate(bodies)])
    return set(bodies)


def wait_shared(java: Witness, group: str, topic: str, *members: Consumer | PythonMember) -> None:
    """Waits until the members report that each queue has exactly one owner, and each member equally many queues."""

    def settled() -> list[set[int]]:
        queues = [java.assigned(group, topic, member.client_id) for member in members]
        fair = {len(q) for q in queues} == {QUEUES // len(members)}
        return [q for q in queues if fair and set().union(*queues) == set(range(QUEUES))]

    eventually(settled, len(members))
    assert java.members(group) == {member.client_id for member in members}


def bodies(member: Consumer | PythonMember) -> list[bytes]:
    return member.bodies if isinstance(member, PythonMember) else [m.body for m in member.messages]


def consumed(*members: Consumer | PythonMember) -> list[bytes]:
    return [body for member in members for body in bodies(member)]


def wait_consumed(expected: set[bytes], *members: Consumer | PythonMember) -> None:
    eventually(lambda: list(expected & set(consumed(*members))), len(expected))


def test_a_java_member_and_ours_share_the_queues_and_get_every_message_exactly_once(
    cluster: Cluster, java: Witness, member_java: Witness, fresh: Fresh
) -> None:
    topic, group = java.create_topic(fresh("SharedTopic"), queues=QUEUES), fresh("SharedGroup")
    theirs = member_java.consume(group, topic)
    with PythonMember(cluster.namesrv_addr, group, topic) as ours:
        wait_shared(java, group, topic, theirs, ours)
        sent = set().union(*(send_round(java, topic, number) for number in range(10)))
        wait_consumed(sent, theirs, ours)
        java.until_caught_up(group, topic)  # messages that are not committed when a member leaves come again
        theirs.stop()
    assert sorted(consumed(theirs, ours)) == sorted(sent)
    assert len(bodies(theirs)) == len(bodies(ours)) == len(sent) // 2


def test_no_message_is_missed_while_members_join_leave_and_vanish(
    cluster: Cluster, java: Witness, member_java: Witness, fresh: Fresh
) -> None:
    """Some messages may come twice: a queue changes its owner while messages are consumed but not yet committed."""
    topic, group = java.create_topic(fresh("SharedTopic"), queues=QUEUES), fresh("SharedGroup")
    rounds = iter(range(1000))
    sent: set[bytes] = set()

    def traffic() -> None:
        for _ in range(3):
            sent.update(send_round(java, topic, next(rounds)))

    first = member_java.consume(group, topic)
    traffic()
    with PythonMember(cluster.namesrv_addr, group, topic) as ours:
        traffic()
        wait_shared(java, group, topic, first, ours)
        traffic()
        first.stop()
        traffic()
        wait_shared(java, group, topic, ours)
        with Witness(cluster.namesrv_addr, cluster.work / "java-vanishing") as vanishing:
            killed = vanishing.consume(group, topic)
            wait_shared(java, group, topic, killed, ours)
            traffic()
            vanishing.kill()
        traffic()
        wait_shared(java, group, topic, ours)
        last = member_java.consume(group, topic)
        traffic()
        wait_shared(java, group, topic, ours, last)
    traffic()
    wait_shared(java, group, topic, last)
    wait_consumed(sent, first, ours, killed, last)
    last.stop()
    java.until_caught_up(group, topic)


def test_java_members_share_the_queues_and_one_that_leaves_is_replaced(
    java: Witness, member_java: Witness, fresh: Fresh
) -> None:
    topic, group = java.create_topic(fresh("SharedTopic"), queues=QUEUES), fresh("SharedGroup")
    first, second = member_java.consume(group, topic), member_java.consume(group, topic)
    wait_shared(java, group, topic, first, second)
    sent = send_round(java, topic, 0)
    wait_consumed(sent, first, second)
    java.until_caught_up(group, topic)
    first.stop()
    wait_shared(java, group, topic, second)
    sent_afterwards = send_round(java, topic, 1)
    wait_consumed(sent | sent_afterwards, first, second)
    second.stop()
    assert sorted(consumed(first, second)) == sorted(sent | sent_afterwards)
