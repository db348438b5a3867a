"""Stores of real Apache brokers - stopped, killed, torn, of 5.3.3, with light queues - can be opened here, and hold
what Apache said they hold: offsets, messages, index, tables. One in RocksDB is refused."""

import hashlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqproto.errors import StorageError
from rmqproto.message.record import StoredMessage, decode_record_untrusted, host_text
from rmqserver.broker.tables.consumer_offsets import ConsumerOffsets
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.log.scan import scan
from rmqserver.store.message_store import MessageStore, open_read_only
from rmqserver.store.results import GetStatus
from tests.support.compressions import can_read
from tests.support.quick import first_is_quick

from .golden import SIZES, manifest, messages, unpack

NAMES = ["clean", "killed", "torn", "lmq", "torn-body", "store-5.3.3"]
OTHER_QUEUES = {"BatchCqTopic", "CompactTopic"}
"""These topics have no consume queues, but inner batches and a compaction log. Their records are in the log."""

LIGHT = "%LMQ%"
"""Light queues point to records of another topic."""


@pytest.fixture(scope="module", params=first_is_quick(NAMES, count=4))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def unpacked(name: str, tmp_path_factory: Any) -> Path:
    """The store as it was packed. Copy it before you change anything."""
    return unpack(name, tmp_path_factory.mktemp(name))


@pytest.fixture(scope="module", params=first_is_quick(["reopened", "read-only", "read-write"]))
def store(request: pytest.FixtureRequest, name: str, unpacked: Path, tmp_path_factory: Any) -> Iterator[MessageStore]:
    directory = shutil.copytree(unpacked, tmp_path_factory.mktemp(name) / "store")
    if request.param == "read-only":
        opened = open_read_only(directory, SIZES)
    else:
        opened = MessageStore(directory, SIZES, background=False)
        opened.open()
        if request.param == "reopened":
            assert opened.close()
            opened = MessageStore(directory, SIZES, background=False)
            opened.open()
    yield opened
    assert opened.close()


def every_message(store: MessageStore) -> Iterator[StoredMessage]:
    for queue in store.queues.all():
        offset = queue.min_offset
        while offset < queue.max_offset:
            result = store.get(queue.topic, queue.queue_id, offset, 32)
            assert result.status is GetStatus.FOUND
            for i, record in enumerate(result.records()):
                message = decode_record_untrusted(record)
                assert message.queue_offset == offset + i or queue.topic.startswith(LIGHT)
                yield message
            offset = result.next_offset


def test_queues_and_log_end_where_apache_says(store: MessageStore, name: str) -> None:
    told = manifest(name)
    assert str(store.log.min_offset) == told["runtime"]["commitLogMinOffset"]
    assert str(store.confirmed_offset) == told["runtime"]["commitLogMaxOffset"]
    for topic, about in told["topics"].items():
        if topic in OTHER_QUEUES:
            continue
        for queue_id, offsets in about["queues"].items():
            found = (store.min_offset(topic, int(queue_id)), store.max_offset(topic, int(queue_id)))
            assert found == (offsets["minOffset"], offsets["maxOffset"]), (topic, queue_id)


def test_every_message_is_the_one_apache_serves(store: MessageStore, name: str) -> None:
    told = {(m["topic"], m["queueId"], m["queueOffset"]): m for m in messages(name) if m["topic"] not in OTHER_QUEUES}
    if not told:
        pytest.skip("only offsets are told of this store")
    found = {(m.topic, m.queue_id, m.queue_offset): m for m in every_message(store) if m.topic not in OTHER_QUEUES}
    unreadable = {key for key in found if key[0] == "WriteOnlyTopic"}
    assert found.keys() - unreadable == told.keys()
    for key, expected in told.items():
        _assert_same(found[key], expected)


def _assert_same(message: StoredMessage, told: dict[str, Any]) -> None:
    assert message.log_offset == told["commitLogOffset"]
    assert message.size_bytes == told["storeSize"]
    assert message.sys_flag == told["storedSysFlag"]
    assert message.store_timestamp_ms == told["storeTimestamp"]
    assert host_text(message.born_host) == told["bornHost"]
    assert message.is_intact
    assert message.properties == told["properties"]
    if can_read(message.sys_flag):
        assert hashlib.sha256(message.plain_body()).hexdigest() == told["bodySha256"]


def test_inner_batches_and_compacted_messages_are_in_the_log(store: MessageStore, name: str) -> None:
    told = {m["uniqueKey"]: m for m in messages(name) if m["topic"] in OTHER_QUEUES}
    if not told:
        pytest.skip("only offsets are told of this store")
    assert {m["topic"] for m in told.values()} == OTHER_QUEUES
    found = {}
    for record in scan(store.log.segments, store.log.min_offset):
        if record.topic in OTHER_QUEUES:
            data = store.get_record(record.log_offset)
            assert data is not None
            message = decode_record_untrusted(data)
            found[message.properties["UNIQ_KEY"]] = message
    for key, expected in told.items():
        if expected["topic"] == "CompactTopic":  # the expected offset is that in the compaction log
            expected["commitLogOffset"] = found[key].log_offset
        _assert_same(found[key], expected)
        assert found[key].queue_offset == expected["queueOffset"]


def test_tables_are_what_apache_says(name: str, unpacked: Path) -> None:
    told = manifest(name)
    files = ConfigFiles(str(unpacked / "config"), OsDisk())
    topics = {topic: about["config"] for topic, about in told["topics"].items() if about["config"] is not None}
    assert files.load("topics.json")["topicConfigTable"] == topics
    groups = files.load("subscriptionGroup.json")["subscriptionGroupTable"]
    assert groups == told["subscriptionGroups"]["subscriptionGroupTable"]
    assert files.load("delayOffset.json")["offsetTable"] == told["delayOffsets"]["offsetTable"]
    offsets = ConsumerOffsets(files, lambda: 0)
    offsets.load()
    in_words = {
        key: {str(queue): at for queue, at in queues.items()} for key, queues in offsets.committed_table.items()
    }
    assert in_words == told["consumerOffsets"]["offsetTable"]


@pytest.mark.parametrize(
    "way", [open_read_only, lambda path, sizes: MessageStore(path, sizes, background=False).open()]
)
def test_rocksdb_is_recognised_and_refused_in_words(tmp_path: Path, way: Callable[..., object]) -> None:
    directory = unpack("rocksdb", tmp_path)
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    with pytest.raises(StorageError, match="is a RocksDB database") as caught:
        way(directory, SIZES)
    assert str(directory / "consumequeue") in str(caught.value)
    assert "rebuilt from commitlog/" in str(caught.value.hint)
    assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()} == before


def test_index_finds_what_apache_finds(store: MessageStore, name: str) -> None:
    for query in manifest(name).get("queries", []):
        found = store.query(query["topic"], query["key"], 64, 0, 1 << 60, query["indexType"])
        offsets = [decode_record_untrusted(record).log_offset for record in found.records]
        told = query["commitLogOffsets"]  # after a crash Apache's index may hold a message twice
        assert set(told) <= set(offsets), query
        has_tag_entries = name != "store-5.3.3" or query["indexType"] != "T"
        if has_tag_entries and len(told) < 64:
            assert sorted(set(told)) == offsets, query


def test_looking_changes_no_byte(unpacked: Path) -> None:
    before = {path: path.read_bytes() for path in unpacked.rglob("*") if path.is_file()}
    with_index = open_read_only(unpacked, SIZES)
    assert list(every_message(with_index))
    with_index.close()
    assert {path: path.read_bytes() for path in unpacked.rglob("*") if path.is_file()} == before
