"""A batch takes a faster way into the log, but leaves on the disk what single messages leave."""

import dataclasses
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.message.record import BatchItem, encode_batch, host_bytes
from rmqserver.store.disk.checkpoint import Checkpoint
from rmqserver.store.message_store import MessageStore
from rmqserver.store.results import MessageRefused
from tests.rmqserver.store.conftest import HOST, TINY, MakeStore, put
from tests.support.clock import Clock

OPTIONS = dataclasses.replace(TINY, commit_log_file_size_bytes=1 << 16, index_unit_count=1000)
HOST_V6 = host_bytes("::1", 10911)

# Empty names, names within values, missing separators: everything that may make neighbours look alike.
pieces = st.sampled_from(
    [b"UNIQ_KEY\x01A1\x02", b"UNIQ_KEY\x01B2\x02", b"UNIQ_KEY\x01b\x02", b"UNIQ_KEY\x01C", b"MYUNIQ_KEY\x01D\x02",
     b"KEYS\x01k l\x02", b"KEYS\x01m\x02", b"TAGS\x01t\x02", b"TAGS\x01u\x02", b"X\x01TAGS\x02", b"MYTAGS\x01v\x02",
     b"TAGS\x01w"]
)  # fmt: skip
items = st.builds(BatchItem, st.integers(0, 9), st.binary(max_size=9), st.lists(pieces, max_size=4).map(b"".join))


def files_of(fill: Callable[[MessageStore], None]) -> dict[str, bytes]:
    """The files of a store that ``fill`` put messages into, by path."""
    with tempfile.TemporaryDirectory() as folder:
        store = MessageStore(folder, OPTIONS, clock_ms=Clock(), background=False)
        store.open()
        fill(store)
        store.commit()
        store.close()
        kinds = ("commitlog", "consumequeue", "index")
        paths = [path for kind in kinds for path in Path(folder, kind).rglob("*") if path.is_file()]
        return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@given(st.lists(items, min_size=1, max_size=6), st.sampled_from([HOST, HOST_V6]))
def test_a_batch_leaves_what_single_messages_leave(batch: list[BatchItem], host: bytes) -> None:
    def singly(store: MessageStore) -> None:
        for item in batch:
            store.append("T", 1, item.flag, 0, 5, host, HOST, 2, item.body, item.properties_raw)

    def together(store: MessageStore) -> None:
        store.append_batch("T", 1, 0, 5, host, HOST, 2, encode_batch(batch))

    assert files_of(together) == files_of(singly)


def test_the_limit_for_a_batch_counts_it_as_it_came(tmp_path: Path) -> None:
    """The records of small messages take several times as much."""
    whole = encode_batch([BatchItem(0, b"", b"")] * 5000)
    options = dataclasses.replace(
        TINY, message_size_max_bytes=len(whole), commit_log_file_size_bytes=1 << 20, index_enabled=False
    )
    store = MessageStore(str(tmp_path), options, clock_ms=Clock(), background=False)
    store.open()
    _, log_offsets = store.append_batch("T", 0, 0, 5, HOST, HOST, 0, whole)
    assert len(log_offsets) == 5000
    for too_large in ([BatchItem(0, b"", b"")] * 5001, [BatchItem(0, b"x" * len(whole), b"")]):
        with pytest.raises(MessageRefused):
            store.append_batch("T", 0, 0, 5, HOST, HOST, 0, encode_batch(too_large))
    store.close()


def test_a_batch_must_fit_a_file(tmp_path: Path) -> None:
    options = dataclasses.replace(TINY, message_size_max_bytes=1 << 18, commit_log_file_size_bytes=1 << 16)
    store = MessageStore(str(tmp_path), options, clock_ms=Clock(), background=False)
    store.open()
    with pytest.raises(MessageRefused):
        store.append_batch("T", 0, 0, 5, HOST, HOST, 0, encode_batch([BatchItem(0, b"", b"")] * 2000))
    assert store.append_batch("T", 0, 0, 5, HOST, HOST, 0, encode_batch([BatchItem(0, b"", b"")]))[1] == [0]
    store.close()


def _batch_for_a_lost_queue(store: MessageStore) -> None:
    store.append_batch("T", 1, 0, 5, HOST, HOST, 0, encode_batch([BatchItem(0, b"x", b"")]))


def _number_too_large(store: MessageStore) -> None:
    store.append("T", 0, 1 << 40, 0, 5, HOST, HOST, 0, b"x", b"")


def _flag_too_large(store: MessageStore) -> None:
    store.append_batch("T", 0, 1 << 40, 5, HOST, HOST, 0, encode_batch([BatchItem(0, b"x", b"")]))


@pytest.mark.parametrize("refuse", [_batch_for_a_lost_queue, _number_too_large, _flag_too_large])
def test_a_refused_message_leaves_nothing_to_the_next(
    refuse: Callable[[MessageStore], None], make_store: MakeStore, clock: Clock, tmp_path: Path
) -> None:
    """The next one got its time, even hours later, and a delay level was over early."""
    store = make_store()
    put(store, queue_id=1)
    last = put(store, queue_id=0)
    store.commit()
    first_ms = store.store_time(last.log_offset)
    assert store.close()
    (tmp_path / f"store/consumequeue/T/1/{0:020d}").write_bytes(b"too short")
    again = make_store()
    clock.now_ms += 1000
    with pytest.raises(MessageRefused):
        refuse(again)
    again.commit()
    assert first_ms is not None
    again.flush()
    checkpoint = Checkpoint.read(again.disk, again.directory.checkpoint)
    assert checkpoint.log_timestamp_ms == first_ms  # else the next start would not take the queues for whole
    clock.now_ms += 3_600_000
    appended = put(again, queue_id=0)
    again.commit()
    assert again.store_time(appended.log_offset) == clock.now_ms
