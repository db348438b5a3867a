"""A store whose log is cut equals one in which the rest was never written."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqproto.errors import StorageError
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import StoreOptions
from rmqserver.store.recovery.cut_back import cut_back

FILE_SIZE_BYTES = 4096
OPTIONS = StoreOptions(
    commit_log_file_size_bytes=FILE_SIZE_BYTES, index_slot_count=50, index_unit_count=40,
    consume_queue_file_size_bytes=20 * 10,
)  # fmt: skip
HOST = bytes(8)


def put(store: MessageStore, number: int) -> tuple[int, int]:
    """Stores a message; returns where its record begins and ends."""
    appended = store.append(
        f"T{number % 3}", number % 2, 0, 0, 0, HOST, HOST, 0, b"%d" % number * 40, b"KEYS\x01k%d\x02" % number
    )
    store.commit()
    return appended.log_offset, appended.log_offset + appended.size_bytes


def found(store: MessageStore) -> dict[tuple[str, int], list[bytes]]:
    return {
        (topic, queue_id): [
            b"".join(store.get(topic, queue_id, at, 1).chunks) for at in range(store.max_offset(topic, queue_id))
        ]
        for topic in ("T0", "T1", "T2")
        for queue_id in (0, 1)
    }


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 70), st.data())
def test_what_is_behind_was_never_there(count: int, data: st.DataObject) -> None:
    kept = data.draw(st.integers(0, count))
    into = data.draw(st.integers(0, 60)) if kept < count else 0
    with TemporaryDirectory() as folder:
        root = Path(folder)
        for name, number_of in (("kept", kept), ("all", count)):
            store = MessageStore(root / name, OPTIONS, background=False, clock_ms=lambda: 1_700_000_000_000)
            store.open()
            ends = [(0, 0), *(put(store, number) for number in range(number_of))]
            assert store.close()
        start = ends[kept][1] if not into else ends[kept + 1][0]
        cut_back(str(root / "all"), FILE_SIZE_BYTES, start + into, OsDisk())
        results = []
        for name in ("all", "kept"):
            store = MessageStore(root / name, OPTIONS, background=False, clock_ms=lambda: 1_700_000_000_000)
            store.open()
            results.append((store.end_offset, found(store), store.query("T0", "k0", 10, 0, 1 << 60).records))
            put(store, 999)
            assert store.close()
        assert results[0] == results[1]


def test_an_open_store_is_not_cut(tmp_path: Path) -> None:
    store = MessageStore(tmp_path, OPTIONS, background=False)
    store.open()
    with pytest.raises(StorageError, match="is in use"):
        cut_back(str(tmp_path), FILE_SIZE_BYTES, 0, OsDisk())
    store.close()
