"""Tables survive: a crash at any moment, a damaged file, members that this release does not know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rmqproto.errors import StorageError
from rmqproto.fastjson import parse_untrusted
from rmqserver.store.config_files import ConfigFiles, pretty
from rmqserver.store.disk import OsDisk

from .golden import unpack


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


def test_a_crash_between_the_two_renames_leaves_the_copy(files: ConfigFiles) -> None:
    files.save("topics.json", {"a": 1})
    files.close()
    path = Path(files.directory, "topics.json")
    path.rename(path.with_name("topics.json.bak"))
    path.with_name("topics.json.tmp").write_bytes(b'{"a":')
    assert ConfigFiles(files.directory, OsDisk()).load("topics.json") == {"a": 1}


def test_damage_is_not_taken_for_an_empty_table(files: ConfigFiles) -> None:
    Path(files.directory).mkdir()
    Path(files.directory, "topics.json").write_bytes(b"{damaged")
    with pytest.raises(StorageError, match=r"topics\.json"):
        files.load("topics.json")


def test_members_of_a_newer_release_survive_and_deleted_entries_do_not(files: ConfigFiles) -> None:
    files.save(
        "topics.json",
        {"future": 1, "topicConfigTable": {"A": {"perm": 6, "new": [1]}, "B": {"perm": 6}, "C": {"perm": 2}}},
    )
    files.save("topics.json", {"topicConfigTable": {"A": {"perm": 4}, "B": {"perm": None}}}, table="topicConfigTable")
    files.close()
    assert ConfigFiles(files.directory, OsDisk()).load("topics.json") == {
        "future": 1,
        "topicConfigTable": {"A": {"perm": 4, "new": [1]}, "B": {}},
    }


def test_a_failed_save_is_reported_and_keeps_the_old_table(tmp_path: Path) -> None:
    problems: list[StorageError] = []
    (tmp_path / "config").write_bytes(b"a file where the directory should be")
    files = ConfigFiles(str(tmp_path / "config"), OsDisk(), problems.append)
    files.save("topics.json", {"a": 1})
    files.close()
    assert "topics.json" in str(problems[0])


def test_a_new_directory_is_on_the_device_when_its_first_table_is(tmp_path: Path) -> None:
    """The table was synced and its directory's name was not: a power cut took both."""
    synced: list[str] = []

    class Disk(OsDisk):
        def sync_directory(self, path: str) -> None:
            synced.append(path)
            super().sync_directory(path)

    files = ConfigFiles(str(tmp_path / "new/config"), Disk())
    files.save("topics.json", {"a": 1})
    files.close()
    assert synced == [str(tmp_path.parent), str(tmp_path), str(tmp_path / "new"), str(tmp_path / "new/config")]


def test_what_could_not_be_saved_is_tried_again_at_the_end(tmp_path: Path) -> None:
    """A table that nobody changes again was lost for good by one full disk."""
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
