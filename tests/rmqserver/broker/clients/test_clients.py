"""The table of online clients without a network: timeouts, and the field values of C++ and Go clients."""

from pathlib import Path
from typing import Any

import pytest

from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import ConsumerData
from rmqserver.broker.clients.clients import (
    CONSUME_TYPES,
    EXPRESSION_KEPT_CHARS,
    KEPT_MAX,
    KEPT_MS,
    MESSAGE_MODELS,
    Clients,
    enum_name,
    language_name,
)
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.message_store import MessageStore
from tests.rmqserver.broker.parts import parts_on
from tests.support.clock import Clock
from tests.support.quick import in_one_test


class Peer:
    """Stands for a connection; only its identity matters here, and whether it listens."""

    is_listening = True


def connection() -> Any:
    return Peer()


def test_a_clock_that_is_put_right_takes_no_client_and_no_lock_away(tmp_path: Path) -> None:
    """All clients were disconnected, and who asked next got the queues of the consumer that held them."""
    clock, queue = Clock(), MessageQueue("T", "broker-a", 0)
    store = MessageStore(tmp_path, clock_ms=clock, background=False)
    store.open()
    parts = parts_on(store, ConfigFiles(str(tmp_path / "config"), OsDisk(), background=False))
    parts.clients.register_producer("P", "talking", connection(), "JAVA", 1)
    assert parts.locks.lock("G", "c1", [queue]) == [queue]
    clock.now_ms += 3_600_000
    assert parts.clients.expired_peers(60_000) == []
    assert parts.locks.lock("G", "c2", [queue]) == []
    assert parts.locks.is_any_held("G")
    store.close()


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
    assert clients.expired_peers(120_000) == [silent]


def test_nothing_is_kept_of_a_closed_connection() -> None:
    clients = Clients(Clock())
    gone = connection()
    for group in ("G", "H"):
        clients.register_consumer(ConsumerData(group_name=group), "c", gone, "JAVA", 1)
        clients.register_producer(group, "p", gone, "JAVA", 1)
    clients.peer_gone(gone)
    clients.peer_gone(gone)
    assert (clients.consumers, clients.producers) == ({}, {})
    assert (clients._consumer_groups_of, clients._producer_groups_of) == ({}, {})


def test_who_is_online_stays_so_where_clients_are_handed_on() -> None:
    """They leave the new table when their connection ends."""
    before, after = Clients(Clock()), Clients(Clock())
    here = connection()
    before.register_consumer(ConsumerData(group_name="G"), "c", here, "JAVA", 1, size_bytes=100)
    before.register_producer("P", "p", here, "JAVA", 1)
    after.take_over(before)
    found = after.consumer("G", "c"), after.producer("p"), after.any_producer("P")
    assert [client.client_id for client in found if client is not None] == ["c", "p", "p"]
    assert (before.consumers, before.producers) == ({}, {})
    after.peer_gone(here)
    assert (after.consumers, after.producers) == ({}, {})
    assert (after._member_count, after._subscriptions_bytes) == (0, 0)


def test_last_member_that_leaves_is_told_of() -> None:
    """Parts that keep state by group must hear that the group is gone."""
    left: list[int] = []
    clients = Clients(Clock(), lambda group: left.append(len(group.members)))
    one, two = connection(), connection()
    clients.register_consumer(ConsumerData(group_name="G"), "c1", one, "JAVA", 1)
    clients.register_consumer(ConsumerData(group_name="G"), "c2", two, "JAVA", 1)
    clients.peer_gone(one)
    clients.unregister_consumer("G", two)
    clients.unregister_consumer("G", two)
    assert left == [1, 0]
    assert "G" not in clients.consumers


def test_a_producer_is_found_by_its_id_as_long_as_it_is_there() -> None:
    """A reply goes to the client that asked."""
    clients = Clients(Clock())
    one, two = connection(), connection()
    for group, where in (("G", one), ("H", one), ("G", two)):
        clients.register_producer(group, "c1" if where is one else "c2", where, "JAVA", 1)
    found = clients.producer("c1"), clients.producer("c2"), clients.producer("c3")
    assert [client and client.peer for client in found] == [one, two, None]
    clients.unregister_producer("H", one)
    still = clients.producer("c1")
    assert still.peer is one, "it is in the other group"
    clients.peer_gone(one)
    assert clients.producer("c1") is None
    newer = connection()
    clients.register_producer("G", "c2", newer, "JAVA", 1)
    clients.peer_gone(two)
    latest = clients.producer("c2")
    assert latest.peer is newer


def test_producers_of_a_group_are_asked_in_turn() -> None:
    """When the producer of a half message is gone, another one of its group knows how the transaction ended."""
    clients = Clients(Clock())
    assert clients.any_producer("G") is None
    some = [connection() for _ in range(3)]
    for number, where in enumerate(some):
        clients.register_producer("G", f"c{number}", where, "JAVA", 1)
    asked = [clients.any_producer("G") for _ in range(6)]
    assert sorted(client.client_id for client in asked if client) == ["c0", "c0", "c1", "c1", "c2", "c2"]
    some[0].is_listening = False
    assert {client.client_id for _ in range(3) if (client := clients.any_producer("G"))} == {"c1", "c2"}
    for where in some:
        clients.peer_gone(where)
    assert clients.any_producer("G") is None


def test_who_is_asked_of_two_that_took_one_id_is_the_newer() -> None:
    """The broker may not have noticed yet that the older connection has ended."""
    clients = Clients(Clock())
    old, new = connection(), connection()
    for each in (old, new):
        clients.register_consumer(ConsumerData(group_name="G"), "twin", each, "JAVA", 1)
        clients.register_consumer(ConsumerData(group_name="G"), "other", connection(), "JAVA", 1)
    found = clients.consumer("G", "twin")
    assert found.peer is new
    clients.peer_gone(new)
    found = clients.consumer("G", "twin")
    assert found.peer is old
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


@in_one_test(("GO", "GO"), (9, "GO"), ("9", "GO"), (0, "JAVA"), (99, "OTHER"), (None, "OTHER"), ("", "OTHER"))
def test_languages_come_as_names_or_numbers(language: str | int | None, name: str) -> None:
    assert language_name(language) == name


def test_what_pulls_carried_is_kept_for_a_while_and_in_bounds() -> None:
    clock = Clock()
    clients = Clients(clock)
    for number in range(KEPT_MAX + 1):
        clients.note_carried("G", f"T{number}", None, "A")
    assert clients.subscription("G", "T0") is None
    kept = clients.subscription("G", "T1")
    assert (kept.tags_set, kept.sub_version) == (["A"], clock.now_ms)
    clients.note_carried("G", "T1", None, "A" * (EXPRESSION_KEPT_CHARS + 1))
    assert clients.subscription("G", "T1") is None
    clock.now_ms += KEPT_MS + 1
    assert clients.subscription("G", "T2") is None
