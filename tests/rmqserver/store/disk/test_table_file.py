"""Tables of entries: Apache's bytes, members of newer brokers, and the price of a change."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from rmqserver.store.disk import table_file
from rmqserver.store.disk.config_files import ConfigFiles, Document, pretty, pretty_value
from rmqserver.store.disk.disk import OsDisk
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


def test_a_large_table_is_written_by_the_thread_in_its_newest_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each entry used to write the whole table in the broker's loop: 1,000 more topics beside 10,000 took minutes."""
    monkeypatch.setattr(table_file, "LARGE_COUNT", 3)
    written: list[str] = []
    files = ConfigFiles(str(tmp_path), OsDisk(), background=False)
    write = files._write
    monkeypatch.setattr(files, "_write", lambda name, data: written.append(name) or write(name, data))
    table = TableFile(files, "topics.json", "topicConfigTable")

    def read() -> dict[str, Any]:
        document: dict[str, Any] = msgspec.json.decode((tmp_path / "topics.json").read_bytes())
        return document

    for key in ("A", "B"):
        table.put(key, {"perm": 6})
        table.save({"dataVersion": {"counter": 1}})
    assert list(read()["topicConfigTable"]) == ["A", "B"], "at once"
    for counter, key in enumerate("CDE", 2):
        table.put(key, {"perm": 6})
        table.save({"dataVersion": {"counter": counter}})
    table.put("F", {"perm": 6})  # not saved yet
    assert not written
    files.wait_until_saved()
    assert written == ["topics.json"]
    assert (list(read()["topicConfigTable"]), read()["dataVersion"]) == (list("ABCDE"), {"counter": 4})
    for key in "ABCD":
        table.remove(key)
    table.save({})
    assert len(read()["topicConfigTable"]) == 5, "still by the thread"
    files.close()
    assert list(table_of(tmp_path)[0].load()["topicConfigTable"]) == ["E", "F"]
    assert pretty(table_of(tmp_path)[0].load()) == (tmp_path / "topics.json").read_bytes()
