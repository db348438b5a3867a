"""Invariants of every image that a crash has left, once the store was opened on it. ``check`` raises ``Violation`` with
a sentence; it trusts only the ledger and the bytes that were handed to the file system."""

import dataclasses
from bisect import bisect_right
from random import Random

from rmqproto.java.java_hash import abs_hash, extend_hash
from rmqserver.broker.tables.consumer_offsets import ConsumerOffsets
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import FlushMode
from rmqserver.store.recovery.recovery import Recovered
from tests.support.clock import Clock

from .recording_disk import Directory, Inode, Loss, Node, RecordingDisk
from .workload import GROUP, QUEUES, ROOT, Ledger, Sent, Table, Topics, options_for, topic_table, topics_of


class Violation(AssertionError):
    """A promise did not hold after the recovery of an image."""


@dataclasses.dataclass(frozen=True, slots=True)
class Promise:
    """What must hold for an image of one moment."""

    sent: list[Sent]
    log: dict[str, bytes]
    """Commit log files as they were handed to the kernel."""
    kept_offset: int
    """Log offset before which everything must be there."""
    tables: list[Table]
    saved_count: int
    """How many versions of the table were reported as saved."""
    topics: list[Topics]
    """Versions of the topics, one of which must be there; after a power cut each topic may be from another version."""
    is_killed: bool
    """Whether the process was killed, without a power cut."""


def promise(ledger: Ledger, disk: RecordingDisk, mode: FlushMode, loss: Loss) -> Promise:
    """Messages that were seen survive a kill. In async mode, a power cut may take those that were not flushed."""
    is_seen_kept = mode is FlushMode.SYNC or loss is Loss.NOTHING
    kept = max(ledger.flushed_offset, ledger.seen_offset if is_seen_kept else 0)
    kept_topics = ledger.answered_topics if loss is Loss.NOTHING else ledger.synced_topics
    topics = ledger.topics[kept_topics:]
    return Promise(ledger.sent, log_files(disk), kept, ledger.tables, ledger.saved_count, topics, loss is Loss.NOTHING)


def log_files(disk: RecordingDisk) -> dict[str, bytes]:
    node = node_at(disk, f"{ROOT}/commitlog")
    return {name: bytes(file.data) for name, file in node.entries.items() if isinstance(file, Inode)} if isinstance(
        node, Directory) else {}  # fmt: skip


def node_at(disk: RecordingDisk, path: str) -> Node | None:
    return disk.find(path)


def check(image: RecordingDisk, promised: Promise, mode: FlushMode, rng: Random) -> int:
    """Recovers the image, checks everything, and recovers it again. Returns where the log ends."""
    clock = Clock()
    store, recovered = _opened(image, mode, clock)
    end = _check_log(store, promised)
    found = _check_queues(store, promised, end)
    if rng.random() < 0.5:  # else it ends before the index has the entries that recovery has put off
        _check_index(store, promised, end, rng)
    _check_offsets(image, store, promised, mode, was_clean=recovered.was_clean)
    _check_topics(image, store, promised)
    if rng.random() < 0.5:
        if not store.close():
            raise Violation(f"the recovered store cannot be closed: {store.flags.reason}")
    else:  # as if killed again, before anything was written
        store.abandon()
    before = image.tree()
    again, _ = _opened(image, mode, clock)
    if (again.written_offset, _queue_state(again)) != (end, found):
        raise Violation(f"a second recovery ends at {again.written_offset}, the first did at {end}")
    _check_unchanged(before, image.tree())
    _check_index(again, promised, end, rng)
    again.abandon()
    return end


def _opened(image: RecordingDisk, mode: FlushMode, clock: Clock) -> tuple[MessageStore, Recovered]:
    store = MessageStore(ROOT, options_for(mode), image, clock_ms=clock, background=False)
    try:
        recovered = store.open()
    except Exception as error:
        raise Violation(f"the store does not open: {error!r}") from error
    return store, recovered


def _check_unchanged(before: dict[str, bytes], after: dict[str, bytes]) -> None:
    """The checkpoint may vouch for less: the first recovery may know from the log again what a removed file held."""
    for path, content in after.items():
        if path.endswith(("/abort", "/queueFiles", "/checkpoint")) or "/index/" in path:
            continue
        if before.get(path) != content:
            raise Violation(f"a second recovery changed {path}")


def _check_log(store: MessageStore, promised: Promise) -> int:
    """The log is the beginning of the written one, at least as long as promised, and ends with a whole message."""
    end = store.written_offset
    if end < promised.kept_offset:
        raise Violation(f"the log ends at {end}; messages up to {promised.kept_offset} were acknowledged")
    if store.confirmed_offset != end or store.flushed_offset != end:
        raise Violation(f"ends differ: {store.written_offset}, {store.confirmed_offset}, {store.flushed_offset}")
    size = store.log.file_size_bytes
    for base in range(0, end, size):
        found = store.log.segments.read(base, min(size, end - base))
        written = promised.log.get(f"{base:020d}", b"")[: len(found)]
        if len(found) == size:
            blank_at = promised.sent[bisect_right(promised.sent, base + size, key=_end_of) - 1].end_offset - base
            found, written = (_without_size(data, blank_at) for data in (found, written))
        if found != written or len(found) < min(size, end - base):
            raise Violation(f"the log file at {base} is not what was written")
    last = bisect_right(promised.sent, end, key=_end_of)
    if end and (not last or promised.sent[last - 1].end_offset != end):
        raise Violation(f"the log ends at {end}, in the middle of a message")
    return end


def _without_size(data: bytes, blank_at: int) -> bytes:
    """Masks the size of the blank at the end of a file, which is torn if a sector ends within it. Readers do not use
    that size: they know a blank by its magic number (``CommitLog.checkMessageAndReturnSize``, 5.5.0)."""
    return data[:blank_at] + bytes(4) + data[blank_at + 4 :]


def _end_of(sent: Sent) -> int:
    return sent.end_offset


def _there(promised: Promise, end: int) -> list[Sent]:
    return promised.sent[: bisect_right(promised.sent, end, key=_end_of)]


def _queue_state(store: MessageStore) -> list[tuple[str, int, int, int, int]]:
    return sorted((q.topic, q.queue_id, q.min_offset, q.max_offset, q.next_offset) for q in store.queues.all()
                  if q.next_offset)  # fmt: skip


def _check_queues(store: MessageStore, promised: Promise, end: int) -> list[tuple[str, int, int, int, int]]:
    expected: dict[tuple[str, int], list[bytes]] = {}
    for sent in _there(promised, end):
        expected.setdefault(sent.queue, []).append(sent.unit)
    for queue in store.queues.all():
        units = expected.pop((queue.topic, queue.queue_id), [])
        if (queue.min_offset, queue.max_offset, queue.next_offset) != (0, len(units), len(units)):
            raise Violation(
                f"{queue.topic}-{queue.queue_id} is [{queue.min_offset}, {queue.max_offset}), next "
                f"{queue.next_offset}; the log holds {len(units)} messages of it"
            )
        found = b""
        while len(found) < 20 * len(units) and (data := queue.units(len(found) // 20, len(units))):
            found += data
        if found != b"".join(units):
            raise Violation(f"{queue.topic}-{queue.queue_id} does not equal the log")
    if expected:
        raise Violation(f"queues {sorted(expected)} are missing")
    return _queue_state(store)


def _check_index(store: MessageStore, promised: Promise, end: int, rng: Random) -> None:
    """The index has every entry once, in log order, and finds it by its key, once pending work is done."""
    while store.dispatch_some():
        pass
    index = store.index
    assert index is not None
    found = []
    for file in index.files:
        for number in range(1, file.header.next_unit):
            unit = file.unit(number)
            found.append((int.from_bytes(unit[:4], "big"), int.from_bytes(unit[4:12], "big")))
    there = _there(promised, end)
    expected = [(_hash(sent.queue[0], key), sent.log_offset) for sent in there for key in sent.keys]
    if found != expected:
        raise Violation(f"the index has {len(found)} entries, the log's messages have {len(expected)}, or they differ")
    if there:
        sent = rng.choice(there)
        key = rng.choice(sent.keys)
        if sent.log_offset not in index.query(sent.queue[0], key, len(expected), 0, 1 << 60):
            raise Violation(f"the index does not find the message at {sent.log_offset} by {key}")


_hashes: dict[tuple[str, str], int] = {}


def _hash(topic: str, key: str) -> int:
    found = _hashes.get((topic, key))
    if found is None:
        found = _hashes[topic, key] = abs_hash(extend_hash(0, f"{topic}#{key}"))
    return found


def _check_topics(image: RecordingDisk, store: MessageStore, promised: Promise) -> None:
    """The topics are a version at least as new as the last one that was answered. After a power cut, each topic is from
    some version at least as new as the last one that was synced."""
    table = topic_table(ConfigFiles(store.directory.config, image), Clock())
    try:
        table.load()
    except Exception as error:
        raise Violation(f"the topics cannot be read: {error!r}") from error
    found, versions = topics_of(table), promised.topics
    if promised.is_killed:
        is_one = found in versions
    else:
        names = found.keys() | set().union(*versions)
        is_one = all(any(found.get(name) == version.get(name) for version in versions) for name in names)
    if not is_one:
        raise Violation(f"the topics are {found}, which is none of {promised.topics}")


def _check_offsets(
    image: RecordingDisk, store: MessageStore, promised: Promise, mode: FlushMode, *, was_clean: bool
) -> None:
    """The consumer's offsets are at least as new as the last saved version, and not ahead of the log once the broker
    has loaded them."""
    offsets = ConsumerOffsets(ConfigFiles(store.directory.config, image), store.clock_ms)
    try:
        offsets.load()
    except Exception as error:
        raise Violation(f"the table cannot be read: {error!r}") from error
    tables = promised.tables[max(0, promised.saved_count - 1) :]
    if offsets.committed_table not in tables and (promised.saved_count or offsets.committed_table):
        raise Violation(f"the table is {offsets.committed_table}; {promised.saved_count} versions were saved")
    is_ahead = _is_ahead(offsets, store)
    if is_ahead and mode is FlushMode.SYNC:
        raise Violation("a committed offset is ahead of its queue, though only flushed messages are seen")
    if not was_clean:  # as the broker does
        offsets.hold_back(store.max_offset)
    if _is_ahead(offsets, store):
        raise Violation("a committed offset is ahead of its queue")


def _is_ahead(offsets: ConsumerOffsets, store: MessageStore) -> bool:
    return any(
        offsets.queues(GROUP, topic).get(queue_id, 0) > store.max_offset(topic, queue_id) for topic, queue_id in QUEUES
    )
