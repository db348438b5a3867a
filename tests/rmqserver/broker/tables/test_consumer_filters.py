"""Filters of groups, across heartbeats."""

import pytest

from rmqproto.bodies.groups import SubscriptionData
from rmqproto.message.properties import render
from rmqserver.broker.tables import consumer_filters
from rmqserver.broker.tables.consumer_filters import ConsumerFilter, ConsumerFilters

BORN_MS = 1_700_000_000_000


class Start:
    """A broker's filters."""

    def __init__(self) -> None:
        self.now_ms = BORN_MS
        self.filters = ConsumerFilters(lambda: self.now_ms)

    def beat(self, expression: str, version: int, *, kind: str = "SQL92", topic: str = "T") -> None:
        data = SubscriptionData(topic=topic, sub_string=expression, sub_version=version, expression_type=kind)
        self.filters.register("G", [data])

    def got(self, topic: str = "T") -> ConsumerFilter:
        found = self.filters.get(topic, "G")
        assert found is not None
        return found


@pytest.fixture
def start() -> Start:
    return Start()


def takes(one: ConsumerFilter, **properties: str) -> bool:
    asks = one.wanted.accepts_properties
    return asks is None or asks(render(properties).encode())


def test_filter_is_that_of_the_newest_version(start: Start) -> None:
    start.beat("a > 5", 10)
    assert takes(start.got(), a="6")
    start.beat("a > 50", 9)
    start.beat("a > 50", 10)
    assert takes(start.got(), a="6"), "the same version, or an older one, changes nothing"
    start.beat("a > 50", 11)
    assert not takes(start.got(), a="6")
    start.now_ms += 1
    start.beat("a > 50", 12)
    assert (start.got().data.client_version, start.got().data.born_time) == (12, BORN_MS)


def test_tags_and_nothing_make_no_filter(start: Start) -> None:
    start.beat("A || B", 1, kind="TAG")
    start.beat("", 1)
    assert start.filters.get("T", "G") is None


def test_expression_that_does_not_compile_takes_the_filter_away(start: Start) -> None:
    start.beat("a >", 1)
    assert start.filters.get("T", "G") is None
    start.beat("a > 5", 2)
    start.beat("a >", 3)
    assert start.filters.get("T", "G") is None
    start.beat("x", 4, kind="CLASS")
    assert start.filters.get("T", "G") is None


def test_filter_goes_with_its_subscription_and_with_the_last_member(start: Start) -> None:
    start.beat("a > 5", 7)
    start.beat("b > 5", 1, topic="Other")
    assert start.filters.get("T", "G") is None
    start.beat("a > 6", 1)
    assert takes(start.got(), a="7"), "also with an older version than that of before"
    start.filters.unregister("G")
    assert start.filters.get("T", "G") is None


def test_room_is_bounded(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_filters, "FILTERS_MAX", 2)
    monkeypatch.setattr(consumer_filters, "FILTERS_MAX_CHARS", 20)
    for topic in ("A", "B", "C"):
        subscription = SubscriptionData(topic=topic, sub_string="a > 5", sub_version=1, expression_type="SQL92")
        start.filters.register(topic, [subscription])
    assert [start.filters.get(topic, topic) is not None for topic in ("A", "B", "C")] == [True, True, False]
    start.filters.register("A", [SubscriptionData(topic="A", sub_string="a > 5" + " " * 9, sub_version=2,
                                                  expression_type="SQL92")])  # fmt: skip
    assert start.filters.get("A", "A") is not None
    start.filters.register("A", [SubscriptionData(topic="A", sub_string="a > 5" + " " * 20, sub_version=3,
                                                  expression_type="SQL92")])  # fmt: skip
    assert start.filters.get("A", "A") is None
