"""Recorded data of a real 5.5.0 master, and the stores that it and its slaves had afterwards: our slave makes the same
store of it, and our master sends the same from the same store."""

import json
import lzma
import random
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqproto.ha import TRANSFER_HEAD
from rmqserver.broker.replicas.ha_slave import HaSlave
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import StoreOptions
from tests.support import archives, servers
from tests.support.slave import Slave, ha_addr_of

GOLDEN = Path(__file__).parents[3] / "golden/ha"
FILE_SIZE_BYTES = 1 << 16
OPTIONS = StoreOptions(commit_log_file_size_bytes=FILE_SIZE_BYTES, index_slot_count=1000, index_unit_count=4000)


def said_by_master(name: str) -> bytes:
    lines = lzma.decompress((GOLDEN / f"{name}.jsonl.xz").read_bytes()).decode().splitlines()
    segments = map(json.loads, lines)
    return b"".join(bytes.fromhex(each["hex"]) for each in segments if each["dir"] == "master→slave")


def unpacked(name: str, directory: Path) -> Path:
    directory.mkdir()
    archives.unpack(GOLDEN / f"{name}.tar.xz", directory)
    return directory / "store"


def log_of(store: Path, start: int, end: int) -> bytes:
    data = b""
    for path in sorted((store / "commitlog").iterdir()):
        data += path.read_bytes().ljust(FILE_SIZE_BYTES, b"\0")
    base = int(min(path.name for path in (store / "commitlog").iterdir()))
    return data[start - base : end - base]


@pytest.mark.parametrize(
    ("conversation", "theirs", "start"), [("default-01", "slave", 0), ("default-08", "slave-late", FILE_SIZE_BYTES)]
)
def test_our_slave_makes_the_same_store_of_it(tmp_path: Path, conversation: str, theirs: str, start: int) -> None:
    """Across the end of a file; and from a later file on, where queues begin in the middle."""
    data, rng = said_by_master(conversation), random.Random(1)
    store = MessageStore(tmp_path / "ours", OPTIONS, background=False)
    store.open()
    slave = HaSlave(BrokerConfig(), store)
    copy = store.log_copy()
    while data:
        size = rng.randrange(1, 20_000)
        slave._take(data[:size], copy)
        data = data[size:]
    assert not slave._head
    copy.dispatch_all()
    end = copy.end_offset
    store.flush()
    queue = store.queues.find("HaTopic", 0)
    units = queue.units(queue.min_offset, 1 << 20)
    first, count = queue.min_offset, queue.max_offset - queue.min_offset
    assert store.close()
    real = unpacked(theirs, tmp_path / "theirs")
    assert log_of(tmp_path / "ours", start, end) == log_of(real, start, end)
    written = (real / "consumequeue/HaTopic/0/00000000000000000000").read_bytes()
    assert (first > 0) is (start > 0)
    assert units == written[20 * first : 20 * (first + count)]
    assert count > 20


def transferred(said: bytes) -> bytes:
    """The log in these transfers, from its beginning."""
    log, at = b"", 0
    while at < len(said):
        offset, size = TRANSFER_HEAD.unpack_from(said, at)
        at += TRANSFER_HEAD.size
        if size and offset == len(log):
            log += said[at : at + size]
        at += size
    return log


def framed(log: bytes, start: int, rng: random.Random | None = None) -> bytes:
    """Frames the log as transfers of any size, the first from ``start``; none crosses the end of a file."""
    said, at, end = b"", start, start + len(log)
    while at < end:
        size = min((rng or random).randrange(1, 5000), FILE_SIZE_BYTES - at % FILE_SIZE_BYTES, end - at)
        said += TRANSFER_HEAD.pack(at, size) + log[at - start : at - start + size]
        at += size
    return said


@pytest.mark.parametrize("seed", range(3))
def test_our_slave_goes_on_after_any_cut(tmp_path: Path, seed: int) -> None:
    """Cuts fall into the middle of a head, a record or a file, and the slave restarts in between."""
    log, rng = transferred(said_by_master("default-01")), random.Random(seed)
    end = connections = 0
    while end < len(log):
        store = MessageStore(tmp_path / "ours", OPTIONS, background=False)
        store.open()
        copy = store.log_copy()
        assert copy.end_offset <= end, "of a record that has come in part nothing is left"
        for _ in range(rng.randrange(1, 20)):
            slave = HaSlave(BrokerConfig(), store)
            slave._take(framed(log[copy.end_offset :], copy.end_offset, rng)[: rng.randrange(6000)], copy)
            connections += 1
        copy.dispatch_all()
        end = copy.end_offset
        store.flush()
        assert store.close()
    assert connections > 10
    assert log_of(tmp_path / "ours", 0, end) == log


@pytest.mark.parametrize("missing", [1, 20, 56, 100, 200, 1300, 1370, 1400])
def test_a_record_that_has_come_in_part_is_cut_off_by_the_next_start(tmp_path: Path, missing: int) -> None:
    """Even if only some of its properties are missing, which no checksum covers, and the slave was stopped cleanly: its
    log used to keep zeros there for ever."""
    log = transferred(said_by_master("default-01"))
    begin = 13287
    size = int.from_bytes(log[begin : begin + 4], "big")
    assert size == 1402
    for start, part in ((0, log[: begin + size - missing]), (begin, log[begin:])):
        store = MessageStore(tmp_path / "ours", OPTIONS, background=False)
        store.open()
        slave, copy = HaSlave(BrokerConfig(), store), store.log_copy()
        assert copy.end_offset == start
        assert not any(store.log.segments.read(start, 2000)), "nothing is behind the end"
        slave._take(framed(part, start), copy)
        copy.dispatch_all()
        store.flush()
        assert store.close()
    assert log_of(tmp_path / "ours", 0, len(log)) == log


def test_our_master_says_the_same_of_the_same_store(tmp_path: Path) -> None:
    """From the slave's last offset to the end of the copied store, which was taken while its master was running."""
    store = unpacked("master", tmp_path / "master")
    recorded = said_by_master("default-01")
    args = servers.sets(
        "brokerRole=ASYNC_MASTER", f"mappedFileSizeCommitLog={FILE_SIZE_BYTES}", "haSendHeartbeatInterval=200",
        "mappedFileSizeConsumeQueue=6000", "maxHashSlotNum=100", "maxIndexNum=400",
    )  # fmt: skip
    with (
        servers.standalone(tmp_path / "server", "--data", store, *args) as server,
        AdminClient(server.namesrv_addr) as admin,
    ):
        slave = Slave(ha_addr_of(server, admin))
        slave.report(222)
        sent = slave.transfer()
        while slave.transfer().data:
            pass
        slave.close()
    found, at = b"", 0
    while at + TRANSFER_HEAD.size <= len(recorded):
        _, size = TRANSFER_HEAD.unpack_from(recorded, at)
        at += TRANSFER_HEAD.size + size
        found += recorded[at - size : at]
    assert sent.log_offset == 222
    copied = slave.copied
    assert len(copied) > FILE_SIZE_BYTES
    common = min(len(copied), len(found) - 222)
    assert copied[:common] == found[222 : 222 + common]
