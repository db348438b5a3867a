"""A producer gets no acknowledgement before the store has done what it promises."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.headers.base import NoFields
from rmqproto.headers.sending import SendAnswer
from rmqproto.message.properties import parse
from rmqproto.wire.command import HeaderCodec, decode_frame_untrusted
from rmqserver.broker.replicas.ha_master import HaMaster
from rmqserver.broker.sending.pending import STORED, Outcome, PendingPuts
from rmqserver.broker.sending.properties import waits_until_safe, wants_safe
from rmqserver.broker.sending.put import SendOutcome
from rmqserver.broker.stats import BrokerStats
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.core import Appended
from rmqserver.doors.remoting.sent_answers import SentAnswers
from rmqserver.remoting.answer import Request, success
from rmqserver.store.log.flusher import Flusher
from rmqserver.store.message_store import MessageStore, StoreParts
from rmqserver.store.options import FlushMode, StoreOptions
from tests.rmqserver.broker.golden_state import ok
from tests.rmqserver.broker.messaging import send, stored, text
from tests.rmqserver.store.conftest import put
from tests.rmqserver.store.test_message_store import FailingDisk
from tests.support import servers
from tests.support.quick import in_one_test
from tests.support.stub_connection import StubConnection
from tests.support.wire import Wire

TIMEOUT_S = 5.0


HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
EXT = {
    "MSG_REGION": "R", "TRACE_ON": "true", "msgId": "7F00000100002A9F0000000000000010", "queueId": "0",
    "queueOffset": "5", "transactionId": "AB",
}  # fmt: skip


class Waiting:
    """Puts that wait, each with the peer that gets the answer."""

    def __init__(self, puts: PendingPuts):
        self.puts = puts
        self.answers = SentAnswers("R", "true")
        self.appended = Appended(16, 100, 5)

    def plain(self, opaque: int, *, until_safe: bool = False) -> StubConnection:
        """Puts a message as the hot path does."""
        peer = StubConnection()
        waiting = self.puts.when_safe if until_safe else self.puts.when_written
        waiting.append((self.answers.put, peer, opaque, 0, SendOutcome(self.appended, 0, HOST, b"AB")))
        return peer

    def other(self, opaque: int, codec: HeaderCodec, *, until_safe: bool = False) -> StubConnection:
        """Puts a message as all other paths do."""
        peer: Any = StubConnection()
        request: Request[Any] = Request(code=310, opaque=opaque, header=NoFields(), codec=int(codec))
        on_done = self.answers.when_done(request, peer, SendOutcome(self.appended, 0, HOST, b"AB"))
        self.puts.wait(on_done, until_safe=until_safe)
        return peer  # type: ignore[no-any-return]


@pytest.fixture
def disk() -> FailingDisk:
    return FailingDisk()


@pytest.fixture(params=[FlushMode.ASYNC, FlushMode.SYNC])
def store(request: pytest.FixtureRequest, tmp_path: Path, disk: FailingDisk) -> Iterator[MessageStore]:
    options = StoreOptions(
        flush_mode=request.param, commit_log_file_size_bytes=1 << 20, index_slot_count=10, index_unit_count=40
    )
    opened = MessageStore(tmp_path, options, disk, background=False)
    opened.open()
    yield opened
    opened.close()


def test_batch_answer_from_a_template_is_the_ordinary_one(store: MessageStore) -> None:
    peer: Any = StubConnection()
    request: Request[Any] = Request(code=320, opaque=7, header=NoFields())
    answers = SentAnswers('R"%d', "true")
    answers.when_done(request, peer, SendOutcome(Appended(16, 100, 5), 3, HOST, b"", batch=[16, 116]))(STORED)
    header = SendAnswer(
        message_id="7F00000100002A9F0000000000000010,7F00000100002A9F0000000000000074", queue_id=3, queue_offset=5,
        transaction_id=None, msg_region='R"%d', trace_on="true",
    )  # fmt: skip
    assert peer.answers == [decode_frame_untrusted(success(request, header))]


@pytest.fixture
def waiting(store: MessageStore) -> Waiting:
    return Waiting(PendingPuts(store, BrokerStats("DefaultCluster", store.clock_ms), HaMaster(BrokerConfig(), store)))


def test_answer_waits_for_the_write_and_where_it_must_for_the_flush(store: MessageStore, waiting: Waiting) -> None:
    put(store)
    written, flushed = waiting.plain(1), waiting.plain(2, until_safe=True)
    assert not written.frames
    waiting.puts.end_round()
    ((answer,), none) = written.answers, flushed.frames
    assert (answer.code, answer.opaque, answer.ext, none) == (0, 1, EXT, [])
    store.flush()
    waiting.puts.settle()
    waiting.puts.end_round()  # nobody gets a second answer
    assert [answer.opaque for answer in (*written.answers, *flushed.answers)] == [1, 2]


def test_both_ways_say_the_same(store: MessageStore, waiting: Waiting) -> None:
    """The hot path answers from a template, all other paths with headers."""
    plain, other = waiting.plain(1), waiting.other(1, HeaderCodec.JSON)
    waiting.puts.end_round()
    assert plain.answers == other.answers


def test_send_whose_write_failed_is_refused(store: MessageStore, waiting: Waiting, disk: FailingDisk) -> None:
    put(store)
    json, binary = waiting.plain(1), waiting.other(2, HeaderCodec.ROCKETMQ, until_safe=True)
    disk.fail.add("pwrite")
    waiting.puts.end_round()
    for peer, opaque, codec in ((json, 1, HeaderCodec.JSON), (binary, 2, HeaderCodec.ROCKETMQ)):
        (refused,) = peer.answers
        assert (refused.code, refused.opaque, refused.codec) == (ResponseCode.SERVICE_NOT_AVAILABLE, opaque, codec)
        assert (refused.remark or "").startswith("service not available now. ")
        assert "commitlog" in (refused.remark or "")  # the remark names the file
        assert refused.ext == {}
    assert store.flags.refuses_writes


@pytest.mark.parametrize("store", [FlushMode.SYNC], indirect=True)
def test_send_whose_flush_failed_is_refused(store: MessageStore, waiting: Waiting, disk: FailingDisk) -> None:
    put(store)
    peer = waiting.plain(1, until_safe=True)
    waiting.puts.end_round()
    disk.fail.add("fdatasync")
    store.flush()
    waiting.puts.settle()
    (refused,) = peer.answers
    assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
    waiting.puts.expire(time.monotonic() + TIMEOUT_S, TIMEOUT_S, TIMEOUT_S)
    assert len(peer.frames) == 1


@pytest.mark.parametrize("store", [FlushMode.SYNC], indirect=True)
def test_send_that_is_given_up_is_refused_once(store: MessageStore, waiting: Waiting) -> None:
    put(store)
    written, flushed = waiting.plain(1), waiting.plain(2, until_safe=True)
    waiting.puts.end_round()
    waiting.puts.give_up("another role")
    waiting.puts.give_up("another role")
    assert [answer.code for answer in (*written.answers, *flushed.answers)] == [0, ResponseCode.SERVICE_NOT_AVAILABLE]


@pytest.mark.parametrize("store", [FlushMode.SYNC], indirect=True)
def test_slow_flush_is_told_after_five_seconds_and_only_then(store: MessageStore, waiting: Waiting) -> None:
    put(store)
    peers = waiting.plain(1, until_safe=True), waiting.other(1, HeaderCodec.ROCKETMQ, until_safe=True)
    waiting.puts.end_round()
    waiting.puts.expire(time.monotonic() + TIMEOUT_S - 1, TIMEOUT_S, TIMEOUT_S)
    assert not peers[0].frames + peers[1].frames
    waiting.puts.expire(time.monotonic() + TIMEOUT_S, TIMEOUT_S, TIMEOUT_S)
    for peer in peers:
        (late,) = peer.answers
        assert (late.code, late.opaque) == (ResponseCode.FLUSH_DISK_TIMEOUT, 1)
        assert late.ext == EXT  # the message stays stored
    store.flush()
    waiting.puts.settle()
    assert len(peers[0].frames) == 1


def test_answer_waits_until_the_message_can_be_read(tmp_path: Path) -> None:
    """The flush thread has flushed, but the loop does not know it yet. If the producer got its answer now, it might end
    a transaction whose half message cannot be found yet."""
    options = StoreOptions(flush_mode=FlushMode.SYNC, commit_log_file_size_bytes=1 << 16, index_enabled=False)
    flushers: list[Flusher] = []

    class SeenFlusher(Flusher):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            flushers.append(self)

    store = MessageStore(tmp_path, options, parts=StoreParts(flusher=SeenFlusher), background=False)
    store.open()
    puts = PendingPuts(store, BrokerStats("C", lambda: 0, frozenset()), HaMaster(BrokerConfig(), store))
    appended, outcomes = put(store), list[Outcome]()
    puts.wait(outcomes.append, until_safe=True)
    puts.end_round()
    flushers[0].flush()
    puts.settle()
    assert (outcomes, store.get_record(appended.log_offset)) == ([], None)
    store.flush()
    puts.settle()
    assert outcomes == [STORED]
    assert store.get_record(appended.log_offset) is not None
    store.close()


def test_answer_that_cannot_be_given_keeps_no_other_from_its_own(store: MessageStore, waiting: Waiting) -> None:
    def fail(outcome: Outcome) -> None:
        raise RuntimeError("no answer")

    waiting.puts.wait(fail, until_safe=False)
    peer = waiting.plain(1)
    waiting.puts.end_round()
    assert len(peer.frames) == 1


@in_one_test(
     ("WAIT\x01false\x02", False), ("a\x01b\x02WAIT\x01false\x02", False), ("WAIT\x01true\x02", True), ("", True),
     ("AWAIT\x01false\x02", True), ("WAIT\x01falsehood\x02", True),
     ("MY_WAIT\x01false\x02WAIT\x01true\x02", True))  # fmt: skip
def test_only_the_property_itself_says_that_nobody_waits(properties: str, waits: bool) -> None:
    """With SYNC_FLUSH a send used to be acknowledged before its flush if the name of any property ended in WAIT."""
    assert waits_until_safe(properties.encode()) is waits
    assert wants_safe(parse(properties)) is waits


def test_sync_broker_acknowledges_what_it_shows(tmp_path: Path) -> None:
    """In sync mode a message is seen once it is flushed, so an acknowledged one can be pulled at once."""
    with servers.standalone(tmp_path, "--flush", "sync") as server, Wire(server.broker_addr) as wire:
        for number in range(20):
            ok(send(wire, "Sync", body=b"%d" % number))
            assert stored(wire, "Sync", 0, number)[0].body == b"%d" % number
        ok(send(wire, "Sync", body=b"does not wait", properties=text(WAIT="false")))
        ok(send(wire, "Sync", body=b"last"))
        assert [message.body for message in stored(wire, "Sync", 0, 20)] == [b"does not wait", b"last"]
        assert wire.ask(R.GET_MAX_OFFSET, {"topic": "Sync", "queueId": "0"}).ext["offset"] == "22"
