"""A slave whose log is not its master's reports that, and copies nothing."""

import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message, SendStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.replication import HaStatus
from rmqproto.bodies.routes import KvTable, TopicConfig
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import ProtocolError, RefusedError
from rmqproto.wire.command import Command
from rmqproto.wire.fastjson import dumps
from rmqserver.broker.assembly import BrokerAssembly
from rmqserver.broker.replicas.same_log import OtherLog, check_same_log
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import StoreOptions
from tests.rmqserver.broker.messaging import pull_header
from tests.rmqserver.store.conftest import put
from tests.support import servers
from tests.support.servers import Server, until
from tests.support.slave import ha_addr_of
from tests.support.wire import Wire

QUEUE = MessageQueue("Same", "broker-a", 0)


@dataclass
class Master:
    """``record`` is its answer for any log offset: bytes, or the code and remark of a refusal."""

    end_offset: int
    record: bytes | tuple[int, str]
    knows_ha_status: bool = True
    begin_offset: int | None = 0

    async def ask(self, code: int, header: object = None) -> Command:
        if code == RequestCode.GET_BROKER_HA_STATUS:
            if not self.knows_ha_status:
                raise RefusedError(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, " request type 907 not supported")
            return Command(code=0, body=dumps(HaStatus(master_commit_log_max_offset=self.end_offset)))
        if code == RequestCode.GET_BROKER_RUNTIME_INFO:
            if self.begin_offset is None:
                raise RefusedError(ResponseCode.NO_PERMISSION, "not for you")
            return Command(code=0, body=dumps(KvTable(table={"commitLogMinOffset": str(self.begin_offset)})))
        if isinstance(self.record, tuple):
            raise RefusedError(*self.record)
        return Command(code=0, body=self.record)


async def test_the_last_record_tells_whose_log_it_is(parts: BrokerAssembly) -> None:
    store = parts.store
    link: Any = Master(0, b"")
    assert await check_same_log(link, store) == 0  # an empty log is the beginning of any log
    put(store)
    last = put(store, body=b"last")
    store.commit()
    record = store.get_record(last.log_offset)
    assert record is not None
    nothing_there = (ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {last.log_offset}")
    end = store.written_offset
    for master, log_end in (
        (Master(end, record), end),
        (Master(end + 1000, record), end + 1000),
        (Master(end, (ResponseCode.NO_PERMISSION, "not for you")), 0),
        (Master(0, b"", knows_ha_status=False), 0),
        (Master(end, nothing_there, begin_offset=end), end),  # expired, at a file border
    ):
        link = master
        assert await check_same_log(link, store) == log_end
    for master, said in (
        (Master(store.written_offset - 1, record), f"ends at {store.written_offset}, and its master's at"),
        (Master(store.written_offset, record[:-1]), f"the record that this log has at {last.log_offset}"),
        (Master(store.written_offset, nothing_there), f"the record that this log has at {last.log_offset}"),
        (Master(store.written_offset, nothing_there, begin_offset=None), "the master has not the record"),
    ):
        link = master
        with pytest.raises(OtherLog, match=said):
            await check_same_log(link, store)
    link = Master(store.written_offset + 9, nothing_there, begin_offset=store.written_offset + 1)
    with pytest.raises(ProtocolError, match="by now: empty this store") as raised:
        await check_same_log(link, store)
    assert not isinstance(raised.value, OtherLog), "it is how the master's began"


@dataclass
class Pair:
    directory: Path
    stack: ExitStack
    namesrv: Server
    admin: AdminClient
    _master_port: int = 0
    _master_settings: tuple[str, ...] = ()

    def start(self, name: str, *settings: str, port: int = 0) -> Server:
        given = ["--port", str(port), *servers.sets(*settings)]
        return self.stack.enter_context(
            servers.broker(self.directory / name, self.namesrv.namesrv_addr, "broker-a", *given)
        )

    def master(self) -> Server:
        """Always on the same ports, because its slave would learn of others only after half a minute."""
        master = self.start("master", *self._master_settings, port=self._master_port)
        self._master_port = int(master.broker_addr.rpartition(":")[2])
        self._master_settings = (f"haListenPort={ha_addr_of(master, self.admin).rpartition(':')[2]}",)
        return master

    def slave(self) -> Server:
        return self.start("slave", "brokerRole=SLAVE", "brokerId=1", "slaveReadEnable=true")

    def send(self, master: Server, *bodies: bytes) -> None:
        for body in bodies:
            result = self.admin.send_message(master.broker_addr, QUEUE, Message("Same", body))
            assert result.status is SendStatus.SEND_OK

    def bodies(self, server: Server) -> list[bytes]:
        return [message.body for message in self.admin.pull_message(server.broker_addr, QUEUE, 0).messages]

    def until_followed(self, master: Server) -> None:
        until(lambda: [one.diff for one in self.admin.ha_status(master.broker_addr).ha_connection_info] == [0])


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as stack:
        namesrv = stack.enter_context(servers.namesrv(tmp_path / "namesrv"))
        admin = stack.enter_context(AdminClient(namesrv.namesrv_addr, timeout_s=60))
        yield Pair(tmp_path, stack, namesrv, admin)


def test_what_a_master_has_lost_keeps_its_slave_away_also_when_it_has_written_as_much_again(pair: Pair) -> None:
    """The slave used to copy on from the middle of a record, or to put other messages behind those that the master had
    lost."""
    master, slave = pair.master(), pair.slave()
    pair.send(master, b"both")
    pair.until_followed(master)
    master.stop()
    shutil.copytree(master.store_dir, pair.directory / "before")
    master = pair.master()
    pair.send(master, b"lost 1", b"lost 2")
    pair.until_followed(master)
    until(lambda: "Same" in pair.admin.all_topics(slave.broker_addr).topic_config_table)
    until(lambda: len(pair.bodies(slave)) == 3)
    master.stop()
    shutil.rmtree(master.store_dir)
    (pair.directory / "before").rename(master.store_dir)
    master = pair.master()
    until(lambda: "event=other-log" in slave.log_tail())
    pair.send(master, *(b"another %d" % number for number in range(5)))
    slave.stop()
    slave = pair.slave()
    until(lambda: "event=other-log" in slave.log_tail() and "has not the record" in slave.log_tail())
    status = pair.admin.ha_status(master.broker_addr)
    assert (status.in_sync_slave_nums, {one.slave_ack_offset for one in status.ha_connection_info} - {-1}) == (0, set())
    until(lambda: _pulled(slave) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "0"))
    master.stop()
    slave.stop(signal.SIGKILL)
    slave = pair.slave()
    assert _pulled(slave) == (ResponseCode.SYSTEM_BUSY, None), "it has nobody to compare its log with, and knows it"
    slave.stop()
    shutil.rmtree(Path(slave.store_dir, "commitlog"))
    shutil.rmtree(Path(slave.store_dir, "consumequeue"))
    master, slave = pair.master(), pair.slave()
    pair.until_followed(master)
    until(lambda: pair.bodies(slave) == pair.bodies(master))


def _pulled(slave: Server) -> tuple[int, str | None]:
    """The code, and the id of the broker to ask instead. A client that read on at the master would miss what the master
    has at the offsets that were read here."""
    with Wire(slave.broker_addr) as wire:
        answer = wire.ask(RequestCode.PULL_MESSAGE, pull_header("Same"))
    return answer.code, answer.ext.get("suggestWhichBrokerId")


def test_how_far_a_master_has_come_in_another_log_is_not_taken(pair: Pair) -> None:
    """A consumer that reads on from such an offset would miss what this log, or the master's, has before it."""
    soon = "syncBrokerMetadataPeriod=50"
    master = pair.start("master")
    pair.admin.create_group(master.broker_addr, SubscriptionGroupConfig(group_name="G"))
    pair.send(master, b"both")
    slave = pair.start("slave", "brokerRole=SLAVE", "brokerId=1", soon)
    pair.until_followed(master)
    pair.admin.update_consumer_offset(master.broker_addr, "G", "Same", 0, 1)

    def known(server: Server) -> int | None:
        return pair.admin.consumer_offset(server.broker_addr, "G", "Same", 0)

    until(lambda: known(slave) == 1)
    slave.stop()
    sizes = StoreOptions(commit_log_file_size_bytes=16777216, consume_queue_file_size_bytes=600000, index_enabled=False)
    store = MessageStore(slave.store_dir, sizes)
    store.open()
    put(store, topic="Same", body=b"the slave's")
    store.commit()
    assert store.close()
    pair.send(master, b"the master's", b"and more")
    slave = pair.start("slave", "brokerRole=SLAVE", "brokerId=1", soon)
    until(lambda: "event=other-log" in slave.log_tail())
    pair.admin.update_consumer_offset(slave.broker_addr, "G", "Same", 0, 2)
    pair.admin.update_consumer_offset(master.broker_addr, "G", "Same", 0, 3)
    for topic in ("Next", "AndNext"):  # so that one round began after the commits
        pair.admin.create_topic(master.broker_addr, TopicConfig(topic_name=topic))
        until(lambda topic=topic: topic in pair.admin.all_topics(slave.broker_addr).topic_config_table)
    assert (known(slave), known(master)) == (2, 3)
