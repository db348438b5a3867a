"""Tables survive a crash at any moment, a damaged file, and members that this release does not know."""

import errno
import os
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rmqproto.errors import StorageError
from rmqproto.wire import fastjson
from rmqproto.wire.fastjson import dumps, parse_untrusted
from rmqserver.store.disk.config_files import ConfigFiles, pretty
from rmqserver.store.disk.disk import OsDisk, OsFile
from tests.crash.recording_disk import Loss, RecordingDisk
from tests.rmqserver.store.golden import unpack


@pytest.fixture
def files(tmp_path: Path) -> ConfigFiles:
    return ConfigFiles(str(tmp_path / "config"), OsDisk())


def test_tables_are_written_byte_for_byte_as_apache_writes_them(tmp_path: Path) -> None:
    names = [
        "topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json", "consumerFilter.json",
        "consumerOrderInfo.json", "messageRequestMode.json",
    ]  # fmt: skip
    config = unpack("clean", tmp_path) / "config"
    for name in names:
        data = (config / name).read_bytes()
        assert pretty(_with_integer_keys(parse_untrusted(data))) == data, name


def _with_integer_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {int(key) if key.isdecimal() else key: _with_integer_keys(member) for key, member in value.items()}
    return value


def test_a_saved_table_is_loaded_again_and_its_predecessor_kept(files: ConfigFiles) -> None:
    files.save("delayOffset.json", {"offsetTable": {1: 5}})
    files.wait_until_saved()
    files.save("delayOffset.json", {"offsetTable": {1: 6}})
    files.close()
    again = ConfigFiles(files.directory, OsDisk())
    assert again.load("delayOffset.json") == {"offsetTable": {"1": 6}}
    assert b"1:5" in Path(files.directory, "delayOffset.json.bak").read_bytes()


def test_only_the_newest_of_many_saves_needs_to_be_written(files: ConfigFiles) -> None:
    for counter in range(1000):
        files.save("topics.json", {"counter": counter})
    files.close()
    assert ConfigFiles(files.directory, OsDisk()).load("topics.json") == {"counter": 999}


def test_tables_as_brokers_write_them_are_read_by_the_quick_parser(
    files: ConfigFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 10,000 topics a broker of a set changed its role for seconds, and was taken for dead meanwhile."""
    table = {"offsetTable": {"T@G": {0: 5, 17: 1 << 40}}, "delay": {"-1": [1, 2]}, "text": "of 5: no key"}
    read = {"offsetTable": {"T@G": {"0": 5, "17": 1 << 40}}, "delay": {"-1": [1, 2]}, "text": "of 5: no key"}
    Path(files.directory).mkdir()
    for number, text in enumerate([pretty(table), dumps(table)]):
        Path(files.directory, f"{number}.json").write_bytes(text)
        assert files.load(f"{number}.json") == read, "the lenient one, for the text"
    monkeypatch.setattr(fastjson, "parse_untrusted", None)
    Path(files.directory, "quick.json").write_bytes(pretty(table | {"text": "of 5 : no key"}))
    assert files.load("quick.json") == read | {"text": "of 5 : no key"}


def test_a_missing_table_is_empty(files: ConfigFiles) -> None:
    assert files.load("topics.json") == {}


@pytest.mark.parametrize("damage", [b"", b"{", b"[1]", b"\xff\xfe"])
def test_a_damaged_table_falls_back_to_its_copy(files: ConfigFiles, damage: bytes) -> None:
    files.save("topics.json", {"a": 1})
    files.wait_until_saved()
    files.save("topics.json", {"a": 2})
    files.close()
    Path(files.directory, "topics.json").write_bytes(damage)
    assert ConfigFiles(files.directory, OsDisk()).load("topics.json") == {"a": 1}


def test_a_damaged_table_never_replaces_its_copy() -> None:
    """The copy is all that there is. The damaged table used to be renamed to it first: a kill then left no table, and
    the broker did not start."""
    disk = RecordingDisk()
    files = ConfigFiles("/config", disk, background=False)
    for number in (1, 2):
        files.save("consumerOffset.json", {"a": number})
        files.wait_until_saved()
    file = disk.open("/config/consumerOffset.json")
    file.truncate(4)
    file.fdatasync()
    again, seen = ConfigFiles("/config", disk, background=False), []
    assert again.load("consumerOffset.json") == {"a": 1}

    def crash() -> None:
        for loss in Loss:
            image = disk.image(loss, Random(1))
            seen.append(ConfigFiles("/config", image, background=False).load("consumerOffset.json"))

    disk.on_change = crash
    again.save("consumerOffset.json", {"a": 3})
    again.wait_until_saved()
    assert {table["a"] for table in seen} == {1, 3}


def test_a_crash_between_the_two_renames_leaves_the_copy(files: ConfigFiles) -> None:
    files.save("topics.json", {"a": 1})
    files.close()
    path = Path(files.directory, "topics.json")
    path.rename(path.with_name("topics.json.bak"))
    path.with_name("topics.json.tmp").write_bytes(b'{"a":')
    assert ConfigFiles(files.directory, OsDisk()).load("topics.json") == {"a": 1}


@pytest.mark.parametrize(("damage", "copy"), [(b"{damaged", None), (b"", None), (b"", b""), (b"\n", b" ")])
def test_damage_is_not_taken_for_an_empty_table(files: ConfigFiles, damage: bytes, copy: bytes | None) -> None:
    """A full disk leaves files of 0 bytes: all topics were gone, without a word."""
    Path(files.directory).mkdir()
    Path(files.directory, "topics.json").write_bytes(damage)
    if copy is not None:
        Path(files.directory, "topics.json.bak").write_bytes(copy)
    with pytest.raises(StorageError, match=r"topics\.json"):
        files.load("topics.json")


def test_members_of_a_newer_release_survive(files: ConfigFiles) -> None:
    files.save("kvConfig.json", {"future": 1, "configTable": {"A": {}}, "gone": 1})
    files.save("kvConfig.json", {"configTable": {"B": {}}, "gone": None})
    files.close()
    assert ConfigFiles(files.directory, OsDisk()).load("kvConfig.json") == {"future": 1, "configTable": {"B": {}}}


def test_a_failed_save_is_reported_and_keeps_the_old_table(tmp_path: Path) -> None:
    problems: list[StorageError] = []
    (tmp_path / "config").write_bytes(b"a file where the directory should be")
    files = ConfigFiles(str(tmp_path / "config"), OsDisk(), problems.append)
    files.save("topics.json", {"a": 1})
    files.close()
    assert "topics.json" in str(problems[0])


class BrokenDisk(OsDisk):
    """Its sync of a directory fails while it is broken."""

    is_broken = False

    def sync_directory(self, path: str) -> None:
        if self.is_broken:
            raise OSError(errno.EIO, "the device is broken", path)


class FullDisk(OsDisk):
    """Takes no new file while it is full."""

    is_full = True

    def open(self, path: str, *, create_size_bytes: int | None = None, read_only: bool = False) -> OsFile:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return super().open(path, create_size_bytes=create_size_bytes, read_only=read_only)


def test_a_table_that_cannot_be_made_into_text_is_told_of_and_holds_up_no_other(tmp_path: Path) -> None:
    """Whatever goes wrong in the thread, it lives on: ``close`` waits for it."""
    problems: list[StorageError] = []
    files = ConfigFiles(str(tmp_path), OsDisk(), problems.append)
    files.save("topics.json", {"a": object()})
    files.wait_until_saved()
    assert "topics.json: " in str(problems.pop())
    files.save("another.json", {"a": 1})
    files.save("topics.json", {"a": 2})
    files.close()
    read = ConfigFiles(str(tmp_path), OsDisk())
    assert (read.load("another.json"), read.load("topics.json")) == ({"a": 1}, {"a": 2})


def test_a_table_saved_now_is_in_its_file_at_return(tmp_path: Path) -> None:
    """There is no background thread here: a killed process leaves exactly these files."""
    files = ConfigFiles(str(tmp_path), OsDisk(), background=False)
    for number in range(3):
        files.save_now("topics.json", {"a": number})
        assert ConfigFiles(str(tmp_path), OsDisk()).load("topics.json") == {"a": number}
    assert b":0" in (tmp_path / "topics.json.bak").read_bytes(), "a later one is not known to be on the device"
    files.wait_until_saved()
    files.save_now("topics.json", {"a": 3})
    (tmp_path / "topics.json").write_bytes(b"{torn")
    assert ConfigFiles(str(tmp_path), OsDisk()).load("topics.json") == {"a": 2}


def test_a_table_that_cannot_be_saved_now_is_told_of_and_tried_again(tmp_path: Path) -> None:
    problems: list[StorageError] = []
    disk = FullDisk()
    files = ConfigFiles(str(tmp_path), disk, problems.append)
    files.save_now("topics.json", {"a": 1})
    assert "No space left" in str(problems.pop())
    files.try_again()
    assert "topics.json" in str(problems.pop())
    disk.is_full = False
    files.save_now("another.json", {})
    assert ConfigFiles(str(tmp_path), OsDisk()).load("topics.json") == {"a": 1}
    files.close()
    assert not problems


def test_a_directory_that_was_removed_is_made_again(tmp_path: Path) -> None:
    problems: list[StorageError] = []
    files = ConfigFiles(str(tmp_path / "config"), OsDisk(), problems.append)
    files.save_now("topics.json", {"a": 1})
    files.wait_until_saved()
    shutil.rmtree(tmp_path / "config")
    files.save_now("topics.json", {"a": 2})
    assert "topics.json" in str(problems[0])
    files.try_again()
    files.close()
    assert ConfigFiles(str(tmp_path / "config"), OsDisk()).load("topics.json") == {"a": 2}


def test_an_older_version_does_not_come_back_when_it_is_tried_again(tmp_path: Path) -> None:
    problems: list[StorageError] = []
    disk = FullDisk()
    files = ConfigFiles(str(tmp_path), disk, problems.append, background=False)
    disk.is_full = False
    files.save_now("topics.json", {"a": 1})
    disk.is_full = True
    files.save_now("topics.json", {"a": 2})
    files.wait_until_saved()  # the sync of the first version fails, too
    assert len(problems) == 2
    disk.is_full = False
    files.close()
    assert ConfigFiles(str(tmp_path), OsDisk()).load("topics.json") == {"a": 2}


def test_a_sync_that_failed_is_told_of_and_the_table_written_anew(tmp_path: Path) -> None:
    problems: list[StorageError] = []
    disk = BrokenDisk()
    files = ConfigFiles(str(tmp_path), disk, problems.append, background=False)
    files.save_now("topics.json", {"a": 1})
    disk.is_broken = True
    files.wait_until_saved()
    assert "the device is broken" in str(problems.pop())
    before = (tmp_path / "topics.json").stat().st_ino
    files.try_again()
    assert (tmp_path / "topics.json").stat().st_ino != before, "what a failed sync left cannot be synced again"
    files.close()


def test_a_table_whose_size_came_before_its_data_is_damaged(files: ConfigFiles) -> None:
    """Also if the zeros lie within a text, which a forgiving reader would accept."""
    files.save_now("topics.json", {"a": "x" * 600})
    files.close()
    path = Path(files.directory, "topics.json")
    content = path.read_bytes()
    path.write_bytes(content[:100] + bytes(400) + content[500:])
    assert ConfigFiles(files.directory, OsDisk()).load("topics.json") == {"a": "x" * 600}
    path.with_name("topics.json.bak").unlink()
    with pytest.raises(StorageError, match="zeros at byte"):
        ConfigFiles(files.directory, OsDisk()).load("topics.json")


def test_a_new_directory_is_on_the_device_when_its_first_table_is(tmp_path: Path) -> None:
    """The table used to be synced, but not its directory's name: a power cut took both."""
    synced: list[str] = []

    class Disk(OsDisk):
        def sync_directory(self, path: str) -> None:
            synced.append(path)
            super().sync_directory(path)

    files = ConfigFiles(str(tmp_path / "new/config"), Disk())
    files.save("topics.json", {"a": 1})
    files.close()
    directory = str(tmp_path / "new/config")
    assert synced[:4] == [str(tmp_path.parent), str(tmp_path), str(tmp_path / "new"), directory]
    assert {*synced[4:]} == {directory}


def test_what_could_not_be_saved_is_tried_again_at_the_end(tmp_path: Path) -> None:
    """A full disk used to lose a table for good if nobody changed it again."""
    problems: list[StorageError] = []
    obstacle = tmp_path / "config"
    obstacle.write_bytes(b"a file where the directory should be")
    files = ConfigFiles(str(obstacle), OsDisk(), problems.append)
    files.save("topics.json", {"a": 1})
    files.wait_until_saved()
    assert problems
    obstacle.unlink()
    files.close()
    assert ConfigFiles(str(obstacle), OsDisk()).load("topics.json") == {"a": 1}
