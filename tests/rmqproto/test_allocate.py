"""Queue allocation, against the results of Apache's own strategies (tests/golden/allocation)."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.allocate import (
    STRATEGIES,
    ByConfig,
    ByMachineRoom,
    MachineRoomNearby,
    Strategy,
    allocate_for_pop,
    averagely,
    averagely_by_circle,
    sticky,
)
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import UsageError
from tests.support.quick import in_one_test

VECTORS = Path(__file__).parent.parent / "golden/allocation/vectors.jsonl"

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
    """In a mixed group, an answer that differs from Apache's leaves queues with no owner or with two."""
    own = [STRATEGIES[strategy](client, list(reversed(QUEUES)), list(reversed(CLIENTS))) for client in CLIENTS]
    assert [[queue.queue_id for queue in queues] for queues in own] == expected


def test_more_clients_than_queues_leaves_the_last_with_nothing() -> None:
    assert [[q.queue_id for q in averagely(client, QUEUES[:2], CLIENTS)] for client in CLIENTS] == [[0], [1], []]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_client_that_the_broker_does_not_list_gets_nothing(strategy: str) -> None:
    """Before its first heartbeat has arrived, a client would otherwise take queues that others own."""
    assert STRATEGIES[strategy]("192.168.0.9@100", QUEUES, CLIENTS) == []
    assert STRATEGIES[strategy]("192.168.0.9@100", QUEUES, []) == []
    assert STRATEGIES[strategy](CLIENTS[0], [], CLIENTS) == []


def test_clients_are_ordered_as_java_orders_them() -> None:
    """U+1F600 is greater than U+FFFD by code point, but less by the UTF-16 units that Java compares."""
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


# --- results of Apache's classes --------------------------------------------------------------------------------------


def room_of_queue(queue: MessageQueue) -> str:
    return queue.broker_name.split("@")[0]


def room_of_client(client_id: str) -> str:
    return client_id.split("@")[0]


def strategy_named(name: str, queues: list[MessageQueue]) -> Strategy:
    """The strategy of that name, set up as in Allocations.java."""
    match name:
        case "CONFIG":
            return ByConfig(queues[: (len(queues) + 1) // 2])
        case "MACHINE_ROOM":
            return ByMachineRoom({"east", "west"})
        case "MACHINE_ROOM_NEARBY-AVG":
            return MachineRoomNearby(averagely, room_of_queue, room_of_client)
        case "MACHINE_ROOM_NEARBY-AVG_BY_CIRCLE":
            return MachineRoomNearby(averagely_by_circle, room_of_queue, room_of_client)
        case _:
            return STRATEGIES[name]


@in_one_test(*VECTORS.read_text().splitlines())
def test_each_client_gets_what_apaches_classes_give_it(line: str) -> None:
    case: dict[str, Any] = json.loads(line)
    queues = sorted(
        MessageQueue("Topic", broker, number) for broker, count in case["brokers"] for number in range(count)
    )
    assert len(case["results"]) == 7
    for name, expected in case["results"].items():
        strategy = strategy_named(name, queues)
        own = [
            [queues.index(queue) for queue in strategy(client, queues[::-1], case["clients"][::-1])]
            for client in case["clients"]
        ]
        assert own == [sorted(positions) for positions in expected], name


def test_a_queue_or_client_without_a_room_is_said() -> None:
    """Apache's strategy throws too: if each member guessed, queues would have no owner or two."""
    for queue_room, client_room in [("", "east"), ("east", "")]:
        strategy = MachineRoomNearby(
            averagely, lambda queue, room=queue_room: room, lambda client, room=client_room: room
        )
        with pytest.raises(UsageError, match="no machine room"):
            strategy(CLIENTS[0], QUEUES, CLIENTS)


# --- sticky -----------------------------------------------------------------------------------------------------------

Held = dict[str, list[MessageQueue]]


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[MessageQueue], list[str], Held]:
    """Queues, the present members, and the queues that present and departed members hold, which may overlap."""
    queues = [MessageQueue("T", f"broker-{number % 3}", number // 3) for number in range(draw(st.integers(0, 24)))]
    names = [f"client-{number}" for number in range(draw(st.integers(1, 7)))]
    members = draw(st.lists(st.sampled_from(names), unique=True, min_size=1))
    held = {name: draw(st.lists(st.sampled_from(queues), unique=True)) if queues else [] for name in names}
    return queues, members, held


@given(groups())
def test_sticky_gives_every_queue_one_owner_in_even_shares(group: tuple[list[MessageQueue], list[str], Held]) -> None:
    queues, members, held = group
    own = [sticky(member, queues, members, held) for member in members]
    assert sorted(queue for mine in own for queue in mine) == sorted(queues)
    assert max(map(len, own)) - min(map(len, own)) <= 1


@given(groups(), st.randoms(use_true_random=False))
def test_sticky_moves_the_fewest_queues(group: tuple[list[MessageQueue], list[str], Held], random: Any) -> None:
    """The largest number of queues that members can keep with even shares is known, and sticky keeps that many."""
    queues, members, _ = group
    owner = {queue: random.choice(members) for queue in queues}
    held = {member: [queue for queue in queues if owner[queue] == member] for member in members}
    share, rest = divmod(len(queues), len(members))
    keep_max = sum(min(len(mine), share) for mine in held.values())
    keep_max += min(rest, sum(len(mine) > share for mine in held.values()))
    kept = sum(owner[queue] == member for member in members for queue in sticky(member, queues, members, held))
    assert kept == keep_max


@given(groups(), st.randoms(use_true_random=False))
def test_sticky_members_that_act_one_after_the_other_come_to_one_result(
    group: tuple[list[MessageQueue], list[str], Held], random: Any
) -> None:
    """Each member sees the others at a different moment: some have taken their new queues, others have not yet given
    theirs away."""
    queues, members, held = group
    for _ in range(len(members) + 1):
        for member in random.sample(members, len(members)):
            held[member] = sticky(member, queues, members, held)
    owned = [queue for member in members for queue in held[member]]
    assert sorted(owned) == sorted(queues)
    assert all(sticky(member, queues, members, held) == held[member] for member in members)


def test_sticky_gives_an_unlisted_client_nothing() -> None:
    assert sticky("nobody", QUEUES, CLIENTS, {}) == []


@pytest.mark.parametrize("share_count", [-1, 0, 2, 9])
def test_all_pop_from_everywhere(share_count: int) -> None:
    whole = [MessageQueue("TopicTest", "broker-a", -1)]
    for client in CLIENTS:
        assert allocate_for_pop(averagely, client, QUEUES, CLIENTS, share_count) == whole


def test_a_client_pops_from_its_queues_and_those_of_the_next() -> None:
    found = [allocate_for_pop(averagely, client, QUEUES, CLIENTS, 1) for client in CLIENTS]
    assert [[queue.queue_id for queue in each] for each in found] == [
        [0, 1, 2, 3, 4, 5],
        [3, 4, 5, 6, 7],
        [0, 1, 2, 6, 7],
    ]


def test_with_more_clients_than_queues_each_pops_from_one() -> None:
    found = [allocate_for_pop(averagely, client, QUEUES[:2], CLIENTS, 1) for client in CLIENTS]
    assert [[queue.queue_id for queue in each] for each in found] == [[0], [1], [0]]
