"""Tables in RocksDB files. Without the package that reads them, the error names it."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.rmqadmin.conftest import Rmqadmin

TOPIC = {"topicName": "T", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A folder of tables, like a broker's ``store/config``."""
    rocksdict = pytest.importorskip("rocksdict")
    tables: dict[str, dict[str, Any]] = {
        "topics": {"T": TOPIC},
        "subscriptionGroups": {"G": {"groupName": "G"}},
        "consumerOffsets": {"T@G": {"offsetTable": {"0": 5}}},
    }
    for name, entries in tables.items():
        database = rocksdict.Rdict(str(tmp_path / "config" / name), options=rocksdict.Options(raw_mode=True))
        for key, value in entries.items():
            database[key.encode()] = json.dumps(value).encode()
        database.close()
    return tmp_path / "config"


def test_a_table_is_read_in_every_form(rmqadmin: Rmqadmin, config: Path) -> None:
    path = ("-p", str(config))
    assert rmqadmin("-o", "json", "exportMetadataInRocksDB", *path, "-t", "topics").items == [
        {"key": "T", "value": TOPIC}
    ]
    lines = rmqadmin("exportMetadataInRocksDB", *path, "-t", "subscriptionGroups", "--output", "mqadmin").out
    assert lines == '1, Key: G, Value: {"groupName":"G"}\n'
    text = rmqadmin("exportMetadataInRocksDB", *path, "-t", "topics", "-j", "true", "--output", "mqadmin").out
    assert json.loads(text) == {"topicConfigTable": {"T": TOPIC}}
    offsets = rmqadmin("-o", "json", "rocksDBConfigToJson", *path, "-t", "consumerOffsets").items
    assert offsets == [{"key": "T@G", "value": {"0": 5}}]


def test_a_table_is_written_to_a_file_and_the_file_before_is_kept(
    rmqadmin: Rmqadmin, config: Path, tmp_path: Path
) -> None:
    file = tmp_path / "topics.json"
    command = ("rocksDBConfigToJson", "-p", str(config), "-t", "topics", "-e", str(file))
    assert rmqadmin(*command, "--dry-run").status == 0
    assert not file.exists()
    file.write_text("before")
    ran = rmqadmin(*command, "--output", "mqadmin")
    assert ran.out.startswith("Use [local mode] load rocksdb to print or export file \n{")
    assert json.loads(file.read_text()) == {"topicConfigTable": {"T": TOPIC}}
    assert (tmp_path / "topics.json.bak").read_text() == "before"


def test_without_the_package_the_error_says_what_to_install(
    rmqadmin: Rmqadmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "topics").mkdir()
    (tmp_path / "topics" / "CURRENT").write_text("MANIFEST-000001\n")
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    rmqadmin("exportMetadataInRocksDB", "-p", str(tmp_path), "-t", "topics", status=2, out="", err="rmqadmin[rocksdb]")


@pytest.mark.parametrize(
    "args", [["-p", "folder"], ["-p", "folder", "-t", "topics;consumerOffsets"], ["-b", "127.0.0.1:1", "-t", "x"]]
)
def test_which_table_and_where_has_to_be_said(rmqadmin: Rmqadmin, args: list[str]) -> None:
    assert rmqadmin("rocksDBConfigToJson", *args).status == 2
