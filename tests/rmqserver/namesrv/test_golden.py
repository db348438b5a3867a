"""Requests that a real nameserver answered, sent to ours byte for byte, in an order that gives both the same tables."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import pytest

from rmqproto.bodies.base import DataVersion
from rmqproto.bodies.routes import QueueData, RegisterBrokerBody, TopicConfig, TopicConfigs, TopicRoute
from rmqproto.codes import RequestCode
from rmqproto.headers.nameserver import BrokerIdentityHeader, RegisterBrokerHeader, RouteHeader
from rmqproto.headers.tables import TopicHeader
from rmqproto.java import java_properties
from rmqproto.wire import fastjson
from rmqproto.wire.command import decode_frame_untrusted
from tests.support import golden, servers
from tests.support.wire import Wire

MASTER = BrokerIdentityHeader(
    broker_name="broker-a", broker_addr="127.0.0.1:10911", cluster_name="DefaultCluster", broker_id=0
)


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Wire]:
    with servers.namesrv(tmp_path) as server, Wire(server.namesrv_addr) as connection:
        yield connection


def play(wire: Wire, *names: str) -> None:
    for name in names:
        exchange = golden.exchange(name)
        assert golden.said(wire.exchange(exchange.request)) == golden.said(exchange.answer), name


def add_topic(wire: Wire, topic: str, queue_nums: int) -> None:
    queues = QueueData(broker_name="broker-a", perm=6, read_queue_nums=queue_nums, write_queue_nums=queue_nums)
    answer = wire.ask(
        RequestCode.REGISTER_TOPIC_IN_NAMESRV,
        TopicHeader(topic=topic),
        fastjson.dumps(TopicRoute(queue_datas=[queues])),
    )
    assert answer.code == 0


@pytest.mark.parametrize("second", [False, True], ids=["json", "binary"])
def test_brokers_come_and_go(wire: Wire, second: bool) -> None:
    """A master registers, then its slave; then the slave unregisters."""

    def name(code_name: str, json: int, binary: int) -> str:
        return f"{code_name}/{binary if second else json:02d}"

    play(wire, name("103-REGISTER_BROKER", 1, 3), name("106-GET_BROKER_CLUSTER_INFO", 1, 3))
    play(wire, name("103-REGISTER_BROKER", 2, 4), name("106-GET_BROKER_CLUSTER_INFO", 2, 4))
    play(wire, name("904-BROKER_HEARTBEAT", 1, 2), name("901-GET_BROKER_MEMBER_GROUP", 1, 2))
    play(wire, *(name(f"{code}_TOPIC_LIST", 1, 2) for code in ("311-GET_UNIT", "312-GET_HAS_UNIT_SUB")))
    play(wire, name("313-GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST", 1, 2))
    play(wire, name("205-WIPE_WRITE_PERM_OF_BROKER", 1, 2))
    add_topic(wire, "DelayTopic", 2)
    add_topic(wire, "OrderTopic", 4)
    play(wire, name("105-GET_ROUTEINFO_BY_TOPIC", 1, 15), name("105-GET_ROUTEINFO_BY_TOPIC", 12, 26))
    play(wire, name("105-GET_ROUTEINFO_BY_TOPIC", 2, 16))
    play(wire, name("216-DELETE_TOPIC_IN_NAMESRV", 1, 2))
    play(wire, name("104-UNREGISTER_BROKER", 1, 2), name("106-GET_BROKER_CLUSTER_INFO", 1, 3))


def test_routes_of_topics_that_are_not_there_and_of_one_that_is(wire: Wire) -> None:
    routes = golden.exchanges(RequestCode.GET_ROUTEINFO_BY_TOPIC)
    play(wire, *(one.name for one in routes if one.recorded_answer is not None and one.recorded_answer.code))
    play(wire, "103-REGISTER_BROKER/01", "103-REGISTER_BROKER/02")
    add_topic(wire, "%RETRY%PopGroup", 1)
    play(wire, "105-GET_ROUTEINFO_BY_TOPIC/13", "105-GET_ROUTEINFO_BY_TOPIC/27")


def test_lists_hold_what_apaches_hold(wire: Wire) -> None:
    """Apache's lists are in the order of a hash map."""
    play(wire, "103-REGISTER_BROKER/01")
    for name in ("304-GET_SYSTEM_TOPIC_LIST_FROM_NS/01", "304-GET_SYSTEM_TOPIC_LIST_FROM_NS/02"):
        exchange = golden.exchange(name)
        theirs, ours = golden.said(exchange.answer), golden.said(wire.exchange(exchange.request))
        assert sorted(ours["body"].pop("topicList")) == sorted(theirs["body"].pop("topicList"))
        assert ours == theirs
    registered = fastjson.loads_untrusted(
        golden_body("103-REGISTER_BROKER/01"), RegisterBrokerBody
    ).topic_config_serialize_wrapper.topic_config_table
    for name in ("206-GET_ALL_TOPIC_LIST_FROM_NAMESERVER/01", "224-GET_TOPICS_BY_CLUSTER/02"):
        answer = golden.said(wire.exchange(golden.exchange(name).request))
        assert set(answer["body"]["topicList"]) == set(registered)


def register(wire: Wire, topics: Iterable[str]) -> None:
    """Registers the master with exactly these topics."""
    table = {topic: TopicConfig(topic_name=topic) for topic in topics}
    body = RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicConfigs(data_version=DataVersion(timestamp=1), topic_config_table=table)
    )
    header = RegisterBrokerHeader(**msgspec.structs.asdict(MASTER), ha_server_addr="127.0.0.1:10912")
    assert wire.ask(RequestCode.REGISTER_BROKER, header, fastjson.dumps(body)).code == 0


@pytest.mark.parametrize(
    "name",
    [
        one.name
        for code in (RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, RequestCode.GET_TOPICS_BY_CLUSTER)
        for one in golden.exchanges(code)
    ],
)
def test_every_topic_is_listed_once(wire: Wire, name: str) -> None:
    """Apache's lists are in the order of a hash map."""
    exchange = golden.exchange(name)
    theirs = golden.said(exchange.answer)
    register(wire, theirs["body"]["topicList"])
    ours = golden.said(wire.exchange(exchange.request))
    assert sorted(ours["body"].pop("topicList")) == sorted(theirs["body"].pop("topicList"))
    assert ours == theirs


def test_without_a_cluster_no_topics_are_listed_as_at_apache(wire: Wire) -> None:
    answer = wire.ask(RequestCode.GET_TOPICS_BY_CLUSTER)
    assert (answer.code, bytes(answer.body)) == (0, b'{"topicList":[]}')


@pytest.mark.parametrize("number", ["01", "02", "03"])
def test_topics_that_can_be_written_again_are_counted(wire: Wire, number: str) -> None:
    answer = golden.exchange(f"327-ADD_WRITE_PERM_OF_BROKER/{number}").answer
    register(wire, [f"T{number}" for number in range(int(answer.ext["addTopicCount"]))])
    play(wire, f"327-ADD_WRITE_PERM_OF_BROKER/{number}")


def test_a_cluster_of_one(wire: Wire) -> None:
    play(wire, "103-REGISTER_BROKER/01", "106-GET_BROKER_CLUSTER_INFO/05")
    add_topic(wire, "AdminTopic", 4)
    play(wire, "216-DELETE_TOPIC_IN_NAMESRV/03", "216-DELETE_TOPIC_IN_NAMESRV/04")
    wire.send(golden.exchange("904-BROKER_HEARTBEAT/03").request)  # oneway, from an unknown broker
    play(wire, "106-GET_BROKER_CLUSTER_INFO/05")


def golden_body(name: str) -> bytes:
    return decode_frame_untrusted(golden.exchange(name).request).body


def test_key_value_table(wire: Wire) -> None:
    for first, missing in (("01", "02"), ("03", "04")):
        play(wire, f"219-GET_KVLIST_BY_NAMESPACE/{missing}", f"101-GET_KV_CONFIG/{missing}")
        play(wire, "100-PUT_KV_CONFIG/01" if first == "01" else "100-PUT_KV_CONFIG/02")
        play(wire, f"101-GET_KV_CONFIG/{first}", f"219-GET_KVLIST_BY_NAMESPACE/{first}")
    play(wire, "102-DELETE_KV_CONFIG/03", "102-DELETE_KV_CONFIG/01", "102-DELETE_KV_CONFIG/02")
    play(wire, "101-GET_KV_CONFIG/06", "100-PUT_KV_CONFIG/03", "101-GET_KV_CONFIG/05")


def test_a_broker_is_told_of_ordered_topics_once_there_were_any(wire: Wire) -> None:
    play(wire, "103-REGISTER_BROKER/01", "100-PUT_KV_CONFIG/03")
    answer = wire.exchange(golden.exchange("103-REGISTER_BROKER/01").request)
    assert answer.body == b'{"table":{"AdminOrder":"broker-a:8"}}'
    wire.ask(RequestCode.DELETE_KV_CONFIG, {"namespace": "ORDER_TOPIC_CONFIG", "key": "AdminOrder"})
    play(wire, "103-REGISTER_BROKER/05")


def test_settings(wire: Wire) -> None:
    play(wire, *(f"318-UPDATE_NAMESRV_CONFIG/0{number}" for number in range(1, 7)))
    for exchange in golden.exchanges(RequestCode.GET_NAMESRV_CONFIG):
        theirs = golden.said(exchange.answer)
        ours = golden.said(wire.exchange(exchange.request))
        pairs, their_pairs = (java_properties.parse_untrusted(said.pop("body")) for said in (ours, theirs))
        assert ours == theirs
        assert list(pairs) == list(their_pairs)
        ports_and_paths = {"listenPort", "bindAddress", "rocketmqHome", "kvConfigPath", "configStorePath"}
        assert {key for key in pairs if pairs[key] != their_pairs[key]} <= ports_and_paths


@pytest.mark.parametrize("number", ["01", "02"])
def test_a_changed_table_is_asked_for(wire: Wire, number: str) -> None:
    exchange = golden.exchange(f"322-QUERY_DATA_VERSION/{number}")
    assert wire.exchange(exchange.request).ext == {"changed": "true"}  # no broker is registered
    play(wire, "103-REGISTER_BROKER/01")
    answer = wire.exchange(exchange.request)
    assert exchange.answer is not None
    assert golden.said(answer)["ext"] == golden.said(exchange.answer)["ext"]
    same = wire.ask(RequestCode.QUERY_DATA_VERSION, MASTER, answer.body)
    assert (same.ext, same.body) == ({"changed": "false"}, answer.body)


def test_write_permission_is_counted(wire: Wire) -> None:
    play(wire, "103-REGISTER_BROKER/01")
    topics = golden.said(wire.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))["body"]["topicList"]
    wiped = wire.exchange(golden.exchange("205-WIPE_WRITE_PERM_OF_BROKER/03").request)
    assert wiped.ext == {"wipeTopicCount": str(len(topics))}
    added = wire.exchange(golden.exchange("327-ADD_WRITE_PERM_OF_BROKER/01").request)
    assert added.ext == {"addTopicCount": str(len(topics))}


def test_routes_are_standard_json_only_for_those_who_take_it(wire: Wire) -> None:
    """Clients before 4.9.4 read fastjson's unquoted keys, and cluster info is always written with them."""
    play(wire, "103-REGISTER_BROKER/01")
    header = RouteHeader(topic="BenchmarkTest")
    asked = {
        401: wire.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, header),
        400: wire.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, header, version=400),
        121: wire.ask(
            RequestCode.GET_ROUTEINFO_BY_TOPIC,
            RouteHeader(topic="BenchmarkTest", accept_standard_json_only=True),
            version=121,
        ),
    }
    assert {version: b'{"0":"127.0.0.1:10911"}' in answer.body for version, answer in asked.items()} == {
        401: True,
        400: False,
        121: True,
    }
    assert b'{0:"127.0.0.1:10911"}' in asked[400].body
    assert b" " not in asked[400].body  # the Go client cuts the addresses out by hand
    assert msgspec.json.decode(asked[401].body)


def test_refusals(wire: Wire) -> None:
    version = DataVersion(timestamp=1)
    one = RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicConfigs(
            data_version=version, topic_config_table={"T": TopicConfig(topic_name="T")}
        )
    )
    header = RegisterBrokerHeader(
        broker_name="b", broker_addr="127.0.0.1:1", cluster_name="c", ha_server_addr="127.0.0.1:2", broker_id=0
    )
    body = fastjson.dumps(one)
    answer = wire.ask(RequestCode.REGISTER_BROKER, header, body)
    assert (answer.code, answer.remark) == (1, "register broker failed")
    header.body_crc32 = 1
    answer = wire.ask(RequestCode.REGISTER_BROKER, header, body)
    assert (answer.code, answer.remark) == (1, "crc32 not match")
    answer = wire.ask(RequestCode.PUT_KV_CONFIG, {"value": "v"})
    assert (answer.code, answer.remark) == (1, "namespace or key is null")
    answer = wire.ask(RequestCode.SEND_MESSAGE)
    assert (answer.code, answer.remark) == (3, " request type 10 not supported")
    assert wire.ask(RequestCode.REGISTER_BROKER, header, b"{").code == 1
    assert wire.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC).code == 1


def test_switched_off(tmp_path: Path) -> None:
    off = ("--set", "enableTopicList=false", "--set", "enableAllTopicList=false", "--set", "needWaitForService=true")
    with servers.namesrv(tmp_path, *off) as server, Wire(server.namesrv_addr) as wire:
        for code in (206, 311, 312, 313):
            answer = wire.ask(code)
            assert (answer.code, answer.remark) == (1, "disable")
        answer = wire.ask(224, {"cluster": "c"})
        assert (answer.code, answer.remark) == (1, "disable")
        answer = wire.ask(105, {"topic": "T"})
        assert (answer.code, answer.remark) == (1, "name server not ready")
