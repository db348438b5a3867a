"""Consume modes of groups, and which queues their clients are assigned."""

from pathlib import Path
from typing import Any

import pytest

from rmqproto.bodies.groups import ConsumerData
from rmqproto.bodies.popping import AssignmentRequest, RequestMode
from rmqproto.bodies.routes import BrokerData, QueueData, TopicRoute
from rmqproto.codes import ResponseCode
from rmqserver.broker.assembly import BrokerAssembly
from rmqserver.broker.consuming.pop.assignment import Assigning
from rmqserver.operation import Refused
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.disk.disk import OsDisk

CONNECTION: Any = object()
ASKED = AssignmentRequest(client_id="c1", consumer_group="G", strategy_name="AVG", topic="T")


@pytest.fixture
def assigning(parts: BrokerAssembly) -> Assigning:
    parts.topics.create_system("T", 2)
    parts.clients.register_consumer(ConsumerData(group_name="G"), "c1", CONNECTION, "JAVA", 513)
    return Assigning(
        parts.config, parts.files, parts.topics, parts.groups, parts.clients, lambda topic, on_route: on_route(None)
    )


def queues(assigning: Assigning, route: TopicRoute | None = None) -> list[tuple[str, int, str]] | None:
    found = assigning.assignments(ASKED, route).message_queue_assignments
    if found is None:
        return None
    return [(each.message_queue.broker_name, each.message_queue.queue_id, each.mode) for each in found]


def test_a_group_pulls_until_it_is_told_to_pop(assigning: Assigning) -> None:
    assert queues(assigning) == [("broker-a", 0, "PULL"), ("broker-a", 1, "PULL")]
    assigning.set_mode(RequestMode(consumer_group="G", mode="POP", topic="T"))
    assert queues(assigning) == [("broker-a", -1, "POP")]


def test_queues_of_other_brokers_are_among_them(assigning: Assigning) -> None:
    brokers = [BrokerData(broker_addrs={0: "h:1"}, broker_name=name) for name in ("broker-a", "broker-b")]
    data = [QueueData(broker_name=each.broker_name, perm=6, read_queue_nums=1, write_queue_nums=1) for each in brokers]
    route = TopicRoute(broker_datas=brokers, queue_datas=data)
    assert queues(assigning, route) == [("broker-a", 0, "PULL"), ("broker-b", 0, "PULL")]


def test_nothing_is_known_of_a_group_without_clients(assigning: Assigning, parts: BrokerAssembly) -> None:
    parts.clients.peer_gone(CONNECTION)
    assert queues(assigning) is None


def test_modes_are_kept(assigning: Assigning, parts: BrokerAssembly, tmp_path: Path) -> None:
    assigning.set_mode(RequestMode(consumer_group="G", mode="POP", pop_share_queue_num=1, topic="T"))
    parts.files.wait_until_saved()
    files = ConfigFiles(str(tmp_path / "store/config"), OsDisk())
    entry = {"consumerGroup": "G", "mode": "POP", "popShareQueueNum": 1, "topic": "T"}
    assert files.load("messageRequestMode.json") == {"messageRequestModeMap": {"T": {"G": entry}}}
    files.close()


@pytest.mark.parametrize(
    ("topic", "code"), [("%RETRY%G", ResponseCode.NO_PERMISSION), ("Unknown", ResponseCode.TOPIC_NOT_EXIST)]
)
def test_modes_that_cannot_be(assigning: Assigning, topic: str, code: int) -> None:
    with pytest.raises(Refused) as refused:
        assigning.set_mode(RequestMode(consumer_group="G", mode="POP", topic=topic))
    assert refused.value.code == code
