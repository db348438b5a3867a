"""Every single byte of each kind of file is changed. Either the start is refused, with the file's name and what to do,
or every other message is served. No other error is ever raised, and no message that nobody sent is served silently."""

import contextlib
from collections.abc import Iterator
from random import Random

import pytest

from rmqproto.errors import ProtocolError, StorageError
from rmqproto.message.record import StoredMessage, decode_record_untrusted
from rmqserver.store.message_store import MessageStore
from tests.crash.recording_disk import Loss, RecordingDisk
from tests.rmqserver.store.conftest import TINY, put_many
from tests.support.clock import Clock
from tests.support.quick import first_is_quick

COUNT = 50
EXPECTED = [b"body %d" % number for number in range(COUNT)]
STORE = "/store"
LOG = "commitlog/00000000000000000000"
INDEX_BYTES = 40 + 7 * 4 + 20 * 20


@pytest.fixture(scope="module")
def whole() -> RecordingDisk:
    """Fifty messages in two log files, stopped cleanly."""
    disk = RecordingDisk()
    store = MessageStore(STORE, TINY, disk=disk, clock_ms=Clock(), background=False)
    store.open()
    put_many(store, COUNT)
    assert store.close()
    return disk


def record_range(whole: RecordingDisk, number: int) -> range:
    data = whole.read_bytes(f"{STORE}/{LOG}")
    at = data.index(EXPECTED[number] + b"\x01") - 88
    return range(at, at + int.from_bytes(data[at : at + 4], "big"))


def changed(whole: RecordingDisk, name: str, at: int, is_crashed: bool) -> RecordingDisk:
    """A copy of the store with that byte changed."""
    copy = whole.image(Loss.NOTHING, Random(0))
    file = copy.open(f"{STORE}/{name}")
    file.pwrite(bytes([file.pread(1, at)[0] ^ 0xFF]), at)
    if is_crashed:
        copy.open(f"{STORE}/abort", create_size_bytes=1)
    return copy


def served(disk: RecordingDisk) -> list[StoredMessage] | None:
    """The messages that a consumer gets from the queue; None if the start was refused."""
    store = MessageStore(STORE, TINY, disk=disk, clock_ms=Clock(), background=False)
    try:
        store.open()
    except StorageError as error:
        if STORE not in str(error) or not error.hint:
            raise
        return None
    try:
        for key in ("k0", "k7", "k49"):
            store.query("T", key, 10, 0, 1 << 60)
        return list(messages(store))
    finally:
        store.close()


def messages(store: MessageStore) -> Iterator[StoredMessage]:
    """The messages that can be decoded. A client reports the others."""
    offset = store.min_offset("T", 0)
    for _ in range(2 * COUNT):
        result = store.get("T", 0, offset, 32)
        for record in result.records():
            with contextlib.suppress(ProtocolError):
                yield decode_record_untrusted(record)
        if result.next_offset == offset:
            return
        offset = result.next_offset
    raise AssertionError(f"the queue has no end; now at {offset}")


@pytest.mark.parametrize("is_crashed", [False, True], ids=["clean", "crashed"])
@pytest.mark.parametrize("number", first_is_quick([20, 0, 32]))
def test_a_byte_of_a_record(whole: RecordingDisk, number: int, is_crashed: bool) -> None:
    """The record is the first, one in the middle, or the last of a file."""
    for at in record_range(whole, number):
        found = served(changed(whole, LOG, at, is_crashed))
        if found is not None:
            whole_ones = [message.body for message in found if message.is_intact]
            assert whole_ones in (EXPECTED, EXPECTED[:number] + EXPECTED[number + 1 :]), at


@pytest.mark.parametrize("is_crashed", first_is_quick([True, False]), ids=["crashed", "clean"])
@pytest.mark.parametrize(
    ("name", "size_bytes"),
    [
        ("consumequeue/T/0/00000000000000000000", 200),
        ("consumequeue/T/0/00000000000000000800", 200),
        ("checkpoint", 64),
        ("index", INDEX_BYTES),
    ],
)
def test_a_byte_of_what_is_derived(whole: RecordingDisk, name: str, size_bytes: int, is_crashed: bool) -> None:
    if name == "index":
        name = f"index/{whole.listdir(f'{STORE}/index')[0]}"
    for at in range(size_bytes):
        found = served(changed(whole, name, at, is_crashed))
        if found is not None:
            bodies = [message.body for message in found]
            missing = set(EXPECTED) - set(bodies)
            assert bodies == [body for body in EXPECTED if body not in missing], at
            assert len(missing) <= name.startswith("consumequeue"), at
