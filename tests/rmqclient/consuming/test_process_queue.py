"""What a consumer holds of a queue."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rmqclient.consuming.process_queue import ProcessQueue
from rmqproto.message.record import StoredMessage

HOST = b"\x7f\0\0\1\0\0\0\0"
TEMPLATE = StoredMessage(100, 0, 0, 0, 0, 0, 0, 0, HOST, 0, HOST, 0, 0, b"x", "T", b"")


def message(queue_offset: int, size_bytes: int = 100) -> StoredMessage:
    return msgspec.structs.replace(TEMPLATE, queue_offset=queue_offset, size_bytes=size_bytes)


def test_one_slow_message_holds_the_offset_back() -> None:
    """If the offset passed the slow message, it would be lost should its consumer die."""
    queue = ProcessQueue(10)
    queue.put([message(10), message(11), message(12)], 13)
    queue.settle(message(11))
    queue.settle(message(12))
    assert queue.committed_offset == 10
    queue.settle(message(10))
    assert queue.committed_offset == 13


def test_messages_that_nobody_wanted_are_passed_over() -> None:
    """A filtering broker answers how far it looked. Otherwise a rare tag would never move the group's offset."""
    queue = ProcessQueue(0)
    queue.put([], 500)
    assert queue.committed_offset == 500
    queue.put([message(510)], 700)
    assert queue.committed_offset == 510
    queue.settle(message(510))
    assert queue.committed_offset == 700


def test_what_is_unsettled_is_counted() -> None:
    queue = ProcessQueue(0)
    queue.put([message(3, 10), message(8, 20)], 9)
    assert (queue.count, queue.size_bytes, queue.span) == (2, 30, 5)
    assert (queue.oldest_offset, queue.newest_offset) == (3, 8)
    queue.settle(message(3, 10))
    queue.settle(message(3, 10))
    assert (queue.count, queue.size_bytes, queue.span) == (1, 20, 0)
    queue.settle(message(8, 20))
    assert (queue.count, queue.size_bytes, queue.span) == (0, 0, 0)


@given(data=st.data(), start=st.integers(0, 50))
def test_everything_before_the_committed_offset_is_settled_and_nothing_more(data: st.DataObject, start: int) -> None:
    queue, unsettled, scanned_to, committed = ProcessQueue(start), set[int](), start, start
    for _ in range(data.draw(st.integers(1, 30))):
        if unsettled and data.draw(st.booleans()):
            done = data.draw(st.sampled_from(sorted(unsettled)))
            unsettled.remove(done)
            queue.settle(message(done))
        else:
            found = sorted(data.draw(st.sets(st.integers(scanned_to, scanned_to + 20), max_size=8)))
            scanned_to = data.draw(st.integers(max([scanned_to, *(offset + 1 for offset in found)]), scanned_to + 25))
            unsettled.update(found)
            queue.put([message(offset) for offset in found], scanned_to)
        expected = min(unsettled, default=scanned_to)
        assert queue.committed_offset == max(committed, expected)
        assert queue.committed_offset <= expected
        committed = queue.committed_offset
        assert queue.count == len(unsettled)
