"""Pulls whose records a thread has to read."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from rmqproto.bodies.statistics import ConsumerOffsetsBody
from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.errors import StorageError
from rmqproto.headers.consuming import PULL_SUBSCRIPTION, PullHeader
from rmqproto.wire.fastjson import loads_untrusted
from rmqserver.broker.reads import OnLoaded, Reads
from rmqserver.doors.remoting.pulls import pull_handlers
from rmqserver.doors.remoting.queries import table_handlers
from rmqserver.remoting.answer import Request
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import StoreOptions
from rmqserver.store.results import GetResult
from tests.rmqserver.broker.parts import parts_on
from tests.rmqserver.store.conftest import put
from tests.rmqserver.store.queues.test_walks import SlowDisk
from tests.support.servers import topic_config
from tests.support.stub_connection import StubConnection


class ReadsByHand(Reads):
    """Reads that finish when the test says so."""

    def __init__(self, store: MessageStore):
        super().__init__(store, lambda: None)
        self.is_free = True
        self._store = store
        self._waiting_reads: list[tuple[GetResult, OnLoaded]] = []

    def load(self, result: GetResult, on_loaded: OnLoaded) -> None:
        self._waiting_reads.append((result, on_loaded))

    def finish(self) -> None:
        result, on_loaded = self._waiting_reads.pop()
        on_loaded(None if self._store.load(result).is_loaded else AssertionError())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    """A store with two messages that are not in memory."""
    large = 33 << 20  # the store assumes that the newest 32 MiB are in memory
    options = StoreOptions(commit_log_file_size_bytes=64 << 20, message_size_max_bytes=large, index_enabled=False)
    opened = MessageStore(tmp_path, options, SlowDisk(), background=False)
    opened.open()
    for number in (1, 2):
        put(opened, body=b"%d" % number, properties=b"a\x01%d\x02" % number)
    put(opened, "Large", body=bytes(large))
    opened.commit()
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("expression", "code"), [("a > 1", ResponseCode.SUCCESS), ("a > 2", ResponseCode.PULL_RETRY_IMMEDIATELY)]
)
def test_pull_offset_is_behind_what_the_second_stage_has_looked_at(
    store: MessageStore, tmp_path: Path, expression: str, code: int
) -> None:
    files = ConfigFiles(str(tmp_path / "config"), OsDisk())
    reads = ReadsByHand(store)
    parts = parts_on(store, files, "enablePropertyFilter=true", reads=lambda *_: reads)
    parts.topics.put(topic_config("T"))
    pull = pull_handlers(parts)[R.PULL_MESSAGE]
    header = PullHeader(
        consumer_group="G", topic="T", queue_id=0, queue_offset=0, max_msg_nums=32, sys_flag=PULL_SUBSCRIPTION,
        subscription=expression, expression_type="SQL92",
    )  # fmt: skip
    peer: Any = StubConnection()
    pull(Request(code=R.PULL_MESSAGE, opaque=1, header=header), peer)
    assert (peer.frames, parts.offsets.pull_offset("G", "T", 0)) == ([], 0)
    reads.finish()
    assert [answer.code for answer in peer.answers] == [code]
    assert parts.offsets.pull_offset("G", "T", 0) == 2
    files.close()


async def test_who_waits_for_a_thread_at_the_end_is_told(store: MessageStore) -> None:
    told: list[Exception | None] = []
    result = store.get("T", 0, 0, 32, cached_only=True)
    async with trio.open_nursery() as nursery:
        reads = Reads(store, lambda: None)
        reads.start(nursery)
        reads.load(result, told.append)
        nursery.cancel_scope.cancel()
    reads.end()
    assert [type(each) for each in told] == [StorageError]
    assert not reads.is_free


async def test_what_takes_long_is_made_by_a_thread(store: MessageStore) -> None:
    """With 50,000 topics, a slave that copied all offsets stopped the loop for half a second."""
    made: list[int] = []
    failed: list[str] = []

    def fail() -> int:
        raise StorageError("no")

    def guarded(go_on: Callable[[], None]) -> None:
        try:
            go_on()
        except StorageError as error:
            failed.append(str(error))

    reads = Reads(store, lambda: None)
    reads.make(threading.get_ident, made.append, guarded)
    assert made == [threading.get_ident()], "there are no threads yet"
    async with trio.open_nursery() as nursery:
        reads.start(nursery)
        reads.make(threading.get_ident, made.append, guarded)
        reads.make(fail, made.append, guarded)
    assert (len(set(made)), failed) == (2, ["no"])


async def test_a_slave_that_copies_all_offsets_gets_those_of_its_request(store: MessageStore, tmp_path: Path) -> None:
    files = ConfigFiles(str(tmp_path / "config"), OsDisk())
    parts = parts_on(store, files)
    parts.offsets.commit("G", "T", 0, 1)
    peer: Any = StubConnection()
    async with trio.open_nursery() as nursery:
        parts.reads.start(nursery)
        table_handlers(parts)[R.GET_ALL_CONSUMER_OFFSET](
            Request(code=R.GET_ALL_CONSUMER_OFFSET, opaque=1, header=None), peer
        )
        assert peer.frames == []
        parts.offsets.commit("G", "T", 0, 2)
    (answer,) = peer.answers
    assert loads_untrusted(answer.body, ConsumerOffsetsBody).offset_table == {"T@G": {0: 1}}
    files.close()
