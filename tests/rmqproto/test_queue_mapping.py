"""The rules of static topics."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto import queue_mapping as mapping
from rmqproto.bodies.static_topics import LogicQueueMappingItem, TopicQueueMappingDetail


def item(
    gen: int = 0, queue_id: int = 0, logic_offset: int = 0, bname: str = "a", **fields: int
) -> LogicQueueMappingItem:
    return LogicQueueMappingItem(bname=bname, gen=gen, queue_id=queue_id, logic_offset=logic_offset, **fields)


def detail(epoch: int = 1, scope: str = "__global__", **queues: list[LogicQueueMappingItem]) -> TopicQueueMappingDetail:
    hosted = {int(name.removeprefix("q")): items for name, items in queues.items()}
    return TopicQueueMappingDetail(bname="a", epoch=epoch, hosted_queues=hosted, scope=scope, topic="T")


MOVED = [item(0, 0, 0), item(1, 1, 10_000, "b"), item(2, 2, 30_000)]


def test_scopes_have_brokers_that_do_not_exist() -> None:
    assert mapping.mock_broker_name() == "__syslo__global__"
    assert mapping.mock_broker_name("s") == "__syslo__s"


@given(st.integers(0, 10**6), st.integers(0, 10**9))
def test_logical_offsets_and_back(logic_offset: int, queue_offset: int) -> None:
    one = item(logic_offset=logic_offset)
    assert mapping.queue_offset_of(one, mapping.logical_offset(one, queue_offset)) == queue_offset


def test_offsets_of_a_stay_that_has_ended_or_is_not_decided() -> None:
    assert mapping.logical_offset(item(logic_offset=-1), 5) == -1
    assert mapping.logical_offset(item(logic_offset=100, end_offset=7), 9) == 107
    assert mapping.logical_offset(item(logic_offset=100, start_offset=3), 1) == 100
    assert mapping.has_ended(item(end_offset=7))
    assert not mapping.has_ended(item())


@pytest.mark.parametrize(
    ("offset", "gen"), [(0, 0), (9_999, 0), (10_000, 1), (29_999, 1), (30_000, 2), (10**9, 2), (-5, 0)]
)
def test_the_stay_that_holds_an_offset(offset: int, gen: int) -> None:
    assert mapping.item_at(MOVED, offset).gen == gen


def test_a_stay_that_is_not_decided_holds_nothing() -> None:
    items = [item(0), item(1, 1, -1, "b")]
    assert mapping.item_at(items, 10**9).gen == 0
    assert mapping.next_item(items, items[0]) is None
    assert mapping.next_item(MOVED, MOVED[0]) is MOVED[1]
    with pytest.raises(mapping.MappingError, match="not decided"):
        mapping.item_at(items[1:], 0)


def test_only_queues_that_lead_here_are_registered() -> None:
    found = mapping.registered(detail(q0=MOVED, q1=[item(0, 5), item(1, 0, 10_000, "b")], q2=[item(queue_id=7)]))
    assert found.curr_id_map == {0: 2, 2: 7}


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        ([item(queue_id=-1)], "should not be negative"),
        ([item(logic_offset=-1), item(1)], "non-latest item has negative"),
        ([item(1), item(1, 1, 10)], "gen does not increase"),
        ([item(start_offset=5, end_offset=4)], "endOffset is smaller"),
        ([item(0, 0, 10), item(1, 1, 10)], "base logic offset"),
        ([item(0, 0, 0, end_offset=20), item(1, 1, 10)], "max logic offset"),
    ],
)
def test_what_no_queue_can_have_been(items: list[LogicQueueMappingItem], problem: str) -> None:
    with pytest.raises(mapping.MappingError, match=problem):
        mapping.check_items(items)


def test_which_mapping_follows_which() -> None:
    old = detail(5, q0=[item()])
    for new, problem in (
        (detail(4, q0=[item()]), "Can't accept data with small epoch 4 < 5"),
        (detail(5, "s", q0=[item()]), "Can't accept data with unmatched scope s != __global__"),
        (detail(5), "Cannot accept equal epoch with null data"),
        (detail(6, q0=[]), "The new item list is null or empty"),
        (detail(5, q0=[item(), item(1, 1, 10)]), "The new leader is different but epoch equal"),
    ):
        with pytest.raises(mapping.MappingError, match=problem):
            mapping.succeeded(old, new, force=False)
        assert mapping.succeeded(old, new, force=True).epoch == new.epoch


def test_queues_that_a_mapping_does_not_name_are_kept() -> None:
    kept = mapping.succeeded(detail(1, q0=[item()]), detail(2, q1=[item(queue_id=1)]), force=False)
    assert list(kept.hosted_queues) == [0, 1]
    assert kept.epoch == 2
