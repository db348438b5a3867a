"""Queue allocation against the values that Apache's own strategies give."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.allocate import STRATEGIES, averagely
from rmqproto.bodies import MessageQueue

QUEUES = [MessageQueue("TopicTest", "broker-a", number) for number in range(8)]
CLIENTS = ["192.168.0.1@100", "192.168.0.2@100", "192.168.0.3@100"]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("AVG", [[0, 1, 2], [3, 4, 5], [6, 7]]),
        ("AVG_BY_CIRCLE", [[0, 3, 6], [1, 4, 7], [2, 5]]),
        ("CONSISTENT_HASH", [[3], [0, 1, 7], [2, 4, 5, 6]]),
    ],
)
def test_each_strategy_gives_what_apaches_gives(strategy: str, expected: list[list[int]]) -> None:
    """A different answer from ours in a mixed group leaves queues without an owner or with two."""
    own = [STRATEGIES[strategy](client, list(reversed(QUEUES)), list(reversed(CLIENTS))) for client in CLIENTS]
    assert [[queue.queue_id for queue in queues] for queues in own] == expected


def test_more_clients_than_queues_leaves_the_last_with_nothing() -> None:
    assert [[q.queue_id for q in averagely(client, QUEUES[:2], CLIENTS)] for client in CLIENTS] == [[0], [1], []]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_client_that_the_broker_does_not_list_gets_nothing(strategy: str) -> None:
    """Before its first heartbeat arrived, it would take queues that others own."""
    assert STRATEGIES[strategy]("192.168.0.9@100", QUEUES, CLIENTS) == []
    assert STRATEGIES[strategy]("192.168.0.9@100", QUEUES, []) == []
    assert STRATEGIES[strategy](CLIENTS[0], [], CLIENTS) == []


def test_clients_are_ordered_as_java_orders_them() -> None:
    """U+1F600 is greater than U+FFFD by code point, and less by the UTF-16 units that Java compares."""
    clients = ["\U0001f600", "\ufffd"]
    assert averagely("\U0001f600", QUEUES[:1], clients) == QUEUES[:1]


@given(
    strategy=st.sampled_from(sorted(STRATEGIES)),
    queue_count=st.integers(0, 40),
    clients=st.lists(st.text(min_size=1, max_size=8), unique=True, min_size=1, max_size=9),
)
def test_every_queue_has_exactly_one_owner(strategy: str, queue_count: int, clients: list[str]) -> None:
    queues = [MessageQueue("T", f"broker-{number % 3}", number // 3) for number in range(queue_count)]
    owned = [queue for client in clients for queue in STRATEGIES[strategy](client, queues, clients)]
    assert sorted(owned) == sorted(queues)
