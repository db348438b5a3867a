"""What slaves note of their masters, lists that lack topics, and log that is read from the device."""

import socket
from pathlib import Path

import pytest
import trio

from rmqproto.ha import REPORT, TRANSFER_HEAD
from rmqserver.broker.assembly import BrokerAssembly
from rmqserver.broker.lost_queues import list_unlisted
from rmqserver.broker.replicas import ha_link
from rmqserver.broker.replicas.ha_master import HaMaster
from rmqserver.broker.replicas.slave import SlaveNote, forget_slave_note, was_slave
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.disk.disk import OsDisk, OsFile
from rmqserver.store.log import commit_log
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import StoreOptions
from tests.rmqserver.store.conftest import put


def test_it_is_known_until_this_broker_is_a_slave_no_more(tmp_path: Path) -> None:
    def files() -> ConfigFiles:
        return ConfigFiles(str(tmp_path), OsDisk(), background=False)

    assert not was_slave(files())
    note = SlaveNote(files())
    note.load()
    assert (was_slave(files()), note.is_other_log) == (True, False)
    note.compared(is_other_log=True)
    again = SlaveNote(files())
    again.load()
    assert again.is_other_log
    forget_slave_note(files())
    assert not was_slave(files())
    anew = SlaveNote(files())
    anew.load()
    assert not anew.is_other_log


def test_topics_of_the_last_messages_are_listed_and_deleted_ones_stay_away(parts: BrokerAssembly) -> None:
    put(parts.store, "Deleted")
    parts.store.commit()
    known_until = parts.store.written_offset
    for topic, queue_id in (("New", 0), ("Wide", 40), ("%LMQ%x", 0), ("TopicTest", 0)):
        put(parts.store, topic, queue_id=queue_id)
    parts.store.commit()
    before = set(parts.topics.all())
    list_unlisted(parts.config, parts.store, parts.topics, known_until)
    assert set(parts.topics.all()) - before - {"TopicTest"} == {"New", "Wide"}
    assert [parts.topics.all()[name].read_queue_nums for name in ("New", "Wide")] == [8, 41]


FILE_SIZE_BYTES = 40_000
"""No multiple of a page."""


@pytest.mark.parametrize(("is_supported", "is_in_memory"), [(True, False), (False, False), (True, True)])
async def test_a_slave_gets_the_log_from_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_supported: bool, is_in_memory: bool
) -> None:
    """From a report in the middle of a page on, over the ends of files, up to the last byte and not further."""
    monkeypatch.setattr(commit_log, "HOT_BYTES", -1)
    monkeypatch.setattr(ha_link, "DIRECT_BYTES", 3 * 4096 + 1)
    monkeypatch.setattr(ha_link, "PORTION_BYTES", 5000)
    if not is_in_memory:
        monkeypatch.setattr(OsFile, "pread_cached", lambda *_: None)
        monkeypatch.setattr(OsFile, "pread_cached_into", lambda *_: False)
    if not is_supported:
        monkeypatch.delattr("os.O_DIRECT")
    store = MessageStore(tmp_path, StoreOptions(commit_log_file_size_bytes=FILE_SIZE_BYTES), background=False)
    store.open()
    while len(store.log.segments.bases) < 4:
        put(store, body=bytes(range(250)) * 4)
        store.commit()
    store.log.last_write = (1 << 63, b"")
    start, end = 4711, store.log.written_offset
    segments = store.log.segments
    files = (segments.read(base, FILE_SIZE_BYTES).ljust(FILE_SIZE_BYTES, b"\0") for base in segments.bases)
    expected = b"".join(files)[start:end]
    monkeypatch.setattr(OsFile, "pread", lambda *_: pytest.fail("it would come into the page cache"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(HaMaster(BrokerConfig(), store).serve, listener)
            async with await trio.open_tcp_stream(*listener.getsockname()) as slave:
                await slave.send_all(REPORT.pack(start))
                assert await transferred(slave, start, end) == expected
            nursery.cancel_scope.cancel()
    monkeypatch.undo()
    store.close()


async def transferred(slave: trio.SocketStream, start: int, end: int) -> bytes:
    log, received = b"", b""
    while start + len(log) < end:
        data = await slave.receive_some()
        assert data, "the master hung up"
        received += data
        while len(received) >= TRANSFER_HEAD.size:
            offset, size = TRANSFER_HEAD.unpack_from(received)
            stop = TRANSFER_HEAD.size + size
            if len(received) < stop:
                break
            assert offset == start + len(log)
            log, received = log + received[TRANSFER_HEAD.size : stop], received[stop:]
    return log
