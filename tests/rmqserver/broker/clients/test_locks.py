"""Queue locks of ordered consumers: who holds which queue, and for how long."""

import pytest

from rmqproto.bodies.base import MessageQueue
from rmqserver.broker.clients.membership import LOCK_LIFE_MS, QueueLocks
from tests.support.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def locks(clock: Clock) -> QueueLocks:
    return QueueLocks(clock)


def queue(queue_id: int) -> MessageQueue:
    return MessageQueue(topic="T", broker_name="broker-a", queue_id=queue_id)


def test_queue_is_held_by_one_client_of_a_group(locks: QueueLocks) -> None:
    assert locks.lock("G", "c1", [queue(0), queue(1)]) == [queue(0), queue(1)]
    assert locks.lock("G", "c2", [queue(1), queue(2)]) == [queue(2)]
    assert locks.lock("G", "c1", [queue(0)]) == [queue(0)]  # renewing is allowed
    assert locks.lock("H", "c2", [queue(0)]) == [queue(0)]  # other groups are independent


def test_lock_that_is_not_renewed_is_free_after_a_minute(locks: QueueLocks, clock: Clock) -> None:
    """A consumer that hangs must not keep its queues for ever, and one that renews its locks must not lose them."""
    locks.lock("G", "hangs", [queue(0)])
    locks.lock("G", "renews", [queue(1)])
    clock.now_ms += LOCK_LIFE_MS
    locks.lock("G", "renews", [queue(1)])
    assert locks.lock("G", "other", [queue(0), queue(1)]) == []
    clock.now_ms += 1
    assert locks.lock("G", "other", [queue(0), queue(1)]) == [queue(0)]


def test_only_the_holder_unlocks(locks: QueueLocks) -> None:
    locks.lock("G", "c1", [queue(0)])
    locks.unlock("G", "c2", [queue(0)])
    assert locks.is_any_held("G")
    locks.unlock("G", "c1", [queue(0), queue(7)])
    assert not locks.is_any_held("G")
    assert locks.lock("G", "c2", [queue(0)]) == [queue(0)]


def test_group_is_in_order_while_any_lock_lives(locks: QueueLocks, clock: Clock) -> None:
    locks.lock("G", "c1", [queue(0)])
    clock.now_ms += LOCK_LIFE_MS
    assert locks.is_any_held("G")
    locks.expire()
    assert locks.is_any_held("G")
    clock.now_ms += 1
    assert not locks.is_any_held("G")
    locks.expire()
    assert not locks._locks  # groups that are gone leave nothing behind
