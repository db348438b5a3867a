"""What a producer hears must be true: no acknowledgement before the store has done what it promises."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.command import Command, HeaderCodec, decode_frame_untrusted, encode_frame
from rmqserver.broker.acks import FLUSH_TIMEOUT_S, Acks
from rmqserver.broker.stats import BrokerStats
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import FlushMode, StoreOptions
from tests.rmqserver.broker.golden_state import ok
from tests.rmqserver.broker.messaging import send, stored, text
from tests.rmqserver.store.conftest import put
from tests.rmqserver.store.test_message_store import FailingDisk
from tests.support import servers
from tests.support.wire import Wire


class Peer:
    """In the place of a connection: keeps what it is sent."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def send(self, frame: bytes) -> None:
        self.frames.append(frame)

    @property
    def answers(self) -> list[Command]:
        return [decode_frame_untrusted(frame) for frame in self.frames]


def answer(opaque: int, codec: HeaderCodec = HeaderCodec.JSON) -> bytes:
    ext = {"msgId": "AB", "queueId": "0", "queueOffset": "5"}
    return encode_frame(Command(code=0, opaque=opaque, flag=1, ext=ext, codec=codec))


@pytest.fixture
def disk() -> FailingDisk:
    return FailingDisk()


@pytest.fixture(params=[FlushMode.ASYNC, FlushMode.SYNC])
def store(request: pytest.FixtureRequest, tmp_path: Path, disk: FailingDisk) -> Iterator[MessageStore]:
    options = StoreOptions(
        flush_mode=request.param,
        commit_log_file_size_bytes=1 << 20,
        index_slot_count=10,
        index_unit_count=40,
    )
    opened = MessageStore(tmp_path, options, disk, background=False)
    opened.open()
    yield opened
    opened.close()


@pytest.fixture
def acks(store: MessageStore) -> Acks:
    return Acks(store, BrokerStats("DefaultCluster", store.clock_ms))


def test_answer_waits_for_the_write_and_where_it_must_for_the_flush(store: MessageStore, acks: Acks) -> None:
    written, flushed = Peer(), Peer()
    put(store)
    acks.when_written.append((written, answer(1)))  # type: ignore[arg-type]
    acks.when_flushed.append((flushed, answer(2)))  # type: ignore[arg-type]
    assert not written.frames
    acks.end_round()
    assert written.frames == [answer(1)]
    assert not flushed.frames
    store.flush()
    acks.flushed()
    acks.end_round()  # and nothing is said twice
    assert (written.frames, flushed.frames) == ([answer(1)], [answer(2)])


def test_send_whose_write_failed_is_refused(store: MessageStore, acks: Acks, disk: FailingDisk) -> None:
    json, binary = Peer(), Peer()
    put(store)
    acks.when_written.append((json, answer(1)))  # type: ignore[arg-type]
    acks.when_flushed.append((binary, answer(2, HeaderCodec.ROCKETMQ)))  # type: ignore[arg-type]
    disk.fail.add("pwrite")
    acks.end_round()
    for peer, opaque, codec in ((json, 1, HeaderCodec.JSON), (binary, 2, HeaderCodec.ROCKETMQ)):
        (refused,) = peer.answers
        assert (refused.code, refused.opaque, refused.codec) == (ResponseCode.SERVICE_NOT_AVAILABLE, opaque, codec)
        assert (refused.remark or "").startswith("service not available now. ")
        assert "commitlog" in (refused.remark or "")  # the reason names the file
        assert refused.ext == {}
    assert not store.is_writeable


@pytest.mark.parametrize("store", [FlushMode.SYNC], indirect=True)
def test_send_whose_flush_failed_is_refused(store: MessageStore, acks: Acks, disk: FailingDisk) -> None:
    peer = Peer()
    put(store)
    acks.when_flushed.append((peer, answer(1)))  # type: ignore[arg-type]
    acks.end_round()
    disk.fail.add("fdatasync")
    store.flush()
    acks.flushed()
    (refused,) = peer.answers
    assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
    acks.expire(time.monotonic() + FLUSH_TIMEOUT_S)
    assert len(peer.frames) == 1


@pytest.mark.parametrize("store", [FlushMode.SYNC], indirect=True)
def test_slow_flush_is_told_after_five_seconds_and_only_then(store: MessageStore, acks: Acks) -> None:
    peer = Peer()
    put(store)
    acks.when_flushed.append((peer, answer(1)))  # type: ignore[arg-type]
    acks.end_round()
    acks.expire(time.monotonic() + FLUSH_TIMEOUT_S - 1)
    assert not peer.frames
    acks.expire(time.monotonic() + FLUSH_TIMEOUT_S)
    (late,) = peer.answers
    assert (late.code, late.opaque) == (ResponseCode.FLUSH_DISK_TIMEOUT, 1)
    assert late.ext == {"msgId": "AB", "queueId": "0", "queueOffset": "5"}  # it stays stored
    store.flush()
    acks.flushed()
    assert len(peer.frames) == 1


def test_sync_broker_acknowledges_what_it_shows(tmp_path: Path) -> None:
    """In sync mode a message is seen when it is flushed, so an acknowledged one can be pulled at once."""
    with servers.standalone(tmp_path, "--flush", "sync") as server, Wire(server.broker_addr) as wire:
        for number in range(20):
            ok(send(wire, "Sync", body=b"%d" % number))
            assert stored(wire, "Sync", 0, number)[0].body == b"%d" % number
        ok(send(wire, "Sync", body=b"does not wait", properties=text(WAIT="false")))
        ok(send(wire, "Sync", body=b"last"))
        assert [message.body for message in stored(wire, "Sync", 0, 20)] == [b"does not wait", b"last"]
        assert wire.ask(R.GET_MAX_OFFSET, {"topic": "Sync", "queueId": "0"}).ext["offset"] == "22"
