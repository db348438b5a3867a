"""``spark.readStream`` of a real broker."""

import json
from collections import Counter
from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

from tests.support.servers import Fresh, topic_config

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from tests.rmqreplay.replay_lab import wait_for_route
from tests.spark_tools.spark.streamed import Sender, drain, each_once, rows, settle
from tests.support import servers
from tests.support.servers import Server, until

pytestmark = pytest.mark.spark


class Topic(Sender):
    """A topic of the shared broker."""

    def __init__(self, server: Server, admin: AdminClient, name: str):
        super().__init__(admin, name)
        self.address = server.broker_addr
        self.source = {"nameServer": server.namesrv_addr, "subscribe": name, "startingOffsets": "earliest"}

    def resize(self, queues: int) -> None:
        self.admin.create_topic(self.address, topic_config(self.topic, queues))


@pytest.fixture
def topic(server: Server, fresh: Fresh) -> Iterator[Topic]:
    with AdminClient(server.namesrv_addr) as admin:
        made = Topic(server, admin, fresh("StreamTopic"))
        made.resize(2)
        admin.create_group(server.broker_addr, SubscriptionGroupConfig(group_name="spark-job"))
        wait_for_route(admin, made.topic)
        yield made


def test_a_stream_is_read_in_limited_batches_and_goes_on_from_its_checkpoint(spark, topic: Topic, tmp_path) -> None:
    topic.send(50, topic.address)
    reports = drain(spark, topic.source | {"maxOffsetsPerTrigger": "20", "commitGroup": "spark-job"}, tmp_path)
    assert [each["numInputRows"] for each in reports if each["numInputRows"]] == [20, 20, 10]
    assert reports[0]["sources"][0]["latestOffset"]["queues"] == {f"{topic.topic}/broker-a/{at}": 25 for at in (0, 1)}
    assert rows(spark, tmp_path) == each_once(50)
    topic.resize(8)
    topic.send(30, topic.address, queues=8)
    drain(spark, topic.source | {"maxBytesPerTrigger": "2000", "commitGroup": "spark-job"}, tmp_path)
    assert rows(spark, tmp_path) == each_once(80)
    read = Counter(number % 2 for number in range(50)) + Counter(number % 8 for number in range(50, 80))
    for queue_id, count in read.items():
        committed = topic.admin.consumer_offset(topic.address, "spark-job", topic.topic, queue_id)
        assert committed == count, "the last batch, too"


def test_the_first_batch_after_a_crash_begins_where_it_began(spark, topic: Topic, tmp_path) -> None:
    """Spark logs no start of a first batch: with "latest", what had come until the driver was back would be lost."""
    topic.send(10, topic.address)
    checkpoint, seen, fails = str(tmp_path / "checkpoint"), Counter[str](), [True]

    def take(frame: Any, number: int) -> None:
        bodies = [row.body for row in frame.selectExpr("cast(body as string) body").collect()]
        if bodies and fails:
            fails.clear()
            raise RuntimeError("the first batch with rows fails after it was logged")
        seen.update(bodies)

    def start() -> Any:
        frame = spark.readStream.format("rocketmq").options(**topic.source | {"startingOffsets": "latest"}).load()
        return frame.writeStream.option("checkpointLocation", checkpoint).foreachBatch(take).start()

    query = start()
    try:
        settle(query)
        topic.send(10, topic.address)
        with pytest.raises(Exception, match="the first batch with rows"):
            settle(query)
    finally:
        query.stop()
    topic.send(10, topic.address)
    query = start()
    try:
        settle(query)
    finally:
        query.stop()
    assert seen == Counter(str(number) for number in range(10, 30))


def test_a_topic_that_is_made_anew_between_two_runs_loses_nothing_silently(spark, topic: Topic, tmp_path) -> None:
    topic.send(20, topic.address)
    drain(spark, topic.source, tmp_path)
    topic.admin.delete_topic_in_broker(topic.address, topic.topic)
    topic.resize(2)
    wait_for_route(topic.admin, topic.topic)
    topic.send(30, topic.address)
    with pytest.raises(Exception, match="was made anew after it was read to 10"):
        drain(spark, topic.source, tmp_path)
    drain(spark, topic.source | {"failOnDataLoss": "false"}, tmp_path)
    topic.send(10, topic.address)
    drain(spark, topic.source, tmp_path)
    assert rows(spark, tmp_path) == each_once(60)


def test_retention_overtakes_a_running_stream(spark, tmp_path) -> None:
    """Files are deleted after a batch was planned and before it is read: an error, or what is left, each once."""
    settings = ("--set", "mappedFileSizeCommitLog=65536", "--set", "fileReservedTime=0")
    seen, is_overtaken = Counter[int](), Event()
    with servers.standalone(tmp_path / "server", *settings) as server, AdminClient(server.namesrv_addr) as admin:
        queue, address = MessageQueue("ShortKept", "broker-a", 0), server.broker_addr
        admin.create_topic(address, topic_config(queue.topic))
        wait_for_route(admin, queue.topic)

        def send(first: int, last: int) -> None:
            for number in range(first, last):
                admin.send_message(address, queue, Message(queue.topic, b"%04000d" % number))

        def first_kept() -> int:
            admin.delete_expired_commit_log(address)
            return admin.min_offset(address, queue.topic, 0)

        def take(frame: Any, number: int) -> None:
            assert is_overtaken.wait(60)
            seen.update(row.number for row in frame.selectExpr("int(cast(body as string)) number").collect())

        def start(**options: str) -> Any:
            options |= {"nameServer": server.namesrv_addr, "subscribe": queue.topic, "startingOffsets": "earliest"}
            writing = spark.readStream.format("rocketmq").options(**options).load().writeStream.foreachBatch(take)
            return writing.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

        query = start()
        try:
            send(0, 40)  # a batch of some of them is planned, and waits
            until(lambda: query.lastProgress is not None or query.status["isDataAvailable"])
            until(lambda: first_kept() > 20)
            is_overtaken.set()
            with pytest.raises(Exception, match="is gone"):
                settle(query)
        finally:
            query.stop()
        assert not seen
        kept = first_kept()
        query = start(failOnDataLoss="false")
        try:
            settle(query)
            assert seen == Counter(range(kept, 40))
            is_overtaken.clear()
            send(40, 80)
            until(lambda: first_kept() > 60)
            is_overtaken.set()
            settle(query)
        finally:
            query.stop()
    assert seen[79] == 1
    assert set(seen.values()) == {1}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets has no meaning in a stream: it has no end"),
        ({"startingOffsets": "group:nobody-known"}, "the group nobody-known has no committed offset"),
        ({"subscribe": "NoSuchTopic"}, "there is no topic NoSuchTopic"),
        ({"commitGroup": "nobody-known"}, "commitGroup needs the group nobody-known"),
    ],
)  # fmt: skip
def test_what_a_stream_cannot_do_is_said_in_words(spark, topic: Topic, tmp_path, options, words) -> None:
    topic.send(4, topic.address)
    with pytest.raises(Exception, match=words) as told:
        drain(spark, topic.source | options, tmp_path)
    assert "UnboundLocalError" not in str(told.value), "all that Spark shows when it hides tracebacks"


def test_a_checkpoint_that_does_not_fit_is_refused(spark, topic: Topic, tmp_path) -> None:
    topic.send(10, topic.address)
    drain(spark, topic.source | {"minOffsetsPerTrigger": "99"}, tmp_path)  # which AvailableNow does not wait for
    logged = sorted((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))[-1]
    text = logged.read_text()
    queues = {f"{topic.topic}/broker-a/{at}": 5 for at in (0, 1)}
    assert json.loads(text.splitlines()[-1])["queues"] == queues
    logged.write_text(text.replace('/1": 5', '/1": 500'))
    topic.send(10, topic.address)
    with pytest.raises(Exception, match="and 500 was read"):
        drain(spark, topic.source | {"readTimeoutMs": "200"}, tmp_path)
    logged.write_text(text.replace('"version": 1', '"version": 9'))
    with pytest.raises(Exception, match="has version 9; this rmqadmin knows 1"):
        drain(spark, topic.source, tmp_path)
