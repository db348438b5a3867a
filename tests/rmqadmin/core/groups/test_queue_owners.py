"""Conclusions about a group's queues from its members' answers, without a broker."""

from __future__ import annotations

import pytest

from rmqadmin.core.groups.queue_owners import Member, QueueOwners, QueueState, without_heading
from rmqproto.bodies.base import MessageQueue

A, B, C = (MessageQueue("t", "broker-a", queue_id) for queue_id in range(3))


def member(
    name: str, *queues: MessageQueue, expression: str = "TAG *", silent: bool = False, pop: bool = False
) -> Member:
    return Member(
        name,
        "192.0.2.1:1",
        "JAVA",
        1,
        None if silent else frozenset(queues),
        None if silent else {"t": expression},
        pop,
    )


def owners_of(*members: Member, broadcast: bool = False) -> QueueOwners:
    queues = {queue: [one.client_id for one in members if queue in (one.queues or ())] for queue in (A, B, C)}
    return QueueOwners(list(members), queues, broadcast)


@pytest.mark.parametrize(
    ("found", "states", "summary"),
    [
        (owners_of(member("1", A, B), member("2", C)), ["owned", "owned", "owned"], "balanced"),
        (owners_of(member("1", A), member("2", C)), ["owned", "unowned", "owned"], "1 unowned"),
        (owners_of(member("1", A, B), member("2", B, C)), ["owned", "owned twice", "owned"], "1 owned twice"),
        (owners_of(member("1", A), member("2", silent=True)), ["owned", "unknown", "unknown"], "2 unknown"),
        (owners_of(member("1", A, B, C), member("2", silent=True)), ["owned"] * 3, "1 silent"),
        (owners_of(), ["unknown"] * 3, "offline"),
        (owners_of(member("1", A, B, C), member("2", A, B, C), broadcast=True), ["owned"] * 3, "balanced"),
        (owners_of(member("1", A, B, C, pop=True), member("2", A, B, C, pop=True)), ["owned"] * 3, "balanced"),
    ],
    ids=["balanced", "unowned", "twice", "silent", "silent but covered", "offline", "broadcast", "pop"],
)
def test_states(found: QueueOwners, states: list[str], summary: str) -> None:
    assert [found.state(queue) for queue in (A, B, C)] == [QueueState(state) for state in states]
    assert found.summary() == summary


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
