"""Our consumers beside the Java client in one group: orderly, broadcasting, and their traces as Apache's tools read
them."""

import shutil
from collections import defaultdict
from pathlib import Path

import pytest
import trio

from rmqclient.consumers.push_consumer import PushConsumer
from rmqclient.consuming.offset_store import LocalOffsetStore
from rmqclient.message import Message, ReceivedMessage
from rmqclient.producers.producer import Producer
from rmqproto.bodies.base import MessageQueue
from tests.support.servers import Fresh

from ..cluster import BROKER_NAME, Cluster
from ..events import Outgoing
from ..mqadmin import Mqadmin
from ..witness import Witness
from .test_python_client import Collector, until

pytestmark = pytest.mark.interop

QUEUES, COUNT = 4, 80


@pytest.mark.trio
async def test_a_java_member_and_ours_share_queues_in_order(cluster: Cluster, java: Witness, fresh: Fresh) -> None:
    """Each queue's messages come in order, whichever member owns the queue, and both members own queues. Ours takes
    over behind the last commit."""
    topic, group = java.create_topic(fresh("OrderTopic"), queues=QUEUES), fresh("OrderGroup")
    java.create_group(group, orderly=True)
    ours: defaultdict[int, list[int]] = defaultdict(list)

    async def listener(message: ReceivedMessage) -> None:
        ours[message.queue.queue_id].append(int(message.body))

    async with PushConsumer(cluster.namesrv_addr, group, {topic: "*"}, listener, orderly=True) as consumer:
        await until(lambda: len(consumer.assignment) == QUEUES)
        member = await trio.to_thread.run_sync(lambda: java.consume(group, topic, orderly=True))
        await until(lambda: len(consumer.assignment) == QUEUES // 2)
        await trio.to_thread.run_sync(
            lambda: java.send(topic, [Outgoing(body=b"%d" % n, queue_id=n % QUEUES) for n in range(COUNT)])
        )
        await until(lambda: sum(map(len, ours.values())) + len(member.messages) >= COUNT)
        moved = {message.queue_id for message in member.messages}
        await trio.to_thread.run_sync(java.until_caught_up, group, topic, moved)  # its last commit comes after it left
        theirs: defaultdict[int, list[int]] = defaultdict(list)
        for message in await trio.to_thread.run_sync(member.stop):
            theirs[message.queue_id].append(int(message.body))
        await until(lambda: len(consumer.assignment) == QUEUES)
    assert len(ours) == len(theirs) == QUEUES // 2
    assert {**ours, **theirs} == {queue_id: list(range(queue_id, COUNT, QUEUES)) for queue_id in range(QUEUES)}


@pytest.mark.trio
async def test_the_file_of_a_broadcast_member_passes_both_ways(
    cluster: Cluster, java: Witness, fresh: Fresh, tmp_path: Path
) -> None:
    """Java's, ours, then Java's again: each member goes on where the last one stopped. The files are in different
    folders because Java's client id has the machine's address, and ours the address that reaches the nameserver."""
    topic, group, instance = java.create_topic(fresh("BroadcastTopic"), queues=1), fresh("Group"), fresh("instance")

    def consume_in_java(*bodies: bytes) -> Path:
        java.send(topic, [Outgoing(body=body) for body in bodies])
        member = java.consume(group, topic, broadcasting=True, instance=instance)
        member.until_count(len(bodies))
        assert sorted(message.body for message in member.stop()) == list(bodies)
        (file,) = cluster.work.rglob(f"{member.client_id}/{group}/offsets.json")
        return file

    theirs = await trio.to_thread.run_sync(consume_in_java, b"0", b"1")
    ours = tmp_path / f"127.0.0.1@{instance}" / group / "offsets.json"
    ours.parent.mkdir(parents=True)
    shutil.copy(theirs, ours)
    await trio.to_thread.run_sync(lambda: java.send(topic, [Outgoing(body=b"2")]))
    collect = Collector()
    consumer = PushConsumer(
        cluster.namesrv_addr,
        group,
        {topic: "*"},
        collect,
        message_model="BROADCASTING",
        instance_name=instance,
        offset_dir=tmp_path,
    )
    async with consumer:
        await until(lambda: bool(collect.messages))
    assert collect.bodies == [b"2"]
    assert await LocalOffsetStore(ours).read(MessageQueue(topic, BROKER_NAME, 0)) == 3
    shutil.copy(ours, theirs)
    await trio.to_thread.run_sync(consume_in_java, b"3")


@pytest.mark.trio
async def test_apaches_mqadmin_reads_our_traces(
    cluster: Cluster, java: Witness, mqadmin: Mqadmin, fresh: Fresh
) -> None:
    topic, group, traced = java.create_topic(fresh("TracedTopic")), fresh("TracedGroup"), java.create_topic("OurTraces")
    collect = Collector()
    producer_group = fresh("TracedProducer")
    consumer = PushConsumer(
        cluster.namesrv_addr, group, {topic: "*"}, collect, trace=traced, consume_from="CONSUME_FROM_FIRST_OFFSET"
    )
    async with Producer(cluster.namesrv_addr, producer_group, trace=traced) as producer, consumer:
        sent = await producer.send(Message(topic, b"traced", keys="key-1"))
        await until(lambda: bool(collect.messages))
    told = await trio.to_thread.run_sync(lambda: mqadmin("queryMsgTraceById", "-i", sent.message_id, "-t", traced))
    lines = [line.split() for line in told.splitlines()]
    assert any(line[:2] == ["Pub", producer_group] and line[-1] == "success" for line in lines), told
    assert any(line[:2] == ["Sub", group] and line[-1] == "success" for line in lines), told
