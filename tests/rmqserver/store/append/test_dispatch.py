"""Dispatching the records of a copied log in C and in Python makes the same store."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rmqproto.message.record import host_bytes
from rmqserver.core import log_offsets_of, simple
from rmqserver.store.append import log_copy
from rmqserver.store.fate import fates
from rmqserver.store.message_store import MessageStore
from rmqserver.store.queues.consume_queue import UNIT
from tests.rmqserver.store.conftest import HOST, TINY, put
from tests.support.clock import Clock

FILE_SIZE_BYTES = TINY.commit_log_file_size_bytes
QUEUE_ID_AT, QUEUE_OFFSET_AT, LOG_OFFSET_AT = 12, 20, 28
HALF, COMMITTED, ROLLED_BACK = 4, 8, 12

names = st.sampled_from(["", "a", "ab", "ключ", "a b", "  ", "T#a"])
messages = st.fixed_dictionaries(
    {
        "topic": st.sampled_from(["T", "U", "SCHEDULE_TOPIC_XXXX", "%LLQ", "тема", "%RETRY%" + "x" * 200]),
        "queue_id": st.integers(0, 2),
        "body": st.binary(max_size=50),
        "tags": names,
        "keys": names,
        "unique": names,
        "sys_flag": st.sampled_from([0, 0, 0, HALF, COMMITTED, ROLLED_BACK]),
        "properties": st.sampled_from(
            [b"", b"TAGS\x01\x02", b"XTAGS\x01no\x02", b"TAGS\x01last\x02", b"DELAY\x013\x02", b"KEYS\x01"]
        ),
        "born_host": st.sampled_from([HOST, HOST, host_bytes("::1", 1)]),
    }
)


def message(topic: str, unique: str = "", sys_flag: int = 0, body: bytes = b"") -> dict[str, Any]:
    others = {"queue_id": 0, "body": body, "tags": "", "keys": "", "properties": b"", "born_host": HOST}
    return {"topic": topic, "unique": unique, "sys_flag": sys_flag, **others}


def open_store(root: Path) -> MessageStore:
    store = MessageStore(root, TINY, clock_ms=Clock(), background=False)
    store.open()
    return store


def copied(log: bytes, root: Path) -> dict[str, Any]:
    """The state of a slave that copies this log."""
    slave = open_store(root)
    copy = slave.log_copy()
    for at in range(0, len(log), FILE_SIZE_BYTES):
        copy.append(at, log[at : at + FILE_SIZE_BYTES])
        copy.dispatch_all()
    shown, last = slave.confirmed_offset, slave.last_record_offset
    queues = {(queue.topic, queue.queue_id): (queue.min_offset, queue.units(queue.min_offset, 1000))
              for queue in slave.queues.all()}  # fmt: skip
    assert slave.close()
    index = [path.read_bytes() for path in sorted((root / "index").glob("*"))]
    return {"end": shown, "last": last, "queues": queues, "index": index}


def log_of(sent: list[dict[str, Any]]) -> bytearray:
    with tempfile.TemporaryDirectory() as folder:
        master = open_store(Path(folder))
        for each in sent:
            put(master, **each)
            master.commit()
        log = bytearray(master.log.segments.read(0, FILE_SIZE_BYTES)[: master.log.written_offset])
        master.abandon()
    return log


def assert_same(log: bytearray) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        in_c = copied(bytes(log), Path(folder, "c"))
        patch.setattr(log_copy, "plain_records", simple.plain_records)
        patch.setattr(log_copy, "UNUSUAL_MAX", None)
        assert copied(bytes(log), Path(folder, "python")) == in_c


@settings(deadline=None, max_examples=12)
@given(st.lists(messages, min_size=1, max_size=25), st.integers(0, 1 << 16), st.binary(max_size=4))
@example([message("T"), message("SCHEDULE_TOPIC_XXXX", "a"), message("тема", sys_flag=ROLLED_BACK)], 306, b"\x01")
def test_what_is_dispatched_in_c_is_what_is_dispatched_in_python(
    sent: list[dict[str, Any]], at: int, noise: bytes
) -> None:
    """This holds for any records, and for damage at any place."""
    pytest.importorskip("rmqserver.core._core")
    log = log_of(sent)
    at %= len(log)
    log[at : at + len(noise)] = noise[: len(log) - at]
    assert_same(log)


def test_a_queue_that_begins_anew_behind_a_damaged_queue_offset_is_the_same() -> None:
    pytest.importorskip("rmqserver.core._core")
    log = log_of([message("T"), message("T"), message("T"), message("T")])
    size = len(log) // 4
    for number, queue_offset in enumerate((0, 1, -1, 0)):
        at = number * size + QUEUE_OFFSET_AT
        log[at : at + 8] = queue_offset.to_bytes(8, "big", signed=True)
    assert_same(log)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(messages, min_size=1, max_size=4), st.integers(0, 1 << 16), st.binary(max_size=8), st.integers(0, 1 << 16)
)
def test_the_native_part_reads_nothing_beside_its_data(
    sent: list[dict[str, Any]], at: int, noise: bytes, size: int
) -> None:
    plain_records = pytest.importorskip("rmqserver.core._core").plain_records
    log = log_of(sent)
    at %= len(log)
    log[at : at + len(noise)] = noise
    data = bytes(log[: size % (len(log) + 1)])
    end, last, _, runs, entries = plain_records(data, 0, fates(""), 1, 2, (b"DELAY\x01",), b"SCHEDULE_TOPIC_XXXX")
    assert -1 <= last <= end <= len(data)
    for _, _, _, units in runs:
        assert all(
            0 <= log_offset < end and log_offset + size <= end for log_offset, size, _ in UNIT.iter_unpack(units)
        )
    assert all(0 <= log_offset < end for log_offset in log_offsets_of(entries))


def test_the_native_part_takes_records_of_many_queues_at_once() -> None:
    plain_records = pytest.importorskip("rmqserver.core._core").plain_records
    record, log = log_of([message("T", "u")]), bytearray()
    for queue_id in range(1000):
        record[QUEUE_ID_AT : QUEUE_ID_AT + 4] = (queue_id % 500).to_bytes(4, "big")
        record[QUEUE_OFFSET_AT : QUEUE_OFFSET_AT + 8] = (queue_id // 500).to_bytes(8, "big")
        record[LOG_OFFSET_AT : LOG_OFFSET_AT + 8] = len(log).to_bytes(8, "big")
        log += record
    end, _, _, runs, _ = plain_records(log, 0, fates(""), 1, 2, (), b"")
    assert end == len(log)
    assert [(queue_id, len(units)) for _, queue_id, _, units in runs] == [(each, 2 * UNIT.size) for each in range(500)]


def test_the_native_part_refuses_what_it_cannot_use() -> None:
    plain_records = pytest.importorskip("rmqserver.core._core").plain_records
    with pytest.raises(ValueError, match="256 bytes"):
        plain_records(b"", 0, b"short", 1, 2, (), b"")
    with pytest.raises(ValueError, match="8 at most"):
        plain_records(b"", 0, fates(""), 1, 2, (b"m",) * 9, b"")
    for base in (-1, (1 << 63) - 1):
        with pytest.raises(ValueError, match="log offset"):
            plain_records(b"x", base, fates(""), 1, 2, (), b"")
    for marks in ([], ("m",)):
        with pytest.raises(TypeError):
            plain_records(b"", 0, fates(""), 1, 2, marks, b"")
    assert plain_records(b"", 7, fates(""), 1, 2, (), b"") == (7, -1, 0, [], b"")


BODY_AT = 88
"""Where the body of a record with addresses of IPv4 begins."""


@settings(deadline=None, max_examples=40)
@given(st.binary(max_size=40), st.integers(0, TINY.message_size_max_bytes), st.integers(0, 1 << 16))
def test_the_native_part_has_the_same_checksum(body: bytes, size: int, at: int) -> None:
    """For bodies of any size, and if one bit is wrong."""
    native = pytest.importorskip("rmqserver.core._core")
    body = (body * 100)[:size]
    log = log_of([message("T", body=body)])

    def last() -> int:
        return int(native.plain_records(log, 0, fates(""), 1, 2, (), b"")[1])

    assert last() == 0
    assert log[BODY_AT : BODY_AT + len(body)] == body
    if body:
        log[BODY_AT + at % len(body)] ^= 1
        assert last() == -1
