"""Routes for clients that were told their zone (``rocketmq.zone``, ``rocketmq.zone.mode``). What a 5.5.0 nameserver
answered to these requests is written here."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqproto.bodies.base import DataVersion
from rmqproto.bodies.routes import RegisterBrokerBody, TopicConfigs
from rmqproto.codes import RequestCode
from rmqproto.headers.nameserver import RegisterBrokerHeader
from rmqproto.wire import fastjson
from tests.support import servers
from tests.support.servers import topic_config
from tests.support.wire import Wire


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    """A nameserver that knows b1 without a zone, b2 of zone z1, and b3 of zone z3, which has no master."""
    folder: Path = tmp_path_factory.mktemp("zones")
    with servers.namesrv(folder) as server, Wire(server.namesrv_addr) as connection:
        register(connection, "b1", 0, None)
        register(connection, "b2", 0, "z1", filter_servers=["f:1", "g:2"])
        register(connection, "b3", 1, "z3")
        yield connection


def register(wire: Wire, name: str, broker_id: int, zone: str | None, filter_servers: list[str] | None = None) -> None:
    configs = {topic: topic_config(topic, 4) for topic in ("T", "U")}
    topics = TopicConfigs(data_version=DataVersion(timestamp=1), topic_config_table=configs)
    body = RegisterBrokerBody(filter_server_list=filter_servers or [], topic_config_serialize_wrapper=topics)
    header = RegisterBrokerHeader(
        broker_name=name, broker_addr=f"{name}:1", cluster_name="c", ha_server_addr="ha:1", broker_id=broker_id,
        enable_acting_master=False, zone_name=zone,
    )  # fmt: skip
    answer = wire.ask(RequestCode.REGISTER_BROKER, header, fastjson.dumps(body))
    assert answer.code == 0, answer.remark


@pytest.mark.parametrize(
    ("mode", "zone", "names"),
    [
        ("true", "z1", {"b2", "b3"}),
        ("TRUE", "Z1", {"b2", "b3"}),
        ("true", "elsewhere", {"b3"}),
        ("true", " ", {"b1", "b2", "b3"}),
        ("true", None, {"b1", "b2", "b3"}),
        ("false", "z1", {"b1", "b2", "b3"}),
        ("1", "z1", {"b1", "b2", "b3"}),
        (None, "z1", {"b1", "b2", "b3"}),
    ],
)
def test_a_client_is_told_the_brokers_of_its_zone(
    wire: Wire, mode: str | None, zone: str | None, names: set[str]
) -> None:
    """It was told all brokers, and produced and consumed across zones."""
    fields = {"topic": "T", "__ZONE_MODE": mode, "__ZONE_NAME": zone}
    answer = wire.ask(
        RequestCode.GET_ROUTEINFO_BY_TOPIC, {name: value for name, value in fields.items() if value is not None}
    )
    route = fastjson.parse_untrusted(answer.body)
    assert {broker["brokerName"] for broker in route["brokerDatas"]} == names
    assert {queue["brokerName"] for queue in route["queueDatas"]} == names
    assert route["filterServerTable"] == ({"b2:1": ["f:1", "g:2"]} if "b2" in names else {})
