"""POP with Java's and our members of groups in mode POP, on Apache's broker and on ours."""

from collections.abc import Callable

import pytest
import trio

from rmqclient.admin import AdminClient
from rmqclient.consumers.pop_consumer import PopConsumer
from rmqclient.consumers.simple_consumer import SimpleConsumer
from rmqclient.consuming.start import ConsumeFrom
from rmqclient.listener import LATER, ConsumeStatus, suspend
from rmqclient.message import ReceivedMessage
from rmqproto.bodies.popping import RequestMode
from tests.support.servers import Fresh

from ..cluster import Cluster
from ..events import Message, Outgoing
from ..mqadmin import Mqadmin
from ..witness import Witness, eventually
from .test_python_client import Collector, until

pytestmark = pytest.mark.interop

ROUND_COUNT = 20
BAD, GOOD = Outgoing(body=b"bad", tags="Bad", keys="K", properties={"kept": "yes"}), Outgoing(body=b"good")


def send_until(java: Witness, topic: str, happened: Callable[[], object]) -> list[bytes]:
    """Sends to all queues equally until ``happened``, and returns the bodies. In POP mode no member waits for another,
    so a test cannot wait for a member to get one particular message."""
    sent: list[bytes] = []
    while not happened():
        bodies = [b"%d" % number for number in range(len(sent), len(sent) + ROUND_COUNT)]
        java.send(topic, [Outgoing(body=body, queue_id=number % 4) for number, body in enumerate(bodies)])
        sent += bodies
    return sent


@pytest.fixture
def topic(java: Witness, fresh: Fresh) -> str:
    return java.create_topic(fresh("PopTopic"))


@pytest.fixture
def pop_group(java: Witness, mqadmin: Mqadmin, cluster: Cluster, topic: str, fresh: Fresh) -> Callable[[int], str]:
    """Makes groups that pop the topic and allow that many retries of a message."""

    def make(retry_max_times: int = 16) -> str:
        group = java.create_group(fresh("PopGroup"), retry_max_times=retry_max_times)
        told = mqadmin("setConsumeMode", "-b", cluster.broker_addr, "-t", topic, "-g", group, "-m", "POP", "-q", "0")
        assert "success" in told, told
        return group

    return make


def test_java_members_pop_and_each_message_goes_to_one(java: Witness, topic: str, pop_group: Callable[[], str]) -> None:
    group = pop_group()
    members = [java.consume(group, topic, pop_batch=1) for _ in range(2)]
    sent = send_until(java, topic, lambda: all(member.messages for member in members))
    eventually(lambda: [message for member in members for message in member.messages], len(sent))
    delivered = [message for member in members for message in member.stop()]
    assert sorted(message.body for message in delivered) == sorted(sent)
    assert all("POP_CK" in message.properties for message in delivered)


def test_what_a_java_member_fails_on_comes_again_and_is_dead_at_last(
    cluster: Cluster, java: Witness, topic: str, pop_group: Callable[[int], str]
) -> None:
    """The message comes again after 10 s, the first of the client's delays. Apache's broker leaves dead letters to its
    proxy."""
    patient, strict = pop_group(16), pop_group(0)
    failing = java.consume(patient, topic, pop_batch=32, fail_tag="Bad", fail_below=1)
    giving_up = java.consume(strict, topic, pop_batch=32, fail_tag="Bad", fail_below=1)
    [sent, _] = java.send(topic, [BAD, GOOD])

    def bad(messages: list[Message]) -> list[Message]:
        return [message for message in messages if message.body == b"bad"]

    first, again = bad(failing.until(lambda messages: len(bad(messages)) == 2, "second delivery"))
    assert [(m.failed, m.reconsume_times, m.topic) for m in (first, again)] == [(True, 0, topic), (False, 1, topic)]
    assert (again.msg_id, again.tags, again.keys, again.user_properties["kept"]) == (sent.msg_id, "Bad", "K", "yes")
    assert (again.born_timestamp, again.user_properties["ORIGIN_GROUP"]) == (first.born_timestamp, patient)
    if cluster.name == "ours":
        [dead] = java.read_all(f"%DLQ%{strict}", 1)
        assert (dead.body, dead.msg_id, dead.properties["RETRY_TOPIC"]) == (b"bad", sent.msg_id, topic)
    else:
        giving_up.until(lambda messages: len(bad(messages)) == 2, "second delivery")
    assert len(failing.stop()) == 3
    giving_up.stop()


@pytest.mark.trio
async def test_a_java_member_and_ours_pop_together(cluster: Cluster, java: Witness, topic: str, fresh: Fresh) -> None:
    group, collect = java.create_group(fresh("PopGroup")), Collector()
    with AdminClient(cluster.namesrv_addr) as admin:
        admin.set_request_mode(cluster.broker_addr, RequestMode(consumer_group=group, mode="POP", topic=topic))
    async with PopConsumer(cluster.namesrv_addr, group, {topic: "*"}, collect, max_in_flight=2) as ours:
        member = await trio.to_thread.run_sync(lambda: java.consume(group, topic, pop_batch=1))
        (queue,) = await ours.wait_assigned()
        assert queue.queue_id == -1
        sent = await trio.to_thread.run_sync(send_until, java, topic, lambda: collect.messages and member.messages)
        await until(lambda: len(collect.messages) + len(member.messages) >= len(sent))
        theirs = await trio.to_thread.run_sync(member.stop)
    assert sorted([*collect.bodies, *(message.body for message in theirs)]) == sorted(sent)


@pytest.mark.trio
async def test_what_ours_is_slow_with_or_fails_on(cluster: Cluster, java: Witness, topic: str, fresh: Fresh) -> None:
    """A message whose listener exceeds the invisible time goes to no other member, and a suspended one comes again
    unchanged. On either broker, a message that failed too often becomes a dead letter at once."""
    group, invisible_s = java.create_group(fresh("PopGroup"), retry_max_times=0), 2.0
    seen: list[tuple[bytes, str, int]] = []

    async def listener(message: ReceivedMessage) -> ConsumeStatus | None:
        seen.append((message.body, message.topic, message.reconsume_times))
        if message.body == b"slow":
            await trio.sleep(3 * invisible_s)
        if message.body == b"again" and len([each for each in seen if each[0] == b"again"]) == 1:
            return suspend(0.5)
        return LATER if message.body == b"bad" else None

    bodies = [b"slow", b"again", b"bad", b"good"]
    consumer = PopConsumer(
        cluster.namesrv_addr, group, {topic: "*"}, listener,
        consume_from=ConsumeFrom.FIRST_OFFSET, set_mode=True, invisible_s=invisible_s,
    )  # fmt: skip
    async with consumer:
        await consumer.wait_assigned()
        await trio.to_thread.run_sync(java.send, topic, [Outgoing(body=body) for body in bodies])
        [dead] = await trio.to_thread.run_sync(java.read_all, f"%DLQ%{group}", 1)
        await until(lambda: len(seen) == 5)
    async with SimpleConsumer(cluster.namesrv_addr, group) as other:
        assert await other.pop(topic, wait_s=invisible_s + 3) == []
    assert dead.body == b"bad"
    assert sorted(seen) == sorted([(body, topic, 0) for body in [*bodies, b"again"]])
