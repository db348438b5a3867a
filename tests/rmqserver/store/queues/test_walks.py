"""A filter's second stage: which messages a pull returns, where the next pull goes on, and how much is read."""

import dataclasses
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.filters.message_filter import AcceptsValues, MessageFilter
from rmqproto.filters.sql92 import compile_sql92_for_records, compile_sql92_for_values
from rmqproto.java.java_hash import tag_code
from rmqproto.message.properties import parse_untrusted
from rmqproto.message.record import StoredMessage, decode_record_untrusted, encode_record, host_bytes
from rmqserver.core import IS_NATIVE, simple
from rmqserver.store.disk.disk import OsDisk, OsFile
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import StoreOptions
from rmqserver.store.queues import walks
from rmqserver.store.queues.consume_queue import UNIT
from rmqserver.store.queues.walks import READ_BYTES_MAX, is_wanted_untrusted
from rmqserver.store.results import GetResult, GetStatus

from ..conftest import TINY, MakeStore, put

ROOMY = dataclasses.replace(TINY, commit_log_file_size_bytes=1 << 20, filter_scan_bytes_max=12 * 20)
RED = tag_code("red")


def number(properties: bytes) -> int:
    return int(parse_untrusted(properties)["n"])


def is_even(properties: bytes) -> bool:
    return number(properties) % 2 == 0


EVEN = MessageFilter(None, is_even)
RED_AND_EVEN = MessageFilter(RED.__eq__, is_even)


def bodies(result: GetResult) -> list[bytes]:
    return [decode_record_untrusted(record).body for record in result.records()]


def put_numbered(store: MessageStore, numbers: list[int], tags: str = "", **more: Any) -> None:
    for number in numbers:
        put(store, body=b"%d" % number, tags=tags, properties=b"n\x01%d\x02" % number, **more)
    store.commit()


def expected(numbers: list[tuple[int, bool]], start: int, max_count: int, *, red_only: bool) -> tuple[list[bytes], int]:
    """What ``DefaultMessageStore.getMessage`` does: a message that no stage takes only counts against the limit of the
    scan, and a full batch is noticed before the next unit."""
    found: list[bytes] = []
    at = start
    for number, is_red in numbers[start : start + max(12, max_count)]:
        if len(found) >= max_count and found:
            break
        at += 1
        if (is_red or not red_only) and number % 2 == 0:
            found.append(b"%d" % number)
    return found, at


@given(
    st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=40),
    st.integers(0, 39),
    st.integers(0, 15),
    st.booleans(),
    st.sampled_from([host_bytes("127.0.0.1", 1), host_bytes("::1", 1)]),
)
def test_a_pull_goes_on_behind_the_last_unit_it_looked_at(
    numbers: list[tuple[int, bool]], start: int, max_count: int, red_only: bool, host: bytes
) -> None:
    start %= len(numbers)
    with TemporaryDirectory() as directory:
        store = MessageStore(Path(directory, "store"), ROOMY, background=False)
        store.open()
        for number, is_red in numbers:
            put_numbered(store, [number], "red" if is_red else "", born_host=host)
        result = store.get("T", 0, start, max_count, wanted=RED_AND_EVEN if red_only else EVEN)
        store.close()
    found, next_offset = expected(numbers, start, max_count, red_only=red_only)
    assert (bodies(result), result.next_offset) == (found, next_offset)
    assert result.status is (GetStatus.FOUND if found else GetStatus.NO_MATCHED_MESSAGE)
    assert result.is_loaded


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40), st.integers(0, 300)), min_size=1, max_size=100),
    st.integers(1, 40),
    st.integers(1, 20_000),
)
def test_a_pull_stops_at_its_limits_among_messages_of_other_queues(
    messages: list[tuple[int, int, int]], max_count: int, max_bytes: int
) -> None:
    """``messages``: number, body size, and size of another queue's message before it. Several messages are read in one
    go here."""
    options = dataclasses.replace(ROOMY, commit_log_file_size_bytes=16 << 10, filter_scan_bytes_max=100 * 20)
    found: list[int] = []
    with TemporaryDirectory() as directory:
        store = MessageStore(Path(directory, "store"), options, background=False)
        store.open()
        for number, size, before in messages:
            if before > 150:
                put(store, "Other", body=bytes(before))
            found.append(put(store, body=bytes(size), properties=b"n\x01%d\x02" % number).size_bytes)
        store.commit()
        result = store.get("T", 0, 0, max_count, max_bytes, wanted=EVEN)
        store.close()
    taken: list[int] = []
    seen, total = 0, 0
    for (number, _, _), size in zip(messages, found, strict=True):
        if taken and (len(taken) >= min(max_count, 32) or total + size > max(max_bytes, 100)):
            break
        seen += 1
        if number % 2 == 0:
            taken.append(number)
            total += size
    numbers = [int(decode_record_untrusted(record).properties["n"]) for record in result.records()]
    assert (numbers, result.next_offset, sum(result.sizes)) == (taken, seen, total)


def test_damaged_units_hide_no_neighbour(make_store: MakeStore) -> None:
    store = make_store(options=ROOMY)
    put_numbered(store, [0, 2, 4, 6, 8])
    queue = store.queues.find("T", 0)
    units = list(UNIT.iter_unpack(queue.tail))
    for at, (log_offset, size) in ((1, (units[3][0], units[1][1])), (3, (units[1][0], units[3][1]))):  # the same sum
        queue.tail[at * 20 : at * 20 + 20] = UNIT.pack(log_offset, size, 0)
    assert bodies(store.get("T", 0, 0, 32, wanted=EVEN)) == [b"0", b"6", b"4", b"2", b"8"]
    queue.tail[20:40] = UNIT.pack(-5, units[1][1] + 8, 0)
    queue.tail[60:80] = UNIT.pack(1 << 40, units[3][1], 0)
    assert bodies(store.get("T", 0, 0, 32, wanted=EVEN)) == [b"0", b"4", b"8"]


def test_the_second_stage_is_asked_only_what_the_first_takes(make_store: MakeStore) -> None:
    store = make_store(options=ROOMY)
    put_numbered(store, [1, 2])
    put_numbered(store, [3, 4], tags="red")
    asked: list[int] = []
    wanted = MessageFilter(RED.__eq__, lambda properties: not asked.append(number(properties)))
    assert bodies(store.get("T", 0, 0, 32, wanted=wanted)) == [b"3", b"4"]
    assert asked == [3, 4]


def test_one_call_reads_no_more_than_its_part(make_store: MakeStore) -> None:
    size = 1 << 20
    options = dataclasses.replace(ROOMY, commit_log_file_size_bytes=32 << 20, message_size_max_bytes=size)
    store = make_store(options=options)
    for _ in range(10):
        put(store, body=bytes(size))
    store.commit()
    result = store.get("T", 0, 0, 32, wanted=MessageFilter(None, lambda properties: False))
    assert result.status is GetStatus.NO_MATCHED_MESSAGE
    assert result.next_offset == READ_BYTES_MAX // size


# --- in C ------------------------------------------------------------------------------------------------------------

names = st.sampled_from(["a", "b", "ab", "n"])
entries = st.builds("{}\x01{}\x02".format, names, st.text("ab5\x01\xff", max_size=3))
raw_properties = st.lists(st.one_of(entries, st.text("ab\x01\x02", max_size=3))).map(
    lambda parts: "".join(parts).encode("latin-1")
)
hosts = st.sampled_from([host_bytes("127.0.0.1", 1), host_bytes("::1", 1)])
EMPTY = StoredMessage(
    size_bytes=0, body_crc=0, queue_id=0, flag=0, queue_offset=0, log_offset=0, sys_flag=0, born_timestamp_ms=0,
    born_host=host_bytes("127.0.0.1", 1), store_timestamp_ms=0, store_host=host_bytes("127.0.0.1", 1),
    reconsume_times=0, prepared_transaction_offset=0, body=b"", topic="T", properties_raw=b"",
)  # fmt: skip
records = st.builds(
    lambda **fields: encode_record(msgspec.structs.replace(EMPTY, **fields)),
    properties_raw=raw_properties, body=st.binary(max_size=9), topic=st.sampled_from(["T", "T" * 200]), born_host=hosts,
    store_host=hosts,
)  # fmt: skip


FILTER = "a = '5' AND n IS NULL OR ab > 4"


@given(
    st.lists(records, min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0), st.integers(1, 255)), max_size=2),
    st.lists(st.integers(-3, 3), max_size=4),
    st.integers(0, 5),
    st.integers(0, 1 << 40),
)
def test_records_are_taken_in_c_as_in_python(
    whole: list[bytes], damage: list[tuple[int, int]], shifts: list[int], count_max: int, base: int
) -> None:
    """``shifts``: the distances of units from their records."""
    take_wanted = pytest.importorskip("rmqserver.core._core").take_wanted
    by_values = compile_sql92_for_values(FILTER)
    accepts = compile_sql92_for_records(FILTER)
    data = bytearray(b"".join(whole))
    for at, bits in damage:
        data[at % len(data)] ^= bits
    ends = list(accumulate(map(len, whole)))
    shifted = zip(shifts + [0] * len(whole), ends, whole, strict=False)
    units = b"".join(UNIT.pack(base + end - len(each) + by, len(each), 0) for by, end, each in shifted)
    in_python = [b"before"]
    seen = simple.take_wanted(bytes(data), units, base, accepts, by_values, in_python, count_max)
    for values in (by_values, None):
        in_c = [b"before"]
        assert take_wanted(bytes(data), units, base, accepts, values, in_c, count_max) == seen
        assert in_c == in_python
    if not any(shifts) and not damage:
        wanted = [each for each in whole if is_wanted_untrusted(each, accepts)]
        assert in_c[1:] == wanted[: max(count_max - 1, 0)]


def test_the_native_part_refuses_what_would_read_beside_its_memory() -> None:
    native = pytest.importorskip("rmqserver.core._core")
    data, name, found = bytes(200), b"a\x01", list[bytes]()

    def take(*places: tuple[int, int], base: int = 0, **other: Any) -> int:
        units = b"".join(UNIT.pack(*place, 0) for place in places)
        given = {"data": data, "units": units, "by_values": ((name,), bool), "records": found} | other
        seen: int = native.take_wanted(
            given["data"], given["units"], base, bool, given["by_values"], given["records"], 9
        )
        return seen

    for place in ((-1, 100), (0, 201), (201, 0), (101, 100), (1 << 62, 0x7FFFFFFF), (0, -1), (0, 90), (-1 << 63, 100)):
        assert take(place) == take((0, 100), place) == 0
        assert simple.take_wanted(data, UNIT.pack(*place, 0), 0, bool, None, found, 9) == 0
    assert take((50, 100), (149, 51 + 40)) == 0, "they overlap"
    assert take((0, 100), base=1) == take((1, 201), base=1) == 0
    assert (take((0, 100), (100, 100)), take((7, 200), base=7), take(), found) == (2, 1, 0, [])
    for units, base in ((bytes(19), 0), (bytes(20), -1)):
        with pytest.raises(ValueError, match="no base, or no whole units"):
            take(units=units, base=base)
        with pytest.raises(ValueError, match="no base, or no whole units"):
            simple.take_wanted(data, units, base, bool, None, found, 9)
    for odd in (
        {"data": bytearray(200)}, {"by_values": ([name], bool)}, {"by_values": (("a",), bool)},
        {"by_values": ((name,),)}, {"by_values": 1}, {"records": ()}, {"units": "a"},
    ):  # fmt: skip
        with pytest.raises(TypeError):
            take((0, 100), **odd)
    record = encode_record(EMPTY)
    for accepts, error in ((None, TypeError), (lambda value: 1 // 0, ZeroDivisionError)):
        with pytest.raises(error):
            native.take_wanted(record, UNIT.pack(0, len(record), 0), 0, bool, ((name,), accepts), found, 9)
        with pytest.raises(error):
            native.take_wanted(record, UNIT.pack(0, len(record), 0), 0, accepts, None, found, 9)
    many = (tuple(b"%d\x01" % number for number in range(33)), None)  # too many to be looked up
    assert native.take_wanted(record, UNIT.pack(0, len(record), 0), 0, lambda raw: not raw, many, found, 9) == 1
    assert found == [record]


@pytest.mark.parametrize("is_native", [True, False])
def test_a_filter_by_values_takes_what_one_by_properties_takes(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch, is_native: bool
) -> None:
    if is_native and not IS_NATIVE:
        pytest.skip("it was installed without a C compiler")
    if not is_native:
        monkeypatch.setattr(walks, "take_wanted", simple.take_wanted)
    store = make_store(options=ROOMY)
    put_numbered(store, list(range(9)))
    asked: list[tuple[bytes | None, ...]] = []

    def accepts(*values: bytes | None) -> bool:
        asked.append(values)
        return int(values[0] or b"") % 2 == 0

    wanted = MessageFilter(None, is_even, AcceptsValues((b"n\x01", b"m\x01"), accepts))
    assert bodies(store.get("T", 0, 0, 4, wanted=wanted)) == [b"0", b"2", b"4", b"6"]
    assert asked == ([(b"%d" % number, None) for number in range(7)] if is_native else [])


# --- not in memory ---------------------------------------------------------------------------------------------------


class SlowFile(OsFile):
    """A file of which nothing is in memory."""

    __slots__ = ()

    def pread_cached(self, size_bytes: int, at: int) -> bytes | None:
        return None


class SlowDisk(OsDisk):
    def open(self, path: str, **more: Any) -> OsFile:
        file = super().open(path, **more)
        file.__class__ = SlowFile
        return file


@pytest.mark.parametrize(
    ("numbers", "status", "found"),
    [([1, 2, 4], GetStatus.FOUND, [b"2", b"4"]), ([1, 3], GetStatus.NO_MATCHED_MESSAGE, [])],
)
def test_what_is_not_in_memory_is_looked_at_in_load(
    make_store: MakeStore, numbers: list[int], status: GetStatus, found: list[bytes]
) -> None:
    large = 33 << 20  # the store assumes that the newest 32 MiB are in memory
    options = StoreOptions(commit_log_file_size_bytes=64 << 20, message_size_max_bytes=large, index_enabled=False)
    store = make_store(options=options, disk=SlowDisk())
    put_numbered(store, numbers)
    put(store, "Large", body=bytes(large))
    store.commit()
    result = store.get("T", 0, 0, 32, wanted=EVEN, cached_only=True)
    assert (result.status, result.next_offset, result.is_loaded) == (GetStatus.FOUND, 0, False)
    store.load(result)
    assert result.is_loaded
    assert (result.status, result.next_offset, bodies(result)) == (status, len(numbers), found)


def test_a_damaged_record_is_nobody_s(make_store: MakeStore) -> None:
    store = make_store()
    put_numbered(store, [2])
    (record,) = store.get("T", 0, 0, 1).records()
    assert is_wanted_untrusted(record, is_even)
    assert not any(is_wanted_untrusted(record[:size], is_even) for size in range(len(record)))
    assert not is_wanted_untrusted(record[:84] + b"\x7f" + record[85:], is_even)
    assert not is_wanted_untrusted(record[:84] + b"\xff" + record[85:], is_even)
