"""The table of online clients without a network: silence, and what C++ and Go clients put into their fields."""

from __future__ import annotations

from typing import Any

import pytest

from rmqproto.bodies import ConsumerData
from rmqserver.broker.clients import CONSUME_TYPES, MESSAGE_MODELS, Clients, enum_name, language_name


class Clock:
    now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


class Peer:
    """In the place of a connection: only who it is counts here."""


def connection() -> Any:
    return Peer()


def test_silent_clients_expire_and_talking_ones_do_not() -> None:
    clock = Clock()
    clients = Clients(clock)
    silent, talking, both = connection(), connection(), connection()
    clients.register_consumer(ConsumerData(group_name="G"), "silent", silent, "JAVA", 1)
    clients.register_producer("P", "also silent", silent, "JAVA", 1)
    clients.register_consumer(ConsumerData(group_name="G"), "talking", talking, "JAVA", 1)
    clients.register_producer("P", "producer", both, "JAVA", 1)
    clock.now_ms += 120_001
    clients.register_consumer(ConsumerData(group_name="G"), "talking", talking, "JAVA", 1)
    clients.register_producer("P", "producer", both, "JAVA", 1)
    assert clients.expired_connections(120_000) == [silent]


def test_nothing_is_kept_of_a_closed_connection() -> None:
    clients = Clients(Clock())
    gone = connection()
    for group in ("G", "H"):
        clients.register_consumer(ConsumerData(group_name=group), "c", gone, "JAVA", 1)
        clients.register_producer(group, "p", gone, "JAVA", 1)
    clients.connection_closed(gone)
    clients.connection_closed(gone)
    assert (clients.consumers, clients.producers) == ({}, {})
    assert (clients._consumer_groups_of, clients._producer_groups_of) == ({}, {})


def test_last_member_that_leaves_is_told_of() -> None:
    """Whoever keeps something by group must hear when the group is gone."""
    clients = Clients(Clock())
    left: list[int] = []
    clients.on_members_changed = lambda group: left.append(len(group.members))
    one, two = connection(), connection()
    clients.register_consumer(ConsumerData(group_name="G"), "c1", one, "JAVA", 1)
    clients.register_consumer(ConsumerData(group_name="G"), "c2", two, "JAVA", 1)
    clients.connection_closed(one)
    clients.unregister_consumer("G", two)
    clients.unregister_consumer("G", two)
    assert left == [1, 0]
    assert "G" not in clients.consumers


def test_who_is_asked_of_two_that_took_one_id_is_the_newer() -> None:
    """The older connection may be one whose end has not been noticed yet."""
    clients = Clients(Clock())
    old, new = connection(), connection()
    for each in (old, new):
        clients.register_consumer(ConsumerData(group_name="G"), "twin", each, "JAVA", 1)
        clients.register_consumer(ConsumerData(group_name="G"), "other", connection(), "JAVA", 1)
    found = clients.consumer("G", "twin")
    assert found is not None
    assert found.connection is new
    clients.connection_closed(new)
    found = clients.consumer("G", "twin")
    assert found is not None
    assert found.connection is old
    assert clients.consumer("G", "third") is None


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("BROADCASTING", "BROADCASTING"),
        (1, "CLUSTERING"),
        ("1", "CLUSTERING"),
        (7, "BROADCASTING"),
        (None, "BROADCASTING"),
    ],
)
def test_enums_come_as_names_or_numbers(value: str | int | None, name: str) -> None:
    assert enum_name(value, MESSAGE_MODELS) == name
    assert enum_name("CONSUME_POP", CONSUME_TYPES) == "CONSUME_POP"


@pytest.mark.parametrize(
    ("language", "name"),
    [("GO", "GO"), (9, "GO"), ("9", "GO"), (0, "JAVA"), (99, "OTHER"), (None, "OTHER"), ("", "OTHER")],
)
def test_languages_come_as_names_or_numbers(language: str | int | None, name: str) -> None:
    assert language_name(language) == name
