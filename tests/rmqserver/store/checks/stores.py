"""Stores that tests damage: small ones of ours with everything in them, and real ones of Apache's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rmqproto.java.java_hash import java_hash
from rmqproto.message import properties as props
from rmqproto.names import SCHEDULE_TOPIC, TIMER_TOPIC
from rmqserver.store.checks.finding import Severity, StoreFinding
from rmqserver.store.checks.store_check import CheckReport, check_store
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.disk.overlay import OverlayDisk
from rmqserver.store.disk.segments import FileCache
from rmqserver.store.found.survey import survey
from rmqserver.store.message_store import MessageStore
from rmqserver.store.new_message import NewMessage
from rmqserver.store.options import StoreOptions, TimerOptions, TimerPaths
from rmqserver.store.timers.timer_check import log_state
from rmqserver.store.timers.timer_store import TimerStore
from tests.rmqserver.store.conftest import HOST, put
from tests.support.clock import Clock

OPTIONS = StoreOptions(
    commit_log_file_size_bytes=4096, consume_queue_file_size_bytes=10 * 20, index_slot_count=7, index_unit_count=60,
    message_size_max_bytes=1024, light_queues_enabled=True,
)  # fmt: skip
TIMERS = TimerOptions(log_file_size_bytes=20 * 52)
NOW_MS = Clock().now_ms


def fill(root: Path, *, is_closed: bool = True, message_count: int = 40) -> Path:
    """Makes a store of ours: messages of three topics, one delayed, some timers, light queues, keys, tags, tables. If
    not ``is_closed``, it is left as a killed broker leaves it."""
    disk, clock = OsDisk(), Clock()
    store = MessageStore(root, OPTIONS, disk, clock, background=False)
    store.open()
    for number in range(message_count):
        clock.now_ms += 700
        topic = f"Topic{'ABC'[number % 3]}"
        put(store, topic, number % 2, b"body %d" % number * 5, keys=f"k{number}", unique=f"U{number}", tags="TagA")
        store.commit()
    delayed = f"{props.DELAY}\x012\x02{props.REAL_TOPIC}\x01TopicA\x02{props.REAL_QUEUE_ID}\x010\x02".encode()
    put(store, SCHEDULE_TOPIC, 1, b"delayed", unique="D", properties=delayed)
    store.put(NewMessage(
        topic="TopicA", queue_id=0, flag=0, sys_flag=0, born_timestamp_ms=1, born_host=HOST, store_host=HOST,
        reconsume_times=0, body=b"light", properties={props.MULTI_DISPATCH: "%LMQ%one,%LMQ%two", props.UNIQUE_KEY: "L"},
    ))  # fmt: skip
    store.commit()
    store.flush()
    timers = _timers(root, store, clock)
    files = ConfigFiles(f"{root}/config", disk, background=False)
    files.save("topics.json", {"topicConfigTable": {name: _topic(name) for name in _topic_names(store)}})
    files.save("consumerOffset.json", {"offsetTable": {"TopicA@GroupA": {0: 3, 1: 2}}})
    files.close()
    if is_closed:
        timers.stop(clock.now_ms)
        timers.prepare_checkpoint(clock.now_ms)()
        assert store.close()
    else:
        put(store, "TopicA", 0, b"the last one", unique="LAST")
        store.commit()
        store.abandon()
    return root


def _topic_names(store: MessageStore) -> list[str]:
    return [name for name in store.queues.names() if not name.startswith("%LMQ%")]


def _topic(name: str) -> dict[str, object]:
    return {"perm": 6, "readQueueNums": 2, "topicName": name, "writeQueueNums": 2}


def timers_of(root: Path, store: MessageStore) -> TimerStore:
    timers = TimerStore(TimerPaths.below(str(root)), TIMERS, store.disk, FileCache(store.disk, 4))
    timers.load(log_state(store), clean=True)
    return timers


def put_timer(
    store: MessageStore, timers: TimerStore, due_ms: int, now_ms: int, *, unique: str, is_delete: bool = False
) -> None:
    properties = f"{props.TIMER_OUT_MS}\x01{due_ms}\x02{props.REAL_TOPIC}\x01TopicA\x02{props.REAL_QUEUE_ID}\x010\x02"
    appended = put(store, TIMER_TOPIC, 0, b"timer", unique=unique, properties=properties.encode())
    store.commit()
    topic_hash = java_hash("TopicA")
    timers.enqueue(appended.log_offset, appended.size_bytes, topic_hash, due_ms, now_ms, is_delete=is_delete)
    timers.queue_offset += 1


def _timers(root: Path, store: MessageStore, clock: Clock) -> TimerStore:
    timers = timers_of(root, store)
    for number in range(5):
        due_ms = clock.now_ms + 60_000 + 1000 * (number // 2)
        put_timer(store, timers, due_ms, clock.now_ms, unique=f"T{number}")
    timers.due(clock.now_ms)
    timers.prepare_checkpoint(clock.now_ms)()
    return timers


@dataclass
class Damaged:
    """The store below ``root`` with changes that exist only here."""

    root: Path
    disk: OverlayDisk

    @classmethod
    def of(cls, root: Path) -> Damaged:
        return cls(root, OverlayDisk(OsDisk()))

    def write(self, name: str, data: bytes, at: int) -> None:
        self.disk.open(f"{self.root}/{name}").pwrite(data, at)

    def read(self, name: str, size_bytes: int, at: int) -> bytes:
        return self.disk.open(f"{self.root}/{name}").pread(size_bytes, at)

    def flip(self, name: str, at: int, bits: int) -> None:
        self.write(name, bytes([self.read(name, 1, at)[0] ^ bits]), at)

    def cut(self, name: str, size_bytes: int) -> None:
        self.disk.open(f"{self.root}/{name}").truncate(size_bytes)

    def remove(self, name: str) -> None:
        for path in (
            list(self.disk.listdir(f"{self.root}/{name}")) if self.disk.is_directory(f"{self.root}/{name}") else []
        ):
            self.remove(f"{name}/{path}")
        self.disk.unlink(f"{self.root}/{name}")
        self.disk.rmdir(f"{self.root}/{name}")

    def check(self, now_ms: int = NOW_MS) -> CheckReport:
        return check_store(survey(str(self.root), self.disk), clock_ms=Clock(now_ms))

    def found(self) -> list[StoreFinding]:
        """The findings that are damage."""
        return [finding for finding in self.check().findings if finding.severity is not Severity.NOTE]
