"""Offsets, times and groups of a read, resolved to the offsets of queues. What names nothing is an error: a slip of the
pen must not read everything, or nothing."""

import json

import pytest

pytest.importorskip("pyarrow")

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import NotFoundError, UsageError
from rmqreplay.source.offset_ranges import OffsetRange
from rmqreplay.source.queue_ranges import DataLossError, resolve
from spark_tools.source_options import parse_read_options

QUEUES = [MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)]


class Places:
    """Two queues with the messages 10 to 19 each. The group G has committed 15 in the first."""

    def topics(self) -> list[str]:
        return ["T"]

    def queues(self, topic: str) -> list[MessageQueue]:
        return QUEUES if topic == "T" else []

    def bounds(self, queue: MessageQueue) -> tuple[int, int]:
        return 10, 20

    def offset_for_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        return 12

    def committed(self, group: str, queue: MessageQueue) -> int | None:
        return {"G": 15, "Ahead": 21}.get(group) if queue == QUEUES[0] else None


def ranges(**options: str) -> list[tuple[int, int, int]]:
    found = resolve(parse_read_options({"nameServer": "h:1", "subscribe": "T", **options}), Places())
    return [(each.queue.queue_id, each.start, each.end) for each in found.ranges]


def at(broker: str = "broker-a", topic: str = "T", **numbers: int) -> str:
    return json.dumps({topic: {broker: {name.removeprefix("q"): number for name, number in numbers.items()}}})


def test_a_group_begins_where_it_has_committed_and_elsewhere_at_the_first_message():
    assert ranges(startingOffsets="group:G") == [(0, 15, 20), (1, 10, 20)]


@pytest.mark.parametrize("name", ["startingOffsets", "endingOffsets"])
def test_an_unknown_group_is_an_error_and_not_the_whole_topic(name):
    with pytest.raises(NotFoundError, match="the group Typo has no committed offset in T"):
        ranges(**{name: "group:Typo"})


@pytest.mark.parametrize("name", ["startingOffsets", "endingOffsets", "startingOffsetsByTimestamp"])
@pytest.mark.parametrize(
    "table", [at("broker-b", q0=11), at(topic="Tt", q0=11), at(q7=11), at(topic="Other", broker="x", q0=11)]
)
def test_offsets_of_a_queue_that_is_not_read_are_an_error(name, table):
    with pytest.raises(NotFoundError, match="which is none of the queues that are read"):
        ranges(**{name: table})


def test_the_queue_that_was_meant_is_named():
    with pytest.raises(NotFoundError) as raised:
        ranges(startingOffsets=at("brokr-a", q0=11))
    assert raised.value.hint == "did you mean T/broker-a/0?"


@pytest.mark.parametrize(
    ("topics", "hint"),
    [
        ({"subscribe": "Orders"}, "did you mean orders?"),
        ({"subscribe": "Bills"}, None),
        ({"subscribe": "", "assign": '{"T": {"broker-a": [2]}}'}, "did you mean T/broker-a/1?"),
    ],
)
def test_what_is_not_there_names_what_may_be_meant(topics, hint):
    places = Places()
    places.topics = lambda: ["T", "orders"]  # type: ignore[method-assign]
    with pytest.raises(NotFoundError) as raised:
        resolve(parse_read_options({"nameServer": "h:1", **topics}), places)
    assert raised.value.hint == hint


@pytest.mark.parametrize("start", [at(q0=21), "group:Ahead"])
def test_a_start_behind_the_end_of_the_queue_is_lost_data_and_not_an_empty_read(start):
    with pytest.raises(DataLossError, match="10 to 20 exist"):
        ranges(startingOffsets=start)
    found = resolve(
        parse_read_options(
            {"nameServer": "h:1", "subscribe": "T", "startingOffsets": start, "failOnDataLoss": "false"}
        ),
        Places(),
    )
    assert found.gaps == [OffsetRange(QUEUES[0], 21, 21)]
    assert [each.queue for each in found.ranges] == [QUEUES[1]]


def test_the_end_of_the_queue_is_a_place_to_start():
    assert ranges(startingOffsets=at(q0=20, q1=-1)) == []


def test_a_start_behind_the_asked_end_is_an_error():
    with pytest.raises(UsageError, match="the starting offset 18 is behind the ending offset 12"):
        ranges(startingOffsets=at(q0=18), endingOffsets=at(q0=12))


@pytest.mark.parametrize(
    ("name", "number"), [("startingOffsets", -3), ("endingOffsets", -2), ("startingOffsetsByTimestamp", -1)]
)
def test_numbers_that_are_no_offset_and_no_time_are_refused(name, number):
    with pytest.raises(UsageError, match=f"option {name} has {number} for T/broker-a/0"):
        ranges(**{name: at(q0=number)})


def test_more_broker_names_than_stores_are_refused():
    with pytest.raises(UsageError, match="it has more names"):
        parse_read_options({"path": "/a", "brokerName": "broker-a,broker-b"})
