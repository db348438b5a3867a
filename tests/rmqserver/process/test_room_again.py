"""A broker whose disk was full goes on by itself once there is room."""

import errno
import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from rmqclient.admin import AdminClient
from rmqclient.message import Message, SendStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import RocketMQError, StorageError
from rmqserver.config.setting_values import BrokerRole
from rmqserver.process.broker_host import BrokerHost
from rmqserver.store.disk.disk import storage_error
from tests.support import servers
from tests.support.broker_set import BROKER_NAME, COMMON, PATIENT, set_under
from tests.support.processes import end
from tests.support.servers import SMALL, until

FILLING_SERVER = """
import errno, os, runpy, sys
from rmqserver.store.disk.disk import DiskUsage, OsDisk, OsFile

def filling(act, part, full):
    def acts(file, *arguments):
        if os.path.exists(full) and part in file.path:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), file.path)
        return act(file, *arguments)
    return acts

def measuring(act, full):
    return lambda disk, path: DiskUsage(1 << 30, 0) if os.path.exists(full) else act(disk, path)

def making(act, part, full):
    def acts(disk, path, **more):
        if os.path.exists(full) and part in path and not os.path.exists(path):
            open(full + ".met", "a").write(path + "\\n")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return act(disk, path, **more)
    return acts

name, part, full = sys.argv[1:4]
if name == "usage":
    OsDisk.usage = measuring(OsDisk.usage, full)
elif name == "open":
    OsDisk.open = making(OsDisk.open, part, full)
else:
    setattr(OsFile, name, filling(getattr(OsFile, name), part, full))
sys.argv[1:] = sys.argv[4:]
runpy.run_module("rmqserver", run_name="__main__", alter_sys=True)
"""
"""``rmqserver`` with a disk that is full for this call on these files while a file exists. For ``usage`` it is found
nearly full; for ``open`` it takes no new file, and the paths of those that were refused are noted."""

QUEUE = MessageQueue("Room", "broker-a", 0)


def broker_line(controller: servers.Server, namesrv: servers.Server, **settings: str) -> list[str]:
    """The arguments of a broker of the set."""
    given = {
        **COMMON, **settings, "enableControllerMode": "true", "controllerAddr": controller.controller_addr,
        "brokerName": BROKER_NAME,
    }  # fmt: skip
    return ["broker", "--namesrv", namesrv.namesrv_addr, *(f"--set={key}={value}" for key, value in given.items())]


def is_taken(admin: AdminClient, addr: str, queue: MessageQueue, taken: dict[int, bytes]) -> bool:
    """Sends a message. If it is acknowledged, it is then in ``taken``, by its queue offset."""
    body = b"%d" % len(taken)
    try:
        found = admin.send_message(addr, queue, Message(queue.topic, body, keys=("k",)))
    except RocketMQError:
        return False
    taken[found.queue_offset] = body
    return True


def stored(admin: AdminClient, addr: str) -> dict[int, bytes]:
    """The messages of QUEUE, by queue offset."""
    return {each.queue_offset: each.body for each in servers.all_of(admin, addr, QUEUE)}


@contextmanager
def filling_server(directory: Path, at: tuple[str, str], *arguments: str | Path) -> Iterator[str]:
    """The address of a broker whose disk is full, for this call on these files, while ``directory / "full"`` exists."""
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", FILLING_SERVER, *at, directory / "full", *arguments, "--port", "0",
             "--data", directory / "store", *SMALL],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
        )  # fmt: skip
    assert process.stdout is not None
    with process.stdout:
        yield json.loads(process.stdout.readline())["broker_addr"]
        assert end(process) == int(at[0] != "usage"), "it says at the end whether a write has failed"


@pytest.fixture(
    params=[("fdatasync", "commitlog/"), ("pwrite", "consumequeue/")], ids=lambda at: "-".join(at).strip("/")
)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with filling_server(tmp_path, request.param, "standalone", "--namesrv-port", "0") as addr:
        yield addr


@pytest.mark.slow
def test_what_was_acknowledged_is_there_and_messages_are_taken_again(server: str, tmp_path: Path) -> None:
    """It used to refuse messages until somebody had started it again."""
    sent: dict[int, bytes] = {}
    with AdminClient("127.0.0.1:1") as admin:
        send = partial(is_taken, admin, server, QUEUE, sent)
        until(send)
        (tmp_path / "full").touch()
        until(lambda: not send())
        (tmp_path / "full").unlink()
        until(send)
        assert sent.items() <= stored(admin, server).items()
    assert (tmp_path / "log").read_text().count("event=store-opens-again") == 1


@pytest.mark.slow
def test_a_broker_without_inodes_serves_consumers_and_waits(tmp_path: Path) -> None:
    """Free bytes show neither those nor a quota. It used to close its store, could not open it again, and ended."""
    sent: dict[int, bytes] = {}
    met = tmp_path / "full.met"
    at = "open", f"{tmp_path}/store/"
    with filling_server(tmp_path, at, "standalone", "--namesrv-port", "0") as addr, AdminClient("127.0.0.1:1") as admin:
        send = partial(is_taken, admin, addr, QUEUE, sent)
        until(send)
        (tmp_path / "full").touch()
        until(lambda: not is_taken(admin, addr, MessageQueue("Room", "broker-a", 1), {}))
        until(lambda: met.exists() and "/room.tmp" in met.read_text())
        assert sent.items() <= stored(admin, addr).items()
        assert not send()
        (tmp_path / "full").unlink()
        until(send)
        assert sent.items() <= stored(admin, addr).items()
    assert (tmp_path / "log").read_text().count("event=store-opens-again") == 1


@pytest.mark.slow
def test_a_slave_of_a_set_is_in_sync_again(tmp_path: Path) -> None:
    """It used to be away until somebody had started it again."""
    with (
        servers.controller(tmp_path / "controller") as controller,
        set_under(tmp_path, controller.controller_addr) as found,
    ):
        (tmp_path / "slave").mkdir()
        with found.start(1, **PATIENT):
            until(lambda: found.takes(1))
            at = "fdatasync", "commitlog/"
            slave = broker_line(controller, found.namesrv)
            with filling_server(tmp_path / "slave", at, *slave) as addr:
                until(lambda: addr in found.in_sync_addrs())
                (tmp_path / "slave/full").touch()
                until(lambda: found.takes(1) and addr not in found.in_sync_addrs())
                (tmp_path / "slave/full").unlink()
                until(lambda: addr in found.in_sync_addrs())
                assert found.send(1, b"both") is SendStatus.SEND_OK
    assert "event=store-opens-again" in (tmp_path / "slave/log").read_text()


@pytest.mark.slow
def test_the_only_broker_of_a_set_takes_messages_again(tmp_path: Path) -> None:
    """It used to refuse them until somebody had started it again, since a master may have slaves that have more."""
    with (
        servers.controller(tmp_path / "controller") as controller,
        set_under(tmp_path, controller.controller_addr) as found,
    ):
        admin, alone = found.admin, broker_line(controller, found.namesrv)
        sent: dict[int, bytes] = {}
        with filling_server(tmp_path, ("fdatasync", "commitlog/"), *alone) as addr:
            until(lambda: is_taken(admin, addr, QUEUE, sent))
            before = found.known.master_epoch
            (tmp_path / "full").touch()
            until(lambda: not is_taken(admin, addr, QUEUE, sent))
            (tmp_path / "full").unlink()
            until(lambda: is_taken(admin, addr, QUEUE, sent))
            assert found.known.master_epoch > before, "its log may have lost its end"
            until(lambda: addr in admin.topic_route(QUEUE.topic).broker_datas[0].broker_addrs.values())
            assert sent.items() <= stored(admin, addr).items()


@pytest.mark.slow
@pytest.mark.parametrize("at", [("usage", ""), ("pwrite", "store/")], ids=["nearly full", "full"])
def test_the_master_of_a_set_hands_over_and_is_in_sync_again(tmp_path: Path, at: tuple[str, str]) -> None:
    """Its set took no messages until somebody had started it again. One that could not even open its store as a slave's
    ended."""
    with (
        servers.controller(tmp_path / "controller") as controller,
        set_under(tmp_path, controller.controller_addr) as found,
    ):
        told: dict[int, bytes] = {}
        send = partial(is_taken, found.admin, queue=MessageQueue("Kept", BROKER_NAME, 0), taken=told)
        (tmp_path / "master").mkdir()
        master = broker_line(controller, found.namesrv, **PATIENT)
        with filling_server(tmp_path / "master", at, *master) as addr:
            until(lambda: {addr} == found.in_sync_addrs())
            with found.start(2, **PATIENT) as slave:
                until(lambda: {addr, slave.broker_addr} == found.in_sync_addrs())
                until(found.controller_is_settled)
                until(lambda: send(addr))
                (tmp_path / "master/full").touch()
                until(lambda: send(slave.broker_addr))
                until(lambda: {slave.broker_addr} == found.in_sync_addrs())
                (tmp_path / "master/full").unlink()
                until(lambda: {addr, slave.broker_addr} == found.in_sync_addrs())
                until(lambda: send(slave.broker_addr))
                bodies = found.bodies(2)
                assert {offset: bodies[offset] for offset in told} == told


@dataclass
class Opening:
    """Stands in for a host whose store opens after some failures. It notes when it tried, and which door it had
    meanwhile."""

    failures: list[StorageError]
    _member: object = None
    role: BrokerRole = BrokerRole.SLAVE
    door: str = "before"
    on_door: tuple[Any, ...] = ()
    tried_s: list[float] = field(default_factory=list)
    failed: list[RocketMQError] = field(default_factory=list)

    @property
    def _config(self) -> Any:
        return SimpleNamespace(broker_role=self.role)

    def _make_door(self) -> str:
        return f"after {len(self.tried_s)}"

    def _open_broker(self, *, sow: bool) -> None:
        self.tried_s.append(trio.current_time())
        if self.failures:
            raise self.failures.pop(0)

    async def _fail(self, error: RocketMQError) -> None:
        self.failed.append(error)
        await trio.sleep_forever()


def no_room() -> StorageError:
    return storage_error(OSError(errno.ENOSPC, "No space left on device"), "cannot open store", "/data")


@pytest.mark.trio
async def test_a_slave_of_a_set_waits_for_room_to_open_its_store(autojump_clock: object) -> None:
    """A former master ended: it had closed its store to open it as a slave's."""
    host: Any = Opening([no_room() for _ in range(3)], object())
    began_s = trio.current_time()
    async with trio.open_nursery() as nursery:

        async def replace() -> None:
            assert await BrokerHost._replace(host, sow=False) == "after 3"

        nursery.start_soon(replace)
        await trio.sleep(0.5)
        assert host.door == "before"
    assert host.door == "after 3"
    assert [at_s - began_s for at_s in host.tried_s] == pytest.approx([0, 1, 3, 7])
    assert not host.failed


@pytest.mark.trio
@pytest.mark.parametrize(
    ("error", "member", "role"),
    [
        (StorageError("damaged"), object(), BrokerRole.SLAVE),
        (no_room(), object(), BrokerRole.SYNC_MASTER),
        (no_room(), None, BrokerRole.SLAVE),
    ],
    ids=["damaged", "master", "in no set"],
)
async def test_another_store_that_does_not_open_ends_the_server(
    error: StorageError, member: object, role: BrokerRole, autojump_clock: object
) -> None:
    host: Any = Opening([error], member, role)
    with trio.move_on_after(100):
        await BrokerHost._replace(host, sow=False)
    assert (host.failed, len(host.tried_s)) == ([error], 1)


@pytest.mark.trio
async def test_a_store_that_fails_again_is_opened_ever_less_often(autojump_clock: object) -> None:
    """A disk tells nothing of a quota: it seems to have room, and clients would see a restart each second."""
    flags = SimpleNamespace(has_write_failed=True, reason="")
    store = SimpleNamespace(flags=flags, has_room_again=lambda: True)
    opened_s: list[float] = []

    async def reopen(*_: object, sow: bool) -> None:
        opened_s.append(trio.current_time() - began_s)
        flags.has_write_failed = len(opened_s) != 9

    host: Any = SimpleNamespace(broker=SimpleNamespace(store=store), reopen=reopen, _member=None)
    began_s = trio.current_time()
    with trio.move_on_after(400):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(BrokerHost._reopen_when_there_is_room, host)
            await trio.sleep(320.5)
            assert opened_s == pytest.approx([1, 3, 7, 15, 31, 63, 127, 191, 255])
            flags.has_write_failed = True
    assert opened_s[9] == pytest.approx(321), "it had held: as at first"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux changes the limits of another process")
def test_a_broker_without_file_handles_takes_messages_again(tmp_path: Path) -> None:
    """Its clients may have them all. The first message of a queue makes a file: it used to be the last that the broker
    took."""
    sent: dict[int, bytes] = {}
    with servers.standalone(tmp_path) as server, AdminClient("127.0.0.1:1") as admin:
        addr = server.broker_addr
        send = partial(is_taken, admin, addr, QUEUE, sent)
        until(send)
        before = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (3, before[1]))
        until(lambda: not is_taken(admin, addr, MessageQueue("Room", "broker-a", 1), {}))
        assert sent.items() <= stored(admin, addr).items()
        assert not send()
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, before)
        until(send)
        assert sent.items() <= stored(admin, addr).items()
        assert server.log_file.read_text().count("event=store-opens-again") == 1
