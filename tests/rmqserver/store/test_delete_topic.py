"""Deleting a topic while the store is at work."""

import shutil
from pathlib import Path

import pytest

from rmqproto.message.record import decode_record_untrusted
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import FlushMode, StoreOptions

HOST = b"\x7f\0\0\1\0\0\x2a\x9f"


def append(store: MessageStore, topic: str, body: bytes = b"x") -> int:
    return store.append(topic, 0, 0, 0, 0, HOST, HOST, 0, body, b"").queue_offset


def queue_files(directory: Path) -> list[Path]:
    return [path for path in (directory / "consumequeue").rglob("*") if path.is_file()]


@pytest.mark.parametrize("flush_mode", [FlushMode.ASYNC, FlushMode.SYNC])
def test_a_round_in_flight_does_not_bring_a_deleted_topic_back(tmp_path: Path, flush_mode: FlushMode) -> None:
    """The delete comes between append and commit, or between commit and flush. The old queue's files must stay gone,
    and the new topic must begin at 0 with its own messages only."""
    options = StoreOptions(flush_mode=flush_mode, index_enabled=False, commit_log_file_size_bytes=1 << 20)
    store = MessageStore(tmp_path, options, background=False)
    store.open()
    append(store, "T")
    store.delete_topic("T")
    append(store, "U")
    store.commit()
    store.delete_topic("U")
    store.flush()
    assert store.queues.find("T", 0) is None
    assert queue_files(tmp_path) == []
    assert append(store, "T", b"new") == 0
    store.commit()
    store.flush()
    assert len(store.get("T", 0, 0, 32).sizes) == 1
    assert len(queue_files(tmp_path)) == 1
    assert store.close()


def open_store(directory: Path) -> MessageStore:
    store = MessageStore(
        directory, StoreOptions(index_enabled=False, commit_log_file_size_bytes=1 << 20), background=False
    )
    store.open()
    return store


def bodies(store: MessageStore) -> list[bytes]:
    result = store.get("T", 0, 0, 32)
    store.load(result)
    return [decode_record_untrusted(record).body for record in result.records()]


def made_again(store: MessageStore, *, count: int = 2) -> None:
    """Deletes a topic with three messages, and sends to a new one of the same name."""
    for number in range(3):
        append(store, "T", b"old %d" % number)
    store.commit()
    store.delete_topic("T")
    for number in range(count):
        append(store, "T", b"new %d" % number)
    store.commit()
    store.flush()


@pytest.mark.parametrize("count", [2, 5])
def test_queues_that_are_made_from_the_log_have_the_new_topic_alone(tmp_path: Path, count: int) -> None:
    """After a power cut, or when somebody removed the queues. The new messages used to be passed over until there were
    as many as in the old topic."""
    store = open_store(tmp_path)
    made_again(store, count=count)
    store.close()
    shutil.rmtree(tmp_path / "consumequeue")
    (tmp_path / "checkpoint").unlink()
    store = open_store(tmp_path)
    assert bodies(store) == [b"new %d" % number for number in range(count)]
    assert append(store, "T", b"next") == count
    store.commit()
    store.close()
    store = open_store(tmp_path)
    assert bodies(store) == [*(b"new %d" % number for number in range(count)), b"next"]
    store.close()


@pytest.mark.parametrize("step", [7, 1 << 20])
def test_a_copied_log_has_the_new_topic_alone(tmp_path: Path, step: int) -> None:
    master, slave = open_store(tmp_path / "master"), open_store(tmp_path / "slave")
    made_again(master)
    copy = slave.log_copy()
    data = master.log.read(0, master.written_offset)
    for at in range(0, len(data), step):
        copy.append(at, data[at : at + step])
        copy.dispatch_all()
    assert bodies(slave) == [b"new 0", b"new 1"]
    slave.flush()
    slave.close()
    slave = open_store(tmp_path / "slave")
    assert bodies(slave) == [b"new 0", b"new 1"]
    for store in (master, slave):
        store.close()
