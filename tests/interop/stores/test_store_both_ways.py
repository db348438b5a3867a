"""One broker writes a store directory through the real Java client, is stopped cleanly or killed, and the other broker
opens the store: Apache's by ours, ours by Apache's. The Java client must then see what it saw before, field by field.

An Apache store that Apache's broker opens again is the control: where that fails, ours need not succeed.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ..cluster import SETTINGS, SYSTEMS
from ..events import Message, Outgoing
from ..witness import Witness, eventually

pytestmark = pytest.mark.interop

# Small files, so that log, consume queues and index all span several. Both sides use the same sizes, as the layout
# demands.
SMALL_FILES = {
    **SETTINGS, "mappedFileSizeCommitLog": str(1 << 20), "mappedFileSizeConsumeQueue": str(1000 * 20),
    "maxHashSlotNum": "1000", "maxIndexNum": "2000",
}  # fmt: skip
PLAIN, MANY, BATCHED, LATER, GROUP = "MovedPlain", "MovedMany", "MovedBatched", "MovedLater", "MovedGroup"
PENDING_LEVEL = 6  # 15 s in SETTINGS: not due when the store changes hands
LONG_BODY = b"a body that the client compresses " * 1000
PLAIN_COUNT, MANY_COUNT, BATCH_COUNT, BATCH_SIZE = 400, 2100, 4, 32
DEAD = f"%DLQ%{GROUP}"
COUNTS = {PLAIN: PLAIN_COUNT, MANY: MANY_COUNT, BATCHED: BATCH_COUNT * BATCH_SIZE + 1, DEAD: 1}

MOVES = [
    ("apache", "killed", "apache"),
    ("apache", "stopped", "ours"),
    ("apache", "killed", "ours"),
    ("ours", "stopped", "apache"),
    ("ours", "killed", "apache"),
]


@dataclass(frozen=True)
class Written:
    """A closed store, and what its broker told about it."""

    store_dir: Path
    ports: tuple[int, int]
    messages: dict[str, list[Message]]
    places: dict[str, dict[int, tuple[int, int]]]
    committed: dict[int, int]


@dataclass(frozen=True)
class Moved:
    """A written store, open in the other broker, which listens where the first did."""

    before: Written
    java: Witness
    is_clean: bool


def plain_messages() -> list[Outgoing]:
    bodies = [b"%d " % i + bytes(range(256)) * (i % 8) for i in range(PLAIN_COUNT)]
    bodies[7] = LONG_BODY
    return [
        Outgoing(
            body=body,
            tags=("TagA", "标签", None)[i % 3],
            keys=f"PLAIN-{i} ключ",
            properties={"number": str(i), "省": "浙江"},
            flag=i,
        )
        for i, body in enumerate(bodies)
    ]


def fill(java: Witness) -> None:
    """Messages of every kind, a group that has consumed some of them, and a dead letter."""
    for topic, queues in ((PLAIN, 4), (MANY, 1), (BATCHED, 2), (LATER, 1)):
        java.create_topic(topic, queues=queues)
    java.send(PLAIN, plain_messages())
    java.send(
        MANY, [Outgoing(body=b"%d" % i, tags=f"T{i % 7}", keys=f"MANY-{i}") for i in range(MANY_COUNT)], mode="async"
    )
    for number in range(BATCH_COUNT):
        java.send_batch(BATCHED, [Outgoing(body=b"%d" % i, keys=f"BATCH-{number}-{i}") for i in range(BATCH_SIZE)])
    consumer = java.consume(GROUP, BATCHED, fail_tag="Bad", retry_delay_level=-1)
    java.send(BATCHED, [Outgoing(body=b"bad", tags="Bad")])
    consumer.until_count(COUNTS[BATCHED])
    java.read_all(DEAD, 1)
    consumer.stop()
    eventually(lambda: java.query_key(MANY, f"MANY-{MANY_COUNT - 1}"), 1)


def places(java: Witness, topic: str) -> dict[int, tuple[int, int]]:
    return {q.queue_id: (q.min_offset, q.max_offset) for q in java.offsets(topic).values()}


def write(system: str, way: str, work: Path) -> Written:
    with SYSTEMS[system](work, SMALL_FILES) as cluster:
        with Witness(cluster.namesrv_addr, work / "java") as java:
            fill(java)
            messages = {topic: java.read_all(topic, count) for topic, count in COUNTS.items()}
            said = {topic: places(java, topic) for topic in COUNTS}
            committed = {q: p.committed_offset for q, p in java.until_caught_up(GROUP, BATCHED).items()}
            java.send(LATER, [Outgoing(body=b"pending", tags="TagL", keys="LATE", delay_level=PENDING_LEVEL)])
        if way == "stopped":
            cluster.stop()
        else:
            cluster.kill()
        return Written(cluster.store_dir, cluster.ports, messages, said, committed)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Written]:
    """Each kind of store is written once, and copied for each broker that opens it."""
    stores: dict[tuple[str, str], Written] = {}

    def store(system: str, way: str) -> Written:
        if (system, way) not in stores:
            stores[system, way] = write(system, way, tmp_path_factory.mktemp(f"{system}-{way}"))
        return stores[system, way]

    return store


@pytest.fixture(
    scope="module", params=MOVES, ids=["-".join((writer, way, "to", reader)) for writer, way, reader in MOVES]
)
def moved(
    request: pytest.FixtureRequest, written: Callable[[str, str], Written], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Moved]:
    writer, way, reader = request.param
    before = written(writer, way)
    work = tmp_path_factory.mktemp(f"{way}-{writer}-in-{reader}")
    shutil.copytree(before.store_dir, work / "store")
    with (
        SYSTEMS[reader](work, SMALL_FILES, ports=before.ports) as cluster,
        Witness(cluster.namesrv_addr, work / "java") as java,
    ):
        java.read_all(PLAIN, PLAIN_COUNT)  # the broker is ready, but the nameserver may not know its topics yet
        yield Moved(before, java, is_clean=way == "stopped")
    shutil.rmtree(work / "store")


def by_place(messages: list[Message]) -> dict[tuple[int, int], dict[str, Any]]:
    return {(m.queue_id, m.queue_offset): m.as_stored() for m in messages}


@pytest.mark.parametrize("topic", COUNTS)
def test_every_message_is_served_with_equal_fields(moved: Moved, topic: str) -> None:
    assert by_place(moved.java.read_all(topic, COUNTS[topic])) == by_place(moved.before.messages[topic])
    assert places(moved.java, topic) == moved.before.places[topic]


def test_what_was_sent_is_what_is_served(moved: Moved) -> None:
    """Compares with the sent messages, since the other test would miss a change that the first broker made."""
    stored = {int(m.user_properties["number"]): m for m in moved.java.read_all(PLAIN, PLAIN_COUNT)}
    assert len(stored) == PLAIN_COUNT
    for number, outgoing in enumerate(plain_messages()):
        message = stored[number]
        assert (message.body, message.tags, message.keys, message.flag) == (
            outgoing.body,
            outgoing.tags,
            outgoing.keys,
            outgoing.flag,
        )
        assert message.user_properties == outgoing.properties


def test_messages_are_found_by_key_and_by_both_ids(moved: Moved) -> None:
    for topic, key in ((MANY, "MANY-0"), (MANY, f"MANY-{MANY_COUNT - 1}"), (BATCHED, "BATCH-2-30"), (PLAIN, "PLAIN-7")):
        [expected] = [m for m in moved.before.messages[topic] if key in (m.keys or "").split()]
        [found] = eventually(lambda topic=topic, key=key: moved.java.query_key(topic, key), 1)  # type: ignore[misc]
        assert found.as_stored() == expected.as_stored()
        [found] = moved.java.query_unique_id(topic, expected.msg_id)
        assert found.as_stored() == expected.as_stored()
        assert moved.java.view(topic, expected.offset_msg_id).as_stored() == expected.as_stored()


def test_places_are_found_by_time(moved: Moved) -> None:
    stored = [m for m in moved.before.messages[PLAIN] if m.queue_id == 0]
    for message in stored[:: len(stored) // 5]:
        expected = next(m.queue_offset for m in stored if m.store_timestamp >= message.store_timestamp)
        assert moved.java.search_offset(PLAIN, 0, message.store_timestamp) == expected


def test_the_group_goes_on_and_queues_grow_from_where_they_ended(moved: Moved) -> None:
    """After a kill the group's last offsets may be lost, and then it consumes some messages again."""
    if moved.is_clean:
        assert {q: p.committed_offset for q, p in moved.java.progress(GROUP, BATCHED).items()} == moved.before.committed
    ends = {q: end for q, (_, end) in places(moved.java, BATCHED).items()}
    new = [Outgoing(body=b"new %d" % i, keys=f"NEW-{i}", queue_id=i % 2) for i in range(6)]
    answers = moved.java.send(BATCHED, new)
    assert [(a.queue_id, a.queue_offset) for a in answers] == [(i % 2, ends[i % 2] + i // 2) for i in range(6)]
    consumer = moved.java.consume(GROUP, BATCHED)
    consumer.until(lambda messages: {m.body for m in messages} >= {o.body for o in new}, "the new messages")
    consumed = consumer.stop()
    if moved.is_clean:
        assert sorted(m.body for m in consumed) == [o.body for o in new]
    assert [m.body for m in eventually(lambda: moved.java.query_key(BATCHED, "NEW-5"), 1)] == [b"new 5"]


def test_a_pending_delayed_message_is_delivered_once_by_the_other_broker(moved: Moved) -> None:
    [delivered] = moved.java.read_all(LATER, 1)
    assert (delivered.body, delivered.tags, delivered.keys) == (b"pending", "TagL", "LATE")
    assert delivered.store_timestamp - delivered.born_timestamp >= 15_000
