"""Light queues: the names in a message, the units that the store writes for it, and that the log alone restores
them."""

import dataclasses
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.message.record import decode_record_untrusted
from rmqserver.core import Appended
from rmqserver.store.message_store import MessageStore
from rmqserver.store.new_message import NewMessage
from rmqserver.store.options import StoreOptions
from rmqserver.store.queues.light import light_units_untrusted
from rmqserver.store.results import GetStatus, MessageRefused, PutStatus
from tests.rmqserver.store.conftest import HOST, TINY, put
from tests.rmqserver.store.golden import SIZES, unpack

LIGHT = dataclasses.replace(TINY, light_queues_enabled=True)


def put_light(store: MessageStore, names: str, topic: str = "T", **properties: str) -> Appended:
    message = NewMessage(topic, 0, 0, 0, 1, HOST, HOST, 0, b"body", {"INNER_MULTI_DISPATCH": names, **properties})
    appended = store.put(message)
    store.commit()
    return appended


def opened(path: Path, options: StoreOptions = LIGHT) -> MessageStore:
    store = MessageStore(path, options, background=False)
    store.open()
    return store


def log_offsets(store: MessageStore, name: str) -> list[int]:
    """The log offsets of a light queue's records."""
    found: list[int] = []
    while (result := store.get(name, 0, len(found), 32)).status is GetStatus.FOUND:
        found += [decode_record_untrusted(record).log_offset for record in result.records()]
    return found


def test_a_message_is_in_each_queue_that_it_names_once(tmp_path: Path) -> None:
    store = opened(tmp_path)
    first = put_light(store, "%LMQ%a,%LMQ%b,,%LMQ%a,plain", TAGS="TagA")
    put(store)
    store.commit()
    second = put_light(store, "%LMQ%b")
    assert log_offsets(store, "%LMQ%a") == [first.log_offset]
    assert log_offsets(store, "%LMQ%b") == [first.log_offset, second.log_offset]
    (record,) = store.get("%LMQ%a", 0, 0, 32).records()
    assert decode_record_untrusted(record).properties["INNER_MULTI_QUEUE_OFFSET"] == "0,0,,0,"
    assert store.max_offset("T", 0) == 3
    assert store.max_offset("plain", 0) == 0
    queue, light = store.queues.find("T", 0), store.queues.find("%LMQ%a", 0)
    assert light.unit(0) == queue.unit(0)
    store.close()


def test_where_a_message_is_not_dispatched(tmp_path: Path) -> None:
    store = opened(tmp_path / "on")
    for topic in ("%RETRY%g", "rmq_sys_x", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC"):
        put_light(store, "%LMQ%a", topic)
    put_light(store, "%LMQ%" + "n" * 251)
    put_light(store, "%LMQ%../../etc")
    assert [name for name in store.queues.names() if name.startswith("%LMQ%")] == []
    store.close()
    off = opened(tmp_path / "off", TINY)
    put_light(off, "%LMQ%a", INNER_MULTI_QUEUE_OFFSET="7")
    assert off.max_offset("%LMQ%a", 0) == 0
    off.close()


def test_what_a_client_says_of_offsets_does_not_count(tmp_path: Path) -> None:
    store = opened(tmp_path)
    put_light(store, "%LMQ%a", INNER_MULTI_QUEUE_OFFSET="700")
    (record,) = store.get("%LMQ%a", 0, 0, 32).records()
    assert decode_record_untrusted(record).properties["INNER_MULTI_QUEUE_OFFSET"] == "0"
    store.close()


def test_a_refused_message_uses_no_offset(tmp_path: Path) -> None:
    store = opened(tmp_path)
    put_light(store, "%LMQ%a")
    with pytest.raises(MessageRefused):
        put_light(store, "%LMQ%a", KEYS="k" * 40_000)
    put_light(store, "%LMQ%a")
    assert store.max_offset("%LMQ%a", 0) == 2
    assert store.get("%LMQ%a", 0, 0, 32).status is GetStatus.FOUND
    store.close()


def test_a_quota_counts_queues_of_before_a_restart_too(tmp_path: Path) -> None:
    limited = dataclasses.replace(LIGHT, light_queue_count_max=2)
    store = opened(tmp_path, limited)
    put_light(store, "%LMQ%a,%LMQ%b")
    store.close()
    store = opened(tmp_path, limited)
    with pytest.raises(MessageRefused) as refused:
        put_light(store, "%LMQ%c")
    assert refused.value.status is PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED
    put_light(store, "%LMQ%b")
    store.delete_topic("%LMQ%a")
    put_light(store, "%LMQ%c")
    store.close()


@pytest.mark.parametrize("killed", [True, False])
@pytest.mark.parametrize("without_files", [True, False])
def test_the_queues_are_there_after_a_start(tmp_path: Path, killed: bool, without_files: bool) -> None:
    store = opened(tmp_path)
    told = [put_light(store, "%LMQ%a" if number % 3 else "%LMQ%a,%LMQ%b").log_offset for number in range(30)]
    if killed:
        store.abandon()
    else:
        store.close()
    if without_files:
        shutil.rmtree(tmp_path / "consumequeue")
    store = opened(tmp_path)
    assert log_offsets(store, "%LMQ%a") == told
    assert log_offsets(store, "%LMQ%b") == told[::3]
    told.append(put_light(store, "%LMQ%a").log_offset)
    assert log_offsets(store, "%LMQ%a") == told
    store.close()


def test_apaches_light_queues_are_made_again_to_the_byte(tmp_path: Path) -> None:
    """They are made from the log alone."""
    directory = unpack("lmq", tmp_path)
    files = sorted(directory.glob("consumequeue/%LMQ%*/0/*"))
    apache = {path: path.read_bytes() for path in files}
    assert len(apache) == 4
    shutil.rmtree(directory / "consumequeue")
    (directory / "checkpoint").unlink(missing_ok=True)
    store = opened(directory, dataclasses.replace(SIZES, light_queues_enabled=True))
    store.flush()
    store.close()
    for path, data in apache.items():
        used = data.rstrip(b"\0")
        assert path.read_bytes().rstrip(b"\0") == used, path


@given(st.binary(max_size=60), st.binary(max_size=20))
def test_any_properties_are_looked_through(names: bytes, offsets: bytes) -> None:
    properties = b"INNER_MULTI_DISPATCH\x01%b\x02INNER_MULTI_QUEUE_OFFSET\x01%b\x02" % (names, offsets)
    for name, offset in light_units_untrusted("T", properties):
        assert name.startswith("%LMQ%")
        assert offset >= 0


@pytest.mark.parametrize("digits", [18, 19, 20, 5000])
def test_offsets_that_no_queue_has_are_passed_over(tmp_path: Path, digits: int) -> None:
    """A store without light queues used to keep what the client said, and a store with them could then not be
    opened."""
    off, on = (dataclasses.replace(options, commit_log_file_size_bytes=1 << 16) for options in (TINY, LIGHT))
    before = opened(tmp_path, off)
    put_light(before, "%LMQ%a", INNER_MULTI_QUEUE_OFFSET="9" * digits)
    before.abandon()
    store = opened(tmp_path, on)
    assert log_offsets(store, "%LMQ%a") == []
    told = put_light(store, "%LMQ%a").log_offset
    assert log_offsets(store, "%LMQ%a") == [told]
    store.close()
