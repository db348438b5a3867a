"""A start with a log of a hundred gigabytes, or a round of retention, asks the disk for no more than with a log of
four. The log's files are sparse: each has one message and then a blank to its end."""

import dataclasses
import os
from collections import Counter
from pathlib import Path
from typing import ClassVar

import pytest

from rmqproto.message.record import MAGIC_BLANK, StoredMessage, encode_record
from rmqserver.store.disk.disk import OsDisk, OsFile
from rmqserver.store.log.commit_log import BLANK
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import StoreOptions
from tests.support.clock import Clock

from .conftest import HOST, cleaned

GIB = 1 << 30
OPTIONS = StoreOptions(index_slot_count=1000, index_unit_count=1000, disk_free_min_bytes=0, delete_file_batch_max=2)

pytestmark = pytest.mark.slow


class CountedFile(OsFile):
    calls: ClassVar[Counter[str]] = Counter()

    def pread(self, size_bytes: int, at: int) -> bytes:
        self.calls["pread"] += 1
        self.calls["read_bytes"] += size_bytes
        return super().pread(size_bytes, at)

    def pwrite(self, data: bytes | bytearray | memoryview, at: int) -> None:
        self.calls["pwrite"] += 1
        super().pwrite(data, at)

    def fdatasync(self) -> None:
        self.calls["fdatasync"] += 1
        super().fdatasync()


class CountingDisk(OsDisk):
    def open(self, path: str, *, create_size_bytes: int | None = None, read_only: bool = False) -> OsFile:
        CountedFile.calls["open"] += 1
        super().open(path, create_size_bytes=create_size_bytes, read_only=read_only).close()
        return CountedFile(path, os.open(path, os.O_RDONLY if read_only else os.O_RDWR))

    def unlink(self, path: str) -> None:
        CountedFile.calls["unlink"] += 1
        super().unlink(path)


def opened(root: Path, options: StoreOptions = OPTIONS) -> MessageStore:
    store = MessageStore(str(root), options, CountingDisk(), clock_ms=Clock(), background=False)
    store.open()
    return store


def made(root: Path, file_count: int) -> Path:
    """A closed store whose log has this many files, of one GiB each."""
    log = root / "commitlog"
    log.mkdir(parents=True)
    clock = Clock()
    for number in range(file_count):
        base = number * GIB
        record = encode_record(
            StoredMessage(
                topic="T", size_bytes=0, body_crc=0, queue_id=0, flag=0, queue_offset=number, log_offset=base,
                sys_flag=0, born_timestamp_ms=clock(), born_host=HOST, store_timestamp_ms=clock(), store_host=HOST,
                reconsume_times=0, prepared_transaction_offset=0, body=b"%03d" % number,
                properties_raw=b"TAGS\x01t\x02",
            )
        )  # fmt: skip
        with (log / f"{base:020d}").open("wb") as file:
            file.truncate(GIB)
            file.write(record)
            if number < file_count - 1:
                file.write(BLANK.pack(GIB - len(record), MAGIC_BLANK))
    store = opened(root)
    while store.dispatch_some():
        pass
    assert store.max_offset("T", 0) == file_count
    assert store.close()
    return root


def counted() -> Counter[str]:
    """The calls since the last count."""
    found = Counter(CountedFile.calls)
    CountedFile.calls.clear()
    return found


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_a_start_asks_as_little_of_the_disk(tmp_path: Path, how: str) -> None:
    found = []
    for count in (4, 100):  # a clean start reads the last three
        root = made(tmp_path / str(count), count)
        if how == "killed":
            opened(root).abandon()
        counted()
        store = opened(root)
        found.append(counted())
        assert store.max_offset("T", 0) == count
        store.abandon()
    small, large = found
    assert large == small
    assert large["read_bytes"] < 1 << 20


def test_a_round_of_retention_asks_as_little_of_the_disk(tmp_path: Path) -> None:
    options = dataclasses.replace(OPTIONS, file_reserved_hours=0)
    found = []
    for count in (4, 100):
        root = made(tmp_path / str(count), count)
        for path in (root / "commitlog").iterdir():
            os.utime(path, (0, 0))
        store = opened(root, options)
        counted()
        report = cleaned(store)
        found.append(counted())
        assert (report.deleted_log_files, store.min_offset("T", 0)) == (2, 2)
        store.abandon()
    small, large = found
    assert large.keys() == small.keys() == {"pread", "read_bytes", "unlink"}
    assert large["unlink"] == small["unlink"]
    # The first unit that a queue keeps is found by binary search.
    assert large["pread"] <= small["pread"] + 2 * (100).bit_length()
    assert large["read_bytes"] == 20 * large["pread"]
