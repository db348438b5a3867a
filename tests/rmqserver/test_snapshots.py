"""A running broker goes back to nothing, to its seed, or to a snapshot."""

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.codes import OwnRequestCode, RequestCode, ResponseCode
from rmqproto.errors import RefusedError, UsageError
from rmqproto.headers.base import to_ext
from rmqproto.headers.consuming import PullHeader
from rmqproto.wire.command import Command, encode_frame
from rmqserver.snapshots import SNAPSHOTS_MAX, StoreFiles
from tests.support import servers
from tests.support.servers import Server, topic_config
from tests.support.wire import Wire


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    seed = tmp_path / "seed.yaml"
    seed.write_text("topics: [seeded]\nmessages: [{topic: seeded, queue_id: 0, body: one}]\n")
    with servers.standalone(tmp_path / "store", "--test-requests", "on", "--seed", seed) as running:
        yield running
        assert running.stop() == 0


@pytest.fixture
def admin(server: Server) -> Iterator[AdminClient]:
    with AdminClient(server.namesrv_addr, timeout_s=30) as client:
        yield client


def put(admin: AdminClient, server: Server, topic: str, body: bytes) -> None:
    admin.send_message(server.broker_addr, MessageQueue(topic, "", 0), Message(topic, body))


def bodies(admin: AdminClient, server: Server, topic: str) -> list[bytes]:
    return [stored.body for stored in admin.pull_message(server.broker_addr, MessageQueue(topic, "", 0), 0).messages]


def filled(admin: AdminClient, server: Server) -> None:
    """Creates a topic with a message, and a group that has consumed it."""
    admin.create_topic(server.broker_addr, topic_config("T"))
    admin.create_group(server.broker_addr, SubscriptionGroupConfig(group_name="g"))
    put(admin, server, "T", b"first")
    admin.update_consumer_offset(server.broker_addr, "g", "T", 0, 1)


def test_a_reset_leaves_what_was_there_at_the_start(server: Server, admin: AdminClient) -> None:
    filled(admin, server)
    put(admin, server, "seeded", b"two")
    before = admin.topic_config(server.broker_addr, "seeded")
    admin.reset_broker(server.broker_addr)
    assert "T" not in admin.topic_list()
    assert "T" not in admin.all_topics(server.broker_addr).topic_config_table
    assert "g" not in admin.all_groups(server.broker_addr).subscription_group_table
    assert bodies(admin, server, "seeded") == [b"one"]
    assert admin.topic_config(server.broker_addr, "seeded") == before
    filled(admin, server)
    assert bodies(admin, server, "T") == [b"first"]
    assert "T" in admin.topic_list()


def test_a_snapshot_is_restored_as_often_as_wanted(server: Server, admin: AdminClient) -> None:
    filled(admin, server)
    admin.save_snapshot(server.broker_addr, "one-message")
    assert bodies(admin, server, "T") == [b"first"], "it goes on with what it had"
    for _ in range(2):
        put(admin, server, "T", b"second")
        assert bodies(admin, server, "T") == [b"first", b"second"]
        admin.restore_snapshot(server.broker_addr, "one-message")
        assert bodies(admin, server, "T") == [b"first"]
        assert (
            admin.consume_stats(server.broker_addr, "g", "T")
            .offset_table[MessageQueue("T", "broker-a", 0)]
            .consumer_offset
            == 1
        )
    admin.reset_broker(server.broker_addr)
    assert admin.snapshots(server.broker_addr) == ["one-message"]
    put(admin, server, "seeded", b"two")
    admin.save_snapshot(server.broker_addr, "one-message")
    admin.restore_snapshot(server.broker_addr, "one-message")
    assert bodies(admin, server, "seeded") == [b"one", b"two"], "the newer one of that name, and no seed again"


def test_clients_see_a_restart(server: Server, admin: AdminClient) -> None:
    """A held pull would otherwise wait for a message that is gone."""
    filled(admin, server)
    with Wire(server.broker_addr) as other:
        header = PullHeader(
            consumer_group="g", topic="T", queue_id=0, queue_offset=1, max_msg_nums=1, sys_flag=6, commit_offset=0,
            suspend_timeout_millis=60_000, subscription="*",
        )  # fmt: skip
        other.send(encode_frame(Command(code=RequestCode.PULL_MESSAGE, opaque=1, ext=to_ext(header))))
        admin.reset_broker(server.broker_addr)
        with pytest.raises(EOFError):
            other.receive()


def test_faults_stay(server: Server, admin: AdminClient) -> None:
    admin.set_faults(server.broker_addr, ["SEND_MESSAGE:error=SYSTEM_BUSY"])
    admin.reset_broker(server.broker_addr)
    with pytest.raises(RefusedError) as refused:
        put(admin, server, "seeded", b"x")
    assert refused.value.code == ResponseCode.SYSTEM_BUSY


def test_what_is_refused(server: Server, admin: AdminClient) -> None:
    def code_of(call: Callable[[], None]) -> int:
        with pytest.raises(RefusedError) as refused:
            call()
        return refused.value.code

    for name in ("", "..", "a/b", "x" * 65):
        assert code_of(lambda: admin.save_snapshot(server.broker_addr, name)) == ResponseCode.INVALID_PARAMETER  # noqa: B023
    assert code_of(lambda: admin.restore_snapshot(server.broker_addr, "none")) == ResponseCode.QUERY_NOT_FOUND


def test_a_store_that_cannot_be_copied_is_served_as_it_was(server: Server, admin: AdminClient) -> None:
    (server.store_dir / "config/somebodys").symlink_to("nothing")
    filled(admin, server)
    with pytest.raises(RefusedError, match="snapshot of s failed"):
        admin.save_snapshot(server.broker_addr, "s")
    assert bodies(admin, server, "T") == [b"first"]
    assert admin.snapshots(server.broker_addr) == []


def test_a_kept_store_refuses(tmp_path: Path) -> None:
    with servers.standalone(tmp_path) as server, AdminClient(server.namesrv_addr) as admin:
        filled(admin, server)
        for code in OwnRequestCode:
            with pytest.raises(RefusedError, match="--test-requests on"):
                admin.call(server.broker_addr, code)
        assert bodies(admin, server, "T") == [b"first"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "config").mkdir()
    with (tmp_path / "commitlog/0").open("wb") as file:
        file.truncate(1 << 30)
        file.seek(1 << 20)
        file.write(b"a record")
    (tmp_path / "checkpoint").write_bytes(b"point")
    (tmp_path / "mine").write_bytes(b"not of the store")
    return tmp_path


def test_a_copy_has_the_holes_of_the_store(root: Path) -> None:
    StoreFiles(str(root)).save("s")
    copy = root / "snapshots/s/commitlog/0"
    assert copy.stat().st_size == 1 << 30
    assert copy.stat().st_blocks * 512 < 1 << 24
    with copy.open("rb") as file:
        file.seek(1 << 20)
        assert file.read(9) == b"a record\0"


def test_only_what_is_of_the_store_goes_and_comes_back(root: Path) -> None:
    files = StoreFiles(str(root))
    files.save("s")
    files.clear()
    assert sorted(path.name for path in root.iterdir()) == ["mine", "snapshots"]
    (root / "index").mkdir()
    files.restore("s")
    assert sorted(path.name for path in root.iterdir()) == ["checkpoint", "commitlog", "config", "mine", "snapshots"]
    assert files.names() == ["s"]


@pytest.mark.parametrize("whole_count", range(6))
def test_a_restore_that_fails_leaves_the_store_as_it_was(
    root: Path, monkeypatch: pytest.MonkeyPatch, whole_count: int
) -> None:
    """Three parts go and three come; the file system breaks after each number of them."""
    files = StoreFiles(str(root))
    files.save("s")
    (root / "checkpoint").write_bytes(b"later")
    rename, left = Path.rename, [whole_count]

    def breaking(path: Path, target: Path) -> Path:
        if left[0] == 0:
            left[0] = -1
            raise OSError(errno.EIO, "broken")
        left[0] -= 1
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", breaking)
    with pytest.raises(OSError, match="broken"):
        files.restore("s")
    assert sorted(path.name for path in root.iterdir()) == ["checkpoint", "commitlog", "config", "mine", "snapshots"]
    assert (root / "checkpoint").read_bytes() == b"later"
    files.restore("s")
    assert (root / "checkpoint").read_bytes() == b"point"


def test_there_is_room_for_so_many(root: Path) -> None:
    files = StoreFiles(str(root))
    assert files.names() == []
    for number in range(SNAPSHOTS_MAX):
        files.check_room(str(number))
        (root / "snapshots" / str(number)).mkdir(parents=True)
    files.check_room("5")
    with pytest.raises(UsageError, match="no more"):
        files.check_room("new")
