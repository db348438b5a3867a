"""Tables that clients fill by naming things. Each has a named bound. At the bound it refuses new entries with a message
and keeps the old ones; when an entry goes there is room again."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import ConsumerData, SubscriptionData
from rmqproto.bodies.routes import QueueData, TopicConfig, TopicConfigs
from rmqserver import logs
from rmqserver.broker import stats
from rmqserver.broker.clients import clients, membership
from rmqserver.broker.clients.clients import Clients
from rmqserver.broker.clients.membership import QueueLocks
from rmqserver.broker.consuming import holds as hold
from rmqserver.broker.consuming.holds import Held, Holds
from rmqserver.broker.errors import NameTooLong, TableFull, TooManyClients
from rmqserver.broker.stats import BrokerStats
from rmqserver.broker.tables import config_table, consumer_offsets, groups
from rmqserver.broker.tables.consumer_offsets import ConsumerOffsets
from rmqserver.broker.tables.groups import GroupTable
from rmqserver.broker.tables.topics import TopicTable
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.config.namesrv_config import NamesrvConfig
from rmqserver.namesrv import kv, routes
from rmqserver.namesrv.kv import KvConfig
from rmqserver.namesrv.routes import BrokerKey, RegisteredBroker, RouteTable
from rmqserver.operation import Refused
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.disk.disk import OsDisk

NOW_MS = 1_700_000_000_000


class _Connection:
    closed = False


CONNECTION: Any = _Connection()
ANOTHER: Any = _Connection()


@pytest.fixture
def files(tmp_path: Path) -> Iterator[ConfigFiles]:
    files = ConfigFiles(str(tmp_path), OsDisk())
    yield files
    files.close()


def test_topics_made_by_sends_are_bounded(files: ConfigFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = TopicTable(BrokerConfig(), files, lambda: NOW_MS)
    topics.load()
    monkeypatch.setattr(config_table, "ENTRIES_MAX", len(topics.all()) + 1)
    assert topics.create_on_send("T1", "TBW102", 4) is not None
    with pytest.raises(TableFull, match="topicConfigTable holds"):
        topics.create_on_send("T2", "TBW102", 4)
    topics.put(TopicConfig(topic_name="T1", perm=4))  # existing topics can still be changed
    topics.delete("T1")
    assert topics.create_on_send("T2", "TBW102", 4) is not None


def test_groups_and_what_is_forbidden_to_them_are_bounded(files: ConfigFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    table = GroupTable(BrokerConfig(), files, lambda: NOW_MS)
    table.load()
    monkeypatch.setattr(config_table, "ENTRIES_MAX", len(table.all()) + 1)
    monkeypatch.setattr(groups, "FORBIDDEN_MAX", 1)
    assert table.find("G1") is not None
    with pytest.raises(TableFull, match="subscriptionGroupTable holds"):
        table.find("G2")
    table.set_forbidden("G1", "T1", True)
    with pytest.raises(TableFull, match="no more are taken"):
        table.set_forbidden("G1", "T2", True)
    table.set_forbidden("G1", "T1", False)


def test_offsets_are_bounded_whatever_queue_ids_are_committed(
    files: ConfigFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_offsets, "OFFSETS_MAX", 3)
    table = ConsumerOffsets(files, lambda: NOW_MS)
    table.load()
    table.commit("G", "T", 0, 1)
    table.commit("G", "T", 1 << 30, 1)
    table.set_pull_offset("G", "T", 0, 1)
    table.set_pull_offset("G", "T", 1, 1)
    assert table.pull_offset("G", "T", 1) is None
    with pytest.raises(TableFull, match="offsets are kept"):
        table.commit("G", "T", 1, 1)
    table.commit("G", "T", 0, 2)
    assert table.committed("G", "T", 0) == 2
    table.remove_group("G")
    table.commit("G", "T", 1, 1)


def test_members_and_their_subscriptions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MEMBERS_MAX", 2)
    monkeypatch.setattr(clients, "SUBSCRIPTIONS_MAX_BYTES", 1000)
    table = Clients(lambda: NOW_MS)
    data = ConsumerData(group_name="G", subscription_data_set=[SubscriptionData(topic="T", sub_string="*")])
    for size_bytes in (900, 1000):  # a newer heartbeat replaces the one before
        table.register_consumer(data, "c", CONNECTION, "JAVA", 513, size_bytes=size_bytes)
    other = ConsumerData(group_name="H", subscription_data_set=[])
    with pytest.raises(TooManyClients, match="subscriptions of more than"):
        table.register_consumer(other, "c", CONNECTION, "JAVA", 513, size_bytes=1)
    table.register_producer("P", "c", CONNECTION, "JAVA", 513)
    table.register_producer("P", "another id of the same", CONNECTION, "JAVA", 513)
    table.register_consumer(data, "another id of the same", CONNECTION, "JAVA", 513, with_subscriptions=False)
    for group, connection in (("P", ANOTHER), ("Q", CONNECTION)):
        with pytest.raises(TooManyClients, match="no more are taken"):
            table.register_producer(group, "d", connection, "JAVA", 513)
    with pytest.raises(TooManyClients, match="no more are taken"):
        table.register_consumer(data, "d", ANOTHER, "JAVA", 513)
    with pytest.raises(NameTooLong, match="is longer than"):
        table.register_consumer(data, "d" * 10_000, CONNECTION, "JAVA", 513)
    assert list(table.producers) == ["P"]
    table.peer_gone(CONNECTION)
    with pytest.raises(NameTooLong, match="is longer than"):
        table.register_producer("P", "d" * 10_000, CONNECTION, "JAVA", 513)
    table.register_consumer(other, "c", CONNECTION, "JAVA", 513, size_bytes=1000)
    table.register_producer("Q", "c", CONNECTION, "JAVA", 513)


def test_locks_are_bounded_and_only_of_what_could_be_a_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "LOCKS_MAX", 2)
    table = QueueLocks(lambda: NOW_MS)
    queues = [MessageQueue("T", "b", number) for number in range(3)]
    assert table.lock("G", "c", queues) == queues[:2]
    assert table.lock("G", "c", queues[:2]) == queues[:2]
    table.unlock("G", "c", queues)
    assert table.lock("G", "c", [MessageQueue("T" * 300, "b", 0), queues[2]]) == [queues[2]]
    assert table.lock("../x", "c", queues) == []


def test_held_requests_with_long_expressions_count_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hold, "HELD_MAX", 10)
    store: Any = None
    table = Holds(store, lambda: NOW_MS)
    heavy, light = (Held(CONNECTION, (("T", 0),), 0, lambda: None, weight=weight) for weight in (9, 1))
    assert table.hold(heavy)
    assert not table.hold(Held(CONNECTION, (("T", 0),), 0, lambda: None, weight=9))
    assert table.hold(light)
    assert list(table.sweep(scan=False)) == []
    assert table.hold(heavy)


def test_flows_of_pairs_that_clients_make_up_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "FLOWS_MAX", 2)
    counters = BrokerStats("c", lambda: NOW_MS)
    for group in ("A", "B", "C", "D"):
        counters.gets["T", group].add(1, 100)
        counters.add("SNDBCK_PUT_NUMS", group)
    assert len(counters.gets) == 2
    assert counters.get_count == 4, "what finds no place is still in the broker's total"


def registration(name: str, *topics: str) -> RegisteredBroker:
    table = {topic: TopicConfig(topic_name=topic) for topic in topics}
    return RegisteredBroker(
        cluster="c", name=name, addr=f"{name}:1", broker_id=0, ha_addr="", filter_servers=[],
        topics=TopicConfigs(topic_config_table=table),
    )  # fmt: skip


def test_brokers_and_routes_of_a_nameserver_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "BROKERS_MAX", 2)
    monkeypatch.setattr(routes, "ROUTES_MAX", 5)
    table = RouteTable(NamesrvConfig())
    assert table.register(registration("a", "T1", "T2"), None) is not None
    assert table.register(registration("b", "T1", "T2", "T3", "T4"), None) is None
    assert table.register(registration("b", "T1", "T2", "T3"), None) is not None
    assert table.register(registration("a", "T1", "T2"), None) is not None, "who is known can go on"
    assert table.register(registration("x", "T1"), None) is None
    table.add_topic("T9", [QueueData(broker_name="a", perm=6, read_queue_nums=1, write_queue_nums=1)])
    assert "T9" not in table.topics()
    table.unregister(BrokerKey("c", "b", "b:1"))
    assert table.register(registration("x", "T1", "T2"), None) is not None


def test_living_brokers_and_clusters_of_a_nameserver_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "BROKERS_MAX", 2)
    table, one = RouteTable(NamesrvConfig()), registration("a", "T1", "T2")
    for taken, changed in ((True, {}), (True, {"addr": "b:1"}), (False, {"addr": "c:1"}), (True, {})):
        assert (table.register(replace(one, **changed), None) is not None) == taken, changed
    table.unregister(BrokerKey("c", "a", "b:1"))
    for cluster, taken in (("d", True), ("e", False)):
        assert (table.register(replace(one, cluster=cluster), None) is not None) == taken, cluster


def test_the_key_value_table_of_a_nameserver_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv, "KV_MAX_CHARS", 100)
    table = KvConfig()
    for _ in range(10):  # the same key each time
        table.put("n", "k", "v" * 50)
    with pytest.raises(Refused, match="takes no more"):
        table.put("n", "l", "v" * 50)
    table.delete("n", "k")
    table.put("n", "l", "v" * 50)


def test_a_line_of_the_log_is_bounded() -> None:
    formatter = logs.KeyValueFormatter()
    record = formatter.format(logging.LogRecord("n", 20, "p", 1, "event=x name=%s", ("a\nb" * 100_000,), None))
    assert len(record) <= logs.LINE_MAX_CHARS + 1
    assert "\n" not in record
