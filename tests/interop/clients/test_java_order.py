"""The Java orderly consumer gets a queue's messages in order, one member at a time, whatever the listener does."""

from collections.abc import Iterable

import pytest

from tests.support.servers import Fresh, until

from ..events import Message, Outgoing
from ..witness import Witness

pytestmark = pytest.mark.interop

KEYS, STEPS = 8, 12


def steps(of: range) -> list[Outgoing]:
    """Messages ``order N step M`` of all orders, interleaved; one order's steps go to one queue."""
    return [
        Outgoing(body=b"order %d step %d" % (order, step), tags=f"Step{step}", sharding_key=f"order-{order}")
        for step in of
        for order in range(KEYS)
    ]


def parsed(message: Message) -> tuple[int, int]:
    _, order, _, step = message.body.split()
    return int(order), int(step)


def check_order(messages: Iterable[Message], count: int = STEPS) -> None:
    """Every order has each step once, in order; failed deliveries do not count."""
    taken = [parsed(m) for m in messages if not m.failed]
    assert {order: [step for o, step in taken if o == order] for order in range(KEYS)} == {
        order: list(range(count)) for order in range(KEYS)
    }


def test_a_failed_message_holds_its_queue_and_is_delivered_again_before_the_next(java: Witness, fresh: Fresh) -> None:
    topic = java.create_topic(fresh("OrderTopic"), order=True)
    java.send(topic, steps(range(STEPS)))
    consumer = java.consume(
        fresh("OrderGroup"), topic, orderly=True, fail_tag="Step5", fail_below=2, max_reconsume_times=5
    )
    consumer.until(lambda messages: sum(not m.failed for m in messages) >= KEYS * STEPS, "successes")
    messages = consumer.stop()
    check_order(messages)
    for order in range(KEYS):
        [queue_id] = {m.queue_id for m in messages if parsed(m)[0] == order}
        of_queue = [m for m in messages if m.queue_id == queue_id]
        first = next(i for i, m in enumerate(of_queue) if parsed(m) == (order, 5))
        assert [(parsed(m), m.failed, m.reconsume_times) for m in of_queue[first : first + 3]] == [
            ((order, 5), True, 0),
            ((order, 5), True, 1),
            ((order, 5), False, 2),
        ]


def test_an_orderly_message_that_always_fails_goes_to_the_dead_letter_queue_and_frees_its_queue(
    java: Witness, fresh: Fresh
) -> None:
    topic, group = (
        java.create_topic(fresh("OrderTopic"), queues=1, order=True),
        java.create_group(fresh("OrderGroup"), retry_max_times=1, orderly=True),
    )
    java.send(topic, [Outgoing(body=b"first"), Outgoing(body=b"bad", tags="Bad"), Outgoing(body=b"last")])
    consumer = java.consume(group, topic, orderly=True, fail_tag="Bad", max_reconsume_times=1)
    consumer.until(
        lambda messages: messages[-1:] != [] and messages[-1].body == b"last", "message after the failed one"
    )
    assert [m.body for m in consumer.stop()] == [b"first", b"bad", b"bad", b"last"]
    [dead] = java.read_all(f"%DLQ%{group}", 1)
    assert (dead.body, dead.tags) == (b"bad", "Bad")


def test_queues_move_between_members_without_disorder(java: Witness, fresh: Fresh) -> None:
    """Only one member at a time has a queue's lock. The next member goes on behind the last commit of the first: a
    message whose listener has just returned may not be committed yet, and comes again."""
    topic, group = java.create_topic(fresh("OrderTopic"), order=True), fresh("OrderGroup")
    taken: list[Message] = []

    def until_taken(step_count: int) -> None:
        until(lambda: len({message.body for message in taken}) == KEYS * step_count)

    first = java.consume(group, topic, orderly=True, on_message=taken.append)
    java.send(topic, steps(range(4)))
    until_taken(4)
    second = java.consume(group, topic, orderly=True, on_message=taken.append)
    java.send(topic, steps(range(4, 8)))
    until_taken(8)
    first.stop()
    java.send(topic, steps(range(8, STEPS)))
    until_taken(STEPS)
    second.stop()
    for order in range(KEYS):
        members = [message.id for message in taken if parsed(message)[0] == order]
        assert members == sorted(members), "the second member takes over, and the first gets no more"
        of_first, of_second = (
            [step for message in taken for o, step in [parsed(message)] if (message.id, o) == (member, order)]
            for member in (min(members), max(members))
        )
        assert of_first == list(range(len(of_first)))
        assert of_second == list(range(STEPS))[-len(of_second) :], "in order, to the last"
        assert len(of_first) + len(of_second) >= STEPS, "and without a gap"
