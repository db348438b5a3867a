"""The native core when memory runs out: each allocation fails once. It raises MemoryError, or leaves work to Python. No
reference is lost or kept, and what stands in the log is whole."""

import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rmqproto.message.record import BatchItem, decode_records_untrusted, encode_batch
from rmqproto.wire import header_binary, header_json
from rmqproto.wire.frames import frame
from rmqserver import core
from rmqserver.core import INDEX_UNIT, FrameCutter, PlainSends, RoundBuffer
from rmqserver.doors.remoting.sent_answers import binary_sent_pieces, sent_pieces
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.disk.segments import FileCache, SegmentedFile
from rmqserver.store.fate import INDEXED, QUEUED
from rmqserver.store.queues.consume_queue import ConsumeQueue
from rmqserver.store.queues.consume_queues import Topic
from rmqserver.store.running_flags import RunningFlags
from tests.rmqserver.broker.consuming.test_pull_plans import Bench, header_of
from tests.rmqserver.core.test_round_buffer import NOW_MS, V4, V6
from tests.rmqserver.doors.grpc.test_plain_receives import stored

testcapi = pytest.importorskip("_testcapi", reason="this Python cannot have its allocations fail")

pytestmark = pytest.mark.skipif(not core.IS_NATIVE, reason="the native core is not built")

WHOLE_MIN = 12
"""After so many runs without a failure in a row, the work has no further allocation."""
PROPERTIES = "UNIQ_KEY\x017F00\x02KEYS\x01k é\x02TAGS\x01t\x02"
FIELDS = {"b": "T", "e": "0", "g": "1700000000000", "i": PROPERTIES}
BATCH = encode_batch([BatchItem(0, b"body", text.encode()) for text in (PROPERTIES, "", "TAGS\x01é")])
FIRST = 1 << 33
"""Where the log goes on."""


@pytest.fixture(scope="module", autouse=True)
def no_collector() -> Iterator[None]:
    """What it collects has references, too."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def each_fails(run: Callable[[Callable[..., Any]], bool]) -> None:
    """``run`` is called again and again, with a function that calls another while the next allocation in turn fails. It
    returns whether one did. What is called must not make a function: Python 3.12 and 3.13 crash without memory for it.
    """
    number = whole = 0
    while whole < WHOLE_MIN:

        def failing(call: Callable[..., Any], *args: Any, number: int = number) -> Any:
            testcapi.set_nomemory(number, number + 1)
            try:
                return call(*args)
            finally:
                testcapi.remove_mem_hooks()

        whole = 0 if run(failing) else whole + 1
        number += 1
    assert number > WHOLE_MIN


def counts(objects: list[Any]) -> list[int]:
    return [sys.getrefcount(each) for each in objects]


class Sending:
    """Plain sends to one queue of one topic, and what they need."""

    def __init__(self, clock_ms: Callable[[], int] = lambda: NOW_MS) -> None:
        disk = OsDisk()
        self.topic, self.queue = (
            Topic("T"),
            ConsumeQueue("T", 0, SegmentedFile("unused", 1000, disk, FileCache(disk, 1))),
        )
        self.topic.queues[0] = self.queue
        self.round = RoundBuffer(clock_ms, RunningFlags())
        self.round.end_offset, self.round.records_end_offset = FIRST, FIRST + (1 << 20)
        self.round.body_size_max_bytes, self.round.indexed_bits = 1 << 20, INDEXED
        self.flow = SimpleNamespace(add=self.add)
        self.target = SimpleNamespace(is_plain=True, queue_limit=1, sys_flag=0, flow=self.flow)
        self.address = SimpleNamespace(advertised_host=None)
        long_names, names = (tuple((name + each).encode() for each in "abcdefghijklmn") for name in ("x", ""))
        self.sends = PlainSends(
            self.round, {"T": self.topic}, {"T": self.target}, self.address, lambda: "0" * 32, long_names, names,
            (b"DELAY",), b"PRODUCER_SEQ\x01", 1 << 30,
        )  # fmt: skip
        pieces = sent_pieces("r", "true") + binary_sent_pieces("r", "true")
        self.sends.configure(b"CLUSTER\x01c\x02", pieces, True)
        self.sends.admits = lambda *send: True
        self.owner = SimpleNamespace(born_host=V6, local_host=V4)
        self.passed: list[bytes] = []
        self.cutter = FrameCutter(self.pass_on, self.owner, [self.sends])
        self.seen = [
            self.owner, self.topic, self.queue, self.target, self.flow, self.address, self.topic.field,
            self.topic.fates, self.round, self.sends, V4, V6,
        ]  # fmt: skip

    def add(self, message_count: int, size_bytes: int, request_count: int) -> None: ...

    def pass_on(self, owner: object, codec: int, peeked: int, header: bytes, body: bytes) -> None:
        self.passed.append(header)

    def take(self) -> list[bytes]:
        """The records of the round, if all that belongs to them is there."""
        data, queue = self.round.take(), self.queue
        records = decode_records_untrusted(data)
        assert sum(each.size_bytes for each in records) == len(data) == self.round.end_offset - FIRST
        assert all(each.is_intact for each in records)
        offsets = [each.log_offset for each in records]
        assert queue.next_offset == len(offsets) == len(queue.tail) // 20
        assert self.round.take_touched() == ([queue] if records else [])
        assert {*core.log_offsets_of(core.packed(self.round.take_entries()))} == {*offsets}
        for puts in (self.sends.take_written(), self.sends.take_safe()):
            if puts is not None:
                assert {put[4] for put in puts.all()} <= {*offsets}
                assert len(self.sends.answers(puts)) == min(1, puts.count)
        return [each.body for each in records]


def in_json(code: int = 310, flag: int = 0, **fields: str) -> bytes:
    return header_json.encode(code, "JAVA", 0, 1, flag, None, FIELDS | fields)


SENDS = {
    "json": (frame(in_json(), b"body"), [b"body"]),
    "no key": (frame(in_json(i="WAIT\x01false\x02"), b"body"), [b"body"]),
    "no answer": (frame(in_json(flag=2, i="TAGS\x01é\x02"), b"body"), [b"body"]),
    "batch": (frame(in_json(320, m="true"), BATCH), [b"body"] * 3),
    "binary": (frame(header_binary.encode(310, "GO", 0, 1, 0, None, FIELDS), b"body", 1), [b"body"]),
}


@pytest.mark.parametrize("name", SENDS)
def test_sends(name: str) -> None:
    data, bodies = SENDS[name]

    def run(failing: Callable[..., Any]) -> bool:
        sending = Sending()
        before, error = counts(sending.seen), None
        try:
            failing(sending.cutter.feed_untrusted, data)
        except MemoryError as raised:
            error = raised.with_traceback(None)
        taken = sending.take()
        assert taken in ([], bodies)
        assert error is not None or bool(taken) != bool(sending.passed)
        assert counts(sending.seen) == before
        sending.round.end_offset, sending.queue.next_offset = FIRST, 0
        sending.queue.tail.clear()
        sending.passed.clear()
        cutter = FrameCutter(sending.pass_on, sending.owner, [sending.sends])
        cutter.feed_untrusted(data)
        assert (sending.take(), sending.passed) == (bodies, []), "it goes on"
        return error is not None

    each_fails(run)


@pytest.mark.parametrize("name", ["json", "batch", "binary"])
def test_answers(name: str) -> None:
    sending = Sending()
    sending.cutter.feed_untrusted(SENDS[name][0])
    puts = sending.sends.take_safe()
    for method, args in ((sending.sends.answers, (puts,)), (puts.all, ())):
        same_or_none(method, *args, seen=[sending.owner, puts, V4])


def test_cutting() -> None:
    """Frames that come in pieces, or together."""
    data = b"".join(frame(b'{"code":%d}' % number, b"b" * 9) for number in range(3))
    for pieces in ([data], [data[:30], data[30:41], data[41:]]):

        def run(failing: Callable[..., Any], pieces: list[bytes] = pieces) -> bool:
            owner, found = object(), list[bytes]()
            before = sys.getrefcount(owner)
            cutter = FrameCutter(lambda *cut: found.append(cut[3]), owner, [])
            try:
                failing(lambda: [cutter.feed_untrusted(piece) for piece in pieces])
            except MemoryError:
                failed = True
            else:
                failed = False
                assert len(found) == 3
            cutter.close()
            assert sys.getrefcount(owner) == before
            return failed

        each_fails(run)


def same_or_none(function: Callable[..., Any], *args: Any, seen: list[Any], error: Any = MemoryError) -> None:
    """Each time, a MemoryError or what it returns otherwise."""
    expected = function(*args)

    def run(failing: Callable[..., Any]) -> bool:
        before = counts(seen)
        try:
            found = failing(function, *args)
        except error:
            found = None
        assert found is None or found == expected
        failed = found is None
        del found
        assert counts(seen) == before
        return failed

    each_fails(run)


def test_what_the_store_has_made() -> None:
    sending = Sending()
    sending.cutter.feed_untrusted(SENDS["batch"][0])
    data, tail = sending.round.take(), bytes(sending.queue.tail)
    entries = core.packed(sending.round.take_entries())
    fates, marks, odd = bytes([QUEUED | INDEXED]) * 256, (b"DELAY\x01",), b"odd"
    same_or_none(
        core.plain_records, data, FIRST, fates, QUEUED, INDEXED, marks, odd, seen=[data, fates, marks, marks[0], odd]
    )
    assert len(core.record_starts(data, len(data))[0]) > 8
    same_or_none(core.record_starts, data, len(data), seen=[data])

    def units() -> tuple[bytes, int]:
        return core.index_units(entries, memoryview(bytearray(400)).cast("i"), 100, bytearray(1), 1, NOW_MS)

    assert len(units()[0]) % INDEX_UNIT.size == 0
    same_or_none(units, seen=[entries])

    def yes(*values: object) -> bool:
        return True

    def wanted(by_values: Any) -> list[bytes]:
        records: list[bytes] = []
        seen = core.take_wanted(data, tail, FIRST, yes, by_values, records, 10)
        assert seen == len(records) == 3
        return records

    names = (b"TAGS\x01", b"KEYS\x01")
    same_or_none(wanted, None, seen=[data, tail])
    same_or_none(wanted, (names, yes), seen=[data, tail, names, *names])


def test_signatures() -> None:
    keys, known, order = (b"AccessKey", b"Signature", b"a"), (b"me", None, b"1"), bytes((0, 2, 1))
    header = b'{"code":10,"extFields":{"AccessKey":"me","Signature":"s\\u0041","a":"1"}}'
    assert core.cut_signed(keys, order, known, 0, header, b"body") == (b"me1body", b"sA", True)
    same_or_none(core.cut_signed, keys, order, known, 0, header, b"body", seen=[keys, known, order, header])


def test_calls() -> None:
    names = b"\x0a\x03\x12\x01g"
    system = b"\x1a\x12\x0a\x01t\x12\x01k\x1a\x02id\x3a\x02\x08\x01\x42\x02ho"
    message = names + b"\x12\x06\x0a\x01a\x12\x01b" + system + b"\x22\x04body"
    send = b"\0\0\0\0%c\x0a%c%b" % (len(message) + 2, len(message), message)
    ack = b"\0\0\0\0\x22" + names + b"\x12\x03\x12\x01t\x1a\x16\x0a\x01i\x12\x11" + b"1 2 3 4 5 6 7 8 9"
    reserved = frozenset({b"c"})
    sent = core.cut_send(send, reserved, "ho")
    assert sent is not None
    assert (sent[0], sent[2:4], sent[5]) == ("g", (1000, b"body"), (b"id", b"k", b"t"))
    assert core.cut_ack(ack) == ("g", "t", b"i", b"1 2 3 4 5 6 7 8 9", "1 2 3 4 5 6 7", 8)
    same_or_none(core.cut_send, send, reserved, "ho", seen=[send, reserved])
    same_or_none(core.cut_ack, ack, seen=[ack])


def test_received_messages() -> None:
    record = stored([("UNIQ_KEY", "id"), ("TAGS", "t"), ("colour", "blue")])
    handles, tags, md5 = [b"h"], frozenset({"t"}), Md5()
    roles = {b"UNIQ_KEY": core.Role.UNIQUE_KEY, b"TAGS": core.Role.TAG}
    assert core.pack_received(record, b"T", handles, roles, tags, 9, md5) is not None
    same_or_none(
        core.pack_received, record, b"T", handles, roles, tags, 9, md5,
        seen=[record, handles, roles, tags, md5, md5.digested],
    )  # fmt: skip


class Md5:
    digested = bytes(range(200, 216))

    def __call__(self, body: bytes) -> "Md5":
        return self

    def digest(self) -> bytes:
        return self.digested


def test_pulls(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.put_many(40)
    bench.by_python(header_of())
    asked = header_of(3)
    answer, queue = bench.by_core(asked), bench.store.queues.find("T", 0)
    assert answer is not None
    seen = [queue, bench.store.log, bench.store.log.segments]
    bench.offsets()
    same_or_none(bench.by_core, asked, seen=seen, error=(MemoryError, AssertionError))
    read_run = core.PlainPulls(bench.store.log, 1 << 20, 1 << 40).read_run
    same_or_none(read_run, queue, 3, (8, 8, 1 << 20, 1 << 30), bench.store.log.written_offset, seen=seen)
    bench.close()
