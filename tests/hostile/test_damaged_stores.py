"""Damaged stores: units that point nowhere, files that are missing, cut, of a wrong size or replaced by directories,
broken tables, a full disk. Either the server refuses to start, with one message that names the file and says what to
do, or it serves what is whole. It never shows a traceback. ``rmqserver/store/recovery/test_damage.py`` flips each byte.

The format has no checksum for properties, for the numbers in a record's head, or for units of consume queues and
entries of the index. Damaged values that still look possible are passed on as they are, as by Apache's broker.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rmqproto.codes import RequestCode
from rmqproto.headers.consuming import PullHeader, UpdateConsumerOffsetHeader
from rmqproto.headers.sending import SendHeaderV2
from tests.support import servers
from tests.support.quick import first_is_quick
from tests.support.servers import Server
from tests.support.wire import Wire

MESSAGES = 100
LOG = "commitlog/" + "0" * 20
QUEUE = "consumequeue/T/0/" + "0" * 20
SMALL_DISK_BYTES = 24 << 20
TABLES = ("topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json")

Damage = Callable[[Path], object]


def send(wire: Wire, body: bytes, properties: str = "") -> int:
    header = SendHeaderV2(producer_group="p", topic="T", queue_id=0, born_timestamp=1, properties=properties)
    return wire.ask(RequestCode.SEND_MESSAGE_V2, header, body).code


def drain(wire: Wire) -> int:
    """Reads the queue to its end as a consumer does, going on where each answer says. Returns the bytes that it got.
    The test fails if the reading hangs on one offset."""
    offset, size_bytes = 0, 0
    for _ in range(MESSAGES):
        header = PullHeader(
            consumer_group="g", topic="T", queue_id=0, queue_offset=offset, max_msg_nums=32, sys_flag=4,
            subscription="*",
        )  # fmt: skip
        answer = wire.ask(RequestCode.PULL_MESSAGE, header)
        assert answer.code != 1, answer.remark
        size_bytes += len(answer.body)
        following = int(answer.ext["nextBeginOffset"])
        if answer.code == 19 and following == offset:
            return size_bytes
        offset = following
    raise AssertionError(f"the queue has no end; now at {offset}")


@pytest.fixture(scope="module")
def whole_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of a hundred messages, two of them delayed, and a group with an offset; its server stopped cleanly."""
    directory = tmp_path_factory.mktemp("whole")
    with servers.standalone(directory) as server:
        with Wire(server.broker_addr) as wire:
            wire.create_topic("T", 1)
            for number in range(MESSAGES):
                delay = "DELAY\x0118\x02" if number in (10, 20) else ""
                assert send(wire, b"body %d" % number, f"KEYS\x01k{number}\x02{delay}") == 0
            body = b'{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[]}]}'
            assert wire.ask(RequestCode.HEART_BEAT, body=body).code == 0
            header = UpdateConsumerOffsetHeader(consumer_group="g", topic="T", queue_id=0, commit_offset=5)
            assert wire.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header).code == 0
        with Wire(server.namesrv_addr) as wire:
            assert wire.ask(RequestCode.PUT_KV_CONFIG, {"namespace": "n", "key": "k", "value": "v"}).code == 0
    assert server.stop() == 0
    return directory / "store"


@pytest.fixture
def store(whole_store: Path, tmp_path: Path) -> Path:
    """A copy of the whole store, in the directory of a server that a test starts."""
    subprocess.run(["cp", "-a", "--sparse=always", whole_store, tmp_path / "store"], check=True)
    return tmp_path / "store"


def refused(store: Path) -> str:
    """The log of a server that refuses to start: it holds one error message."""
    with pytest.raises(RuntimeError) as caught:
        servers.standalone(store.parent)
    text = (store.parent / "log").read_text()
    assert "exit status 1" in str(caught.value)
    assert "raceback" not in text
    assert text.count("rmqserver: error: ") == 1
    assert text.count("\nhint: ") == 1, "says what to do"
    return text


def served(store: Path, *, status: int = 0) -> int:
    """Asks the server every kind of question once. Returns the number of message bytes that it still has."""
    server = servers.standalone(store.parent)
    with server, Wire(server.broker_addr) as wire:
        size_bytes = drain(wire)
        assert send(wire, b"new") == 0
        for code, fields in (
            (RequestCode.GET_BROKER_RUNTIME_INFO, {}),
            (RequestCode.GET_TOPIC_STATS_INFO, {"topic": "T"}),
            (RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g"}),
            (RequestCode.GET_EARLIEST_MSG_STORETIME, {"topic": "T", "queueId": "0"}),
            (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {"topic": "T", "queueId": "0", "timestamp": "1700000000000"}),
            (RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "T", "group": "g"}),
            (RequestCode.QUERY_CONSUME_QUEUE, {"topic": "T", "queueId": "0", "index": "0", "count": "100"}),
        ):
            answer = wire.ask(code, fields)
            assert answer.code == 0, (code, answer.remark)
        query = {"topic": "T", "key": "k7", "maxNum": "9", "beginTimestamp": "0", "endTimestamp": str(1 << 60)}
        assert wire.ask(RequestCode.QUERY_MESSAGE, query).code in (0, 22)
    assert server.stop() == status, server.log_tail()
    assert "raceback" not in server.log_file.read_text()
    return size_bytes


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def mark_crashed(store: Path) -> None:
    (store / "abort").write_text("1")


# --- files -----------------------------------------------------------------------------------------------------------


def make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def make_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("x")


@pytest.mark.parametrize(
    ("name", "damage"),
    first_is_quick([
        (LOG, lambda path: os.truncate(path, 1000)),
        (LOG, lambda path: os.truncate(path, 1 << 25)),
        (LOG, lambda path: os.truncate(path, 0)),
        (LOG, make_directory),
        (QUEUE, lambda path: os.truncate(path, 100)),
        (QUEUE, make_directory),
        ("commitlog", make_file),
        ("consumequeue", make_file),
        ("index", make_file),
        ("config", make_file),
        ("consumequeue/X", lambda path: path.write_text("x")),
        ("lock", make_directory),
        ("abort", lambda path: path.mkdir()),
        ("config/delayOffset.json", make_directory),
    ], count=4),
)  # fmt: skip
def test_what_is_not_as_it_should_be_is_named(store: Path, name: str, damage: Damage) -> None:
    damage(store / name)
    assert str(store / name) in refused(store)


def test_a_file_in_place_of_a_queue_is_named_to_who_asks_for_it(store: Path) -> None:
    """A start opens only queues whose records it reads."""
    (path := store / "consumequeue/T/7").write_text("x")
    server = servers.standalone(store.parent)
    with server, Wire(server.broker_addr) as wire:
        for code, fields in (
            (RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": "7"}),
            (RequestCode.GET_MIN_OFFSET, {"topic": "T", "queueId": "7"}),
        ):
            answer = wire.ask(code, fields)
            assert answer.code != 0
            assert answer.remark == f"cannot open consume queue {path}: Not a directory"
        assert drain(wire) > 0, "other queues are served"
        assert send(wire, b"new") == 0
    assert server.stop() == 0
    log = server.log_file.read_text()
    assert "raceback" not in log
    assert log.count("event=store-unreadable") == 1, "one line, whatever clients ask"
    assert path.read_text() == "x"


@pytest.mark.parametrize("damage", first_is_quick([lambda path: os.truncate(path, 10), make_directory]))
def test_an_index_file_that_is_none_is_named(store: Path, damage: Damage) -> None:
    (path,) = (store / "index").iterdir()
    damage(path)
    assert str(path) in refused(store)


@pytest.mark.parametrize("is_crashed", [False, True], ids=["clean", "crashed"])
def test_a_log_that_is_missing_is_not_taken_for_an_empty_one(store: Path, is_crashed: bool) -> None:
    """The start used to cut off all consume queues, remove the index, and go on with an empty log."""
    (store / LOG).rename(store.parent / "elsewhere")
    before = (store / QUEUE).read_bytes()
    if is_crashed:
        mark_crashed(store)
    assert str(store / "commitlog") in refused(store)
    assert (store / QUEUE).read_bytes() == before
    (store.parent / "elsewhere").rename(store / LOG)  # as the hint says
    assert served(store) > 90 * 100


@pytest.mark.parametrize("damage", [lambda path: os.truncate(path, 10), lambda path: os.truncate(path, 0)])
def test_a_checkpoint_that_is_cut_is_made_again(store: Path, damage: Damage) -> None:
    damage(store / "checkpoint")
    assert served(store) > 90 * 100


def test_a_checkpoint_that_cannot_be_written_is_told(store: Path) -> None:
    make_directory(store / "checkpoint")
    served(store, status=1)
    assert f"{store / 'checkpoint'}: Is a directory" in (store.parent / "log").read_text()


# --- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize(
    "content",
    first_is_quick([
        b"{", b"\xff",
        b'{"topicConfigTable":5,"subscriptionGroupTable":5,"offsetTable":5}',
        b'{"topicConfigTable":{"T":5},"subscriptionGroupTable":{"g":5},"offsetTable":{"T@g":5}}',
        b'{"dataVersion":7,"topicConfigTable":{}}',
    ]),
)  # fmt: skip
def test_tables_that_cannot_be_read_are_named(store: Path, name: str, content: bytes) -> None:
    for each in (name, f"{name}.bak"):
        (store / "config" / each).write_bytes(content)
    assert f"config/{name}" in refused(store)


@pytest.mark.parametrize("content", ["[", '{"configTable":5}'])
def test_the_key_value_table_of_the_nameserver_is_named(store: Path, content: str) -> None:
    (store / "namesrv/kvConfig.json").write_text(content)
    (store / "namesrv/kvConfig.json.bak").unlink(missing_ok=True)
    assert "namesrv/kvConfig.json" in refused(store)


# --- a full disk -----------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "disk"
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_BYTES}", "tmpfs", path]
    mounted = subprocess.run(command, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"mounting a tmpfs is not permitted here: {mounted.stderr.decode().strip()}")
    yield path
    subprocess.run(["umount", "-l", path], check=True)


def fill(wire: Wire) -> tuple[int, str]:
    """Sends until a send is refused. Returns the number of accepted messages, and the remark of the refusal."""
    for count in range(1000):
        header = SendHeaderV2(producer_group="p", topic="T", queue_id=0, born_timestamp=1)
        answer = wire.ask(RequestCode.SEND_MESSAGE_V2, header, b"%04d" % count + os.urandom(500_000))
        if answer.code:
            return count, answer.remark or ""
    raise AssertionError(f"a disk of {SMALL_DISK_BYTES} bytes took 500 MB")


@pytest.mark.parametrize("flush", ["sync", "async"])
def test_a_full_disk_stops_writing_and_nothing_else(small_disk: Path, tmp_path: Path, flush: str) -> None:
    """The broker accepts messages until at least nine tenths of the disk are full. Then it refuses sends with the
    reason, still serves reads, and exits with status 1. With space again, every acknowledged message is there.

    The broker measures the disk every ten seconds and would then refuse all sends, which on a slow machine happened
    before the disk was full. So this test turns the measuring off; the test below covers it.
    """

    def start() -> Server:
        args = ("--data", small_disk / "store", "--flush", flush, "--set", "cleanResourceInterval=3600000")
        return servers.standalone(tmp_path / "server", *args)

    with start() as server, Wire(server.broker_addr) as wire:
        wire.create_topic("T", 1)
        taken, reason = fill(wire)
        assert taken * 500_000 > SMALL_DISK_BYTES * 9 // 10
        assert "No space left on device" in reason, reason
        assert fill(wire)[0] == 0
        assert drain(wire) > taken * 500_000
    assert server.stop() == 1
    log = server.log_file.read_text()
    assert "raceback" not in log
    assert "No space left on device" in log
    subprocess.run(["mount", "-o", "remount,size=200m", small_disk], check=True)
    with start() as server, Wire(server.broker_addr) as wire:
        assert drain(wire) > taken * 500_000
    assert server.stop() == 0


def test_a_disk_that_is_nearly_full_stops_writing_before_it_is(small_disk: Path, tmp_path: Path) -> None:
    """The broker measures too little free space, so no write ever fails and the exit status is 0."""
    args = ("--data", small_disk / "store", "--set", "cleanResourceInterval=20")
    with servers.standalone(tmp_path / "server", *args) as server, Wire(server.broker_addr) as wire:
        wire.create_topic("T", 1)
        taken = next(count for count in range(10_000) if send(wire, b"small") != 0)
        after, reason = fill(wire)
        assert after == 0
        assert "MiB left, the limit is 256 MiB" in reason
        assert drain(wire) >= taken * 91, "what was taken can be read"
    assert server.stop() == 0
    assert "raceback" not in server.log_file.read_text()


def test_a_start_on_a_full_disk_is_refused_or_serves_what_is_there(small_disk: Path, tmp_path: Path) -> None:
    (small_disk / "other").write_bytes(bytes(SMALL_DISK_BYTES - 4096))
    with pytest.raises(RuntimeError, match="exit status 1"):
        servers.standalone(tmp_path / "server", "--data", small_disk / "store")
    text = (tmp_path / "server/log").read_text()
    assert "raceback" not in text
    assert "No space left on device" in text
    assert "hint: free space" in text
