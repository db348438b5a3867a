import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import UsageError
from rmqreplay.source.offset_ranges import OffsetRange
from spark_tools.streaming.offsets import StreamOffset, parse_offset, ranges_between

queues = st.builds(MessageQueue, st.sampled_from(["T", "%DLQ%g"]), st.sampled_from(["b", "a/b"]), st.integers(0, 9))
places = st.dictionaries(queues, st.integers(0, 2**62), max_size=5)
A, B = MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)


@given(places, places, st.booleans())
def test_an_offset_comes_back_from_its_json(ends: dict, begun: dict, is_initial: bool) -> None:
    offset = StreamOffset(ends, begun, is_initial=is_initial, first={queue: (at, 7) for queue, at in begun.items()})
    assert parse_offset(json.loads(json.dumps(offset.to_json()))) == offset


@pytest.mark.parametrize(
    ("given_json", "words"),
    [
        ({"topic": {"0": 23}}, "none of the rocketmq source"),
        (12, "none of the rocketmq source"),
        ({"source": "rocketmq", "version": 2, "queues": {}}, "has version 2; this rmqadmin knows 1"),
        ({"source": "rocketmq", "version": 1}, "damaged"),
        ({"source": "rocketmq", "version": 1, "queues": {"T/b/0": "x"}}, "damaged"),
        ({"source": "rocketmq", "version": 1, "queues": {"T/b/0": -1}}, "damaged"),
        ({"source": "rocketmq", "version": 1, "queues": {"nothing": 1}}, "damaged"),
        ({"source": "rocketmq", "version": 1, "queues": {}, "first": {"T/b/0": [1]}}, "damaged"),
    ],
)
def test_an_offset_of_somebody_else_is_refused_in_words(given_json: object, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_offset(given_json)


def test_a_batch_that_is_repeated_begins_where_it_began() -> None:
    """With "latest", the first batch after a crash would begin later than the batch that it repeats."""
    first_end = StreamOffset({A: 10, B: 3}, begun={A: 4, B: 3})
    assert ranges_between(StreamOffset({A: 9, B: 9}, is_initial=True), first_end) == [OffsetRange(A, 4, 10)]
    assert ranges_between(first_end, StreamOffset({A: 12, B: 3})) == [OffsetRange(A, 10, 12)]
    with pytest.raises(UsageError, match="where T/b/1 begins"):
        ranges_between(StreamOffset({A: 1}), StreamOffset({A: 1, B: 2}))
