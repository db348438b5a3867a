"""The rules of static topics."""

import pytest

from rmqproto import queue_mapping as mapping
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import LogicQueueMappingItem, TopicQueueMappingDetail
from rmqproto.errors import ProtocolError
from tests.support.quick import in_one_test


def item(
    gen: int = 0, queue_id: int = 0, logic_offset: int = 0, bname: str = "a", **fields: int
) -> LogicQueueMappingItem:
    return LogicQueueMappingItem(bname=bname, gen=gen, queue_id=queue_id, logic_offset=logic_offset, **fields)


def detail(**queues: list[LogicQueueMappingItem]) -> TopicQueueMappingDetail:
    hosted = {int(name.removeprefix("q")): items for name, items in queues.items()}
    return TopicQueueMappingDetail(bname="a", hosted_queues=hosted, topic="T")


MOVED = [item(0, 0, 0), item(1, 1, 10_000, "b"), item(2, 2, 30_000)]


def test_scopes_have_brokers_that_do_not_exist() -> None:
    assert mapping.mock_broker_name() == "__syslo__global__"
    assert mapping.mock_broker_name("s") == "__syslo__s"


def test_offsets_of_a_stay_that_has_ended_or_is_not_decided() -> None:
    assert mapping.logical_offset(item(logic_offset=-1), 5) == -1
    assert mapping.logical_offset(item(logic_offset=100, end_offset=7), 9) == 107
    assert mapping.logical_offset(item(logic_offset=100, start_offset=3), 1) == 100


@in_one_test((0, 0), (9_999, 0), (10_000, 1), (29_999, 1), (30_000, 2), (10**9, 2), (-5, 0))
def test_the_stay_that_holds_an_offset(offset: int, gen: int) -> None:
    assert mapping.item_at(MOVED, offset).gen == gen


def test_a_stay_that_is_not_decided_holds_nothing() -> None:
    items = [item(0), item(1, 1, -1, "b")]
    assert mapping.item_at(items, 10**9).gen == 0
    assert mapping.next_item(items, items[0]) is None
    assert mapping.next_item(MOVED, MOVED[0]) is MOVED[1]
    with pytest.raises(mapping.MappingError, match="not decided"):
        mapping.item_at(items[1:], 0)


def test_the_queues_that_lead_here() -> None:
    found = mapping.current_queues(detail(q0=MOVED, q1=[item(0, 5), item(1, 0, 10_000, "b")], q2=[item(queue_id=7)]))
    assert found == {0: 2, 2: 7}


@in_one_test(
    ([item(queue_id=-1)], "should not be negative"),
    ([item(logic_offset=-1), item(1)], "non-latest item has negative"),
    ([item(1), item(1, 1, 10)], "gen does not increase"),
    ([item(start_offset=5, end_offset=4)], "endOffset is smaller"),
    ([item(0, 0, 10), item(1, 1, 10)], "base logic offset"),
    ([item(0, 0, 0, end_offset=20), item(1, 1, 10)], "max logic offset"),
)
def test_what_no_queue_can_have_been(items: list[LogicQueueMappingItem], problem: str) -> None:
    with pytest.raises(mapping.MappingError, match=problem):
        mapping.check_items(items)


def test_who_says_it_later_has_the_queue() -> None:
    table = {
        "broker-a": {"bname": "broker-a", "currIdMap": {"0": 1, "1": 0}, "epoch": 1, "topic": "T"},
        "broker-b": {"bname": "broker-b", "currIdMap": {"1": 3}, "epoch": 2, "topic": "T"},
    }
    assert mapping.leaders_untrusted("T", table) == {
        MessageQueue("T", mapping.mock_broker_name(), 0): "broker-a",
        MessageQueue("T", mapping.mock_broker_name(), 1): "broker-b",
    }
    with pytest.raises(ProtocolError, match="topicQueueMappingByBroker"):
        mapping.leaders_untrusted("T", {"broker-a": {"bname": 1}})
