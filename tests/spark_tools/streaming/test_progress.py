"""What operators see of a stream that waits for messages."""

import os
import signal
from typing import Any

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError
from rmqreplay.source.live import LiveCluster
from spark_tools.streaming import progress
from spark_tools.streaming.progress import GroupCommits
from tests.rmqreplay.replay_lab import wait_for_route
from tests.support.servers import Fresh, Server, topic_config


def test_an_offset_that_its_broker_no_longer_has_is_written_again(
    server: Server, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that was killed, a new master, or an operator may have moved it back, and no message has come since."""
    topic, group = fresh("Topic"), fresh("group")
    clock_s = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: clock_s[0])
    with AdminClient(server.namesrv_addr) as admin, LiveCluster(server.namesrv_addr) as cluster:
        admin.create_topic(server.broker_addr, topic_config(topic, 1))
        admin.create_group(server.broker_addr, SubscriptionGroupConfig(group_name=group))
        wait_for_route(admin, topic)
        commits, places = GroupCommits(cluster, group), {MessageQueue(topic, "broker-a", 0): 7}

        def written() -> int | None:
            commits.write(places)
            return admin.consumer_offset(server.broker_addr, group, topic, 0)

        assert written() == 7
        admin.update_consumer_offset(server.broker_addr, group, topic, 0, 3)
        assert written() == 3, "not at every look"
        clock_s[0] += progress.AGAIN_EVERY_S
        assert written() == 7


def test_a_broker_that_does_not_answer_is_asked_once_a_batch(
    server: Server, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frozen one takes the whole time limit for each of its queues, and holds the stream."""
    topic, group = fresh("Topic"), fresh("group")
    with AdminClient(server.namesrv_addr) as admin, LiveCluster(server.namesrv_addr, timeout_s=0.2) as cluster:
        admin.create_topic(server.broker_addr, topic_config(topic, 4))
        admin.create_group(server.broker_addr, SubscriptionGroupConfig(group_name=group))
        wait_for_route(admin, topic)
        commits, asked = GroupCommits(cluster, group), list[int]()
        write = cluster.admin.update_consumer_offset

        def noted(address: str, group: str, topic: str, queue_id: int, offset: int) -> None:
            asked.append(queue_id)
            write(address, group, topic, queue_id, offset)

        monkeypatch.setattr(cluster.admin, "update_consumer_offset", noted)
        places = {MessageQueue(topic, "broker-a", at): 7 for at in range(4)}
        cluster.master(topic, "broker-a")
        os.kill(server.pid, signal.SIGSTOP)
        try:
            commits.write(places)
        finally:
            os.kill(server.pid, signal.SIGCONT)
        assert asked == [0]
        commits.write(places)
        assert asked == [0, 0, 1, 2, 3]


def test_each_reason_why_offsets_are_not_written_is_told_once(
    server: Server, fresh: Fresh, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, group = fresh("Topic"), fresh("group")
    with AdminClient(server.namesrv_addr) as admin, LiveCluster(server.namesrv_addr) as cluster:
        admin.create_topic(server.broker_addr, topic_config(topic, 2))
        admin.create_group(server.broker_addr, SubscriptionGroupConfig(group_name=group))
        wait_for_route(admin, topic)
        commits, remark = GroupCommits(cluster, group), ""
        write = cluster.admin.update_consumer_offset

        def refuse(*given: Any) -> None:
            if remark:
                raise RefusedError(ResponseCode.NO_PERMISSION, remark)
            write(*given)

        monkeypatch.setattr(cluster.admin, "update_consumer_offset", refuse)
        told = []
        for offset, remark in enumerate(["", "no right", "no right", "closed", "", "closed"]):  # noqa: B007 - of refuse
            commits.write({MessageQueue(topic, "broker-a", at): offset for at in range(2)})
            told.append([line.rpartition(": ")[2] for line in capsys.readouterr().err.splitlines()])
    no_right, closed = (f"{text} (16 NO_PERMISSION)" for text in ("no right", "closed"))
    assert told == [[], [no_right], [], [closed], [], [closed]]
