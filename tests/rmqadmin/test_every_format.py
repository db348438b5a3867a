"""Runs every reading command in every format and parses the output, so that no command has its own format or lacks
one."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from rmqadmin.cli.output.output_format import Format
from rmqadmin.cli.registry import ENTRIES, Effect
from rmqadmin.core.contexts.context_store import ContextStore
from rmqadmin.core.messages import message_rows
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import ConsumerData, Heartbeat, ProducerData, SubscriptionData
from rmqproto.bodies.statistics import ConsumerRunningInfo, ProcessQueueInfo
from rmqproto.message.record import encode_record
from rmqproto.names import ORDER_TOPIC_NAMESPACE, dlq_topic, retry_topic
from rmqproto.trace import Published, encode_trace
from rmqproto.wire.fastjson import ObjectMap
from tests.rmqadmin.conftest import CLUSTER, Ran, Rmqadmin
from tests.support import servers
from tests.support.consumer import TalkingConsumer
from tests.support.replayed import Replayed
from tests.support.servers import Fresh, Server, topic_config, until

# The arguments of each reading command. {topic}, {group}, {id} and {broker} are filled in.
CALLS: dict[str, list[str]] = {
    "acl can": ["anybody", "Pub", "Topic:{topic}"],
    "topicList": [],
    "topic ls": [],
    "topic describe": ["{topic}"],
    "group ls": [],
    "group describe": ["{group}"],
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
    "exportMetadata": ["-b", "{broker}", "-f", "export"],
    "exportConfigs": ["-c", CLUSTER, "-f", "export"],
    "exportMetrics": ["-c", CLUSTER, "-f", "export"],
    "export topics": ["-c", CLUSTER],
    "export groups": ["-c", CLUSTER],
    "rocksDBConfigToJson": ["-b", "{broker}"],
    "checkRocksdbCqWriteProgress": ["-c", CLUSTER],
    "getColdDataFlowCtrInfo": ["-b", "{broker}"],
    "dumpCompactionLog": ["-f", "{records}"],
    "haStatus": ["-b", "{broker}"],
    "brokerConsumeStats": ["-b", "{broker}"],
    "allocateMQ": ["-t", "{topic}", "-i", "10.0.0.1,10.0.0.2"],
    "queryCq": ["-t", "{topic}", "-q", "0", "-i", "0", "-g", "{group}"],
    "startMonitoring": [],
    "group lag": ["{group}", "--sample", "0"],
    "doctor": ["--quick", "--all", "--sample", "0"],
    "check lag": ["-g", "{group}"],
    "check disk": ["-w", "100%"],
    "check broker": [],
    "check ha": [],
    "check dlq": ["-g", "{group}", "-w", "10"],
    "queryMsgTraceById": ["-t", "{traces}", "-i", "{key}"],
    "checkMsgSendRT": ["-t", "{traces}", "-a", "2"],
    "clusterRT": ["-a", "1"],
    "sendMsgStatus": ["-b", "broker-a", "-c", "1"],
    "updateOrderConf": ["-t", "{topic}", "-m", "get"],
    "msg cat": ["{topic}"],
    "msg export": ["{topic}", "export.jsonl", "--overwrite"],
    "msg get": ["{id}"],
    "dlq ls": ["{group}"],
    "dlq show": ["{group}"],
    "context ls": [],
    "context show": ["dev"],
    "context validate": [],
    "config show": ["--origin"],
    "config validate": [],
    "explain": [],
    "man": ["topicRoute"],
    "bench consume": ["{topic}", "--duration", "0.1", "--warm-up", "0", "--repeat", "--connections", "1"],
    "store verify": ["{store}", "--all"],
    "store inspect": ["{store}", "--queues"],
    "store dump": ["{store}", "log", "--limit", "50"],
    "store start-plan": ["{store}"],
}
CONTROLLER = ["1005-CONTROLLER_GET_METADATA_INFO/03"]
# Commands that our server does not serve or answers with nothing, with the recorded exchanges of a real server.
REPLAYED: dict[str, tuple[list[str], list[str]]] = {
    "listUser": (["-b", "{broker}"], ["3005-AUTH_LIST_USER/01"]),
    "user ls": (["-b", "{broker}"], ["3005-AUTH_LIST_USER/01"]),
    "acl ls": (["-b", "{broker}"], ["3010-AUTH_LIST_ACL/01"]),
    "export users": (["-b", "{broker}"], ["3005-AUTH_LIST_USER/01"]),
    "export acls": (["-b", "{broker}"], ["3010-AUTH_LIST_ACL/01"]),
    "getUser": (["-b", "{broker}", "-u", "alice"], ["3004-AUTH_GET_USER/01"]),
    "listAcl": (["-b", "{broker}"], ["3010-AUTH_LIST_ACL/01"]),
    "getSyncStateSet": (["-a", "{broker}", "-b", "broker-c"], [*CONTROLLER, "1006-CONTROLLER_GET_SYNC_STATE_DATA/01"]),
    "getBrokerEpoch": (["-b", "broker-a"], ["1007-GET_BROKER_EPOCH_CACHE/04"]),
    "getControllerMetaData": (["-a", "{broker}"], CONTROLLER),
    "getControllerConfig": (["-a", "{broker}"], ["1010-GET_CONTROLLER_CONFIG/01"]),
    "getAcl": (["-b", "{broker}", "-s", "User:alice"], ["3009-AUTH_GET_ACL/01"]),
    "getBrokerLiteInfo": (["-b", "{broker}"], ["200074-GET_BROKER_LITE_INFO/01"]),
    "getParentTopicInfo": (["-p", "LiteTopic"], ["200075-GET_PARENT_TOPIC_INFO/01"]),
    "getLiteTopicInfo": (["-p", "LiteTopic", "-l", "session-0"], ["200076-GET_LITE_TOPIC_INFO/01"]),
    "getLiteClientInfo": (
        ["-p", "LiteTopic", "-g", "LiteGroup", "-c", "wire-lite"],
        ["200077-GET_LITE_CLIENT_INFO/03"],
    ),
    "getLiteGroupInfo": (["-p", "LiteTopic", "-g", "LiteGroup", "-k", "5"], ["200078-GET_LITE_GROUP_INFO/02"]),
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

READS = {Effect.READ, Effect.STREAM, Effect.READ_OR_CHANGE, Effect.PROBE, Effect.LOCAL, Effect.CHECK}
READING = [entry for entry in ENTRIES if entry.effect in READS]
CARDS = {
    "topic describe",
    "group describe",
    "man", "msg get", "doctor", "check lag", "check disk", "check broker", "check ha", "check dlq",
    "export topics", "export groups", "export users", "export acls",
}  # fmt: skip
"""Commands that show a person a card, a page, a file or their own lines instead of rows."""

ELSEWHERE = {
    "exportMetadataInRocksDB", "fault ls", "snapshot ls", "diff", "audit", "completion", "spark-archive",
    "spark-report",
}  # fmt: skip
"""Commands that need an optional package (``commands/export/test_rocksdb_tables.py``) or a server that serves test
requests (``commands/server/test_own_requests.py``), or have rows but end with status 1
(``commands/export/test_apply.py``), or whose answer is a script in every format."""

CASES = [(name, CALLS[name]) for name in [entry.name for entry in READING] if name in CALLS] + list(ALSO.items())


@pytest.fixture(scope="module")
def stopped_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one message, on which no broker runs. A store that changes while it is read may look damaged. Each
    format of each command reads all of it, so its files are smaller than of other tests' stores."""
    small = ("--set", "mappedFileSizeCommitLog=65536", "--set", "maxIndexNum=400", "--set", "maxHashSlotNum=100")
    directory = tmp_path_factory.mktemp("stopped")
    with servers.standalone(directory, *small) as running, AdminClient(running.namesrv_addr) as admin:
        admin.create_topic(running.broker_addr, topic_config("T"))
        admin.send_message(running.broker_addr, MessageQueue("T", "broker-a", 0), Message("T", b"stored", keys=["K"]))
    return running.store_dir


@pytest.fixture(scope="module")
def scene(
    server: Server, stopped_store: Path, fresh: Fresh, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """A topic with a message, and an online group that has an offset in it."""
    topic, traces, group = fresh("FormatTopic"), fresh("FormatTraces"), fresh("FormatGroup")
    consumer = ConsumerData(group_name=group, subscription_data_set=[SubscriptionData(topic=topic)])
    sender = ProducerData(group_name=group)
    beat = Heartbeat(client_id="format", consumer_data_set=[consumer], producer_data_set=[sender])
    queue = MessageQueue(topic, "broker-a", 0)
    info = ConsumerRunningInfo(mq_table=ObjectMap({queue: ProcessQueueInfo()}))
    with AdminClient(server.namesrv_addr) as admin, TalkingConsumer(server.broker_addr, beat, info):
        admin.create_topic(server.broker_addr, topic_config(topic))
        message = Message(topic, b'tab\there, comma, "quote"\nand a line', tags="TagA", keys=["KEY"])
        sent = admin.send_message(server.broker_addr, queue, message)
        admin.create_topic(server.broker_addr, topic_config(traces))
        records = tmp_path_factory.mktemp("log") / "records"
        records.write_bytes(encode_record(admin.pull_message(server.broker_addr, queue, 0).messages[0]))
        published = Published(1, "", group, topic, sent.message_id, "", "", "", 1, 1, 0, "", True)
        record = Message(traces, encode_trace(published).encode(), keys=[sent.message_id])
        admin.send_message(server.broker_addr, MessageQueue(traces, "broker-a", 0), record)
        admin.put_kv(server.namesrv_addr, ORDER_TOPIC_NAMESPACE, topic, "broker-a:1")
        admin.update_consumer_offset(server.broker_addr, group, topic, 0, 0)
        dead = topic_config(dlq_topic(group))
        admin.create_topic(server.broker_addr, dead)
        admin.send_message(server.broker_addr, MessageQueue(dead.topic_name, "broker-a", 0), Message(topic, b"dead"))
        until(lambda: {retry_topic(group), dead.topic_name} <= set(admin.topic_list()))  # else it would grow later
        # The index lags behind the log.
        until(lambda: bool(admin.query_message(server.broker_addr, traces, sent.message_id)))
        yield {
            "topic": topic, "traces": traces, "records": str(records), "group": group, "id": sent.offset_message_id,
            "key": sent.message_id, "broker": server.broker_addr, "store": str(stopped_store),
        }  # fmt: skip


def test_every_reading_command_is_tried() -> None:
    assert {name for name, _ in CASES} | REPLAYED.keys() | ELSEWHERE == {entry.name for entry in READING}


@pytest.mark.parametrize("name", REPLAYED)
def test_every_format_of_what_a_real_server_answers_parses(rmqadmin: Rmqadmin, name: str) -> None:
    args, exchanges = REPLAYED[name]
    with Replayed(*exchanges) as apache:
        filled = [arg.format(broker=apache.address) for arg in args]
        check_every_format(lambda format: rmqadmin(name, *filled, "-n", apache.address, "--output", format), name)


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
    ContextStore().add("dev", {"namesrv_addr": "127.0.0.1:9876"})
    monkeypatch.chdir(tmp_path)  # consumerStatus leaves files here, as mqadmin's does
    monkeypatch.setattr(message_rows, "BODIES_DIR", tmp_path / "bodies")
    filled = [arg.format(**scene) for arg in args]

    check_every_format(lambda format: rmqadmin(*name.split(), *filled, "--output", format), name)


def check_every_format(call: Callable[[Format], Ran], name: str) -> None:
    def text(format: Format) -> str:
        ran = call(format)
        assert ran.status in (0, name == "doctor"), ran.err  # it finds a dead letter
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
        if name in CARDS:
            assert document["items"][0][fields[0]] in text(format)
            continue
        assert len(text(format).partition("\n\n")[0].splitlines()) == count + 1
    if next(entry.is_mqadmin for entry in READING if entry.name == name):
        assert text(Format.MQADMIN)
