"""A broker's day in miniature: a seeded sequence of sends, batches, flushes, commits of a consumer, deferred work,
clean stops, kills and starts, against a store on a ``RecordingDisk``. A ledger outside the store records what was
promised."""

import dataclasses
from collections.abc import Callable, Sequence
from random import Random

from rmqproto.bodies.routes import TopicConfig
from rmqproto.java.java_hash import tag_code
from rmqproto.message.record import BatchItem, encode_batch, host_bytes
from rmqserver.broker.tables.config_table import ConfigTable
from rmqserver.broker.tables.consumer_offsets import ConsumerOffsets
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.message_store import DEFAULT_PARTS, MessageStore, StoreParts
from rmqserver.store.options import FlushMode, StoreOptions
from rmqserver.store.queues.consume_queue import UNIT
from tests.support.clock import Clock

from .recording_disk import RecordingDisk

USER_DIRECTORY = "/data"
"""A directory that is on the device before the store is made."""
ROOT = f"{USER_DIRECTORY}/stores/store"
GROUP = "g"
HOST = host_bytes("127.0.0.1", 10911)
QUEUES = [("A", 0), ("A", 1), ("B", 7), ("%RETRY%g", 0)]
TAGS = ("", "red", "订单")

OPTIONS = StoreOptions(
    flush_mode=FlushMode.SYNC, commit_log_file_size_bytes=4096, consume_queue_file_size_bytes=10 * 20,
    index_slot_count=7, index_unit_count=20, message_size_max_bytes=1024, open_files_max=16,
)  # fmt: skip
"""Small enough to roll every kind of file within a few messages."""

CHANGES = 0.4
"""How often a round changes the topics."""
MEANWHILE = 0.1
"""How often the topics change between two calls of a sync of tables."""

Queue = tuple[str, int]
Table = dict[str, dict[int, int]]
"""Committed offsets by ``topic@group`` and queue id."""

Topics = dict[str, int]
"""Permissions by name."""


def options_for(mode: FlushMode) -> StoreOptions:
    return dataclasses.replace(OPTIONS, flush_mode=mode)


@dataclasses.dataclass(frozen=True, slots=True)
class Sent:
    """A message as it must be found after a crash."""

    queue: Queue
    queue_offset: int
    log_offset: int
    end_offset: int
    body: bytes
    properties: bytes
    tag: str
    keys: tuple[str, ...]
    """Its keys in the index: unique key, keys, ``T#tag``."""

    @property
    def unit(self) -> bytes:
        return UNIT.pack(self.log_offset, self.end_offset - self.log_offset, tag_code(self.tag))


class Ledger:
    """The messages sent, in log order, and the promises made."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.seen_offset = 0
        """Log offset up to which a consumer may have seen messages, and producers have their answers."""
        self.flushed_offset = 0
        """Log offset up to which a flush has returned."""
        self.tables: list[Table] = []
        """Every version of the consumer's committed offsets that was given to ``save``."""
        self.saved_count = 0
        """How many of those were reported as saved."""
        self.topics: list[Topics] = [{}]
        """Every version of the topics; the last may not be written yet."""
        self.answered_topics = 0
        """The newest version that was answered."""
        self.synced_topics = 0
        """The newest version that survives a power cut."""


def topic_table(files: ConfigFiles, clock: Clock) -> ConfigTable[TopicConfig]:
    """A table without Apache's system topics, which every broker has."""
    return ConfigTable(files, "topics.json", "topicConfigTable", TopicConfig, clock)


def topics_of(table: ConfigTable[TopicConfig]) -> Topics:
    return {name: topic.perm for name, topic in table.all().items()}


def _batch_of(messages: Sequence[tuple[bytes, bytes, str, tuple[str, ...]]]) -> bytes:
    return encode_batch([BatchItem(0, body[:100], properties) for body, properties, _, _ in messages])


class Workload:
    """Call ``step`` repeatedly: the seed chooses what each does. ``disk`` is the store's. One of its ``parts``, or the
    way in which ``tables`` are written, may be broken."""

    def __init__(
        self,
        mode: FlushMode,
        seed: int,
        disk: RecordingDisk,
        parts: StoreParts = DEFAULT_PARTS,
        tables: type[ConfigFiles] = ConfigFiles,
    ):
        self.mode = mode
        self.ledger = Ledger()
        self.clock = Clock()
        self._rng = Random(seed)
        self._topics_rng = Random(seed)
        self._is_syncing = False
        self._disk = disk
        self._parts = parts
        self._tables = tables
        self.is_open = False
        self._number = 0
        disk.mkdir(USER_DIRECTORY)
        disk.sync_directory("/")

    def start(self) -> None:
        self.store = MessageStore(
            ROOT, options_for(self.mode), self._disk, clock_ms=self.clock, parts=self._parts, background=False
        )
        end = self.store.open().end_offset
        self.ledger.sent = [sent for sent in self.ledger.sent if sent.end_offset <= end]
        self.files = self._tables(self.store.directory.config, self._disk, background=False)
        self.offsets = ConsumerOffsets(self.files, self.clock)
        self.topics = topic_table(self.files, self.clock)
        try:
            self.offsets.load()
            self.topics.load()
        except BaseException:
            self.store.close()
            raise
        self.is_open = True
        self._note()

    def stop(self) -> bool:
        self.is_open = False
        self._send_round(0)
        self._sync_tables(self.files.close)
        is_clean = self.store.close()
        self._note()
        return is_clean

    def step(self) -> None:
        """Does one thing that a broker does."""
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
        if self._topics_rng.random() < CHANGES:
            self._change_topics()
        for _ in range(count):
            if self._rng.random() < 0.2:
                self._append_batch()
            else:
                self._append()
        self.store.commit()
        self._note()

    def _flush(self) -> None:
        """Does what the broker's loop does after a flush of the log, or now and then a full flush with a checkpoint,
        which a broker makes every minute."""
        if self._rng.random() < 0.3:
            self.store.flush()
        else:
            self.store.flush_log()
            self.store.on_flush_done()
        self._note()

    def _save(self) -> None:
        """Saves the offsets of a consumer that has consumed all it can see."""
        for topic, queue_id in QUEUES:
            self.offsets.commit(GROUP, topic, queue_id, self.store.max_offset(topic, queue_id))
        self.ledger.tables.append({topic: dict(queues) for topic, queues in self.offsets.committed_table.items()})
        self.offsets.save()
        if self._sync_tables(self.files.wait_until_saved):
            self.ledger.saved_count = len(self.ledger.tables)

    def _change_topics(self) -> None:
        """Creates, changes or deletes a topic."""
        rng, ledger = self._topics_rng, self.ledger
        name, perm = f"T{rng.randrange(8)}", rng.choice((2, 4, 6))
        wanted = {**topics_of(self.topics), name: perm}
        goes = name in self.topics.all() and rng.random() < 0.3
        if goes:
            del wanted[name]
        ledger.topics.append(wanted)
        if goes:
            self.topics.delete(name)
        else:
            self.topics.put_entries({name: TopicConfig(topic_name=name, perm=perm)})
        if "topics.json" not in self.files._failed:
            ledger.answered_topics = len(ledger.topics) - 1

    def meanwhile(self) -> None:
        """Called after each change of the disk. While a thread syncs tables, the broker goes on and may change
        topics."""
        if self._is_syncing and self._topics_rng.random() < MEANWHILE:
            self._is_syncing = False
            self._change_topics()
            self._is_syncing = True

    def _sync_tables(self, sync: Callable[[], None]) -> bool:
        """Syncs the tables; returns whether everything that was handed over is on the device."""
        answered = self.ledger.answered_topics
        self._is_syncing = True
        sync()
        self._is_syncing = False
        if self.files._failed:
            return False
        self.ledger.synced_topics = answered
        return True

    def _restart(self) -> None:
        assert self.stop()
        self.start()

    def remove_queues(self) -> None:
        """After a stop or a kill, removes the consume queues, which can be rebuilt from the log; every second time also
        the note of where they end, which other brokers do not write."""
        if self._rng.random() < 0.5:
            assert self.stop()
        else:
            self.is_open = False
            self.files.close()
            self.store.abandon()
        self._disk.remove_tree(f"{ROOT}/consumequeue")
        if self._number % 2:
            self._disk.remove_tree(f"{ROOT}/queueEnds")
        self.start()

    def _kill(self) -> None:
        """Ends the process as kill -9 does. Data that it has handed to the kernel is there for the next process."""
        self.is_open = False
        self.files.close()
        self.store.abandon()
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
        while len(batch := _batch_of(messages)) > OPTIONS.message_size_max_bytes:
            messages.pop()
        first, offsets = self.store.append_batch(*queue, 0, 1, HOST, HOST, 0, batch)
        ends = [*offsets[1:], self.store.end_offset]
        for i, (body, properties, tag, keys) in enumerate(messages):
            self.ledger.sent.append(
                Sent(queue, first.queue_offset + i, offsets[i], ends[i], body[:100], properties, tag, keys)
            )

    def _note(self) -> None:
        self.ledger.seen_offset = self.store.confirmed_offset
        self.ledger.flushed_offset = self.store.flushed_offset
