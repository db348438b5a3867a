"""Requests whose messages are not in memory: they are answered once a thread has loaded what they lack, and the loop
never waits for the device."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import pytest
import trio

from rmqproto.bodies.groups import ConsumerData, SubscriptionGroupConfig
from rmqproto.bodies.statistics import TopicStats
from rmqproto.codes import VERSION, ResponseCode
from rmqproto.codes import RequestCode as R
from rmqproto.errors import StorageError
from rmqproto.headers.base import Header, NoFields
from rmqproto.headers.consuming import (
    PULL_SUBSCRIPTION,
    ConsumeDirectlyHeader,
    MaxOffsetHeader,
    PullHeader,
    QueryConsumerOffsetHeader,
    QueryMessageHeader,
    QueueHeader,
    ResetOffsetHeader,
    SearchOffsetHeader,
    TopicGroupHeader,
    ViewMessageHeader,
)
from rmqproto.headers.popping import PeekHeader, PopHeader
from rmqproto.headers.sending import COMMIT, EndTransactionHeader, SendBackHeader
from rmqproto.headers.tables import BrokerConsumeStatsHeader, ConsumeStatsHeader, QueryConsumeQueueHeader, TopicHeader
from rmqproto.message import properties as props
from rmqproto.message.message_id import offset_id
from rmqproto.message.record import decode_record_untrusted, decode_records_untrusted
from rmqproto.names import TRANSACTION_HALF_TOPIC, retry_topic
from rmqproto.wire.command import Command
from rmqproto.wire.fastjson import loads_untrusted
from rmqserver.broker.reads import OnLoaded, Reads, read_in_task
from rmqserver.core import simple
from rmqserver.doors.remoting.admin_requests import config_and_state_handlers, topic_handlers
from rmqserver.doors.remoting.online_clients import client_handlers
from rmqserver.doors.remoting.pop_requests import pop_handlers
from rmqserver.doors.remoting.pulls import pull_handlers
from rmqserver.doors.remoting.queries import query_handlers
from rmqserver.doors.remoting.returned_messages import return_handlers
from rmqserver.metrics.broker_families import BrokerFamilies
from rmqserver.operation import OnPeerAnswer
from rmqserver.remoting.answer import Request
from rmqserver.store.disk import cached_reads
from rmqserver.store.disk.cached_reads import mode
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.disk.disk import OsDisk, OsFile
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import StoreOptions
from rmqserver.store.queues import reader
from tests.rmqserver.broker.parts import parts_on
from tests.rmqserver.store.conftest import HOST, put
from tests.support.stub_connection import StubConnection

GROUP, QUEUE_COUNT = "G", 4
OPTIONS = StoreOptions(commit_log_file_size_bytes=1 << 20, consume_queue_file_size_bytes=100 * 20, index_slot_count=64,
                       index_unit_count=1000)  # fmt: skip


class ColdFile(OsFile):
    """A file of which only what ``warm`` names is in memory. It does not let the loop wait."""

    __slots__ = ()
    loop_runs = False
    warm: tuple[str, ...] = ()

    def pread_cached(self, size_bytes: int, at: int) -> bytes | None:
        return super().pread_cached(size_bytes, at) if any(part in self.path for part in self.warm) else None

    def pread(self, size_bytes: int, at: int) -> bytes:
        in_loop = ColdFile.loop_runs and threading.current_thread() is threading.main_thread()
        assert mode.loaded is not None or not in_loop, f"the loop waits for {self.path}"
        return super().pread(size_bytes, at)


class ColdDisk(OsDisk):
    def open(self, path: str, **more: Any) -> OsFile:
        file = super().open(path, **more)
        file.__class__ = ColdFile
        return file


class ReadsByHand(Reads):
    """Reads that go on when the test says so."""

    def __init__(self, store: MessageStore, end_round: Callable[[], None]):
        super().__init__(store, end_round)
        self.is_free = True
        self._left: list[tuple[Callable[[], object], OnLoaded]] = []

    def _start(self, work: Callable[[], object], on_loaded: OnLoaded) -> None:
        self._left.append((work, on_loaded))

    def finish(self, failed: Exception | None = None) -> int:
        """Does all that is left to do; returns how many reads there were."""
        count = 0
        while self._left:
            work, on_loaded = self._left.pop(0)
            ColdFile.loop_runs = False
            work()
            ColdFile.loop_runs = True
            on_loaded(failed)
            count += 1
        return count


class Answering:
    """Stands for a consumer that does what it is asked."""

    def ask(self, code: int, header: Header, body: bytes, on_answer: OnPeerAnswer, timeout_s: float) -> None:
        assert decode_record_untrusted(body).body
        on_answer(Command(code=ResponseCode.SUCCESS))


class Bench:
    """A broker's services over a store that was filled and opened again."""

    def __init__(self, directory: Path):
        self.store = MessageStore(directory, OPTIONS, ColdDisk(), background=False)
        self.store.open()
        self.half = put(
            self.store, TRANSACTION_HALF_TOPIC, 0, b"half",
            properties=f"{props.PRODUCER_GROUP}\x01{GROUP}\x02{props.REAL_TOPIC}\x01Ended\x02{props.REAL_QUEUE_ID}\x010\x02".encode(),
        )  # fmt: skip
        for number in range(40):
            self.message = put(self.store, "T", number % QUEUE_COUNT, b"%d" % number, keys=f"k{number}")
        self.store.commit()
        self.store.close()
        with patch.object(reader, "PlainPulls", simple.PlainPulls):  # the core asks the kernel, not ColdFile
            self.store = MessageStore(directory, OPTIONS, ColdDisk(), background=False)
        self.store.open()
        self.files = ConfigFiles(str(directory / "config"), OsDisk())
        self.parts = parts = parts_on(self.store, self.files, reads=ReadsByHand)
        self.reads = cast(ReadsByHand, parts.reads)
        self.handlers: dict[int, Any] = {}
        for handlers in (
            pop_handlers, query_handlers, return_handlers, pull_handlers, client_handlers, topic_handlers,
            config_and_state_handlers,
        ):  # fmt: skip
            self.handlers |= handlers(parts)
        parts.topics.create_system("T", QUEUE_COUNT)
        parts.groups.put(SubscriptionGroupConfig(group_name=GROUP))
        parts.clients.register_consumer(ConsumerData(group_name=GROUP), "c", cast(Any, Answering()), "JAVA", VERSION)
        for queue_id in range(QUEUE_COUNT):
            parts.offsets.commit(GROUP, "T", queue_id, 5)
        for topic in (retry_topic(GROUP), parts.popping._log.topic, "Ended"):
            for queue_id in range(8):  # written to before, so open; those of T are not
                put(self.store, topic, queue_id, b"")
        self.store.commit()
        self.store.flush()  # the index, too
        parts.transactions.load()
        ColdFile.loop_runs = True

    def ask(self, code: int, header: Any) -> StubConnection:
        peer: Any = StubConnection()
        frame = self.handlers[code](Request(code=code, opaque=1, header=header), peer)
        if frame is not None:
            peer.send(frame)
        self.parts.pending.end_round()
        asked: StubConnection = peer
        return asked

    def pop_header(self, queue_id: int = -1) -> PopHeader:
        return PopHeader(consumer_group=GROUP, topic="T", queue_id=queue_id, max_msg_nums=32, invisible_time=60_000,
                         poll_time=0, born_time=self.parts.clock_ms(), init_mode=0)  # fmt: skip

    def pull_header(self) -> PullHeader:
        return PullHeader(consumer_group=GROUP, topic="T", queue_id=0, queue_offset=0, max_msg_nums=32,
                          sys_flag=PULL_SUBSCRIPTION, subscription="*")  # fmt: skip

    def committed(self) -> list[int | None]:
        return [self.parts.offsets.committed(GROUP, "T", queue_id) for queue_id in range(QUEUE_COUNT)]


@pytest.fixture
def bench(device_path: Path) -> Iterator[Bench]:
    made = Bench(device_path)
    yield made
    ColdFile.loop_runs, ColdFile.warm = False, ()
    made.files.close()
    made.store.close()


def answered(peer: StubConnection) -> Command:
    (answer,) = peer.answers
    return answer


QUESTIONS: dict[str, tuple[int, Callable[[Bench], Any]]] = {
    "pop": (R.POP_MESSAGE, lambda bench: bench.pop_header()),
    "peek": (R.PEEK_MESSAGE, lambda bench: PeekHeader(consumer_group=GROUP, topic="T", queue_id=0, max_msg_nums=9)),
    "query by key": (
        R.QUERY_MESSAGE,
        lambda bench: QueryMessageHeader(topic="T", key="k7", max_num=9, begin_timestamp=0, end_timestamp=1 << 60),
    ),
    "view": (R.VIEW_MESSAGE_BY_ID, lambda bench: ViewMessageHeader(offset=bench.message.log_offset)),
    "pull": (R.PULL_MESSAGE, lambda bench: bench.pull_header()),
    "end of a queue": (R.GET_MAX_OFFSET, lambda bench: MaxOffsetHeader(topic="T", queue_id=0)),
    "begin of a queue": (R.GET_MIN_OFFSET, lambda bench: QueueHeader(topic="T", queue_id=0)),
    "topic stats": (R.GET_TOPIC_STATS_INFO, lambda bench: TopicHeader(topic="T")),
    "runtime info": (R.GET_BROKER_RUNTIME_INFO, lambda bench: NoFields()),
    "offset of a new group": (
        R.QUERY_CONSUMER_OFFSET, lambda bench: QueryConsumerOffsetHeader(consumer_group="New", topic="T", queue_id=0)
    ),
    "units": (R.QUERY_CONSUME_QUEUE, lambda bench: QueryConsumeQueueHeader(topic="T", queue_id=0, index=1, count=3)),
    "consume stats": (R.GET_CONSUME_STATS, lambda bench: ConsumeStatsHeader(consumer_group=GROUP, topic="T")),
    "broker stats": (R.GET_BROKER_CONSUME_STATS, lambda bench: BrokerConsumeStatsHeader(is_order=False)),
    "time span": (R.QUERY_CONSUME_TIME_SPAN, lambda bench: TopicGroupHeader(topic="T", group=GROUP)),
    "search by time": (
        R.SEARCH_OFFSET_BY_TIMESTAMP,
        lambda bench: SearchOffsetHeader(topic="T", queue_id=0, timestamp=bench.parts.clock_ms() - 1000),
    ),
    "earliest time": (R.GET_EARLIEST_MSG_STORETIME, lambda bench: QueueHeader(topic="T", queue_id=0)),
    "reset": (
        R.INVOKE_BROKER_TO_RESET_OFFSET,
        lambda bench: ResetOffsetHeader(topic="T", group=GROUP, timestamp=1, is_force=True),
    ),
    "send back": (
        R.CONSUMER_SEND_MSG_BACK,
        lambda bench: SendBackHeader(group=GROUP, offset=bench.message.log_offset, delay_level=0, origin_topic="T"),
    ),
    "consume directly": (
        R.CONSUME_MESSAGE_DIRECTLY,
        lambda bench: ConsumeDirectlyHeader(
            consumer_group=GROUP, client_id="c", msg_id=offset_id(HOST, bench.message.log_offset)
        ),
    ),
    "end of a transaction": (
        R.END_TRANSACTION,
        lambda bench: EndTransactionHeader(
            producer_group=GROUP, tran_state_table_offset=0, commit_log_offset=bench.half.log_offset,
            commit_or_rollback=COMMIT, from_transaction_check=True, msg_id="",
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS)
def test_what_is_not_in_memory_is_loaded_by_a_thread(bench: Bench, question: str) -> None:
    code, header_of = QUESTIONS[question]
    peer = bench.ask(code, header_of(bench))
    assert not peer.frames
    assert bench.reads.finish()
    assert answered(peer).code == ResponseCode.SUCCESS, answered(peer).remark


@pytest.mark.parametrize("question", ["view", "pop", "consume stats"])
def test_a_read_that_fails_is_told(bench: Bench, question: str) -> None:
    code, header_of = QUESTIONS[question]
    peer = bench.ask(code, header_of(bench))
    bench.reads.finish(StorageError("cannot read the file: broken"))
    assert answered(peer).code == ResponseCode.SYSTEM_ERROR
    assert "broken" in str(answered(peer).remark)


def test_a_pull_of_an_open_queue_is_loaded_in_one_go(bench: Bench) -> None:
    ColdFile.loop_runs = False
    assert bench.store.queues.find("T", 0) is not None
    ColdFile.loop_runs = True
    peer = bench.ask(R.PULL_MESSAGE, bench.pull_header())
    assert bench.reads.finish() == 1
    answer = answered(peer)
    assert (answer.code, answer.ext["nextBeginOffset"]) == (ResponseCode.SUCCESS, "10")
    assert len(decode_records_untrusted(answer.body)) == 10


def test_many_queues_are_read_in_portions(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Statistics of a topic with 16,000 queues would open them all in one call."""
    monkeypatch.setattr(cached_reads, "ITEMS_AT_A_TIME", 2)
    ColdFile.warm = ("",)
    peer = bench.ask(R.GET_TOPIC_STATS_INFO, TopicHeader(topic="T"))
    assert not peer.frames
    opened = list(bench.store.queues.topics["T"].queues)
    assert (opened, bench.reads.finish()) == ([3, 0, 1], 1), "the start opened one of them"
    assert len(loads_untrusted(answered(peer).body, TopicStats).offset_table) == QUEUE_COUNT


def test_a_pop_moves_no_offset_before_it_has_its_messages(bench: Bench) -> None:
    peer = bench.ask(R.POP_MESSAGE, bench.pop_header())
    assert bench.committed() == [5] * QUEUE_COUNT
    bench.reads.finish()
    assert answered(peer).code == ResponseCode.SUCCESS
    assert 5 not in [each for each in bench.committed() if each != 5]
    assert max(each or 0 for each in bench.committed()) > 5


def test_a_pop_takes_what_is_in_memory_and_leaves_the_rest(bench: Bench) -> None:
    ColdFile.loop_runs = False
    assert len(bench.store.queues.of_topic("T")) == QUEUE_COUNT  # all are open
    ColdFile.loop_runs = True
    ColdFile.warm = ("commitlog", "consumequeue/T/2")
    peer = bench.ask(R.POP_MESSAGE, bench.pop_header())
    assert answered(peer).code == ResponseCode.SUCCESS
    assert [offset != 5 for offset in bench.committed()] == [False, False, True, False]
    assert bench.reads.finish(), "the others are loaded for the next pop"


def test_metrics_are_read_off_the_loop(bench: Bench) -> None:
    families = BrokerFamilies(
        bench.parts.config, bench.parts.store, bench.parts.topics, bench.parts.groups, bench.parts.offsets,
        bench.parts.clients, bench.parts.stats, bench.parts.timer_store,
    )  # fmt: skip
    found = trio.run(read_in_task, families.read())
    assert found.kept_since_ms is not None
    assert ("T", 20) in [(each.topic, each.lag_count) for each in found.progress], "each of four queues is at 5 of 10"
    assert list(families.families(0, found))


def test_who_has_gone_meanwhile_takes_nothing(bench: Bench) -> None:
    peer = bench.ask(R.POP_MESSAGE, bench.pop_header())
    peer.closed = True
    bench.reads.finish()
    assert bench.committed() == [5] * QUEUE_COUNT
