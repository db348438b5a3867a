"""What members manage by their own word, and what a peak needs."""

import pytest

from rmqadmin.commands.group.group_lag import Node, needs
from rmqadmin.core.groups.group_standing import GroupStanding, QueueStanding
from rmqadmin.core.groups.queue_owners import Member, QueueOwners
from rmqadmin.core.groups.running_info import Pace, pace_of, pace_text
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.statistics import ConsumeOffset, ConsumeRates, ConsumerRunningInfo

QUEUES = [MessageQueue("t", "broker-a", queue_id) for queue_id in range(4)]
BUSY = Pace(50.0, 20.0, 10)


def standing(*paces: Pace | None, lag_count: int = 0) -> GroupStanding:
    members = [Member(str(at), "192.0.2.1:1", "JAVA", 1, frozenset(), {}, pace=pace) for at, pace in enumerate(paces)]
    entry = ConsumeOffset(broker_offset=lag_count, consumer_offset=0)
    return GroupStanding(
        group="G",
        queues=[QueueStanding(queue=QUEUES[0], entry=entry)],
        owners=QueueOwners(members, {queue: [] for queue in QUEUES}, False),
    )


def test_what_a_client_of_java_tells() -> None:
    """Its retry topic counts, too; a topic of which it has consumed nothing lately has no time."""
    table = {
        "t": ConsumeRates(consume_ok_tps=30.0, consume_rt=10.0),
        "%RETRY%G": ConsumeRates(consume_ok_tps=8.0, consume_failed_tps=2.0, consume_rt=50.0),
        "u": ConsumeRates(),
    }
    told = pace_of(ConsumerRunningInfo(status_table=table, properties={"PROP_THREADPOOL_CORE_SIZE": "20"}))
    assert told == Pace(38.0, 20.0, 20)
    assert told.most_tps == 1000.0
    assert pace_text(told) == "38.0/s, 20 ms each, 20 threads"


def test_what_others_do_not_tell() -> None:
    assert pace_of(ConsumerRunningInfo()) is None, "gRPC"
    goes = ConsumerRunningInfo(status_table={"t": ConsumeRates()}, properties={"PROP_THREADPOOL_CORE_SIZE": "-1"})
    assert pace_of(goes) == Pace(0.0, None, None)
    assert pace_text(None) == "not known"


@pytest.mark.parametrize(
    ("found", "node", "members", "threads", "basis"),
    [
        (standing(BUSY, Pace(150.0, 20.0, 10), lag_count=5), None, 10, 20, "what it does while messages wait"),
        (standing(BUSY, None), None, 2, 20, "10 threads / 20 ms"),
        (standing(BUSY), Node(2, 5), 3, 20, "cores / computing time"),
        (standing(BUSY), Node(4, 2, 30), 1, 32, "cores / computing time"),
        (standing(None), None, None, None, None),
        (standing(Pace(0.0, None, None), lag_count=5), None, None, None, None),
    ],
    ids=["behind", "not behind", "by its cores", "by its cores and what it waits for", "nobody tells", "stuck"],
)
def test_a_peak(
    found: GroupStanding, node: Node | None, members: int | None, threads: int | None, basis: str | None
) -> None:
    needed = needs(found, 1000.0, node)
    assert (needed.member_count, needed.thread_count, needed.basis) == (members, threads, basis)
    (first, *rest) = [line for line in needed.lines() if "peak" in line or "queues" in line]
    assert first.startswith("a peak of 1,000.0/s needs")
    assert bool(rest) is (members is not None and members > len(QUEUES)), "then it needs more queues"


def test_threads_of_work_that_waits() -> None:
    assert Node(4, 2, 30).thread_count(None) == 64
    assert Node(2, 5).thread_count(20.0) == 8, "what the consume time leaves is waiting"
    assert Node(2, 5).thread_count(None) is None
    assert Node(0.5, 10, 0).thread_count(None) == 1
