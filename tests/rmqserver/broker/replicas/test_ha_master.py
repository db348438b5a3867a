"""A master and its slaves: what it sends, what it refuses, and which producers wait for copies."""

import os
import signal
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio

from rmqclient.admin import AdminClient
from rmqclient.message import Message, SendStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import RefusedError, UsageError
from rmqproto.ha import REPORT, TRANSFER_HEAD
from rmqserver.broker.replicas.ha_link import PORTION_BYTES
from rmqserver.broker.replicas.ha_master import HaMaster
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import StoreOptions
from tests.rmqserver.store.conftest import put
from tests.support import servers
from tests.support.servers import Server, until
from tests.support.slave import Slave, ha_addr_of

FILE_SIZE_BYTES = 1 << 16
SETTINGS = (
    "brokerRole=SYNC_MASTER", "inSyncReplicas=2", "slaveTimeout=30000", f"mappedFileSizeCommitLog={FILE_SIZE_BYTES}",
    "haSendHeartbeatInterval=200", "haHousekeepingInterval=60000",
)  # fmt: skip


@dataclass
class Master:
    server: Server
    admin: AdminClient
    slaves: list[Slave] = field(default_factory=list)

    @property
    def addr(self) -> str:
        return self.server.broker_addr

    @property
    def end_offset(self) -> int:
        return self.admin.ha_status(self.addr).master_commit_log_max_offset

    def slave(self) -> Slave:
        self.slaves.append(Slave(ha_addr_of(self.server, self.admin)))
        return self.slaves[-1]

    def send(self, body: bytes, *, waits: bool) -> SendStatus:
        properties = {} if waits else {"WAIT": "false"}
        message = Message("Copied", body, properties=properties)
        return self.admin.send_message(self.addr, MessageQueue("Copied", "broker-a", 0), message).status

    def log_bytes(self, start: int, end: int) -> bytes:
        """The bytes of the log files."""
        files = sorted((self.server.store_dir / "commitlog").iterdir())
        data = b"".join(file.read_bytes() for file in files)
        return data[start:end]

    @contextmanager
    def impatient(self, setting: str) -> Iterator[None]:
        """Sets this timeout to next to nothing meanwhile."""
        before = self.admin.broker_config(self.addr)[setting]
        self.admin.update_broker_config(self.addr, {setting: "10"})
        try:
            yield
        finally:
            self.admin.update_broker_config(self.addr, {setting: before})

    def links(self) -> int:
        return len(self.admin.ha_status(self.addr).ha_connection_info)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Master]:
    with (
        servers.standalone(tmp_path_factory.mktemp("master"), *servers.sets(*SETTINGS)) as server,
        AdminClient(server.namesrv_addr, timeout_s=60) as admin,
    ):
        yield Master(server, admin)


@pytest.fixture
def master(running: Master) -> Iterator[Master]:
    """A master without slaves."""
    yield running
    for slave in running.slaves:
        slave.close()
    running.slaves.clear()
    until(lambda: running.links() == 0)


def test_an_empty_slave_gets_the_whole_log_over_the_ends_of_files(master: Master) -> None:
    while master.end_offset < 2 * FILE_SIZE_BYTES:
        master.send(b"b" * 3000, waits=False)
    slave = master.slave()
    slave.report(0)
    end = master.end_offset
    ends: list[int] = []
    while not ends or ends[-1] < end:
        found = slave.transfer()
        assert found.log_offset == (ends[-1] if ends else 0)
        if found.data:
            last = found.log_offset + len(found.data) - 1
            assert found.log_offset // FILE_SIZE_BYTES == last // FILE_SIZE_BYTES, "a transfer ends with its file"
        ends.append(found.log_offset + len(found.data))
    assert slave.copied == master.log_bytes(0, end)


def test_an_empty_slave_gets_the_last_file_where_that_is_asked_for(master: Master) -> None:
    while master.end_offset < FILE_SIZE_BYTES:
        master.send(b"b" * 3000, waits=False)
    master.admin.update_broker_config(master.addr, {"syncFromLastFile": "true"})
    slave = master.slave()
    slave.report(0)
    assert slave.transfer().log_offset == master.end_offset // FILE_SIZE_BYTES * FILE_SIZE_BYTES > 0
    master.admin.update_broker_config(master.addr, {"syncFromLastFile": "false"})
    slave = master.slave()
    slave.report(0)
    assert slave.transfer().log_offset == 0


def test_a_slave_goes_on_where_it_is_and_hears_what_comes(master: Master) -> None:
    start = master.end_offset
    slave = master.slave()
    slave.send(REPORT.pack(start)[:3])
    slave.send(REPORT.pack(start)[3:])
    assert slave.transfer() == (start, b""), "a sign of life, since there is nothing to send"
    master.send(b"news", waits=False)
    slave.copied = b""
    slave.copy_until(master.end_offset)
    assert slave.copied == master.log_bytes(start, master.end_offset)
    assert b"news" in slave.copied


async def test_a_slave_that_hears_nothing_new_waits_once(tmp_path: Path) -> None:
    """It waits anew after each sign of life, and leaves no earlier wait behind."""
    store = MessageStore(tmp_path, StoreOptions(), background=False)
    store.open()
    master = HaMaster(BrokerConfig.from_properties("haSendHeartbeatInterval=10\n"), store)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(master.serve, listener)
            async with await trio.open_tcp_stream(*listener.getsockname()) as stream:
                await stream.send_all(REPORT.pack(0))
                received = 0
                while received < 5 * TRANSFER_HEAD.size:
                    received += len(await stream.receive_some())
                assert len(master.waiting) == 1
            nursery.cancel_scope.cancel()
    store.close()


async def test_a_slave_that_is_far_behind_gets_large_transfers(tmp_path: Path) -> None:
    """And the rest in those of ``haTransferBatchSize``."""
    store, body = MessageStore(tmp_path, StoreOptions(), background=False), bytes(100_000)
    store.open()
    while store.log.written_offset < PORTION_BYTES + 100_000:
        put(store, body=body)
        store.commit()
    end = store.log.written_offset
    sizes: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(HaMaster(BrokerConfig(), store).serve, listener)
            async with await trio.open_tcp_stream(*listener.getsockname()) as stream:
                await stream.send_all(REPORT.pack(0))
                received = b""
                while sum(sizes) < end:
                    received += await stream.receive_some()
                    while len(received) >= TRANSFER_HEAD.size:
                        size = TRANSFER_HEAD.unpack_from(received)[1]
                        if len(received) < TRANSFER_HEAD.size + size:
                            break
                        sizes.append(size)
                        received = received[TRANSFER_HEAD.size + size :]
            nursery.cancel_scope.cancel()
    store.close()
    assert sizes[0] == PORTION_BYTES
    assert set(sizes[1:-1]) == {BrokerConfig().ha_transfer_batch_size_bytes}


def test_who_resets_its_connection_before_it_is_accepted_ends_nothing(master: Master) -> None:
    """A port scan does this. Such a connection has no address, and that used to end the broker."""
    host, _, port = ha_addr_of(master.server, master.admin).rpartition(":")
    os.kill(master.server.pid, signal.SIGSTOP)
    try:
        for _ in range(3):
            with socket.create_connection((host, int(port))) as stranger:
                stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    finally:
        os.kill(master.server.pid, signal.SIGCONT)
    slave = master.slave()
    slave.report(master.end_offset)
    assert slave.transfer().data == b""


def test_of_reports_that_come_together_the_last_counts(master: Master) -> None:
    end = master.end_offset
    slave = master.slave()
    slave.send(REPORT.pack(0) + REPORT.pack(end))
    assert slave.transfer() == (end, b"")


def test_nothing_is_sent_to_who_does_not_report_and_silence_ends(master: Master) -> None:
    with master.impatient("haHousekeepingInterval"), pytest.raises(EOFError):
        master.slave().transfer()


@pytest.mark.parametrize("offset", [-1, 1 << 40])
def test_a_slave_that_has_more_than_its_master_is_refused(master: Master, offset: int) -> None:
    """Once Apache's master has grown past that offset, it sends bytes from the middle of a record."""
    slave = master.slave()
    slave.report(offset)
    with pytest.raises(EOFError):
        slave.transfer()
    assert f"event=slave-refused peer=127.0.0.1:{slave._socket.getsockname()[1]} reported={offset}" in (
        master.server.log_tail()
    )


def test_a_report_of_what_was_never_sent_is_refused(master: Master) -> None:
    slave = master.slave()
    slave.report(master.end_offset)
    slave.transfer()
    slave.report(master.end_offset + 1)
    with pytest.raises(EOFError):
        slave.copy_until(1 << 40, reports=False)


async def test_a_slave_whose_next_bytes_have_expired_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also one that retention has overtaken. Apache's master sends both of them signs of life for ever."""
    store = MessageStore(tmp_path, StoreOptions(commit_log_file_size_bytes=4096), background=False)
    store.open()
    while len(store.log.segments.bases) < 4:
        put(store, body=bytes(1000))
        store.commit()
    config = BrokerConfig.from_properties(
        "haFlowControlEnable=true\nmaxHaTransferByteInSecond=1\nhaHousekeepingInterval=600000\n"
    )
    master = HaMaster(config, store)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(master.serve, listener)
            slow = await trio.open_tcp_stream(*listener.getsockname())
            await slow.send_all(REPORT.pack(0))
            assert await slow.receive_some(1)
            for _ in range(2):
                store.log.segments.delete_first()
            late = await trio.open_tcp_stream(*listener.getsockname())
            await late.send_all(REPORT.pack(100))
            for stream in (slow, late):
                async with stream:
                    while await stream.receive_some():
                        pass
            assert sum("has expired here" in line for line in caplog.messages) == 2
            nursery.cancel_scope.cancel()
    store.close()


async def test_a_slave_s_connection_takes_as_much_as_it_has_room_for(tmp_path: Path) -> None:
    """It used to take 128 KiB at a time, and each portion woke the master."""
    store = MessageStore(tmp_path, background=False)
    store.open()
    master = HaMaster(BrokerConfig(), store)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(master.serve, listener)
            async with await trio.open_tcp_stream(*listener.getsockname()):
                while not master._links:
                    await trio.sleep(0)
                (link,) = master._links
                bound = link._stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT)
                assert bound in (0, int(Path("/proc/sys/net/ipv4/tcp_notsent_lowat").read_text()) & 0xFFFFFFFF)
            nursery.cancel_scope.cancel()
    store.close()


def test_a_producer_waits_for_the_slave_or_hears_that_it_is_late(master: Master) -> None:
    with master.impatient("slaveTimeout"):
        assert master.send(b"alone", waits=True) is SendStatus.FLUSH_SLAVE_TIMEOUT
        assert master.send(b"alone", waits=False) is SendStatus.SEND_OK
        slave = master.slave()
        slave.report(master.end_offset)
        slave.transfer()
        before = master.end_offset
        assert master.send(b"unreported", waits=True) is SendStatus.FLUSH_SLAVE_TIMEOUT
    slave.copy_until(master.end_offset)
    assert b"unreported" in slave.copied, "it is stored, and copied"
    assert before < master.end_offset


def test_a_producer_hears_that_it_is_stored_when_the_slave_has_reported(master: Master) -> None:
    import threading

    slave = master.slave()
    slave.report(master.end_offset)
    slave.transfer()
    ended = threading.Event()

    def copy() -> None:
        while not ended.is_set():
            found = slave.transfer()
            slave.report(found.log_offset + len(found.data))

    thread = threading.Thread(target=copy)
    thread.start()
    try:
        assert [master.send(b"%d" % number, waits=True) for number in range(5)] == [SendStatus.SEND_OK] * 5
    finally:
        ended.set()
        thread.join()


def test_ha_status_tells_how_far_each_slave_is(master: Master) -> None:
    end = master.end_offset
    slave = master.slave()
    slave.report(end)
    slave.transfer()
    status = master.admin.ha_status(master.addr)
    (found,) = status.ha_connection_info
    port = slave._socket.getsockname()[1]
    assert (found.addr, found.diff, found.in_sync) == (f"127.0.0.1:{port}", 0, True)
    assert (found.slave_ack_offset, found.transfer_from_where) == (end, end)
    assert (status.in_sync_slave_nums, status.master) == (1, True)


def test_the_nameserver_knows_where_slaves_connect_and_another_port_serves_if_the_usual_one_is_taken(
    running: Master, tmp_path: Path
) -> None:
    ha_port = int(running.admin.broker_config(running.addr)["haListenPort"])
    with pytest.raises(RuntimeError, match="cannot listen for slaves"):
        servers.standalone(tmp_path / "same", "--set", f"haListenPort={ha_port}")


@pytest.mark.parametrize(("settings", "is_open"), [((), False), (("brokerRole=ASYNC_MASTER",), True)])
def test_a_guarded_broker_gives_its_log_only_where_slaves_are_meant_to_be(
    tmp_path: Path, settings: tuple[str, ...], is_open: bool
) -> None:
    """Neither side of that connection authenticates itself."""
    config = tmp_path / "server.conf"
    config.write_text("authenticationEnabled=true\n" + "".join(f"{setting}\n" for setting in settings))
    with servers.standalone(tmp_path / "server", "--config", config) as server:
        assert ("event=slaves-served" in server.log_tail()) is is_open
        assert ("event=slaves-not-served" in server.log_tail()) is not is_open


def test_what_promises_copies_is_not_taken_where_nobody_waits_for_them(running: Master) -> None:
    with pytest.raises(UsageError, match="inSyncReplicas=2") as caught:
        BrokerConfig.from_properties("inSyncReplicas=2")
    assert caught.value.hint == "set brokerRole=SYNC_MASTER as well"
    with pytest.raises(RefusedError, match="inSyncReplicas=2"):
        running.admin.update_broker_config(running.addr, {"brokerRole": "ASYNC_MASTER"})
    config = BrokerConfig.from_properties("brokerRole=SYNC_MASTER\ninSyncReplicas=2")
    assert config.in_sync_replicas == 2


def test_the_layout_of_the_wire() -> None:
    """Bytes that a real 5.5.0 sent."""
    assert REPORT.pack(87184).hex() == "0000000000015490"
    assert TRANSFER_HEAD.pack(0, 222).hex() == "0000000000000000000000de"
    assert TRANSFER_HEAD.pack(87184, 0).hex() == "000000000001549000000000"
