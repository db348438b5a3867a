"""kill -9 right after an answer loses no topic and no group, however it was made: by a tool, a send, a heartbeat, or by
the broker for a dead letter."""

import signal
from pathlib import Path

import msgspec
import pytest

from rmqproto import names
from rmqproto.bodies.groups import SubscriptionGroups
from rmqproto.bodies.routes import TopicConfig, TopicConfigs
from rmqproto.codes import RequestCode
from rmqproto.headers.sending import SendBackHeader, SendHeader
from rmqproto.headers.tables import TopicHeader
from rmqproto.wire import fastjson
from rmqserver.store.disk.table_file import LARGE_COUNT
from tests.rmqserver.broker.golden_state import consume, create_group, create_topic, ok, subscription
from tests.support import servers
from tests.support.servers import until
from tests.support.wire import Wire

ROUNDS = 12
KILLS = 2
TABLES = {"topics.json": "topicConfigTable", "subscriptionGroup.json": "subscriptionGroupTable"}


def left(store: Path) -> set[str]:
    """The topics and groups that a process would leave if it were killed now: those in its files as the kernel has
    them."""
    return {name for file, member in TABLES.items() for name in msgspec.json.decode(_kept(store, file))[member]}


def _kept(store: Path, file: str) -> bytes:
    """The file, or its older version while a newer one takes its place, as a start reads them."""
    try:
        return (store / "config" / file).read_bytes()
    except FileNotFoundError:
        return (store / "config" / f"{file}.bak").read_bytes()


def served(wire: Wire) -> set[str]:
    """The topics and groups that the broker has."""
    topics = ok(wire.ask(RequestCode.GET_ALL_TOPIC_CONFIG)).body
    groups = ok(wire.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).body
    return {
        *fastjson.loads_untrusted(topics, TopicConfigs).topic_config_table,
        *fastjson.loads_untrusted(groups, SubscriptionGroups).subscription_group_table,
    }


def test_whatever_was_answered_is_there(tmp_path: Path) -> None:
    """Reads what a kill would leave after every answer, since a real kill each time would take too many processes."""
    made: set[str] = set()
    for kill in range(KILLS):
        with servers.standalone(tmp_path) as server, Wire(server.broker_addr) as wire:
            assert made <= served(wire)
            for number in range(ROUNDS):
                made |= _change(wire, server.store_dir, f"{kill}-{number}")
            server.stop(signal.SIGKILL)
            assert made <= left(server.store_dir)
    with servers.standalone(tmp_path) as server, Wire(server.broker_addr) as wire:
        assert made <= served(wire)


@pytest.mark.slow
def test_a_large_table_is_written_by_a_thread_within_moments(tmp_path: Path) -> None:
    configs = [TopicConfig(topic_name=f"T{number}") for number in range(LARGE_COUNT)]
    with servers.standalone(tmp_path) as server, Wire(server.broker_addr) as wire:
        ok(wire.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=fastjson.dumps({"topicConfigList": configs})))
        for number in range(ROUNDS):
            create_topic(wire, f"more-{number}")
        made = {*(config.topic_name for config in configs), *(f"more-{number}" for number in range(ROUNDS))}
        until((server.store_dir / "config" / "topics.json").exists)
        until(lambda: made <= left(server.store_dir))
        server.stop(signal.SIGKILL)
    with servers.standalone(tmp_path) as server, Wire(server.broker_addr) as wire:
        assert made <= served(wire)


def _change(wire: Wire, store: Path, suffix: str) -> set[str]:
    """Makes topics and groups in every way; returns those that must be there from then on."""
    topic, group, sent, joined, gone = (f"{what}-{suffix}" for what in ("topic", "group", "sent", "joined", "gone"))
    create_topic(wire, topic)
    assert topic in left(store)
    create_group(wire, group)
    assert group in left(store)
    header = SendHeader(
        producer_group="P", topic=sent, default_topic=names.AUTO_CREATE_TOPIC, default_topic_queue_nums=4, queue_id=0,
        born_timestamp=0,
    )  # fmt: skip
    message_id = ok(wire.ask(RequestCode.SEND_MESSAGE, header, b"a message")).ext["msgId"]
    assert sent in left(store)
    consume(wire, joined, subscription(topic))
    assert {joined, f"%RETRY%{joined}"} <= left(store)
    log_offset = int(message_id[16:], 16)
    back = SendBackHeader(offset=log_offset, group=group, delay_level=-1, origin_msg_id=message_id, origin_topic=sent)
    ok(wire.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back))
    assert f"%DLQ%{group}" in left(store)
    create_topic(wire, gone)
    ok(wire.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader(topic=gone)))
    assert gone not in left(store)
    return {topic, group, sent, joined, f"%RETRY%{joined}", f"%DLQ%{group}"}
