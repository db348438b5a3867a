"""Index files: Apache's layout, a message's entries, rolling, look-up by key and time."""

import struct
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.java.java_hash import abs_hash, extend_hash, extend_hash_utf8, extend_hashes_id, java_hash
from rmqserver.core import IndexItem, pack_entries, simple
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.index import live_file
from rmqserver.store.index.index import Index
from rmqserver.store.index.index_file import file_size_bytes, index_item
from rmqserver.store.queues.consume_queues import Topic
from tests.support.quick import in_one_test

FOREVER = 1 << 60
NOW_MS = 1_700_000_000_123


def make_index(directory: Path, slots: int = 5_000_000, units: int = 100) -> Index:
    index = Index(str(directory / "index"), slots, units, OsDisk(), lambda: NOW_MS)
    index.load(trusted_until_ms=None, read_only=False)
    return index


def save(index: Index) -> None:
    for snapshot in index.snapshots():
        snapshot.write()


def item(log_offset: int, properties: bytes, at_ms: int = NOW_MS) -> IndexItem:
    return index_item(Topic("TopicTest"), log_offset, at_ms, properties)


def test_bytes_are_those_of_apache(tmp_path: Path) -> None:
    index = make_index(tmp_path)
    index.put(pack_entries([item(0x400, b"KEYS\x01k1\x02")]))
    save(index)
    path = next((tmp_path / "index").iterdir())
    assert len(path.name) == 17
    data = path.read_bytes()
    assert len(data) == file_size_bytes(5_000_000, 100)
    assert struct.unpack_from(">qqqqii", data) == (NOW_MS, NOW_MS, 0x400, 0x400, 1, 2)
    assert struct.unpack_from(">i", data, 0xA79AC8) == (1,)
    assert data[20_000_040 + 20 : 20_000_040 + 40].hex() == "0029e6a800000000000004000000000000000000"


def test_the_hash_is_absolute_and_zero_for_the_one_number_without_an_absolute_value() -> None:
    assert abs_hash(extend_hash(0, "TopicTest#KEY1")) == 1656969516
    assert abs_hash(0x80000000) == 0


@in_one_test(
    "",
    "k",
    "7F0000010B5C18B4AAC2000000000001",
    "0",
    "N" * 255,
    "+1",
    "1_0",
    " 1",
    "O",
    "订单",
    "a" * 255,
    "a" * 5000,
    "naïve",
)
def test_hashing_bytes_is_hashing_text(text: str) -> None:
    prefix = extend_hash(0, "TopicTest#")
    assert extend_hash_utf8(prefix, text.encode()) == extend_hash(prefix, text)
    assert extend_hash_utf8(prefix, text.encode()) == java_hash("TopicTest#" + text) & 0xFFFFFFFF
    both = [text.encode(), b"7F00"]
    assert extend_hashes_id([prefix, 7], both) == [extend_hash_utf8(prefix, both[0]), extend_hash_utf8(7, both[1])]


def test_unique_key_keys_and_tag_are_entries_in_this_order(tmp_path: Path) -> None:
    index = make_index(tmp_path)
    index.put(pack_entries([item(0, b"KEYS\x01a  b\x02UNIQ_KEY\x01u\x02TAGS\x01t\x02")]))
    save(index)
    data = next((tmp_path / "index").iterdir()).read_bytes()
    hashes = [struct.unpack_from(">i", data, 20_000_040 + 20 * number)[0] for number in range(1, 5)]
    assert hashes == [abs_hash(extend_hash(0, "TopicTest#" + key)) for key in ("u", "a", "b", "T#t")]
    assert index.query("TopicTest", "b", 10, 0, FOREVER) == [0]
    assert index.query("TopicTest", "T#t", 10, 0, FOREVER) == [0]
    assert index.query("TopicTest", "T#other", 10, 0, FOREVER) == []


def test_a_full_file_is_followed_by_another_and_both_are_searched(tmp_path: Path) -> None:
    index = make_index(tmp_path, slots=3, units=5)
    for number in range(20):
        index.put(pack_entries([item(number * 100, b"UNIQ_KEY\x01u%d\x02KEYS\x01same\x02" % number)]))
        if number % 7 == 0:
            save(index)
    save(index)
    assert len(list((tmp_path / "index").iterdir())) == 10
    again = make_index(tmp_path, slots=3, units=5)
    for found in (index, again):
        assert found.query("TopicTest", "same", 100, 0, FOREVER) == [number * 100 for number in reversed(range(20))]
        assert [found.query("TopicTest", f"u{n}", 9, 0, FOREVER) for n in range(20)] == [[n * 100] for n in range(20)]


def test_entries_are_found_while_their_snapshot_waits_to_be_written(tmp_path: Path) -> None:
    """Another thread writes it. Until then a message was not found by its key, seldom enough to look like a mistake."""
    index = make_index(tmp_path, slots=3, units=5)
    for number in range(7):
        index.put(pack_entries([item(number * 100, b"KEYS\x01same\x02")]))
    snapshots = index.snapshots()
    assert index.query("TopicTest", "same", 100, 0, FOREVER) == [number * 100 for number in reversed(range(7))]
    for snapshot in snapshots:
        snapshot.write()
    again = make_index(tmp_path, slots=3, units=5)
    assert again.query("TopicTest", "same", 100, 0, FOREVER) == [number * 100 for number in reversed(range(7))]


@st.composite
def messages(draw: st.DrawFn) -> list[IndexItem]:
    """Messages in log order, with or without entries. Some have more entries than a file of five units holds, and some
    times go back."""
    properties = st.builds(
        lambda unique_key, keys, tag: b"".join(
            b"%b\x01%b\x02" % each for each in ((b"UNIQ_KEY", unique_key), (b"KEYS", b" ".join(keys)), (b"TAGS", tag))
        ),
        st.sampled_from([b"", b"7F00", b"lower", "ключ".encode()]),
        st.lists(st.sampled_from([b"a", b"b", b"c" * 300, b""]), max_size=7),
        st.sampled_from([b"", b"t", b"u"]),
    )
    some = draw(st.lists(st.tuples(properties, st.integers(NOW_MS - 3000, NOW_MS + 3000)), min_size=1, max_size=12))
    return [item(100 * number, each, at_ms) for number, (each, at_ms) in enumerate(some)]


@pytest.mark.parametrize("units", [pytest.param(5, marks=pytest.mark.slow), 50])
@given(messages(), st.lists(st.integers(1, 5)))
def test_files_are_the_same_whatever_is_put_at_once(units: int, items: list[IndexItem], portions: list[int]) -> None:
    def files(sizes: list[int]) -> list[bytes]:
        with TemporaryDirectory() as folder:
            index = make_index(Path(folder), slots=3, units=units)
            at = 0
            for size in [*sizes, *[len(items)]]:
                index.put(pack_entries(items[at : at + size]))
                at += size
            save(index)
            return [path.read_bytes() for path in sorted(Path(folder, "index").iterdir())]

    at_once, singly = files(portions), files([1] * len(items))
    assert at_once == singly
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_file, "index_units", simple.index_units)
        assert files(portions) == singly  # the same without C


def test_the_native_part_refuses_what_would_write_beside_its_memory() -> None:
    index_units = pytest.importorskip("rmqserver.core._core").index_units
    slots, fits = memoryview(bytearray(4 * 2000)).cast("i"), pack_entries([item(0, b"KEYS\x01k\x02")])
    assert index_units(fits, slots, 2000, bytearray(2), 1, NOW_MS)[1] == 1
    with pytest.raises(ValueError, match="fewer"):
        index_units(fits, slots, 2001, bytearray(2), 1, NOW_MS)
    with pytest.raises(ValueError, match="fewer"):
        index_units(fits, slots, 2000, bytearray(1), 1, NOW_MS)
    for entries, number in ((fits[:-1], 1), (fits, 0), (fits, (1 << 31) - 1)):
        with pytest.raises(ValueError, match="no whole entries"):
            index_units(entries, slots, 2000, bytearray(2), number, NOW_MS)


def test_a_loaded_file_takes_more_entries(tmp_path: Path) -> None:
    index = make_index(tmp_path, slots=3)
    index.put(pack_entries([item(0, b"KEYS\x01k\x02")]))
    save(index)
    again = make_index(tmp_path, slots=3)
    again.put(pack_entries([item(100, b"KEYS\x01k\x02")]))
    save(again)
    assert make_index(tmp_path, slots=3).query("TopicTest", "k", 10, 0, FOREVER) == [100, 0]


def test_replay_puts_no_message_twice(tmp_path: Path) -> None:
    index = make_index(tmp_path)
    items = [item(offset, b"KEYS\x01k\x02") for offset in (0, 100, 200)]
    index.put(pack_entries(items))
    index.put(pack_entries(items))
    assert index.query("TopicTest", "k", 10, 0, FOREVER) == [200, 100, 0]


def test_a_time_range_finds_what_lies_in_it(tmp_path: Path) -> None:
    index = make_index(tmp_path)
    for second in range(10):
        index.put(pack_entries([item(second * 100, b"KEYS\x01k\x02", at_ms=NOW_MS + second * 1000)]))
    assert index.query("TopicTest", "k", 10, NOW_MS + 3000, NOW_MS + 5000) == [500, 400, 300]
    assert index.query("TopicTest", "k", 2, 0, FOREVER) == [900, 800]


def test_after_a_crash_a_file_younger_than_the_checkpoint_is_not_trusted(tmp_path: Path) -> None:
    index = make_index(tmp_path)
    index.put(pack_entries([item(0, b"KEYS\x01k\x02")]))
    save(index)
    trusted = Index(index.directory, 5_000_000, 100, OsDisk(), lambda: NOW_MS)
    trusted.load(trusted_until_ms=NOW_MS, read_only=False)
    assert len(trusted.files) == 1
    untrusted = Index(index.directory, 5_000_000, 100, OsDisk(), lambda: NOW_MS)
    untrusted.load(trusted_until_ms=NOW_MS - 1, read_only=False)
    assert untrusted.files == []
    assert list((tmp_path / "index").iterdir()) == []


def test_a_clock_that_was_set_back_takes_no_full_file_away_after_a_crash(tmp_path: Path) -> None:
    """Nothing is read again for a file that lies before one that stays: its messages could never be looked up again."""
    index = make_index(tmp_path, units=4)
    for number in range(5):
        at_ms = NOW_MS - (3_600_000 if number > 2 else 0)
        index.put(pack_entries([item(100 + number, b"KEYS\x01k%d\x02" % number, at_ms=at_ms)]))
    save(index)
    again = Index(index.directory, 5_000_000, 4, OsDisk(), lambda: NOW_MS)
    again.load(trusted_until_ms=index.end_timestamp_ms, read_only=False)
    assert [again.query("TopicTest", f"k{number}", 1, 0, FOREVER) for number in range(5)] == [
        [100 + number] for number in range(5)
    ]


def test_a_damaged_chain_ends_and_does_not_loop(tmp_path: Path) -> None:
    index = make_index(tmp_path, slots=1)
    index.put(pack_entries([item(offset, b"KEYS\x01k\x02") for offset in (0, 100, 200)]))
    save(index)
    path = next((tmp_path / "index").iterdir())
    data = bytearray(path.read_bytes())
    struct.pack_into(">i", data, 44 + 20 * 2 + 16, 3)  # the second unit's previous unit is the third
    path.write_bytes(data)
    assert make_index(tmp_path, slots=1).query("TopicTest", "k", 10, 0, FOREVER) == [200, 100]


@pytest.mark.parametrize("count", [-1, 0, 11, 1 << 30])
def test_a_damaged_count_of_entries_stops_neither_puts_nor_looks(tmp_path: Path, count: int) -> None:
    index = make_index(tmp_path, slots=7, units=10)
    index.put(pack_entries([item(100 * number, b"KEYS\x01k%d\x02" % number) for number in range(1, 6)]))
    save(index)
    path = next((tmp_path / "index").iterdir())
    data = bytearray(path.read_bytes())
    struct.pack_into(">i", data, 36, count)
    path.write_bytes(data)
    index = make_index(tmp_path, slots=7, units=10)
    index.query("TopicTest", "k1", 10, 0, FOREVER)
    index.put(pack_entries([item(1000, b"KEYS\x01new\x02")]))
    assert index.query("TopicTest", "new", 10, 0, FOREVER) == [1000]


def test_kills_between_a_roll_and_its_snapshot_double_no_entry(tmp_path: Path) -> None:
    """The new file exists but is empty, and the old one is not full on the disk yet. Each such kill used to leave one
    more empty file, and the last message's entries twice."""
    save(first := make_index(tmp_path, units=4))
    first.put(pack_entries([item(100, b"UNIQ_KEY\x01A\x02")]))
    save(first)
    messages = [item(200 + number, b"UNIQ_KEY\x01U%d\x02" % number) for number in range(3)]
    for _ in range(3):
        index = make_index(tmp_path, units=4)
        index.put(pack_entries([item(100, b"UNIQ_KEY\x01A\x02"), *messages]))
        offsets = [
            struct.unpack(">iqii", file.unit(number))[1]
            for file in index.files
            for number in range(1, file.header.next_unit)
        ]
        assert offsets == [100, 200, 201, 202]
    assert len(list((tmp_path / "index").iterdir())) <= 3
