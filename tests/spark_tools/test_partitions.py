"""Partitions of a live read."""

import msgspec
import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import TopicConfig
from rmqproto.codes import ResponseCode
from rmqproto.errors import ConnectError, RefusedError
from rmqreplay.source.live import LiveCluster
from rmqreplay.source.offset_ranges import OffsetRange
from rmqreplay.source.queue_ranges import DataLossError
from spark_tools.partitions import TASK_MESSAGES_MIN, TASKS_MIN, Part, plan_live, plan_read, task_parts
from spark_tools.source_options import parse_read_options
from tests.support.servers import Fresh, Server, topic_config, until


@pytest.fixture
def topic(server: Server, admin: AdminClient, fresh: Fresh) -> str:
    """With one message."""
    name = fresh("Planned")
    admin.create_topic(server.broker_addr, topic_config(name))
    admin.send_message(server.broker_addr, MessageQueue(name, "broker-a", 0), Message(name, b"x"))
    until(lambda: name in admin.topic_list())
    return name


def test_a_broker_where_nobody_may_read_the_topic_is_not_left_out_without_a_word(
    server: Server, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"nameServer": server.namesrv_addr, "subscribe": topic}
    with LiveCluster(server.namesrv_addr) as cluster:
        queue, broker = cluster.route(topic)["broker-a"]
        closed = (msgspec.structs.replace(queue, broker_name="broker-b", perm=2), broker)
        monkeypatch.setitem(cluster.route(topic), "broker-b", closed)
        with pytest.raises(DataLossError, match=f"nobody may read {topic} on broker-b"):
            plan_live(cluster, parse_read_options(options))
        parts = plan_live(cluster, parse_read_options({**options, "failOnDataLoss": "false"})).parts
        assert [part.queue.broker_name for part in parts] == ["broker-a"]


def test_a_read_is_planned_when_the_broker_has_a_master_again(
    server: Server, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LiveCluster(server.namesrv_addr) as cluster:
        queue, broker = cluster.route(topic)["broker-a"]
        headless = msgspec.structs.replace(broker, broker_addrs={})
        monkeypatch.setitem(cluster.route(topic), "broker-a", (queue, headless))
        with pytest.raises(ConnectError, match="broker-a has no master now"):
            cluster.master(topic, "broker-a")
        parts = plan_live(cluster, parse_read_options({"nameServer": server.namesrv_addr, "subscribe": topic})).parts
        assert [part.count for part in parts] == [1]


def test_queues_that_a_broker_does_not_tell_are_named(
    server: Server, admin: AdminClient, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RefusedError(ResponseCode.NO_PERMISSION, "not for you")

    topic = fresh("Untold")
    admin.create_topic(server.broker_addr, TopicConfig(topic_name=topic, read_queue_nums=1, write_queue_nums=2))
    until(lambda: topic in admin.topic_list())
    monkeypatch.setattr(AdminClient, "queues_past", refuse)
    planned = plan_read(parse_read_options({"nameServer": server.namesrv_addr, "subscribe": topic}))
    assert [text.partition(": ")[0] for text in planned.not_searched] == [
        f"queues of {topic} past its 2 are not known on broker-a"
    ]


def test_many_queues_with_few_messages_share_tasks() -> None:
    """In order, each once, and always alike. Sparse queues among full ones share those of others, too."""
    plain = parse_read_options({"nameServer": "127.0.0.1:9876", "subscribe": "T"})
    queues = [MessageQueue("T", "broker-a", number) for number in range(1000)]
    few: list[Part] = [OffsetRange(queue, 3, 8) for queue in queues]
    tasks = task_parts(few, plain)
    assert len(tasks) == TASKS_MIN
    assert [each for task in tasks for each in task] == few
    assert {len(task) for task in tasks} == {15, 16}
    assert len(task_parts(few[:TASKS_MIN], plain)) == TASKS_MIN
    many: list[Part] = [OffsetRange(queue, 0, 10 * TASK_MESSAGES_MIN) for queue in queues]
    assert len(task_parts(many, plain)) == 1000
    for name, value in (("minPartitions", "1000"), ("maxRecordsPerPartition", "5")):
        asked = parse_read_options({"nameServer": "127.0.0.1:9876", "subscribe": "T", name: value})
        assert len(task_parts(few, asked)) == 1000
    uneven: list[Part] = [OffsetRange(queues[0], 0, TASK_MESSAGES_MIN), *few[1:]]
    hundred = parse_read_options({"nameServer": "127.0.0.1:9876", "subscribe": "T", "minPartitions": "100"})
    assert len(task_parts(few, hundred)) == 100
    assert len(task_parts(uneven, plain)) < TASKS_MIN
    assert len(task_parts(uneven, hundred)) >= 100
    assert task_parts([], plain) == []
