"""Soon after kill -9 the index lacks what was in the log: only requests that need it wait, each for itself."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers.consuming import QueryMessageHeader
from rmqproto.headers.sending import COMMIT, EndTransactionHeader
from rmqproto.message.record import decode_records_untrusted
from rmqproto.wire.command import Command, decode_frame_untrusted
from rmqserver.broker.sending.repeats import Repeats
from rmqserver.doors.remoting.queries import query_handlers
from rmqserver.doors.remoting.returned_messages import return_handlers
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request
from rmqserver.remoting.service import Handler
from rmqserver.store import message_store
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.index import feed
from rmqserver.store.message_store import MessageStore
from rmqserver.store.new_message import NewMessage
from tests.rmqserver.broker.parts import parts_on
from tests.rmqserver.broker.transactions.bench import GROUP, TIMEOUT_MS, Bench
from tests.rmqserver.store.conftest import HOST, TINY, put, put_many
from tests.support.clock import Clock

COUNT = 400


class Client:
    """Stands for a connection."""

    def __init__(self) -> None:
        self.closed = False
        self.sent: list[Command] = []
        self.address = "127.0.0.1:1"

    def send(self, frame: bytes) -> None:
        self.sent.append(decode_frame_untrusted(frame))


def request(code: int, header: Any) -> Any:
    return SimpleNamespace(
        code=code, header=header, opaque=1, is_oneway=False, codec=0, flag=0, language="JAVA",
        version=1, body=b"", ext={},
    )  # fmt: skip


def opened(directory: Path) -> MessageStore:
    store = MessageStore(directory, TINY, clock_ms=Clock(), background=False)
    store.open()
    return store


@pytest.fixture
def behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MessageStore]:
    """The store of a killed process, whose index has to read the log first."""
    monkeypatch.setattr(feed, "READ_AT_ONCE_BYTES", 0)
    store = opened(tmp_path / "store")
    put_many(store, COUNT)
    store.abandon()
    again = opened(tmp_path / "store")
    assert not again.has_whole_index
    yield again
    again.close()


def asking(store: MessageStore, key: str) -> tuple[Handler, Request[QueryMessageHeader], Any]:
    parts = parts_on(store, ConfigFiles(f"{store.directory.root}/config", store.disk))
    header = QueryMessageHeader(topic="T", key=key, max_num=32, begin_timestamp=0, end_timestamp=2**62)
    asked = query_handlers(parts)[RequestCode.QUERY_MESSAGE]
    return asked, request(RequestCode.QUERY_MESSAGE, header), Client()


def test_a_look_up_by_key_waits_for_the_index_and_reads_nothing_itself(behind: MessageStore) -> None:
    query, ask, client = asking(behind, "k7")
    before = behind.dispatch_behind_bytes
    query(ask, client)
    assert behind.dispatch_behind_bytes == before > 0
    assert not client.sent
    turns = 0
    while not client.sent:
        assert behind.dispatch_some() or client.sent
        turns += 1
    assert turns > 3
    assert [message.body for message in decode_records_untrusted(client.sent[0].body)] == [b"body 7"]
    query(ask, client)
    assert len(client.sent) == 2  # at once from now on


def test_what_is_not_there_is_said_when_the_index_knows(behind: MessageStore) -> None:
    query, ask, client = asking(behind, "nothing")
    gone = Client()
    query(ask, client)
    query(ask, gone)  # type: ignore[arg-type]
    gone.closed = True
    while behind.dispatch_some():
        pass
    assert [answer.code for answer in client.sent] == [ResponseCode.QUERY_NOT_FOUND]
    assert not gone.sent


def test_so_many_look_ups_wait(behind: MessageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_store, "WAITING_FOR_INDEX_MAX", 2)
    query, ask, client = asking(behind, "k7")
    for _ in range(2):
        query(ask, client)
    assert not client.sent
    with pytest.raises(Refused) as refused:
        query(ask, client)
    assert refused.value.code == ResponseCode.SYSTEM_BUSY


def test_a_checkpoint_does_not_wait_for_the_index_either(behind: MessageStore) -> None:
    """It made the loop read the whole log, once a minute had passed or an index file was full."""
    behind._flusher.is_checkpoint_due = True
    before = behind.dispatch_behind_bytes
    behind.on_flush_done()
    assert before * 0.5 < behind.dispatch_behind_bytes < before
    while behind.dispatch_some():
        pass
    behind.on_flush_done()
    assert not behind._flusher.is_checkpoint_due


def test_a_unique_key_that_may_be_in_the_log_is_refused_until_that_is_known(behind: MessageStore) -> None:
    files = ConfigFiles(f"{behind.directory.root}/config", behind.disk)
    parts = parts_on(behind, files, "uniqueKeyCheckMillis=600000")
    repeats = Repeats(parts.config, behind, parts.sequences)
    message = NewMessage(
        topic="T", queue_id=0, flag=0, sys_flag=0, born_timestamp_ms=1, born_host=HOST, store_host=HOST,
        reconsume_times=0, body=b"body 7", properties={"UNIQ_KEY": "U7"},
    )  # fmt: skip
    with pytest.raises(Refused) as refused:
        repeats.first(message, 0)
    assert refused.value.code == ResponseCode.SYSTEM_BUSY
    while behind.dispatch_some():
        pass
    first = repeats.first(message, 0)
    assert first.appended.queue_offset == 7


def test_a_commit_waits_until_it_is_known_whether_its_transaction_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path / "store")
    half = bench.send_half(b"one")
    bench.end(half)
    for number in range(COUNT):
        put(bench.store, "X", 0, b"more", unique=f"X{number}")
    bench.store.commit()
    monkeypatch.setattr(feed, "READ_AT_ONCE_BYTES", 0)
    again = bench.killed()
    assert not again.store.has_whole_index
    again.clock.now_ms += TIMEOUT_MS + 1
    trio.run(again.transactions.check)
    assert not again.store.has_whole_index
    assert not again.asked
    header = EndTransactionHeader(
        producer_group=GROUP, tran_state_table_offset=half.queue_offset, commit_log_offset=half.log_offset,
        commit_or_rollback=COMMIT, from_transaction_check=True, msg_id="",
    )  # fmt: skip
    client: Any = Client()
    handlers = return_handlers(again.parts)
    assert handlers[RequestCode.END_TRANSACTION](request(RequestCode.END_TRANSACTION, header), client) is None
    again.parts.pending.end_round()
    assert not client.sent
    while again.store.dispatch_some():
        pass
    again.flush()
    assert [answer.code for answer in client.sent] == [ResponseCode.SUCCESS]
    assert again.bodies() == [b"one"]
    again.close()


def test_tiny_logs_are_read_at_once() -> None:
    assert TINY.commit_log_file_size_bytes < feed.READ_AT_ONCE_BYTES
