"""The warning before retention overtakes an archive, at a real broker and with a clock that is moved."""

import time

import pytest

from rmqadmin.commands.replay.spark_archive import RetentionWatch
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqreplay.source.live import LiveCluster
from tests.support.servers import Fresh, Server, topic_config, until

HOUR_MS = 3_600_000


@pytest.fixture
def queue(server: Server, admin: AdminClient, fresh: Fresh) -> MessageQueue:
    """A queue with four messages."""
    found = MessageQueue(fresh("Waiting"), "broker-a", 0)
    admin.create_topic(server.broker_addr, topic_config(found.topic))
    until(lambda: found.topic in admin.topic_list())
    for _ in range(4):
        admin.send_message(server.broker_addr, found, Message(found.topic, b"x"))
    return found


@pytest.mark.parametrize(
    ("age_h", "archived", "is_near"), [(35.9, 2, False), (36.1, 2, True), (80, 2, True), (80, 4, False)]
)
def test_half_of_the_time_that_a_broker_keeps_messages_is_near(server, queue, age_h, archived, is_near) -> None:
    """fileReservedTime is 72 hours. What is archived may go."""
    said: list[str] = []
    watch = RetentionWatch(lambda: time.time_ns() // 1_000_000 + round(age_h * HOUR_MS), said.append)
    with LiveCluster(server.namesrv_addr) as cluster:
        for _ in range(2):
            watch.look(cluster, {queue: archived})
    assert [
        f"{queue.topic}/broker-a/0 was not archived from offset 2 on for {age_h:.1f} h" in text for text in said
    ] == ([True] if is_near else [])
    assert bool(watch.near) == is_near


def test_a_full_disk_shortens_the_time(queue, server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that had to delete what is older than an hour."""
    now_ms = time.time_ns() // 1_000_000 + HOUR_MS
    watch = RetentionWatch(lambda: now_ms, lambda text: None)
    with LiveCluster(server.namesrv_addr) as cluster:
        monkeypatch.setattr(
            cluster.admin,
            "broker_runtime_info",
            lambda _: {"commitLogMinOffset": "1073741824", "earliestMessageTimeStamp": str(now_ms - HOUR_MS)},
        )
        watch.look(cluster, {queue: 0})
    assert "its broker keeps messages for 1.0 h" in watch.near[queue]
