"""The rules of registration, on a table whose clock the test moves."""

from typing import Any

import msgspec
import pytest

from rmqproto.bodies.base import DataVersion
from rmqproto.bodies.routes import BrokerData, QueueData, TopicConfig, TopicConfigs
from rmqproto.codes import PERM_READ_WRITE, PERM_WRITE
from rmqserver.config.namesrv_config import NamesrvConfig
from rmqserver.namesrv.routes import BrokerKey, Master, RegisteredBroker, RouteTable


class Peer:
    def __init__(self) -> None:
        self.closed = ""

    def close(self, reason: str) -> None:
        self.closed = reason


class Table(RouteTable):
    """A table with a clock of its own, ``now_s``."""

    def __init__(self, **settings: str):
        self.now_s = 1000.0
        config = NamesrvConfig()
        config.load(settings)
        super().__init__(config, lambda: self.now_s)


def broker(
    name: str = "a",
    id: int = 0,
    addr: str = "",
    topics: dict[str, int] | None = None,
    counter: int = 0,
    state_version: int = 0,
    **more: Any,
) -> RegisteredBroker:
    """``topics`` maps names to permissions."""
    configs = {
        topic: TopicConfig(topic_name=topic, perm=perm)
        for topic, perm in ({"T": 6, "U": 6} if topics is None else topics).items()
    }
    version = DataVersion(counter=counter, state_version=state_version, timestamp=1)
    return RegisteredBroker(
        cluster=more.pop("cluster", "c"),
        name=name,
        broker_id=id,
        addr=addr or f"{name}-{id}:1",
        ha_addr=f"{name}-{id}:2",
        topics=TopicConfigs(data_version=version, topic_config_table=configs, **more.pop("mappings", {})),
        filter_servers=more.pop("filter_servers", []),
        **more,
    )


def perms(table: RouteTable, topic: str) -> dict[str, int]:
    route = table.route(topic)
    return {queue.broker_name: queue.perm for queue in route.queue_datas} if route else {}


def addrs(table: RouteTable, topic: str = "T") -> dict[str, dict[int, str]]:
    route = table.route(topic)
    return {data.broker_name: data.broker_addrs for data in route.broker_datas} if route else {}


def test_several_brokers_share_a_topic() -> None:
    table = Table()
    table.register(broker("a"), None)
    table.register(broker("b", topics={"T": 4, "V": 6}), None)
    assert perms(table, "T") == {"a": 6, "b": 4}
    assert perms(table, "V") == {"b": 6}
    assert table.cluster_info().cluster_addr_table == {"c": ["a", "b"]}
    table.unregister(BrokerKey("c", "a", "a-0:1"))
    assert perms(table, "T") == {"b": 4}
    assert table.route("U") is None
    assert table.topics() == ["T", "V"]


def test_a_slave_learns_its_master_and_says_nothing_of_topics() -> None:
    table = Table()
    assert table.register(broker(id=1, topics={"S": 6, "T": 6}), None) == Master()
    assert table.topics() == []
    assert table.register(broker(id=0), None) == Master()
    assert table.register(broker(id=1, topics={"S": 6, "T": 4}), None) == Master("a-0:2", "a-0:1")
    assert perms(table, "T") == {"a": 6}
    assert table.route("S") is None
    assert addrs(table) == {"a": {0: "a-0:1", 1: "a-1:1"}}


def test_the_first_registration_with_one_topic_is_refused() -> None:
    """Apache's nameserver takes it for an update of one topic by an unknown broker."""
    table = Table()
    assert table.register(broker(topics={"T": 6}), None) is None
    assert table.route("T") is None
    assert table.cluster_info().cluster_addr_table == {}  # without a live entry, its name would never expire
    assert table.cluster_info().broker_addr_table == {}
    assert table.register(broker(topics={}), None) == Master()
    assert table.register(broker(topics={"T": 6}, counter=1), None) == Master()
    assert perms(table, "T") == {"a": 6}


def test_an_unchanged_version_changes_nothing_but_adds_what_is_missing() -> None:
    table = Table()
    table.register(broker(), None)
    table.register(broker(topics={"T": 4, "N": 4}), None)
    assert (perms(table, "T"), perms(table, "N")) == ({"a": 6}, {"a": 4})
    table.register(broker(topics={"T": 4}, counter=1), None)
    assert perms(table, "T") == {"a": 4}


def test_topics_that_a_broker_no_longer_names_stay_unless_told_otherwise() -> None:
    for settings, topics in (({}, ["T", "U"]), ({"deleteTopicWithBrokerRegistration": "true"}, ["T"])):
        table = Table(**settings)
        table.register(broker(), None)
        table.register(broker(topics={"T": 6}, counter=1), None)
        assert table.topics() == topics


def test_a_late_unregister_of_a_slave_leaves_the_master_that_has_its_address_now() -> None:
    table = Table()
    table.register(broker(id=1, addr="x:1"), None)
    table.register(broker(id=0, addr="x:1"), None)
    table.unregister(BrokerKey("c", "a", "x:1"), 1)
    assert addrs(table) == {"a": {0: "x:1"}}
    table.unregister(BrokerKey("c", "a", "x:1"), 0)
    assert addrs(table) == {}


def test_a_known_address_under_another_id_is_moved() -> None:
    table = Table()
    table.register(broker(id=0, addr="x:1"), None)
    table.register(broker(id=1, addr="y:1"), None)
    table.register(broker(id=0, addr="y:1", counter=1), None)
    assert addrs(table) == {"a": {0: "y:1"}}


def test_a_replaced_master_that_comes_back_is_passed_over() -> None:
    table = Table()
    table.register(broker(addr="new:1", state_version=2), None)
    assert table.register(broker(addr="old:1", state_version=1, counter=9), None) == Master()
    assert addrs(table) == {"a": {0: "new:1"}}
    assert table.data_version(BrokerKey("c", "a", "old:1")) is None
    table.register(broker(addr="newer:1", state_version=2), None)
    assert addrs(table) == {"a": {0: "newer:1"}}


@pytest.mark.parametrize(("timeout_ms", "lives_s"), [(None, 120), (5000, 5)])
def test_a_broker_that_is_not_heard_of_goes(timeout_ms: int | None, lives_s: float) -> None:
    table, peer = Table(), Peer()
    table.register(broker(timeout_ms=timeout_ms), peer)
    key = BrokerKey("c", "a", "a-0:1")
    table.now_s += lives_s
    table.expire()
    table.touch(key)
    table.now_s += lives_s
    table.expire()
    assert table.route("T") is not None
    table.now_s += 0.001
    table.expire()
    assert table.route("T") is None
    assert peer.closed
    table.touch(key)
    assert table.data_version(key) is None


def test_a_closed_connection_takes_its_brokers_with_it() -> None:
    """A broker that has since registered over another connection stays."""
    table, first, second = Table(), Peer(), Peer()
    for name in ("a", "b"):
        table.register(broker(name), first)
    table.register(broker("a"), second)
    table.connection_closed(first)
    assert list(addrs(table)) == ["a"]
    table.connection_closed(second)
    assert table.topics() == []
    assert table.cluster_info().cluster_addr_table == {}


def test_every_broker_that_registered_at_one_address_goes_when_its_time_is_up() -> None:
    """All but the last stayed until the nameserver ended, though nobody was there: anyone could fill the table so."""
    table, peer = Table(), Peer()
    for name, cluster in (("a", "c"), ("b", "c"), ("a", "other"), ("a", "third")):
        table.register(broker(name, addr="x:1", cluster=cluster), peer)
    table.unregister(BrokerKey("c", "b", "x:1"), 0)
    assert list(addrs(table)) == ["a"]
    table.connection_closed(peer)
    assert table.topics() == []
    info = table.cluster_info()
    assert (info.broker_addr_table, info.cluster_addr_table) == ({}, {})


def test_of_two_masters_of_one_name_the_last_to_register_counts() -> None:
    """As observed with Apache's: the two take each other's place every thirty seconds. When the displaced one ends, the
    other loses nothing."""
    table, first, second = Table(), Peer(), Peer()
    table.register(broker(addr="x:1"), first)
    assert table.displaced() == []
    table.register(broker(addr="y:1"), second)
    assert addrs(table) == {"a": {0: "y:1"}}
    assert table.displaced() == [BrokerData(broker_addrs={0: "x:1"}, broker_name="a", cluster="c")]
    table.register(broker(addr="x:1"), first)
    assert addrs(table) == {"a": {0: "x:1"}}
    table.register(broker(addr="y:1"), second)
    table.unregister(BrokerKey("c", "a", "x:1"))
    assert addrs(table) == {"a": {0: "y:1"}}
    table.register(broker(addr="x:1"), first)
    table.register(broker(addr="y:1"), second)
    table.connection_closed(first)
    assert addrs(table) == {"a": {0: "y:1"}}
    assert table.displaced() == [], "it is gone"
    table.connection_closed(second)
    assert addrs(table) == {}


def test_wiped_permission_lasts_until_the_table_changes() -> None:
    table = Table()
    table.register(broker(), None)
    assert table.change_perm("a", lambda perm: perm & ~PERM_WRITE) == 2
    table.register(broker(), None)
    assert perms(table, "T") == {"a": 4}
    assert table.change_perm("a", lambda _: PERM_READ_WRITE) == 2
    assert perms(table, "T") == {"a": 6}
    table.change_perm("a", lambda perm: perm & ~PERM_WRITE)
    table.register(broker(counter=1), None)
    assert perms(table, "T") == {"a": 6}


def test_a_topic_is_deleted_everywhere_or_in_one_cluster() -> None:
    table = Table()
    table.register(broker("a"), None)
    table.register(broker("b", cluster="d"), None)
    table.delete_topic("T", "d")
    assert perms(table, "T") == {"a": 6}
    table.delete_topic("T", "nowhere")
    table.delete_topic("U")
    table.delete_topic("none")
    assert table.topics() == ["T"]
    assert table.topics_of_cluster("d") == []


def test_a_topic_can_be_added_to_known_brokers() -> None:
    table = Table()
    table.register(broker("a"), None)
    a, x = (QueueData(broker_name=name, perm=6, read_queue_nums=1, write_queue_nums=1) for name in ("a", "x"))
    table.add_topic("N", [a, x])
    assert table.route("N") is None
    table.add_topic("N", [a])
    a4 = msgspec.structs.replace(a, perm=4)
    table.add_topic("N", [a4, x])
    assert perms(table, "N") == {"a": 4}


def test_unit_lists_go_by_the_flag() -> None:
    table = Table()
    registration = broker(topics={f"T{flag}": 6 for flag in range(4)})
    for flag in range(4):
        registration.topics.topic_config_table[f"T{flag}"].topic_sys_flag = flag
    table.register(registration, None)
    assert table.topics_by_sys_flag(lambda flag: flag == 2) == ["T2"]


def test_static_topics_and_filter_servers_are_in_the_route() -> None:
    mapping = {"bname": "a", "topic": "T", "totalQueues": 2}
    table = Table()
    table.register(broker(mappings={"topic_queue_mapping_info_map": {"T": mapping}}, filter_servers=["f:1"]), None)
    route = table.route("T")
    assert route.topic_queue_mapping_by_broker == {"a": mapping}
    assert route.filter_server_table == {"a-0:1": ["f:1"]}
    table.register(broker(), None)
    route = table.route("U")
    assert (route.filter_server_table, route.topic_queue_mapping_by_broker) == ({}, None)


@pytest.mark.parametrize("name", [None, [], ["x"], 7, "another"])
def test_a_broker_with_an_odd_static_topic_expires_as_any_other(name: Any) -> None:
    """It was registered by half, stayed in every route until the nameserver ended, and its static topics with it."""
    table = Table()
    mappings = {"topic_queue_mapping_info_map": {"T": {"bname": name}, "no topic of its own": {"bname": name}}}
    table.register(broker(mappings=mappings), None)
    assert addrs(table) == {"a": {0: "a-0:1"}}
    table.now_s += 1000
    table.expire()
    assert (addrs(table), table.topics(), table._mappings, table._route_count) == ({}, [], {}, 0)


def test_a_static_topic_deleted_here_comes_back_with_its_mapping() -> None:
    """The topic returned with the broker's next registration, and without the mapping, so clients took its queues for
    plain ones: that registration has the version of the last one."""
    mapping = {"bname": "a", "topic": "T", "totalQueues": 2}
    registration = broker(mappings={"topic_queue_mapping_info_map": {"T": mapping}})
    table = Table()
    table.register(registration, None)
    table.delete_topic("T")
    table.register(registration, None)
    route = table.route("T")
    assert route.topic_queue_mapping_by_broker == {"a": mapping}


def test_the_smallest_slave_acts_as_master_where_both_sides_want_it() -> None:
    table = Table(supportActingMaster="true")
    for id in (0, 2, 3):
        table.register(broker(id=id, enable_acting_master=True), None)
    table.unregister(BrokerKey("c", "a", "a-0:1"))
    assert addrs(table) == {"a": {0: "a-2:1", 3: "a-3:1"}}
    assert perms(table, "T") == {"a": 4}
    # Its own registrations count now, but give no permission to write.
    table.register(broker(id=2, enable_acting_master=True, counter=1, topics={"T": 6, "N": 6}), None)
    assert perms(table, "N") == {"a": 4}
    table.register(broker(id=0, enable_acting_master=True, counter=2), None)
    assert addrs(table) == {"a": {0: "a-0:1", 2: "a-2:1", 3: "a-3:1"}}
    assert perms(table, "T") == {"a": 6}


def test_nobody_acts_as_master_unless_the_nameserver_supports_it() -> None:
    table = Table()
    for id in (0, 2):
        table.register(broker(id=id, enable_acting_master=True), None)
    table.unregister(BrokerKey("c", "a", "a-0:1"))
    assert addrs(table) == {"a": {2: "a-2:1"}}


def test_members_of_a_broker_name() -> None:
    table = Table()
    table.register(broker(id=1), None)
    table.register(broker(id=0), None)
    assert table.member_addrs("c", "a") == {0: "a-0:1", 1: "a-1:1"}
    assert table.member_addrs("d", "a") == table.member_addrs("c", "b") == {}
