"""Recorded data of a real 5.5.0 master in controller mode, and the stores of its slaves: our slave makes the same
stores of it and cuts where Apache's did, and our master answers as Apache's."""

import errno
import os
import random
from pathlib import Path

import pytest
import trio

from rmqproto.errors import ProtocolError, StorageError
from rmqproto.ha import (
    EPOCH,
    HANDSHAKE,
    HANDSHAKE_ANSWER,
    HANDSHAKE_STATE,
    SET_REPORT,
    SET_TRANSFER_HEAD,
    TRANSFER_STATE,
)
from rmqserver.broker.controlled.set_master import SetLink
from rmqserver.broker.controlled.set_slave import SetSlave, _answer_untrusted
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.remoting.traffic import ByTask
from rmqserver.store import epochs as epochs_file
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.epochs import Epoch, EpochFile, EpochList
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import StoreOptions
from rmqserver.store.recovery.cut_back import cut_back
from tests.rmqserver.broker.replicas.test_golden_ha import FILE_SIZE_BYTES, log_of, said_by_master, unpacked

OPTIONS = StoreOptions(
    commit_log_file_size_bytes=FILE_SIZE_BYTES, consume_queue_file_size_bytes=6000, index_slot_count=100,
    index_unit_count=400,
)  # fmt: skip
END_OF_OLD_MASTER, PARTING, END_OF_BOTH = 112318, 108808, 110318
EPOCHS = [Epoch(1, 0), Epoch(5, PARTING)]


def slave_of(store: MessageStore, root: Path) -> tuple[SetSlave, EpochFile, list[int]]:
    epochs, cuts = EpochFile(str(root / "epochFileCheckpoint"), OsDisk()), list[int]()
    epochs.load()
    return SetSlave(BrokerConfig(), store, epochs, cuts.append), epochs, cuts


def test_an_old_master_cuts_off_what_nobody_else_has(tmp_path: Path) -> None:
    root = unpacked("diverged-old-master", tmp_path / "old")
    real = unpacked("truncated-old-master", tmp_path / "real")
    data = said_by_master("unclean-02")
    answer = _answer_untrusted(data)
    assert answer is not None
    theirs, their_end, size = answer
    assert (theirs.entries, their_end) == (EPOCHS, END_OF_BOTH)
    store = MessageStore(root, OPTIONS, background=False)
    store.open()
    slave, epochs, cuts = slave_of(store, root)
    assert (store.end_offset, epochs.epochs.entries) == (END_OF_OLD_MASTER, EPOCHS[:1])

    async def cut() -> None:
        with trio.move_on_after(0) as scope:
            await slave._cut(theirs, their_end, store.log_copy())
        assert scope.cancelled_caught, "it waits for the store to be opened anew"

    trio.run(cut)
    assert cuts == [PARTING]
    store.close()
    cut_back(str(root), FILE_SIZE_BYTES, PARTING, OsDisk())
    store = MessageStore(root, OPTIONS, background=False)
    assert store.open().end_offset == PARTING
    slave, epochs, _ = slave_of(store, root)
    copy, told = store.log_copy(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copy, "master_ends_at", told.append)
        trio.run(slave._cut, theirs, their_end, copy)
    assert told == [END_OF_BOTH]
    slave._take(data[size:], copy)
    assert (copy.end_offset, slave.confirmed_offset, slave.may_be_read) == (END_OF_BOTH, END_OF_BOTH, True)
    store.close()
    assert log_of(root, 0, END_OF_BOTH) == log_of(real, 0, END_OF_BOTH)
    found = (real / "epochFileCheckpoint").read_text()
    assert (root / "epochFileCheckpoint").read_text() == found == EpochList(EPOCHS).to_text()


def test_a_new_slave_makes_the_same_log_of_it_and_shows_what_is_confirmed(tmp_path: Path) -> None:
    data, rng = said_by_master("unclean-01"), random.Random(1)
    store = MessageStore(tmp_path / "ours", OPTIONS, background=False)
    store.open()
    slave, epochs, _ = slave_of(store, tmp_path)
    copy = store.log_copy()
    copy.show_until(0)
    while data:
        size = rng.randrange(1, 20_000)
        slave._take(data[:size], copy)
        data = data[size:]
        copy.dispatch_all()
        assert store.confirmed_offset <= slave.confirmed_offset <= copy.end_offset
    assert not slave._head
    end = copy.end_offset
    assert end > FILE_SIZE_BYTES
    assert epochs.epochs.entries == EPOCHS[:1]
    store.close()
    real = unpacked("unclean-master", tmp_path / "real")
    assert log_of(tmp_path / "ours", 0, end) == log_of(real, 0, end)


def test_a_slave_takes_no_log_of_an_epoch_that_it_cannot_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a full disk had refused the epoch, its log was stored all the same when the master came back to it."""
    data = said_by_master("unclean-01")
    store = MessageStore(tmp_path / "ours", OPTIONS, background=False)
    store.open()
    slave, epochs, _ = slave_of(store, tmp_path)
    copy = store.log_copy()

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(epochs_file, "replace_with_backup", refuse)
        for _again in range(2):
            with pytest.raises(StorageError, match="No space left"):
                slave._take(data, copy)
            assert (copy.end_offset, epochs.epochs.entries) == (0, [])
    slave._take(data, copy)
    assert copy.end_offset > 0
    epochs.load()
    assert epochs.epochs.entries == EPOCHS[:1]
    assert store.close()


@pytest.mark.parametrize(
    "data",
    [
        SET_TRANSFER_HEAD.pack(7, 0, 0, 1, 0, 0),
        SET_TRANSFER_HEAD.pack(TRANSFER_STATE, -1, 0, 1, 0, 0),
        SET_TRANSFER_HEAD.pack(TRANSFER_STATE, 1 << 30, 0, 1, 0, 0),
        HANDSHAKE_ANSWER.pack(HANDSHAKE_STATE, 13, 0, 0) + bytes(40),
    ],
)
def test_a_slave_takes_nothing_else(tmp_path: Path, data: bytes) -> None:
    store = MessageStore(tmp_path / "ours", OPTIONS, background=False)
    store.open()
    slave, _, _ = slave_of(store, tmp_path)
    with pytest.raises(ProtocolError):
        slave._take(data, store.log_copy())
    assert store.close()


def test_our_master_answers_as_apaches(tmp_path: Path) -> None:
    """Apache's slave sends the handshake twice and gets one answer. A frame ends where an epoch ends."""
    root = unpacked("unclean-master", tmp_path / "real")
    store = MessageStore(root, OPTIONS, background=False)
    end = store.open().end_offset
    epochs = EpochList(EPOCHS)
    golden = said_by_master("unclean-02")[:44]

    async def converse() -> None:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        async with trio.open_nursery() as nursery:

            async def serve(stream: trio.SocketStream) -> None:
                link = SetLink(
                    BrokerConfig(), store, stream, ByTask(), lambda: epochs, lambda _: None, lambda _: None
                )  # fmt: skip
                await link.serve()

            nursery.start_soon(trio.serve_listeners, serve, [listener])
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                await stream.send_all(HANDSHAKE.pack(HANDSHAKE_STATE, 0, 0, 1) * 2)
                await stream.send_all(SET_REPORT.pack(TRANSFER_STATE, PARTING - 500))
                size = len(golden) + 2 * SET_TRANSFER_HEAD.size + end - PARTING + 500
                found = b""
                while len(found) < size:
                    found += await stream.receive_some(size - len(found))
            nursery.cancel_scope.cancel()
        answer = HANDSHAKE_ANSWER.pack(HANDSHAKE_STATE, 2 * EPOCH.size, end, 5) + golden[HANDSHAKE_ANSWER.size :]
        head_size = SET_TRANSFER_HEAD.size
        first = SET_TRANSFER_HEAD.pack(TRANSFER_STATE, 500, PARTING - 500, 1, 0, end)
        second = SET_TRANSFER_HEAD.pack(TRANSFER_STATE, end - PARTING, PARTING, 5, PARTING, end)
        log = log_of(root, PARTING - 500, end)
        assert found == answer + first + log[:500] + second + log[500:]
        assert len(first) == len(second) == head_size

    trio.run(converse)
    store.close()
