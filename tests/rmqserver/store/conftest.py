"""Stores so small that a few messages roll every kind of file."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqproto.message.record import decode_record_untrusted, host_bytes
from rmqserver.core import Appended
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import FlushMode, StoreOptions
from rmqserver.store.retention import CleanReport
from tests.support.clock import Clock

HOST = host_bytes("127.0.0.1", 10911)

TINY = StoreOptions(
    commit_log_file_size_bytes=4096, consume_queue_file_size_bytes=10 * 20, index_slot_count=7, index_unit_count=20,
    message_size_max_bytes=1024, open_files_max=4,
)  # fmt: skip
TINY_SYNC = StoreOptions(
    flush_mode=FlushMode.SYNC, commit_log_file_size_bytes=4096, consume_queue_file_size_bytes=10 * 20,
    index_slot_count=7, index_unit_count=20, message_size_max_bytes=1024,
)  # fmt: skip


def put(store: MessageStore, topic: str = "T", queue_id: int = 0, body: bytes = b"body", **more: Any) -> Appended:
    """Appends one message; ``tags``, ``keys`` and ``unique`` become its properties."""
    named = {"UNIQ_KEY": more.pop("unique", ""), "KEYS": more.pop("keys", ""), "TAGS": more.pop("tags", "")}
    properties = "".join(f"{name}\x01{value}\x02" for name, value in named.items() if value).encode()
    properties += more.pop("properties", b"")
    fields: dict[str, Any] = {"flag": 0, "sys_flag": 0, "born_host": HOST, "store_host": HOST, "prepared_offset": 0}
    fields |= more
    return store.append(
        topic, queue_id, fields["flag"], fields["sys_flag"], 1, fields["born_host"], fields["store_host"], 0, body,
        properties, fields["prepared_offset"],
    )  # fmt: skip


def put_many(store: MessageStore, count: int, topic: str = "T", queue_id: int = 0) -> list[Appended]:
    """Appends many messages, each with a body, key and round of its own."""
    done = []
    for number in range(count):
        done.append(put(store, topic, queue_id, b"body %d" % number, keys=f"k{number}", unique=f"U{number}"))
        store.commit()
    return done


def bodies(store: MessageStore, topic: str = "T", queue_id: int = 0) -> list[bytes]:
    found: list[bytes] = []
    offset = store.min_offset(topic, queue_id)
    while offset < store.max_offset(topic, queue_id):
        result = store.get(topic, queue_id, offset, 32)
        found += [decode_record_untrusted(record).body for record in result.records()]
        offset = result.next_offset
    return found


def cleaned(store: MessageStore, at_ms: int | None = None) -> CleanReport:
    """Removes what has expired, whatever the hour, and everything that pointed at it."""
    report = store.clean_expired(at_ms, force=True)
    while store.clean_some():
        pass
    return report


MakeStore = Callable[..., MessageStore]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make_store(tmp_path: Path, clock: Clock) -> Iterator[MakeStore]:
    """Opens a store without threads, by default a tiny one in ``tmp_path/store``. It is closed at the end."""
    opened: list[MessageStore] = []

    def make(directory: Path | None = None, options: StoreOptions = TINY, **more: Any) -> MessageStore:
        arguments: dict[str, Any] = {"clock_ms": clock, "background": False} | more
        store = MessageStore(directory or tmp_path / "store", options, **arguments)
        store.open()
        opened.append(store)
        return store

    yield make
    for store in opened:
        store.close()
