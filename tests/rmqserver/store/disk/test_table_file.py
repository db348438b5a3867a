"""Tables of entries: Apache's bytes, members of newer brokers, and the price of a change."""

import errno
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.errors import StorageError
from rmqserver.store.disk import table_file
from rmqserver.store.disk.config_files import IN_PLACE_FROM_COUNT, ConfigFiles, Document, pretty, pretty_value
from rmqserver.store.disk.disk import OsDisk, OsFile
from rmqserver.store.disk.row_slots import SLOT_BYTES, Change, RowSlots
from rmqserver.store.disk.table_file import TableFile
from tests.rmqserver.store.golden import unpack


def table_of(
    directory: Path, name: str = "topics.json", member: str = "topicConfigTable"
) -> tuple[TableFile, Document]:
    """The table as a broker loads it, and the other members of its file."""
    table = TableFile(ConfigFiles(str(directory), OsDisk(), background=False), name, member)
    document = table.load()
    for key, entry in document.pop(member, {}).items():
        table.put(key, entry)
    return table, document


@pytest.mark.parametrize(
    ("name", "member"), [("topics.json", "topicConfigTable"), ("subscriptionGroup.json", "subscriptionGroupTable")]
)
def test_a_table_is_written_byte_for_byte_as_apache_writes_it(tmp_path: Path, name: str, member: str) -> None:
    path = unpack("clean", tmp_path) / "config" / name
    before = path.read_bytes()
    table, others = table_of(path.parent, name, member)
    table.save(others)
    assert path.read_bytes() == before
    for key in list(table._texts):
        table.remove(key)
    table.save(others)
    assert b'"%b":{}' % member.encode() in path.read_bytes()


def test_members_of_a_newer_release_survive_and_deleted_entries_do_not(tmp_path: Path) -> None:
    table, _ = table_of(tmp_path)
    for key, entry in (("A", {"perm": 6, "new": [1]}), ("B", {"perm": 6}), ("C", {"perm": 2})):
        table.put(key, entry)
    table.save({"future": 1})
    again, _ = table_of(tmp_path)
    again.put("A", {"perm": 4})
    again.put("B", {"perm": None})
    again.remove("C")
    again.put("C", {"new": 1})
    again.save({})
    assert table_of(tmp_path)[0].load() == {
        "future": 1,
        "topicConfigTable": {"A": {"perm": 4, "new": [1]}, "B": {}, "C": {"new": 1}},
    }


def test_a_change_renders_one_entry_whatever_the_size_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Creating topics one by one used to be quadratic."""
    table, _ = table_of(tmp_path)
    for number in range(1000):
        table.put(f"T{number}", {"perm": 6})
    rendered: list[int] = []
    render = pretty_value
    monkeypatch.setattr(table_file, "pretty_value", lambda value, depth: rendered.append(depth) or render(value, depth))
    table.put("New", {"perm": 6})
    table.save({"dataVersion": {"counter": 1}})
    assert len(rendered) == 2, "the entry, and the version"


class CountingFile(OsFile):
    written_bytes = 0

    def pwrite(self, data: bytes | bytearray | memoryview, at: int) -> None:
        CountingFile.written_bytes += len(data)
        super().pwrite(data, at)


class CountingDisk(OsDisk):
    """Counts written bytes. It reopens each file as a ``CountingFile``."""

    def open(self, path: str, *, create_size_bytes: int | None = None, read_only: bool = False) -> OsFile:
        super().open(path, create_size_bytes=create_size_bytes, read_only=read_only).close()
        return CountingFile(path, os.open(path, os.O_RDONLY if read_only else os.O_RDWR))


def filled(directory: Path, count: int, disk: OsDisk | None = None) -> TableFile:
    """A table with this many entries, in its file."""
    files = ConfigFiles(str(directory), disk or OsDisk(), background=False)
    table = TableFile(files, "topics.json", "topicConfigTable")
    for number in range(count):
        table.put(f"T{number}", {"perm": 6})
    table.save({"dataVersion": {"counter": 0}})
    return table


def written_bytes(table: TableFile, count: int) -> int:
    """The bytes that are written when this many entries are made one by one."""
    before = CountingFile.written_bytes
    for number in range(count):
        table.put(f"New{number}", {"perm": 6})
        table.save({"dataVersion": {"counter": number}})
    return CountingFile.written_bytes - before


def test_entries_made_one_by_one_cost_the_same_in_a_table_of_any_size(tmp_path: Path) -> None:
    """Each entry used to write the whole table: 1,000 more topics beside 10,000 took minutes."""
    disk = CountingDisk()
    few, many = filled(tmp_path / "few", 2000, disk), filled(tmp_path / "many", 8000, disk)
    assert written_bytes(few, 400) == written_bytes(many, 400) == 400 * 2 * SLOT_BYTES


def test_a_growing_table_is_written_whole_once_for_a_share_of_itself(tmp_path: Path) -> None:
    table = filled(tmp_path, IN_PLACE_FROM_COUNT, CountingDisk())
    count = 2 * IN_PLACE_FROM_COUNT
    whole_bytes = (IN_PLACE_FROM_COUNT + count) * SLOT_BYTES * 2
    whole_count = 5  # 1.25 to the power of 5 is 3
    assert written_bytes(table, count) < count * 2 * SLOT_BYTES + whole_count * whole_bytes * 2  # file and .bak
    assert len(table_of(tmp_path)[0].load()["topicConfigTable"]) == IN_PLACE_FROM_COUNT + count


def test_a_table_changed_in_place_is_whole_after_each_change_and_apaches_when_it_is_closed(tmp_path: Path) -> None:
    table = filled(tmp_path, IN_PLACE_FROM_COUNT)
    path, expected = tmp_path / "topics.json", dict.fromkeys((f"T{n}" for n in range(IN_PLACE_FROM_COUNT)), 6)
    laid_out = path.stat().st_ino

    def change(key: str, perm: int | None) -> None:
        if perm is None:
            table.remove(key)
            del expected[key]
        else:
            table.put(key, {"perm": perm})
            expected[key] = perm
        table.save({"dataVersion": {"counter": len(expected)}})
        document = msgspec.json.decode(path.read_bytes())
        assert document["dataVersion"] == {"counter": len(expected)}
        assert {name: entry["perm"] for name, entry in document["topicConfigTable"].items()} == expected

    for key, perm in (("New", 6), ("T5", 4), ("T7", None), ("New", 2), ("T7", 6), ("New", None)):
        change(key, perm)
    assert path.stat().st_ino == laid_out, "in place"
    change("T0", None)
    assert path.stat().st_ino != laid_out, "the first row has no comma"
    table.close()
    loaded = table_of(tmp_path)[0].load()
    assert pretty(loaded) == path.read_bytes()


def test_what_takes_the_place_of_a_table_changed_in_place_has_its_changes_in_a_synced_copy(tmp_path: Path) -> None:
    """A power cut may leave the new file's name without its bytes. A copy from before the changes would undo them,
    although they were on the device."""
    table = filled(tmp_path, IN_PLACE_FROM_COUNT)
    table.put("New", {"perm": 6})
    table.save({})
    table.remove("T0")
    table.save({})
    (tmp_path / "topics.json").write_bytes(b"")
    assert "New" in table_of(tmp_path)[0].load()["topicConfigTable"]


class BrokenFile(CountingFile):
    is_broken = False

    def pwrite(self, data: bytes | bytearray | memoryview, at: int) -> None:
        if BrokenFile.is_broken and len(data) == SLOT_BYTES:
            raise OSError(errno.EIO, "the device is broken", self.path)
        super().pwrite(data, at)

    def fdatasync(self) -> None:
        if BrokenFile.is_broken:
            raise OSError(errno.EIO, "the device is broken", self.path)
        super().fdatasync()


class BrokenDisk(OsDisk):
    def open(self, path: str, *, create_size_bytes: int | None = None, read_only: bool = False) -> OsFile:
        super().open(path, create_size_bytes=create_size_bytes, read_only=read_only).close()
        return BrokenFile(path, os.open(path, os.O_RDWR))


@pytest.mark.parametrize("failing", ["pwrite", "fdatasync"])
def test_a_table_that_cannot_be_changed_in_place_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    problems: list[StorageError] = []
    files = ConfigFiles(str(tmp_path), BrokenDisk(), problems.append, background=False, in_place_from_count=1)
    table = TableFile(files, "topics.json", "topicConfigTable")

    def put(key: str) -> None:
        table.put(key, {"perm": 6})
        table.save({})

    put("A")
    files.wait_until_saved()
    laid_out = (tmp_path / "topics.json").stat().st_ino
    if failing == "fdatasync":
        put("B")
    with monkeypatch.context() as broken:
        broken.setattr(BrokenFile, "is_broken", True)
        if failing == "pwrite":
            put("B")
        files.wait_until_saved()
    assert "the device is broken" in str(problems[0])
    put("C")
    assert (tmp_path / "topics.json").stat().st_ino != laid_out
    files.close()
    assert list(table_of(tmp_path)[0].load()["topicConfigTable"]) == ["A", "B", "C"]


HEAD, END = b'{"version":0,"rows":{', b'},"after":1}'
KEYS = st.text(min_size=1, max_size=5)
VALUES = st.integers(0, 1 << 40) | st.text(max_size=40) | st.text("x", min_size=SLOT_BYTES, max_size=SLOT_BYTES + 1)
TABLES = st.dictionaries(KEYS, VALUES, max_size=8)
CHANGES = st.lists(st.tuples(KEYS, VALUES | st.none()), max_size=20)


def rows_of(table: dict[str, Any]) -> dict[str, bytes]:
    return {key: msgspec.json.encode(key) + b":" + msgspec.json.encode(value) for key, value in table.items()}


def read(content: bytes) -> dict[str, Any]:
    document = msgspec.json.decode(content)
    assert document["after"] == 1
    rows: dict[str, Any] = document["rows"]
    return rows


def changed(content: bytes, change: Change) -> bytes:
    assert len(change.data) == SLOT_BYTES
    assert change.at % SLOT_BYTES == 0, "a sector"
    assert change.at + SLOT_BYTES <= len(content), "in place"
    return content[: change.at] + change.data + content[change.at + SLOT_BYTES :]


@given(TABLES, CHANGES)
def test_the_file_is_the_table_before_or_after_each_change(
    table: dict[str, Any], wanted: list[tuple[str, Any]]
) -> None:
    rows = rows_of(table)
    if not RowSlots.can_hold(rows):
        assert not rows or min(map(len, rows.values())) > SLOT_BYTES - 2
        return
    slots = RowSlots(HEAD, rows, END)
    content = slots.content(HEAD, rows)
    assert read(content) == table
    for key, value in wanted:
        if value is None and key not in table:
            continue
        after = {**table, key: value} if value is not None else {k: v for k, v in table.items() if k != key}
        changes = slots.changes(HEAD, [(key, rows_of(after).get(key))], END)
        if changes is None:
            return
        for change in changes:
            content = changed(content, change)
            assert read(content) in (table, after)
        assert read(content) == after
        table = after


def test_a_slot_that_is_free_again_is_taken_again() -> None:
    """A table in which topics come and go does not grow."""
    rows = rows_of({"first": 1})
    slots = RowSlots(HEAD, rows, END)
    for number in range(100):
        key = str(number)
        assert slots.changes(HEAD, [(key, rows_of({key: 1})[key])], END) is not None
        assert slots.changes(HEAD, [(key, None)], END) is not None


def test_what_does_not_fit_is_laid_out_anew() -> None:
    rows = rows_of({"first": 1, "long": "x" * SLOT_BYTES})

    def changes(key: str, row: bytes | None, head: bytes = HEAD, end: bytes = END) -> list[Change] | None:
        return RowSlots(HEAD, rows, END).changes(head, [(key, row)], end)

    assert changes("first", b'"first":2') is not None
    assert changes("first", b'"first":2', head=HEAD.ljust(SLOT_BYTES + 1)) is None
    assert changes("first", b'"first":2', end=END + b" ") is None
    assert changes("first", None) is None, "the one without a comma"
    assert changes("long", b'"long":1') is None
    assert changes("long", None) is None
    assert changes("new", b'"new":"%s"' % (b"x" * SLOT_BYTES)) is None


def test_the_head_is_written_before_the_rows() -> None:
    """A version that is newer than its table does no harm; an older one would hide a change."""
    changes = RowSlots(HEAD, rows_of({"first": 1}), END).changes(HEAD, [("new", b'"new":2')], END)
    assert changes is not None
    assert [change.at for change in changes] == [0, 2 * SLOT_BYTES]
