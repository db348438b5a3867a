"""A broker's day in small: a seeded sequence of sends, batches, flushes, commits of a consumer, work put behind, clean
stops and new starts against a store on a ``RecordingDisk``; and the ledger, outside the store, of what was promised."""

from __future__ import annotations

import dataclasses
from random import Random

from rmqproto.errors import StorageError
from rmqproto.java_hash import tag_code
from rmqproto.record import BatchItem, encode_batch, host_bytes
from rmqserver.broker.offsets import ConsumerOffsets
from rmqserver.store.config_files import ConfigFiles
from rmqserver.store.consume_queue import UNIT
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import FlushMode, StoreOptions

from .recording_disk import RecordingDisk

USER_DIRECTORY = "/data"
"""There before the store is, and on the device."""
ROOT = f"{USER_DIRECTORY}/stores/store"
GROUP = "g"
HOST = host_bytes("127.0.0.1", 10911)
QUEUES = [("A", 0), ("A", 1), ("B", 7), ("%RETRY%g", 0)]
TAGS = ("", "red", "订单")

OPTIONS = StoreOptions(
    flush_mode=FlushMode.SYNC,
    commit_log_file_size_bytes=4096,
    consume_queue_file_size_bytes=10 * 20,
    index_slot_count=7,
    index_unit_count=20,
    message_size_max_bytes=1024,
    open_files_max=16,
)
"""Small enough to roll every kind of file within a few messages."""

Queue = tuple[str, int]
Table = dict[str, dict[int, int]]
"""Committed offsets by ``topic@group`` and queue id."""


def options_for(mode: FlushMode) -> StoreOptions:
    return dataclasses.replace(OPTIONS, flush_mode=mode)


@dataclasses.dataclass(frozen=True, slots=True)
class Sent:
    """One message as it must be found again."""

    queue: Queue
    queue_offset: int
    log_offset: int
    end_offset: int
    body: bytes
    properties: bytes
    tag: str
    keys: tuple[str, ...]
    """Of the index: unique key, keys, ``T#tag``."""

    @property
    def unit(self) -> bytes:
        return UNIT.pack(self.log_offset, self.end_offset - self.log_offset, tag_code(self.tag))


class Ledger:
    """What was sent, in log order, and how far promises go."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.seen_offset = 0
        """Log offset up to which a consumer may have seen messages, and producers have their answers."""
        self.flushed_offset = 0
        """Log offset up to which a flush had returned."""
        self.tables: list[Table] = []
        """Every version of the consumer's committed offsets that was given to ``save``."""
        self.saved_count = 0
        """Of those, how many were reported as saved."""


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


class Workload:
    """``step`` by ``step``, each chosen by the seed. ``disk`` is the store's; ``make_store`` may be replaced by a
    broken variant."""

    def __init__(self, mode: FlushMode, seed: int, disk: RecordingDisk, make_store: type[MessageStore] = MessageStore):
        self.mode = mode
        self.ledger = Ledger()
        self.clock = Clock()
        self._rng = Random(seed)
        self._disk = disk
        self._make_store = make_store
        self.is_open = False
        self._number = 0
        self._problems: list[StorageError] = []
        disk.mkdir(USER_DIRECTORY)
        disk.sync_directory("/")

    def start(self) -> None:
        self.store = self._make_store(
            ROOT, options_for(self.mode), self._disk, clock_ms=self.clock, background=False
        )  # fmt: skip
        end = self.store.open().end_offset
        self.ledger.sent = [sent for sent in self.ledger.sent if sent.end_offset <= end]
        self.files = ConfigFiles(self.store.directory.config, self._disk, self._problems.append)
        self.offsets = ConsumerOffsets(self.files, self.clock)
        try:
            self.offsets.load()
        except BaseException:
            self.store.close()
            raise
        self.is_open = True
        self._note()

    def stop(self) -> bool:
        self.is_open = False
        self._send_round(0)
        self.files.close()
        is_clean = self.store.close()
        self._note()
        return is_clean

    def step(self) -> None:
        """One thing that a broker does."""
        self.clock.now_ms += self._rng.choice((0, 1, 40, 1500))
        (do,) = self._rng.choices(
            (self._some_rounds, self._flush, self._save, self.store.dispatch_some, self._restart, self._kill),
            (10, 5, 2, 3, 1, 1),
        )
        do()

    # -- what a broker does

    def _some_rounds(self) -> None:
        for _ in range(self._rng.randrange(1, 4)):
            self._send_round(self._rng.randrange(1, 5))

    def _send_round(self, count: int) -> None:
        for _ in range(count):
            if self._rng.random() < 0.2:
                self._append_batch()
            else:
                self._append()
        self.store.commit()
        self._note()

    def _flush(self) -> None:
        """As the broker's loop after the flush thread has rung; rarely with a checkpoint, as every minute."""
        if self._rng.random() < 0.3:
            self.store.flush()
        else:
            self.store._flusher.flush()
            self.store.on_flush_done()
        self._note()

    def _save(self) -> None:
        """A consumer has come as far as it can see, and its offsets are saved."""
        for topic, queue_id in QUEUES:
            self.offsets.commit(GROUP, topic, queue_id, self.store.max_offset(topic, queue_id))
        self.ledger.tables.append({topic: dict(queues) for topic, queues in self.offsets.committed_table.items()})
        if self.offsets._is_changed:
            self._problems.clear()
        self.offsets.save()
        self.files.wait_until_saved()
        if not self._problems:
            self.ledger.saved_count = len(self.ledger.tables)

    def _restart(self) -> None:
        assert self.stop()
        self.start()

    def _kill(self) -> None:
        """The process ends as by kill -9; what it had handed to the kernel is there for the next one."""
        self.is_open = False
        self.files.close()
        self.store._release()
        self.start()

    # -- messages

    def _message(self) -> tuple[bytes, bytes, str, tuple[str, ...]]:
        self._number += 1
        unique, tag = f"U{self._number}", self._rng.choice(TAGS)
        keys = [f"k{self._number}", "all"][: self._rng.randrange(3)]
        named = {"UNIQ_KEY": unique, "KEYS": " ".join(keys), "TAGS": tag}
        if self._rng.random() < 0.2:
            named["note"] = "n" * self._rng.randrange(600)
        properties = "".join(f"{name}\x01{value}\x02" for name, value in named.items() if value)
        body = self._rng.randbytes(self._rng.choice((0, 10, 100, 100, 700)))
        return body, properties.encode(), tag, (unique, *keys, *([f"T#{tag}"] if tag else []))

    def _append(self) -> None:
        queue = self._rng.choice(QUEUES)
        body, properties, tag, keys = self._message()
        done = self.store.append(*queue, 0, 0, 1, HOST, HOST, 0, body, properties)
        end = done.log_offset + done.size_bytes
        self.ledger.sent.append(Sent(queue, done.queue_offset, done.log_offset, end, body, properties, tag, keys))

    def _append_batch(self) -> None:
        queue = self._rng.choice(QUEUES)
        messages = [self._message() for _ in range(self._rng.randrange(1, 4))]
        items = [BatchItem(0, body[:100], properties) for body, properties, _, _ in messages]
        first, offsets = self.store.append_batch(*queue, 0, 1, HOST, HOST, 0, encode_batch(items))
        ends = [*offsets[1:], self.store._appender.end_offset]
        for i, (body, properties, tag, keys) in enumerate(messages):
            self.ledger.sent.append(
                Sent(queue, first.queue_offset + i, offsets[i], ends[i], body[:100], properties, tag, keys)
            )

    def _note(self) -> None:
        self.ledger.seen_offset = self.store.visible_offset
        self.ledger.flushed_offset = self.store.flushed_offset
