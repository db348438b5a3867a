"""The store against lists in a dict. Whatever is appended, rolled, flushed, closed and crashed, in any order, every
queue holds exactly what was committed to it, and every look-up finds it."""

import dataclasses
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from rmqproto.filters.message_filter import MessageFilter
from rmqproto.java.java_hash import tag_code
from rmqproto.message.properties import parse_untrusted
from rmqproto.message.record import BatchItem, StoredMessage, decode_record_untrusted, encode_batch
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import FlushMode
from rmqserver.store.results import GetStatus
from tests.support.clock import Clock

from .conftest import HOST, TINY

QUEUES = [("A", 0), ("A", 1), ("B", 7), ("C", 0)]
TAGS = ["", "red", "订单"]

queues = st.sampled_from(QUEUES)
bodies = st.binary(max_size=900)
tags = st.sampled_from(TAGS)
Expected = tuple[bytes, str, str]
"""Body, tag, unique key."""


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.directory = self.root / "store"
        self.clock = Clock()
        self.visible: dict[tuple[str, int], list[Expected]] = {queue: [] for queue in QUEUES}
        self.written: dict[tuple[str, int], list[Expected]] = {queue: [] for queue in QUEUES}
        self.pending: list[tuple[tuple[str, int], Expected]] = []
        self.looks = 0
        self.number = 0
        self.copies = 0

    @initialize(mode=st.sampled_from(FlushMode))
    def open_empty(self, mode: FlushMode) -> None:
        self.options = dataclasses.replace(TINY, flush_mode=mode)
        self.open()

    def open(self) -> None:
        self.store = MessageStore(self.directory, self.options, clock_ms=self.clock, background=False)
        self.store.open()

    def teardown(self) -> None:
        for queue in QUEUES:
            self.queue_holds_what_was_committed(queue)
        self.store.close()
        shutil.rmtree(self.root)

    def properties(self, tag: str) -> bytes:
        self.number += 1
        return f"UNIQ_KEY\x01U{self.number}\x02TAGS\x01{tag}\x02".encode()

    @rule(queue=queues, body=bodies, tag=tags)
    def append(self, queue: tuple[str, int], body: bytes, tag: str) -> None:
        properties = self.properties(tag)
        appended = self.store.append(*queue, 0, 0, 1, HOST, HOST, 0, body, properties)
        position = len(self.written[queue]) + sum(other == queue for other, _ in self.pending)
        assert appended.queue_offset == position
        self.pending.append((queue, (body, tag, f"U{self.number}")))

    @rule(queue=queues, some=st.lists(st.tuples(st.binary(max_size=100), tags), min_size=1, max_size=5))
    def append_batch(self, queue: tuple[str, int], some: list[tuple[bytes, str]]) -> None:
        items = []
        for body, tag in some:
            items.append(BatchItem(0, body, self.properties(tag)))
            self.pending.append((queue, (body, tag, f"U{self.number}")))
        first, offsets = self.store.append_batch(*queue, 0, 1, HOST, HOST, 0, encode_batch(items))
        assert offsets[0] == first.log_offset
        assert offsets[0] // 4096 == offsets[-1] // 4096

    @rule()
    def commit(self) -> None:
        self.store.commit()
        for queue, expected in self.pending:
            self.written[queue].append(expected)
        self.pending.clear()
        if self.options.flush_mode is FlushMode.ASYNC:
            self.everything_is_visible()

    def everything_is_visible(self) -> None:
        self.visible = {queue: list(found) for queue, found in self.written.items()}

    @rule()
    def flush(self) -> None:
        self.commit()
        self.store.flush()
        self.everything_is_visible()

    @rule()
    def dispatch_some(self) -> None:
        self.store.dispatch_some()

    @rule()
    def pass_time(self) -> None:
        self.clock.now_ms += 500

    @rule()
    def close_and_open(self) -> None:
        self.commit()
        assert self.store.close()
        self.everything_is_visible()
        self.open()

    @rule()
    def kill_and_open_in_place(self) -> None:
        """A kill on a machine that stays up."""
        self.store.abandon()
        self.pending.clear()
        self.everything_is_visible()
        self.open()

    @rule()
    def kill_and_open(self) -> None:
        """Opens the files as the kernel has them now. Messages that were appended but not committed are gone."""
        self.copies += 1
        self.directory = self.root / f"copy{self.copies}"
        shutil.copytree(self.store.directory.root, self.directory)
        self.store.commit()
        self.store.close()
        self.pending.clear()
        self.everything_is_visible()
        self.open()

    @invariant()
    def one_queue_holds_what_was_committed(self) -> None:
        """The other queues stay unopened, perhaps across several starts."""
        self.looks += 1
        self.queue_holds_what_was_committed(QUEUES[self.looks % len(QUEUES)])

    def queue_holds_what_was_committed(self, queue: tuple[str, int]) -> None:
        topic, queue_id = queue
        expected = self.visible[queue]
        assert self.store.max_offset(topic, queue_id) == len(expected)
        found = self.read(topic, queue_id)
        assert [(m.body, m.properties.get("TAGS", ""), m.properties["UNIQ_KEY"]) for m in found] == expected
        assert [m.queue_offset for m in found] == list(range(len(expected)))

    def read(self, topic: str, queue_id: int) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        while len(found) < self.store.max_offset(topic, queue_id):
            result = self.store.get(topic, queue_id, len(found), 32)
            assert result.status is GetStatus.FOUND
            found += [decode_record_untrusted(record) for record in result.records()]
            assert result.next_offset == len(found)
        return found

    @rule(queue=queues, tag=tags, stage=st.sampled_from([1, 2]))
    def a_filtered_read_finds_the_tag(self, queue: tuple[str, int], tag: str, stage: int) -> None:
        expected = [body for body, other, _ in self.visible[queue] if other == tag]
        first = MessageFilter(tag_code(tag).__eq__)
        second = MessageFilter(None, lambda properties: parse_untrusted(properties).get("TAGS", "") == tag)
        found: list[bytes] = []
        offset = 0
        while offset < self.store.max_offset(*queue):
            result = self.store.get(*queue, offset, 32, wanted=first if stage == 1 else second)
            assert result.next_offset > offset
            offset = result.next_offset
            found += [decode_record_untrusted(record).body for record in result.records()]
        assert found == expected

    @rule(queue=queues, data=st.data())
    def a_query_finds_the_unique_key(self, queue: tuple[str, int], data: st.DataObject) -> None:
        if self.visible[queue]:
            body, _, unique = data.draw(st.sampled_from(self.visible[queue]))
            found = self.store.query(queue[0], unique, 64, 0, 1 << 60)
            assert body in [decode_record_untrusted(record).body for record in found.records]


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=30, stateful_step_count=30)
