"""A topic is deleted in the middle of the store's work."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import FlushMode, StoreOptions

HOST = b"\x7f\0\0\1\0\0\x2a\x9f"


def append(store: MessageStore, topic: str, body: bytes = b"x") -> int:
    return store.append(topic, 0, 0, 0, 0, HOST, HOST, 0, body, b"").queue_offset


def queue_files(directory: Path) -> list[Path]:
    return [path for path in (directory / "consumequeue").rglob("*") if path.is_file()]


@pytest.mark.parametrize("flush_mode", [FlushMode.ASYNC, FlushMode.SYNC])
def test_a_round_in_flight_does_not_bring_a_deleted_topic_back(tmp_path: Path, flush_mode: FlushMode) -> None:
    """The delete comes between append and commit, or between commit and the flush: the old queue's files must stay
    gone, and the new topic must begin at 0 with its own messages only."""
    options = StoreOptions(flush_mode=flush_mode, index_enabled=False, commit_log_file_size_bytes=1 << 20)
    store = MessageStore(tmp_path, options, background=False)
    store.open()
    append(store, "T")
    store.delete_topic("T")
    append(store, "U")
    store.commit()
    store.delete_topic("U")
    store.flush()
    assert store.queue("T", 0) is None
    assert queue_files(tmp_path) == []
    assert append(store, "T", b"new") == 0
    store.commit()
    store.flush()
    assert store.get("T", 0, 0, 32).count == 1
    assert len(queue_files(tmp_path)) == 1
    assert store.close()
