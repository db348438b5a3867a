"""The ``rocketmq`` format in a real session, as a user gets it by ``pip install``."""

import json

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from rmqadmin.core.messages.files.formats import read_lines_untrusted
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import TopicConfig
from tests.rmqreplay.replay_lab import wait_for_route
from tests.support.servers import Server, topic_config

pytestmark = pytest.mark.spark


def test_the_format_is_found_without_being_registered(spark, store) -> None:
    frame = spark.read.format("rocketmq").option("path", store).option("includeInternalTopics", "true").load()
    counts = {row["topic"]: row["count"] for row in frame.groupBy("topic").count().collect()}
    assert counts["NormalTopic"] == 15
    assert counts["%DLQ%RetryGroup"] == 2


def test_filters_are_pushed_down_and_still_hold(spark, store) -> None:
    read = (
        spark.read.format("rocketmq").option("path", store).option("pushFilters", "true")
        .option("subscribe", "NormalTopic,OrderTopic").schema("topic string, queueId int, queueOffset bigint")
    )  # fmt: skip
    plain = read.load().collect()
    pushed = read.load().where("topic = 'NormalTopic' and queueId in (1, 2) and queueOffset >= 1").collect()
    assert sorted(pushed) == sorted(
        row for row in plain if row.topic == "NormalTopic" and row.queueId in (1, 2) and row.queueOffset >= 1
    )
    assert pushed
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        assert sorted(read.load().where("queueOffset >= 1").collect()) == sorted(
            row for row in plain if row.queueOffset >= 1
        )
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def test_an_empty_read_has_no_rows_and_no_error(spark, server: Server, fresh, store) -> None:
    """From 4.3 on, Spark passes an empty plan as an InputPartition of None, and each empty read failed."""
    topic = fresh("EmptyTopic")
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_topic(server.broker_addr, TopicConfig(topic_name=topic, perm=6))
        wait_for_route(admin, topic)
    live, of_store = {"nameServer": server.namesrv_addr}, {"path": store}
    for options in (
        live | {"subscribe": topic},
        live | {"subscribePattern": "NoTopicIsCalledSo"},
        of_store | {"subscribe": "PlainTopic", "endingTimestamp": "1000000000000"},
        of_store | {"subscribePattern": "NoTopicIsCalledSo"},
    ):
        assert spark.read.format("rocketmq").options(**options).load().collect() == []


def test_tables_are_read_and_joined(spark, store, server: Server) -> None:
    """What they hold is compared with the commands in ``tests/rmqadmin/commands/replay/test_spark_tables.py``."""
    frame = spark.read.format("rocketmq").option("path", store)
    counts = {row.topic: row.count for row in frame.option("table", "queues").load().collect() if row.messageCount}
    assert counts.keys() >= {"NormalTopic", "%DLQ%RetryGroup"}
    frame.load().createOrReplaceTempView("queues_of_store")
    with_lag = frame.option("table", "offsets").load().join(spark.table("queues_of_store"), ["topic", "queueId"])
    assert with_lag.where("brokerOffset != maxOffset").count() == 0
    letters = frame.option("table", "deadletters").schema("group string, firstFailureTimestamp timestamp")
    assert letters.load().where("group = 'RetryGroup' and firstFailureTimestamp is not null").count() == 2
    with pytest.raises(Exception, match="there is no group Nobody"):
        letters.option("group", "Nobody").load().collect()
    live = spark.read.format("rocketmq").options(nameServer=server.namesrv_addr, table="halves")
    assert live.load().collect() == []


def test_rows_go_through_pandas(spark, store) -> None:
    """pandas is part of the extra: without it, what most notebooks do first would fail."""
    frame = spark.read.format("rocketmq").option("path", store).option("subscribe", "NormalTopic").load()
    assert len(frame.select("queueId", "body").toPandas()) == 15
    counts = frame.select("queueId").mapInPandas(lambda parts: (part.head(1) for part in parts), "queueId int")
    assert 0 < counts.count() <= 15


def test_a_table_is_read_up_to_its_end_at_each_query(spark, server: Server, fresh, tmp_path) -> None:
    topic, name = fresh("TableTopic"), fresh("table_").replace("-", "_")
    queue = MessageQueue(topic, "broker-a", 0)
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_topic(server.broker_addr, TopicConfig(topic_name=topic, perm=6))
        wait_for_route(admin, topic)
        options = f"OPTIONS (nameServer '{server.namesrv_addr}', subscribe '{topic}')"
        spark.sql(f"CREATE TABLE {name} USING rocketmq {options} COMMENT 'all' TBLPROPERTIES ('team' = 'a')")
        try:
            spark.sql(f"CREATE VIEW {name}_view AS SELECT cast(body AS string) AS text FROM {name}")
            for number in range(3):
                admin.send_message(server.broker_addr, queue, Message(topic, b"%d" % number))
                for each in (name, f"{name}_view"):
                    assert spark.sql(f"SELECT count(*) FROM {each}").first()[0] == number + 1
            assert {row.text for row in spark.table(f"{name}_view").collect()} == {"0", "1", "2"}
            to_one = json.dumps({topic: {"broker-a": {"0": 1}}})
            assert spark.read.option("endingOffsets", to_one).table(name).count() == 1, "the query's own options win"
            stream = spark.readStream.option("startingOffsets", "earliest").table(name)
            writing = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
            query = writing.trigger(availableNow=True).start()
            assert query.awaitTermination(300)
            assert sum(each["numInputRows"] for each in query.recentProgress) == 3
            with pytest.raises(Exception, match="INSERT INTO passes none of a table's options"):
                spark.sql(f"INSERT INTO {name} (body) VALUES (cast('x' AS binary))")
        finally:
            spark.sql(f"DROP VIEW IF EXISTS {name}_view")
            spark.sql(f"DROP TABLE {name}")


def test_a_table_may_be_of_store_files(spark, store, fresh) -> None:
    name = fresh("files_").replace("-", "_")
    spark.sql(f"CREATE TABLE {name} USING rocketmq OPTIONS (path '{store}', subscribe 'NormalTopic')")
    try:
        assert spark.table(name).count() == 15
    finally:
        spark.sql(f"DROP TABLE {name}")
    assert spark.read.format("rocketmq").option("subscribe", "NormalTopic").load(store).count() == 15
    both = (
        spark.read.format("rocketmq")
        .option("subscribe", "NormalTopic")
        .option("brokerName", "a,b")
        .load([store, store])
    )
    assert {row.brokerName: row["count"] for row in both.groupBy("brokerName").count().collect()} == {"a": 15, "b": 15}


def test_usage_errors_are_one_line_if_the_session_says_so(spark, store) -> None:
    spark.conf.set("spark.sql.execution.pyspark.udf.hideTraceback.enabled", "true")
    try:
        with pytest.raises(Exception, match="did you mean endingOffsets") as caught:
            spark.read.format("rocketmq").option("path", store).option("endingOffset", "x").load()
    finally:
        spark.conf.unset("spark.sql.execution.pyspark.udf.hideTraceback.enabled")
    assert "Traceback" not in str(caught.value)


def test_a_typo_in_an_option_is_an_error_and_not_the_whole_topic(spark, store) -> None:
    with pytest.raises(Exception, match="did you mean endingOffsets"):
        spark.read.format("rocketmq").option("path", store).option("endingOffset", "x").load()
    with pytest.raises(Exception, match="did you mean subscribe"):
        spark.sql("CREATE TABLE typed_wrong USING rocketmq OPTIONS (nameServer 'h:1', subscrib 'orders')")


def test_what_is_written_is_read_back(spark, server: Server, fresh) -> None:
    topic = fresh("SparkTopic")
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_topic(server.broker_addr, topic_config(topic, 2))
        wait_for_route(admin, topic)
    frame = spark.range(500).selectExpr(
        "cast(id as string) as body", "'tag' as tags", "array(concat('key-', id), 'even') as keys",
        "map('user', cast(id as string)) as properties",
    )  # fmt: skip
    writing = frame.write.format("rocketmq").option("nameServer", server.namesrv_addr).option("topic", topic)
    writing.mode("append").save()
    read = (
        spark.read.format("rocketmq").option("nameServer", server.namesrv_addr).option("subscribe", topic)
        .option("minPartitions", "4").load()
    )  # fmt: skip
    rows = read.selectExpr("cast(body as string) as body", "tags", "keys", "properties['user'] as user").collect()
    assert sorted(int(row.body) for row in rows) == list(range(500))
    assert all((row.tags, row.keys, row.user) == ("tag", f"key-{row.body} even", row.body) for row in rows)
    with pytest.raises(Exception, match="cannot be overwritten"):
        writing.mode("overwrite").save()


def test_a_row_that_can_never_be_sent_fails_the_job_or_goes_to_a_file(spark, server: Server, fresh, tmp_path) -> None:
    topic = fresh("RejectTopic")
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_topic(server.broker_addr, topic_config(topic, 4))
        wait_for_route(admin, topic)
    rows = spark.range(20, numPartitions=1).selectExpr(
        "if(id = 7, '', if(id = 8, repeat('x', 16777216), cast(id as string))) as body",
        "concat('customer-', id % 3) as shardingKey",
    )
    writing = rows.write.format("rocketmq").mode("append").options(
        nameServer=server.namesrv_addr, topic=topic, queueSelector="key"
    )  # fmt: skip
    path = tmp_path / "rejected.jsonl"
    writing.options(onReject="file", rejectPath=str(path)).save()
    with open(path, "rb") as lines:
        empty, large = read_lines_untrusted(lines)
    assert (empty.body, empty.topic, empty.properties["__SHARDINGKEY"]) == (b"", topic, "customer-1")
    assert large.body == b"x" * 16777216
    remarks = [json.loads(line)["rejected"]["remark"] for line in path.read_text().splitlines()]
    assert remarks[0] == "its body is empty, which no broker takes"
    assert remarks[1] == "its body has 16777216 bytes, more than a request can carry"
    read = spark.read.format("rocketmq").option("nameServer", server.namesrv_addr).option("subscribe", topic)
    found = read.schema("queueId int, body binary").load().collect()
    assert sorted(int(row.body) for row in found) == [number for number in range(20) if number not in (7, 8)]
    queues = {int(row.body) % 3: row.queueId for row in found}
    assert all(row.queueId == queues[int(row.body) % 3] for row in found), "a key stays in one queue"
    with pytest.raises(Exception, match=r"rejectPath .* exists"):
        writing.options(onReject="file", rejectPath=str(path)).save()
    with pytest.raises(Exception, match="2 of 20 rows rejected, and 18 stored: row 7 of task 0, for"):
        rows.write.format("rocketmq").mode("append").options(nameServer=server.namesrv_addr, topic=topic).save()
    assert read.load().count() == 36, "Spark has not repeated the task: it stored the other rows four times"
    with pytest.raises(Exception, match="no name server knows the topic NoTopicIsCalledSo"):
        rows.write.format("rocketmq").mode("append").options(
            nameServer=server.namesrv_addr, topic="NoTopicIsCalledSo"
        ).save()


def test_a_batch_that_is_repeated_with_fewer_partitions_fails(spark, server: Server, fresh, tmp_path) -> None:
    """The batch was stored, but its end was not noted."""
    topic = fresh("RepeatedTopic")
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_topic(server.broker_addr, topic_config(topic, 2))
        wait_for_route(admin, topic)
    files, checkpoint = tmp_path / "files", tmp_path / "checkpoint"
    files.mkdir()
    for name, count in (("long", 30), ("short", 5)):
        (files / f"{name}.txt").write_text("".join(f"{name} {number}\n" for number in range(count)))
    lines = spark.readStream.format("text").load(str(files)).selectExpr("value as body")

    def write(frame) -> None:
        writing = frame.writeStream.format("rocketmq").options(
            nameServer=server.namesrv_addr, topic=topic, delivery="idempotent", checkpointLocation=str(checkpoint)
        )  # fmt: skip
        writing.trigger(availableNow=True).start().awaitTermination()

    def forget_the_end() -> None:
        for each in (checkpoint / "commits").iterdir():
            each.unlink()

    write(lines)
    forget_the_end()
    write(lines)
    read = spark.read.format("rocketmq").option("nameServer", server.namesrv_addr).option("subscribe", topic)
    assert read.load().count() == 35
    forget_the_end()
    with pytest.raises(Exception, match=r"this one, with 1 task, does not have in their places \(5 of task 1\)"):
        write(lines.coalesce(1))
    assert not any(each.name == "0" for each in (checkpoint / "commits").iterdir())
