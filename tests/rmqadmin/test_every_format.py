"""Every reading command in every format, parsed: no command has a format of its own, or forgets one."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from rmqadmin.output import Format
from rmqadmin.registry import ENTRIES, Effect
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies import (
    ConsumerData,
    ConsumerRunningInfo,
    Heartbeat,
    MessageQueue,
    ProcessQueueInfo,
    ProducerData,
    SubscriptionData,
    TopicConfig,
)
from rmqproto.fastjson import ObjectMap
from rmqproto.names import retry_topic
from tests.rmqadmin.conftest import CLUSTER, Rmqadmin
from tests.support.consumer import TalkingConsumer
from tests.support.servers import Server, until

# What each reading command is called with; {topic}, {group}, {id} and {broker} are filled in.
CALLS: dict[str, list[str]] = {
    "topicList": [],
    "topicRoute": ["-t", "{topic}"],
    "topicStatus": ["-t", "{topic}"],
    "consumerProgress": ["-g", "{group}"],
    "consumerConnection": ["-g", "{group}"],
    "queryMsgById": ["-t", "{topic}", "-i", "{id}"],
    "queryMsgByKey": ["-t", "{topic}", "-k", "KEY"],
    "clusterList": [],
    "brokerStatus": ["-b", "{broker}"],
    "topicClusterList": ["-t", "{topic}"],
    "statsAll": ["-t", "{topic}"],
    "getConsumerConfig": ["-g", "{group}"],
    "getBrokerConfig": ["-b", "{broker}"],
    "getNamesrvConfig": [],
    "producerConnection": ["-g", "{group}", "-t", "{topic}"],
    "producer": ["-b", "{broker}"],
    "consumerStatus": ["-g", "{group}"],
    "queryMsgByUniqueKey": ["-t", "{topic}", "-i", "{key}"],
    "queryMsgByOffset": ["-t", "{topic}", "-b", "broker-a", "-i", "0", "-o", "0"],
    "printMsg": ["-t", "{topic}"],
    "printMsgByQueue": ["-t", "{topic}", "-a", "broker-a", "-i", "0", "-p", "true", "-d", "true"],
    "consumeMessage": ["-t", "{topic}"],
    "explain": [],
}
ALSO = {
    "topicList": ["-c"],
    "consumerProgress": [],
    "clusterList": ["-m"],
    "brokerStatus": ["-c", CLUSTER],
    "getBrokerConfig": ["-c", CLUSTER],
    "consumerStatus": ["-g", "{group}", "-i", "format"],
    "printMsgByQueue": ["-t", "{topic}", "-a", "broker-a", "-i", "0", "-f", "true"],
}

READING = [entry for entry in ENTRIES if entry.effect in (Effect.READ, Effect.READ_OR_CHANGE, Effect.LOCAL)]
CASES = [(entry.name, CALLS[entry.name]) for entry in READING] + list(ALSO.items())


@pytest.fixture(scope="module")
def scene(server: Server, fresh: Callable[[str], str]) -> Iterator[dict[str, str]]:
    """A topic with a message, and a group that is online and has an offset in it."""
    topic, group = fresh("FormatTopic"), fresh("FormatGroup")
    consumer = ConsumerData(group_name=group, subscription_data_set=[SubscriptionData(topic=topic)])
    sender = ProducerData(group_name=group)
    beat = Heartbeat(client_id="format", consumer_data_set=[consumer], producer_data_set=[sender])
    queue = MessageQueue(topic, "broker-a", 0)
    info = ConsumerRunningInfo(mq_table=ObjectMap({queue: ProcessQueueInfo()}))
    with AdminClient(server.namesrv_addr) as admin, TalkingConsumer(server.broker_addr, beat, info):
        admin.create_topic(server.broker_addr, TopicConfig(topic_name=topic, read_queue_nums=1, write_queue_nums=1))
        message = Message(topic, b'tab\there, comma, "quote"\nand a line', tags="TagA", keys=["KEY"])
        sent = admin.send_message(server.broker_addr, queue, message)
        admin.update_consumer_offset(server.broker_addr, group, topic, 0, 0)
        until(lambda: retry_topic(group) in admin.topic_list())  # or the list would grow while it is being tried
        yield {
            "topic": topic,
            "group": group,
            "id": sent.offset_message_id,
            "key": sent.message_id,
            "broker": server.broker_addr,
        }


def test_every_reading_command_is_tried() -> None:
    assert {name for name, _ in CASES} == {entry.name for entry in READING}


@pytest.mark.parametrize(
    ("name", "args"), CASES, ids=lambda value: value if isinstance(value, str) else " ".join(value)
)
def test_every_format_of_every_reading_command_parses(
    rmqadmin: Rmqadmin,
    scene: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    args: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)  # consumerStatus leaves files there, as mqadmin's does
    filled = [arg.format(**scene) for arg in args]

    def text(format: Format) -> str:
        ran = rmqadmin(name, *filled, "--output", format)
        assert ran.status == 0, ran.err
        return ran.out

    document = json.loads(text(Format.JSON))
    assert (document["_command"], document["_version"]) == (name, 1)
    count = len(document["items"])
    assert count > 0
    fields = list(document["items"][0])
    assert [line.split("\t")[0] for line in text(Format.SCHEMA).splitlines()].count(fields[0]) >= 1

    lines = [json.loads(line) for line in text(Format.JSONL).splitlines()]
    assert [list(line) for line in lines] == [["_command", "_version", *fields]] * count

    from_yaml = yaml.safe_load(text(Format.YAML))
    assert [list(item) for item in from_yaml["items"]] == [fields] * count

    from_csv = list(csv.reader(io.StringIO(text(Format.CSV))))
    from_tsv = [line.split("\t") for line in text(Format.TSV).splitlines()]
    titles = [field.removesuffix("_ms") for field in fields]
    assert [title.removesuffix("_ms") for title in from_csv[0]] == titles
    assert [len(row) for row in from_csv] == [len(row) for row in from_tsv] == [len(fields)] * (count + 1)

    assert 1 <= len(text(Format.NAME).splitlines()) <= count
    for format in (Format.TABLE, Format.WIDE):
        assert len(text(format).partition("\n\n")[0].splitlines()) == count + 1
    if name != "explain":
        assert text(Format.MQADMIN)
