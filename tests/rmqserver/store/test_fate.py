"""A record enters the same queues and index when it is sent and when it is read back from the log, whatever its
sysFlag."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqproto.message.record import BatchItem, decode_record_untrusted, encode_batch, host_bytes
from rmqserver.store.fate import BATCH_QUEUED, DUE_TIME, INDEXED, QUEUED, fate
from rmqserver.store.log.scan import scan
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import FlushMode, StoreOptions
from rmqserver.store.results import MessageRefused
from tests.crash.recording_disk import Loss, RecordingDisk
from tests.support.clock import Clock
from tests.support.quick import first_is_quick

ROOT = "/store"
OPTIONS = StoreOptions(
    commit_log_file_size_bytes=64 << 10, consume_queue_file_size_bytes=100 * 20, index_slot_count=2000,
    index_unit_count=1000, message_size_max_bytes=1024, flush_mode=FlushMode.SYNC,
)  # fmt: skip
HOSTS = {"IPv4": host_bytes("127.0.0.1", 10911), "IPv6": host_bytes("::1", 10911)}
LOW_BITS = list(range(256))
HIGH_BITS = [1 << bit for bit in range(8, 31)] + [-(1 << 31), -1, 0x700, 0x78C]
I32 = st.integers(-(1 << 31), (1 << 31) - 1)

KEPT_BITS = [1 << bit for bit in range(8, 31)] + [-(1 << 31), 0x300, 0x700, 0x301]
APACHE = {
    "plain": {
        "queued, indexed": [*range(0x4), *range(0x8, 0xC), *range(0x40, 0x44), *range(0x48, 0x4C), *KEPT_BITS],
        "indexed": [*range(0x4, 0x8), *range(0x44, 0x48)],
        "stored": [*range(0xC, 0x10), *range(0x4C, 0x50)],
        "MESSAGE_ILLEGAL": [*range(0x80, 0x90), *range(0xC0, 0xD0), 0x780, 0x78C],
    },
    "batch": {
        "queued, indexed": [*range(0x4), *range(0x40, 0x44), *KEPT_BITS],
        "MESSAGE_ILLEGAL": [
            *range(0x4, 0x10),
            *range(0x44, 0x50),
            *range(0x80, 0x90),
            *range(0xC0, 0xD0),
            0x780,
            0x78C,
        ],
    },
}
"""What a broker of Apache RocketMQ 5.5.0 made of sends with these sysFlags, from IPv4 hosts. Each was stored as it came
or refused, and was the same after its queues and its index had been removed. A send with the host bits 0x10 or 0x20 was
acknowledged and is in no queue, because its record is damaged; our broker clears those bits."""

Send = Callable[[MessageStore, int, int, bytes], None]
Seen = dict[str, object]


def send(store: MessageStore, queue_id: int, sys_flag: int, host: bytes, topic: str = "T", key: str = "k") -> None:
    properties = f"UNIQ_KEY\x01U{queue_id}\x02KEYS\x01{key}{queue_id}\x02TAGS\x01t\x02DELAY\x013\x02".encode()
    store.append(topic, queue_id, 0, sys_flag, 1, host, host, 0, b"body", properties)


def send_delayed(store: MessageStore, queue_id: int, sys_flag: int, host: bytes) -> None:
    send(store, queue_id, sys_flag, host, "SCHEDULE_TOPIC_XXXX")


def send_batch(store: MessageStore, queue_id: int, sys_flag: int, host: bytes) -> None:
    items = [BatchItem(0, b"%d" % number, b"KEYS\x01k%d\x02" % queue_id) for number in range(2)]
    store.append_batch("T", queue_id, sys_flag, 1, host, host, 0, encode_batch(items))


SENDS = {"plain": send, "delayed": send_delayed, "batch": send_batch}


def send_around(store: MessageStore, queue_id: int, sys_flag: int, host: bytes, each: Send) -> str:
    """Sends one message with this sysFlag between two plain ones; returns "taken" or the status of its refusal."""
    send(store, queue_id, 0, host, key="before")
    try:
        each(store, queue_id, sys_flag, host)
        answer = "taken"
    except MessageRefused as refused:
        answer = refused.status.value
    send(store, queue_id, 0, host, key="after")
    store.commit()
    return answer


def seen(store: MessageStore, queue_count: int) -> Seen:
    """Everything that a reader can see, except the records' log offsets."""
    found: Seen = {}
    for topic in ("T", "SCHEDULE_TOPIC_XXXX"):
        for queue_id in range(queue_count):
            queue = store.queues.find(topic, queue_id)
            if queue is not None and queue.max_offset:
                units = queue.units(0, queue.max_offset)
                found[f"{topic}-{queue_id}"] = (queue.min_offset, queue.max_offset, queue.next_offset, units)
            for key in (f"before{queue_id}", f"k{queue_id}", f"after{queue_id}", f"U{queue_id}"):
                found[f"{topic} {key}"] = store.query(topic, key, 64, 0, 1 << 60).records
    return found


def opened(disk: RecordingDisk) -> MessageStore:
    store = MessageStore(ROOT, OPTIONS, disk, Clock(), background=False)
    store.open()
    return store


def removed(disk: RecordingDisk, *names: str) -> RecordingDisk:
    for path in disk.tree():
        if path.startswith(tuple(f"{ROOT}/{name}" for name in names)):
            disk.unlink(path)
    return disk


def after_starts(store: MessageStore, disk: RecordingDisk) -> dict[str, RecordingDisk]:
    """The disks on which the next process may have to start."""
    flushed_log_only = disk.image(Loss.NOTHING, Random(0))
    store.flush()
    killed = disk.image(Loss.NOTHING, Random(0))
    power_cut = disk.image(Loss.EVERYTHING, Random(0))
    assert store.close()
    return {
        "stopped": disk.image(Loss.NOTHING, Random(0)),
        "killed": killed,
        "killed before the checkpoint": flushed_log_only,
        "power cut": power_cut,
        "no queues": removed(disk.image(Loss.NOTHING, Random(0)), "consumequeue"),
        "no index": removed(disk.image(Loss.NOTHING, Random(0)), "index"),
        "log alone": removed(killed.image(Loss.NOTHING, Random(0)), "consumequeue", "index", "checkpoint"),
    }


def check_live_and_replayed(sys_flags: list[int], host: bytes, each: Send) -> list[str]:
    disk = RecordingDisk()
    store = opened(disk)
    answers = [send_around(store, queue_id, sys_flag, host, each) for queue_id, sys_flag in enumerate(sys_flags)]
    store.flush()
    live = seen(store, len(sys_flags))
    for how, left in after_starts(store, disk).items():
        again = opened(left)
        replayed = seen(again, len(sys_flags))
        assert [name for name in live if live[name] != replayed.get(name)] == [], how
        again.close()
    return answers


@pytest.mark.slow
@pytest.mark.parametrize("host", first_is_quick(HOSTS.values()), ids=HOSTS)
@pytest.mark.parametrize("each", SENDS.values(), ids=SENDS)
def test_live_and_replayed_agree_for_every_sys_flag(host: bytes, each: Send) -> None:
    check_live_and_replayed(LOW_BITS + HIGH_BITS, host, each)


@settings(max_examples=30)
@given(st.lists(I32, min_size=1, max_size=3), st.sampled_from(list(HOSTS.values())), st.sampled_from([*SENDS.values()]))
def test_live_and_replayed_agree_for_any_bits(sys_flags: list[int], host: bytes, each: Send) -> None:
    check_live_and_replayed(sys_flags, host, each)


def outcome(sys_flag: int, kind: str) -> str:
    """The outcome in the words of ``APACHE``; checks that the sysFlag is stored as it was sent."""
    store = opened(RecordingDisk())
    answer = send_around(store, 7, sys_flag, HOSTS["IPv4"], SENDS[kind])
    store.flush()
    taken_count = 0 if answer != "taken" else 2 if kind == "batch" else 1
    assert [record.sys_flag for record in scan(store.log.segments, 0)] == [0, *[sys_flag] * taken_count, 0]
    if answer == "taken":
        is_queued = store.max_offset("T", 7) == 2 + taken_count
        is_indexed = len(store.query("T", "k7", 64, 0, 1 << 60).records) == taken_count
        answer = ", ".join(["queued"] * is_queued + ["indexed"] * is_indexed) or "stored"
    store.close()
    return answer


@pytest.mark.parametrize("kind", APACHE)
def test_every_sys_flag_counts_for_what_it_does_in_apache_s_broker(kind: str) -> None:
    expected = {sys_flag: word for word, sys_flags in APACHE[kind].items() for sys_flag in sys_flags}
    assert {sys_flag: outcome(sys_flag, kind) for sys_flag in expected} == expected


@pytest.mark.parametrize("kind", ["plain", "batch"])
@pytest.mark.parametrize(("host", "stored"), [("IPv4", 0x1), ("IPv6", 0x31)])
@pytest.mark.parametrize("bits", [0x11, 0x21, 0x31])
def test_the_host_bits_fit_the_hosts(kind: str, host: str, stored: int, bits: int) -> None:
    store = opened(RecordingDisk())
    SENDS[kind](store, 0, bits, HOSTS[host])
    store.commit()
    store.flush()
    assert {decode_record_untrusted(record).sys_flag for record in store.get("T", 0, 0, 32).records()} == {stored}
    store.close()


def test_fates_by_hand() -> None:
    assert [fate(bits, "T") for bits in (0x0, 0x4, 0x8, 0xC)] == [QUEUED | INDEXED, INDEXED, QUEUED | INDEXED, 0]
    assert [fate(bits, "T") for bits in (0x80, 0x84, 0x8C)] == [BATCH_QUEUED | INDEXED, INDEXED, 0]
    assert fate(0, "SCHEDULE_TOPIC_XXXX") == QUEUED | INDEXED | DUE_TIME
    assert fate(-1, "T") == 0
