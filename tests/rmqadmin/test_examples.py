"""The examples in every command's help, run unchanged except for addresses, ids and the end of a watch."""

import io
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqadmin.cli.parsing.command_building import help_parts
from rmqadmin.cli.parsing.command_tree import all_commands
from rmqadmin.cli.registry import ENTRIES, Effect
from rmqadmin.core.contexts.context_store import ContextStore
from rmqadmin.core.messages.files.formats import FileFormat, encoded
from rmqadmin.core.messages.lookup import found_message
from rmqclient.admin import AdminClient
from rmqclient.blocking import BlockingClient
from rmqclient.message import Message
from rmqproto.bodies.acl import AclEntry, AclInfo, AclPolicy, UserAccount
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import ConsumerData, Heartbeat, ProducerData, SubscriptionData, SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig
from rmqproto.bodies.statistics import ConsumerRunningInfo, ProcessQueueInfo
from rmqproto.headers.request_table import READING_CODES
from rmqproto.message.record import encode_record
from rmqproto.names import TRACE_TOPIC
from rmqproto.trace import Published, encode_trace
from rmqproto.wire.fastjson import ObjectMap
from tests.rmqadmin.conftest import Ran, Rmqadmin
from tests.rmqclient.fake_broker import record
from tests.support.consumer import TalkingConsumer
from tests.support.servers import Server, topic_config, until

# These examples run elsewhere. Some start Spark: ``tests/spark_tools/spark/`` and ``commands/replay/``.
# Those that read RocksDB need its files: ``commands/export/test_rocksdb_tables.py``.
# The dashboard's need a terminal: ``tui/test_terminal.py``.
# Those of rmqserver's own requests reset the whole broker: ``commands/server/test_own_requests.py``.
# Those of bench take long, so ``commands/test_bench.py`` runs them briefly.
# Only Apache's brokers have static topics: ``tests/interop/tools/test_static_topics.py``.
STATIC = {"updateStaticTopic", "remappingStaticTopic"}
OF_RMQSERVER_OR_LOAD = {"server.testing_aids", "load"}
"""Files of commands that only rmqserver answers, or that send for a while."""
EXAMPLES = [
    example
    for entry in ENTRIES
    if entry.effect is not Effect.SCREEN and entry.file not in OF_RMQSERVER_OR_LOAD
    for example in help_parts(entry.load())[1]
    if entry.name not in STATIC
    if " spark-" not in example and "/data/store" not in example
]


AT_ONCE = 10
"""Examples of one test: a test for each would cost as much again."""

NOT_SERVED = {
    "getSyncStateSet", "getBrokerEpoch", "getControllerMetaData", "getControllerConfig", "updateControllerConfig",
    "electMaster", "cleanBrokerMetadata", "addBroker", "removeBroker",
}  # fmt: skip
"""Commands whose requests the shared server does not serve. Their examples end in an error that says so."""


PLANNED_BLINDLY = {"addBroker", "removeBroker"}
"""Commands that ask no server under --dry-run."""


def run_example(rmqadmin: Rmqadmin, example: str, *more: str) -> Ran:
    """Runs an example with the input that its ``< FILE`` names."""
    command, _, path = example.partition(" < ")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.StringIO(Path(path).read_text() if path else ""))
        return rmqadmin(*shlex.split(command)[1:], *more)


def is_served(example: str) -> bool:
    words = shlex.split(example)
    name = words[3] if words[1] == "-o" else words[1]
    return name not in NOT_SERVED or (name in PLANNED_BLINDLY and "--dry-run" in words)


@pytest.fixture(scope="module")
def replaced(server: Server) -> Iterator[dict[str, str]]:
    """Creates what the examples name: OrderTopic with the key ORDER-1, OrderGroup, which is online and behind,
    OldTopic, and a dead letter of billing. Maps the examples' addresses and ids to the real ones."""
    group = SubscriptionData(topic="OrderTopic")
    beat = Heartbeat(
        client_id="example",
        consumer_data_set=[ConsumerData(group_name="OrderGroup", subscription_data_set=[group])],
        producer_data_set=[ProducerData(group_name="OrderProducer")],
    )
    addr = server.broker_addr
    info = ConsumerRunningInfo(mq_table=ObjectMap({MessageQueue("OrderTopic", "broker-a", 0): ProcessQueueInfo()}))
    with AdminClient(server.namesrv_addr) as admin, TalkingConsumer(addr, beat, info):
        for topic in ("OrderTopic", "OldTopic", "CopyTopic"):
            admin.create_topic(addr, topic_config(topic, 4))
        lite = {"+message.type": "LITE"}
        admin.create_topic(addr, TopicConfig(topic_name="SessionTopic", attributes=lite))
        bound = {"+lite.bind.topic": "SessionTopic"}
        admin.create_group(addr, SubscriptionGroupConfig(group_name="SessionGroup", attributes=bound))
        for name in ("OrderGroup", "OtherGroup"):
            admin.create_group(addr, SubscriptionGroupConfig(group_name=name))
        queue = MessageQueue("OrderTopic", "broker-a", 0)
        sent = [
            admin.send_message(
                addr, queue, Message("OrderTopic", b"order", keys="ORDER-1", properties={"region": "eu"})
            )
            for _ in range(6)
        ]
        admin.send_message(addr, queue, Message("OrderTopic", b'{"order":{"id":42}}'))
        until(lambda: len(admin.query_message(addr, "OrderTopic", "ORDER-1")) == len(sent))
        admin.update_consumer_offset(addr, "OrderGroup", "OrderTopic", 0, 7)
        for topic in ("%RETRY%billing", "%DLQ%billing"):
            admin.create_topic(addr, topic_config(topic))
        until(lambda: "%DLQ%billing" in admin.topic_list())
        letter = Message("%DLQ%billing", b'{"type":"refund"}', properties={"RETRY_TOPIC": "OrderTopic"})
        admin.send_message(addr, MessageQueue("%DLQ%billing", "broker-a", 0), letter)
        published = Published(1, "", "OrderProducer", "OrderTopic", sent[0].message_id, "", "", "", 5, 3, 0, "", True)
        record = Message(TRACE_TOPIC, encode_trace(published).encode(), keys=[sent[0].message_id])
        admin.send_message(addr, MessageQueue(TRACE_TOPIC, "broker-a", 0), record)  # this creates the topic
        until(lambda: TRACE_TOPIC in admin.topic_list())
        yield {
            "127.0.0.1:10911": addr,
            "127.0.0.1:10921": addr,
            "127.0.0.1:9876": server.namesrv_addr,
            "127.0.0.1:9878": addr,
            "127.0.0.1:10811": addr,
            "7F00000100002A9F00000000000007DA": sent[0].offset_message_id,
            "7F000001041D4E0E2F2A69B4378A0009": sent[0].message_id,
        }


@pytest.fixture
def one_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Presses Ctrl-C at the first pause of a watch."""

    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rmqadmin.cli.watch.time.sleep", interrupt)


@pytest.fixture
def files(run: Rmqadmin, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that the examples read, in the current directory, and two contexts. Files that examples leave go there
    too."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "topics.json").write_text('[{"topicName":"OldTopic"}]')
    (tmp_path / "wanted.yaml").write_text("topics: {WantedTopic: {readQueueNums: 4}}")
    (tmp_path / "compaction.log").write_bytes(encode_record(record(0, b"order")))
    make_contexts(server)
    (tmp_path / "orders.jsonl").write_text('{"body": "order", "topic": "OrderTopic"}\n')
    order = found_message(record(0, b"order"), "broker-a", "")
    (tmp_path / "orders.msgpack").write_bytes(b"".join(encoded([[order]], FileFormat.MSGPACK, "msg export")))
    (tmp_path / "groups.json").write_text('[{"groupName":"OldGroup"}]')
    (tmp_path / "secret").write_text("secret\n")
    monkeypatch.chdir(tmp_path)


def make_contexts(server: Server) -> None:
    """dev, which is in use, and live, which was before."""
    for context in ContextStore().names():
        ContextStore().remove(context)
    for context in ("dev", "live"):
        ContextStore().add(context, {"namesrv_addr": server.namesrv_addr})
    for context in ("live", "dev"):
        ContextStore().use(context)


def restore(server: Server, example: str) -> None:
    """Restores what an earlier example may have deleted."""
    with AdminClient(server.namesrv_addr) as admin:
        if "deleteTopic" in example or " topic delete " in example:
            admin.create_topic(server.broker_addr, TopicConfig(topic_name="OldTopic"))
        if " createUser " in example or " user add " in example:
            admin.delete_user(server.broker_addr, "alice")
        elif any(word in example for word in ("User", "Acl", " user ", " acl ", "export ")):
            for name in ("alice", "bob"):
                if admin.account(server.broker_addr, name) is None:
                    admin.create_user(server.broker_addr, UserAccount(username=name, password="secret"))
            entry = AclEntry(actions=["Pub"], decision="Allow", resource="Topic:OrderTopic")
            admin.update_acl(server.broker_addr, AclInfo(subject="User:alice", policies=[AclPolicy(entries=[entry])]))
        if "deleteSubGroup" in example:
            admin.create_group(server.broker_addr, SubscriptionGroupConfig(group_name="OldGroup"))


@pytest.mark.usefixtures("one_tick", "files")
@pytest.mark.parametrize("first", range(0, len(EXAMPLES), AT_ONCE))
def test_the_examples_in_helps_work(rmqadmin: Rmqadmin, server: Server, replaced: dict[str, str], first: int) -> None:
    for example in EXAMPLES[first : first + AT_ONCE]:
        restore(server, example)
        for written, meant in replaced.items():
            example = example.replace(written, meant)
        if " context" in example:
            make_contexts(server)
        if "context add" in example:
            ContextStore().remove("live" if "live" in example else "dev")
        ran = run_example(rmqadmin, example, *(["--sample", "0"] if "doctor" in example else []))
        if "wipeWritePerm" in example:  # other tests write to the same server
            assert rmqadmin("addWritePerm", "-b", "broker-a").status == 0
        if not is_served(example):
            assert (ran.status, ran.out) == (1, ""), example
            assert re.search(r"request type \d+ not supported|this request only for controllerMode", ran.err), example
            continue
        is_endless = "--follow" in example or ("--watch" in example and "--until" not in example)
        finds = example.startswith(("rmqadmin diff ", "rmqadmin doctor ", "rmqadmin -o json doctor "))  # a dead letter
        finds = finds or "--shrink-to" in example  # it is done once producers and consumers have followed
        assert ran.status == (130 if is_endless else 1 if finds else 0), f"{example}\n{ran.err}"
        assert ran.out, example


CHANGING = {
    entry.name
    for entry in ENTRIES
    if entry.effect in (Effect.CHANGE, Effect.DESTROY, Effect.PROBE, Effect.READ_OR_CHANGE)
    and entry.file not in OF_RMQSERVER_OR_LOAD
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The codes of all requests that are sent to a server."""
    found: set[int] = set()
    send = BlockingClient.request

    def record_code(client: BlockingClient, address: str, code: int, *args: Any, **options: Any) -> Any:
        found.add(code)
        return send(client, address, code, *args, **options)

    monkeypatch.setattr(BlockingClient, "request", record_code)
    return found


@pytest.mark.usefixtures("one_tick", "files")
def test_under_dry_run_no_example_asks_for_a_change(
    rmqadmin: Rmqadmin, server: Server, replaced: dict[str, str], asked: set[int]
) -> None:
    """Every changing command shows what it would do, and succeeds."""
    changing = [command for command in all_commands() if command.entry.name in CHANGING]
    for example in [each for command in changing for each in command.examples[:1] if each in EXAMPLES]:
        served = is_served(f"{example} --dry-run")
        restore(server, example)
        asked.clear()
        for written, meant in replaced.items():
            example = example.replace(written, meant)
        ran = run_example(rmqadmin, example, *([] if "--dry-run" in example else ["--dry-run"]))
        assert asked <= READING_CODES, example
        if served:
            assert ran.status == 0, f"{example}\n{ran.err}"
            assert ran.out, example


@pytest.mark.slow
@pytest.mark.usefixtures("one_tick", "files")
def test_in_a_read_only_context_no_example_asks_for_a_change(
    rmqadmin: Rmqadmin, server: Server, replaced: dict[str, str], asked: set[int]
) -> None:
    """Only reading requests reach a server. Every changing command is refused with status 4, unless its examples change
    nothing or our server cannot answer its questions. No other command is refused."""
    ContextStore().add("guarded", {"namesrv_addr": server.namesrv_addr, "read_only": True})
    ContextStore().use("guarded")
    refused = set()
    for command in all_commands():
        examples = [each for each in command.examples if each in EXAMPLES and command.entry.file != "contexts"]
        for example in examples if command.entry.name in CHANGING else examples[:1]:
            restore(server, example)
            for written, meant in replaced.items():
                example = example.replace(written, meant)
            asked.clear()
            ran = run_example(rmqadmin, example)
            assert asked <= READING_CODES, example
            if ran.status == 4:
                assert "the context guarded is read-only: nothing was changed" in ran.err
                assert "--unlock" in ran.err
                refused.add(command.entry.name)
    change_nothing = {"queryMsgById", "queryMsgByUniqueKey", "spark-replay", "topic create"}
    change_nothing |= {"updateTopicList", "updateSubGroupList", "apply"}  # their examples were run here before
    assert refused <= CHANGING
    assert CHANGING - refused <= change_nothing | NOT_SERVED | STATIC


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 30
    assert all(example.startswith("rmqadmin ") for example in EXAMPLES)
