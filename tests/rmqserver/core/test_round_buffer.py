"""The native RoundBuffer and its twin take the same messages, and make the same bytes of them."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqproto.message.properties import PROPERTIES_SIZE_MAX_BYTES
from rmqproto.message.record import BatchItem, decode_records_untrusted, encode_batch, host_bytes
from rmqserver.core import ENTRY, RoundBuffer, packed, round_buffer
from rmqserver.store import fate
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.disk.segments import FileCache, SegmentedFile
from rmqserver.store.queues.consume_queue import ConsumeQueue
from rmqserver.store.queues.consume_queues import Topic
from rmqserver.store.running_flags import DISK_FULL, RunningFlags

V4, V6 = host_bytes("127.0.0.1", 10911), host_bytes("::1", 10911)
NOW_MS = 1_700_000_000_123
BODY_MAX_BYTES = 300
TOPICS = ["T", "тема", "t" * 127, "t" * 128, "%RETRY%" + "g" * 248, "%RETRY%" + "g" * 249, "SCHEDULE_TOPIC_XXXX"]

names = st.sampled_from([b"UNIQ_KEY", b"UNIQ_KEY", b"KEYS", b"TAGS", b"DELAY", b"A", b"", b"xTAGS", "ключ".encode()])
texts = st.sampled_from(
    [b"", b"a", b"7F000001ABCD", b"a b", b" a  b ", "ключ ключ".encode(), b"\xff\xfe \xf0\x9f", b"k" * 300]
)
properties_of = st.lists(
    st.one_of(
        st.tuples(names, texts).map(lambda pair: b"%b\x01%b\x02" % pair),
        st.sampled_from([b"TAGS\x01", b"KEYS", b"\x02", b"\x01", b"\x00", b"last"]),
    ),
    max_size=6,
).map(b"".join)  # fmt: skip
properties = st.one_of(
    properties_of,
    properties_of,
    st.sampled_from([b"p" * PROPERTIES_SIZE_MAX_BYTES, b"p" * (PROPERTIES_SIZE_MAX_BYTES + 1)]),
)
small = st.sampled_from([0, 1, -1, (1 << 31) - 1, -(1 << 31), 1 << 31])
large = st.sampled_from([0, 1, -1, (1 << 63) - 1, 1 << 63])
sys_flags = st.sampled_from([0, 0, 1, 0x4, 0x8, 0xC, 0x10, 0x30, 0x80, 1 << 31])
hosts = st.sampled_from([V4, V4, V6])
bodies = st.one_of(st.binary(max_size=100), st.sampled_from([b"b" * BODY_MAX_BYTES, b"b" * (BODY_MAX_BYTES + 1)]))
messages = st.tuples(
    st.sampled_from([0, 0, 1, 7]), small, sys_flags, large, hosts, hosts, small, bodies, properties, large,
    st.sampled_from([None, None, 5, -1, (1 << 63) - 1]),
)  # fmt: skip
batches = st.one_of(
    st.lists(st.builds(BatchItem, st.just(3), bodies, properties), max_size=5).map(encode_batch),
    st.lists(st.builds(BatchItem, st.just(3), st.just(b"b"), properties_of), min_size=1, max_size=3).map(encode_batch),
    st.binary(max_size=60),
)
steps = st.one_of(
    st.tuples(st.just("append"), st.sampled_from(TOPICS), st.integers(0, 1), messages),
    st.tuples(st.just("append_batch"), st.sampled_from(TOPICS), st.integers(0, 1),
              st.tuples(st.just(1), sys_flags, large, hosts, hosts, small, batches)),
    st.tuples(st.just("dispatch"), st.sampled_from(TOPICS), st.integers(0, 1),
              st.tuples(st.just(77), st.just(99), texts)),
    st.tuples(st.just("take"), st.booleans(), st.just(0), st.just(())),
)  # fmt: skip


class Room:
    """A RoundBuffer with its topics and queues, and what it told."""

    def __init__(self, kind: Callable[..., Any], *, indexed_bits: int = fate.INDEXED, room: int = 70_000):
        self.flags = RunningFlags()
        self.round = kind(lambda: NOW_MS, self.flags)
        self.round.end_offset, self.round.records_end_offset = 1000, 1000 + room
        self.round.body_size_max_bytes, self.round.indexed_bits = BODY_MAX_BYTES, indexed_bits
        self.topics = {name: Topic(name) for name in TOPICS}
        disk = OsDisk()
        for name, topic in self.topics.items():
            for queue_id in (0, 1):
                segments = SegmentedFile("unused", 1000, disk, FileCache(disk, 1))
                topic.queues[queue_id] = ConsumeQueue(name, queue_id, segments)

    def does(self, step: str, topic: str, queue_id: int, given: tuple[Any, ...]) -> Any:
        if step == "take":
            touched = [(queue.topic, queue.queue_id) for queue in self.round.take_touched()]
            return self.round.take(), packed(self.round.take_entries()), touched, self.round.is_empty
        queue = self.topics[topic].queues[queue_id]
        if step == "dispatch":
            return self.round.dispatch(queue, *given)
        more = (None,) if step == "append" else ()
        return getattr(self.round, step)(self.topics[topic], queue, *given, *more)

    def state(self) -> Any:
        queues = [
            (queue.topic, queue.queue_id, queue.next_offset, bytes(queue.tail), queue.is_touched)
            for topic in self.topics.values()
            for queue in topic.queues.values()
        ]
        return self.round.end_offset, self.round.last_record_offset, queues


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@settings(deadline=None, max_examples=60)
@given(st.lists(steps, max_size=12), st.sampled_from([fate.INDEXED, 0]), st.sampled_from([70_000, 700]))
def test_both_make_the_same(given_steps: list[tuple[str, Any, int, tuple[Any, ...]]], indexed: int, room: int) -> None:
    pytest.importorskip("rmqserver.core._core")
    native, plain = (Room(kind, indexed_bits=indexed, room=room) for kind in (RoundBuffer, round_buffer.RoundBuffer))
    for step in [*given_steps, ("take", "T", 0, ())]:
        before = native.state()
        answer = native.does(*step)
        assert answer == plain.does(*step)
        assert native.state() == plain.state()
        assert answer is not None or step[0] == "dispatch" or native.state() == before


@pytest.fixture(params=["native", "plain"])
def room(request: pytest.FixtureRequest) -> Room:
    if request.param == "native":
        return Room(pytest.importorskip("rmqserver.core._core").RoundBuffer)
    return Room(round_buffer.RoundBuffer)


def append(room: Room, body: Any = b"body", properties: bytes = b"", topic: str = "T", **odd: Any) -> Any:
    fields = {"queue_id": 0, "flag": 0, "sys_flag": 0, "born_ms": 5, "born_host": V4, "store_host": V4, "times": 0}
    return room.does("append", topic, 0, (*{**fields, **odd}.values(), body, properties, 0, None))


def test_it_appends_a_record_its_unit_and_its_entries(room: Room) -> None:
    assert append(room, memoryview(b"body"), b"KEYS\x01a b\x02TAGS\x01t\x02") == round_buffer.Appended(1000, 112, 0)
    (record,) = decode_records_untrusted(room.round.take())
    assert (record.body, record.properties, record.store_timestamp_ms) == (
        b"body",
        {"KEYS": "a b", "TAGS": "t"},
        NOW_MS,
    )
    entries = list(ENTRY.iter_unpack(packed(room.round.take_entries())))
    assert [entry[1:] for entry in entries] == [(0, 1000, NOW_MS), (0, 1000, NOW_MS), (2, 1000, NOW_MS)]


def test_it_leaves_what_may_have_to_be_refused(room: Room) -> None:
    before = room.state()
    odd: list[dict[str, Any]] = [
        {"body": b"b" * (BODY_MAX_BYTES + 1)}, {"properties": b"A\x01\x00\x02"}, {"topic": "t" * 128},
        {"sys_flag": 0x80}, {"flag": 1 << 31}, {"properties": b"p" * (PROPERTIES_SIZE_MAX_BYTES + 1)},
    ]  # fmt: skip
    assert [append(room, **each) for each in odd] == [None] * len(odd)
    room.round.records_end_offset = room.round.end_offset + 95
    assert append(room) is None
    assert append(room, b"bod") is not None
    room.flags.set(DISK_FULL, "full")
    room.round.records_end_offset += 1000
    assert append(room) is None
    assert room.state()[0] == before[0] + 95


def test_its_bits_are_those_of_a_fate() -> None:
    assert (round_buffer._QUEUED, round_buffer._DUE_TIME, round_buffer._FATE_MASK) == (
        fate.QUEUED, fate.DUE_TIME, fate.FATE_MASK,
    )  # fmt: skip
