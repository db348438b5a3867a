"""Conclusions about a group's queues from its members' answers, and what is reported when queues move between them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqadmin.core.groups.consumption import joined_clients
from rmqadmin.core.groups.queue_owners import (
    Member,
    OwnedQueue,
    QueueOwners,
    QueueState,
    RebalanceDone,
    Rebalances,
    without_heading,
)
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import ClientConnection, ConsumerConnection
from rmqproto.bodies.routes import BrokerData
from tests.support.quick import in_one_test

A, B, C = (MessageQueue("t", "broker-a", queue_id) for queue_id in range(3))


def member(
    name: str, *queues: MessageQueue, expression: str = "TAG *", silent: bool = False, pop: bool = False
) -> Member:
    return Member(
        name, "192.0.2.1:1", "JAVA", 1, None if silent else frozenset(queues), None if silent else {"t": expression},
        pop,
    )  # fmt: skip


def owners_of(*members: Member, broadcast: bool = False) -> QueueOwners:
    queues = {queue: [one.client_id for one in members if queue in (one.queues or ())] for queue in (A, B, C)}
    return QueueOwners(list(members), queues, broadcast)


@in_one_test(
    (owners_of(member("1", A, B), member("2", C)), ["owned", "owned", "owned"], "balanced"),
    (owners_of(member("1", A), member("2", C)), ["owned", "unowned", "owned"], "1 unowned"),
    (owners_of(member("1", A, B), member("2", B, C)), ["owned", "owned twice", "owned"], "1 owned twice"),
    (owners_of(member("1", A), member("2", silent=True)), ["owned", "unknown", "unknown"], "2 unknown"),
    (owners_of(member("1", A, B, C), member("2", silent=True)), ["owned"] * 3, "1 silent"),
    (owners_of(), ["unknown"] * 3, "offline"),
    (owners_of(member("1", A, B, C), member("2", A, B, C), broadcast=True), ["owned"] * 3, "balanced"),
    (owners_of(member("1", A, B, C, pop=True), member("2", A, B, C, pop=True)), ["owned"] * 3, "balanced"),
)
def test_states(found: QueueOwners, states: list[str], summary: str) -> None:
    assert [found.state(queue) for queue in (A, B, C)] == [QueueState(state) for state in states]
    assert found.summary() == summary


def test_members_have_one_order_although_a_broker_tells_them_in_any() -> None:
    """Of two members that subscribe to different things, now one was said to differ and now the other."""
    told = [ClientConnection(client_addr="192.0.2.1:1", client_id=name) for name in ("2", "1")]
    broker = BrokerData(broker_addrs={}, broker_name="broker-a", cluster="C")
    answers = [ConsumerConnection(connection_set=one) for one in (told, told[::-1])]
    assert [list(joined_clients([(broker, answer)]).connections) for answer in answers] == [["1", "2"]] * 2


def test_members_beyond_the_queues_are_spare() -> None:
    all_owned = [member("1", A), member("2", B), member("3", C), member("4")]
    assert owners_of(*all_owned).spare == ["4"]
    assert owners_of(*all_owned[:3]).spare == []
    assert owners_of(*all_owned, member("5", silent=True)).spare == [], "the silent one may own any"
    assert owners_of(*all_owned, broadcast=True).spare == []
    assert owners_of(member("1", A, B, C), member("2")).spare == [], "there are enough queues"


def test_the_members_that_differ_from_most_are_the_unequal_ones() -> None:
    found = owners_of(member("1", A), member("2", B, expression="TAG x"), member("3", C), member("4", silent=True))
    assert found.unequal == ["2"]
    assert "unequal subscriptions" in found.summary()


@pytest.mark.parametrize(
    ("summary", "told"),
    [
        ("balanced", "queues balanced"),
        ("1 owned twice, 1 unknown, unequal subscriptions", "queues 1 owned twice, 1 unknown, unequal subscriptions"),
        ("unequal subscriptions", "unequal subscriptions"),
        ("1 silent", "1 silent"),
        ("offline", "offline"),
    ],
)
def test_a_summary_without_its_heading_says_what_it_is_about(summary: str, told: str) -> None:
    """The pulse used to show "queues unequal subscriptions"."""
    assert without_heading(summary) == told


QUEUES = [MessageQueue("t", "broker-a", queue_id) for queue_id in range(4)]


def owners(*names: str, silent: bool = False, online: str = "ab") -> QueueOwners:
    """``names``: the owners of each queue, one letter per member."""
    members = [Member(one, "", None, 1, frozenset(), {}) for one in online]
    if silent:
        members.append(Member("z", "", None, 1, None, None, error="timed out"))
    return QueueOwners(members, {queue: list(found) for queue, found in zip(QUEUES, names, strict=False)}, False)


def test_a_member_joins_and_takes_half() -> None:
    seen = Rebalances()
    assert seen.look(500, owners("a", "a", "?", "?", silent=True)) is None
    assert seen.since_ms is None, "the screen said that nothing has changed, of what nobody knew"
    assert seen.look(1000, owners("a", "a", "a", "a", online="a")) is None
    assert seen.queues[QUEUES[0]] == OwnedQueue(("a",), None)
    assert seen.look(2000, owners("a", "a", "ab", "")) is None
    assert seen.begun_ms == 2000
    assert seen.look(9000, owners("a", "a", "ab", "b")) is None
    assert seen.look(12_000, owners("a", "a", "?", "?", silent=True)) is None, "nobody knows"
    done = seen.look(14_000, owners("a", "a", "b", "b"))
    assert done.text() == "queues went to other members in 12 s: b gained 2, a lost 2"
    assert [(move.at_ms, move.queue.queue_id, move.text()) for move in seen.moves] == [
        (2000, 2, "a → a, b"), (2000, 3, "a → nobody"), (9000, 3, "nobody → b"), (14_000, 2, "a, b → b"),
    ]  # fmt: skip
    assert seen.queues[QUEUES[3]] == OwnedQueue(("b",), 9000, ("a",)), "nobody had it only in between"
    assert seen.queues[QUEUES[2]] == OwnedQueue(("b",), 14_000, ("a",)), "both had it only in between"
    assert seen.begun_ms is None
    assert seen.since_ms == 1000


def test_what_is_wrong_at_the_first_look_has_begun_then() -> None:
    seen = Rebalances()
    assert seen.look(1000, owners("a", "")) is None
    assert seen.begun_ms == 1000
    done = seen.look(3000, owners("a", "b"))
    assert done.text() == "queues went to other members in 2 s: b gained 1"


def test_a_queue_that_nobody_ever_had_has_no_owner_before() -> None:
    seen = Rebalances()
    for at_ms, names in ((1000, ""), (2000, "a"), (3000, ""), (4000, "a")):
        seen.look(at_ms, owners("c", names))
        if at_ms == 2000:
            assert seen.queues[QUEUES[1]] == OwnedQueue(("a",), 2000, ())
    assert seen.queues[QUEUES[1]] == OwnedQueue(("a",), 4000, ("a",)), "it came back"


def test_the_last_member_leaves_and_a_topic_goes() -> None:
    seen = Rebalances()
    seen.look(1000, owners("a", "a", online="a"))
    done = seen.look(2000, QueueOwners([], {}, False))
    assert done.text() == "queues went to other members between two looks: a lost 2"
    assert seen.look(3000, owners("a", online="a")) is not None
    assert list(seen.queues) == QUEUES[:1], "a queue that is not there any more is nobody's"


MAPS = st.lists(st.lists(st.sampled_from(["", "a", "b", "ab"]), min_size=4, max_size=4), min_size=1, max_size=12)


@given(MAPS)
def test_moves_lead_from_the_first_map_to_the_last(maps: list[list[str]]) -> None:
    seen = Rebalances()
    now = {queue: tuple(found) for queue, found in zip(QUEUES, maps[0], strict=True)}
    for at, names in enumerate(maps):
        done = seen.look(at * 1000, owners(*names))
        is_shared_out = all(len(found) == 1 for found in names)
        assert done is None or is_shared_out
        assert (seen.begun_ms is None) == is_shared_out
    for move in seen.moves:
        assert now[move.queue] == move.before != move.after
        now[move.queue] = move.after
    assert now == {queue: known.owners for queue, known in seen.queues.items()}
    assert now == {queue: tuple(found) for queue, found in zip(QUEUES, maps[-1], strict=True)}


def test_a_rebalance_of_many_members_tells_how_many() -> None:
    gained = {f"m{number}": 1 for number in range(1000)}
    done = RebalanceDone(0, 20_000, gained, {"old": 1000})
    assert done.text() == "queues went to other members in 20 s: 1,000 members gained some, 1 lost some"
