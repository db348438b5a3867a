"""A slave of ours with a master of ours: two processes."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message, SendStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig
from rmqproto.bodies.statistics import TimerMetrics
from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError, UsageError
from rmqproto.headers.consuming import ResetOffsetHeader
from rmqproto.wire.fastjson import loads_untrusted
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.doors.remoting.role_answers import NO_RESET_TEXT, REJECTED_TEXT
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.timers.timer_check import TimerCheckpoint
from tests.rmqserver.broker.messaging import pull_header, send
from tests.support import servers
from tests.support.servers import Server, all_of, topic_config, until
from tests.support.wire import Wire

COMMON = ("--set", "mappedFileSizeCommitLog=65536")
READS = ("--set", "slaveReadEnable=true")
MASTER = (*COMMON, *READS, "--set", "brokerRole=SYNC_MASTER", "--set", "inSyncReplicas=2",
          "--set", "slaveTimeout=30000")  # fmt: skip
SEND_BACK = {"offset": "0", "group": "G", "delayLevel": "0"}
BODIES = [b"%d" % number * 700 for number in range(60)]
SLAVE = (*COMMON, "--set", "brokerRole=SLAVE", "--set", "brokerId=1", "--set", "syncBrokerMetadataPeriod=200")


@dataclass
class Pair:
    directory: Path
    stack: ExitStack
    namesrv: Server
    master: Server
    slave: Server
    admin: AdminClient

    def send(self, topic: str, body: bytes, queue_id: int = 0, *, keys: str = "", **properties: str) -> SendStatus:
        message = Message(topic, body, keys=[keys] if keys else [], properties=properties)
        return self.admin.send_message(
            self.master.broker_addr, MessageQueue(topic, "broker-a", queue_id), message
        ).status

    def end_of(self, server: Server) -> int:
        status = self.admin.ha_status(server.broker_addr)
        return status.master_commit_log_max_offset if status.master else status.ha_client_runtime_info.max_offset

    def until_copied(self) -> None:
        until(lambda: self.end_of(self.slave) == self.end_of(self.master))

    def start_slave(self, *more: str) -> None:
        self.slave = self.stack.enter_context(
            servers.broker(self.directory / "slave", self.namesrv.namesrv_addr, "broker-a", *SLAVE, *more)
        )

    def bodies(self, server: Server, topic: str, queue_id: int = 0) -> list[bytes]:
        queue = MessageQueue(topic, "broker-a", queue_id)
        return [message.body for message in all_of(self.admin, server.broker_addr, queue)]


def waiting_timers(wire: Wire) -> int:
    metrics = loads_untrusted(wire.ask(R.GET_TIMER_METRICS, {}).body, TimerMetrics)
    return metrics.timing_count["Copied"].count


@contextmanager
def a_pair(directory: Path) -> Iterator[Pair]:
    """Its topic "Copied" holds BODIES."""
    with ExitStack() as stack:
        namesrv = stack.enter_context(servers.namesrv(directory / "namesrv"))
        master = stack.enter_context(servers.broker(directory / "master", namesrv.namesrv_addr, "broker-a", *MASTER))
        admin = stack.enter_context(AdminClient(namesrv.namesrv_addr, timeout_s=60))
        made = Pair(directory, stack, namesrv, master, master, admin)
        made.start_slave(*READS)
        until(lambda: len(admin.ha_status(master.broker_addr).ha_connection_info) == 1)
        sent = {made.send("Copied", body, keys=f"k{number}") for number, body in enumerate(BODIES)}
        assert sent == {SendStatus.SEND_OK}
        until(lambda: "Copied" in admin.all_topics(made.slave.broker_addr).topic_config_table)
        yield made


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with a_pair(tmp_path_factory.mktemp("pair")) as made:
        yield made


def test_what_a_producer_was_told_is_at_the_slave(pair: Pair) -> None:
    until(lambda: pair.bodies(pair.slave, "Copied") == BODIES)
    found = pair.admin.query_message(pair.slave.broker_addr, "Copied", "k7")
    assert [message.body for message in found] == [BODIES[7]]


def test_tables_and_offsets_come_across(pair: Pair) -> None:
    admin, master, slave = pair.admin, pair.master.broker_addr, pair.slave.broker_addr
    admin.create_topic(master, topic_config("Later", 3))
    admin.create_group(master, SubscriptionGroupConfig(group_name="LaterGroup", retry_max_times=7))
    admin.update_consumer_offset(master, "LaterGroup", "Later", 2, 5)
    until(lambda: "LaterGroup" in admin.all_groups(slave).subscription_group_table)
    until(lambda: admin.consumer_offset(slave, "LaterGroup", "Later", 2) == 5)
    until(lambda: "Later" in admin.all_topics(slave).topic_config_table)  # it may come in a later round
    assert admin.topic_config(slave, "Later").write_queue_nums == 3
    assert admin.all_groups(slave).subscription_group_table["LaterGroup"].retry_max_times == 7
    admin.delete_topic_in_broker(master, "Later")
    until(lambda: "Later" not in admin.all_topics(slave).topic_config_table)


def test_a_topic_that_was_deleted_and_made_again_is_the_new_one_at_the_slave(pair: Pair) -> None:
    """Its queues begin at 0 again, but the slave still has units there. It used to pass over the new messages."""
    for body in (b"old %d" % number for number in range(5)):
        assert pair.send("Again", body) is SendStatus.SEND_OK
    until(lambda: "Again" in pair.admin.all_topics(pair.slave.broker_addr).topic_config_table)
    until(lambda: len(pair.bodies(pair.slave, "Again")) == 5)
    pair.admin.delete_topic_in_broker(pair.master.broker_addr, "Again")
    assert pair.send("Again", b"new") is SendStatus.SEND_OK
    assert pair.bodies(pair.master, "Again") == [b"new"]
    pair.until_copied()
    until(lambda: "Again" in pair.admin.all_topics(pair.slave.broker_addr).topic_config_table)
    until(lambda: pair.bodies(pair.slave, "Again") == [b"new"])


def test_a_slave_takes_no_messages_and_serves_reads_where_that_is_switched_on(pair: Pair) -> None:
    with Wire(pair.slave.broker_addr) as wire:
        for answer in (send(wire, "Copied"), wire.ask(R.CONSUMER_SEND_MSG_BACK, SEND_BACK)):
            assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_BUSY, REJECTED_TEXT)
        answer = wire.ask(R.RECALL_MESSAGE, {"topic": "Copied", "recallHandle": "x"})
        assert (answer.code, answer.remark) == (ResponseCode.SLAVE_NOT_AVAILABLE, None)
    pair.admin.update_broker_config(pair.slave.broker_addr, {"slaveReadEnable": "false"})
    with pytest.raises(RefusedError, match="REJECTREQUEST"):
        pair.bodies(pair.slave, "Copied")
    with pytest.raises(RefusedError, match="becomes a slave, or no longer is one, when it starts"):
        pair.admin.update_broker_config(pair.slave.broker_addr, {"brokerRole": "ASYNC_MASTER"})
    pair.admin.update_broker_config(pair.slave.broker_addr, {"slaveReadEnable": "true"})


def test_a_slave_resets_no_offset(pair: Pair) -> None:
    """mqadmin resetOffsetByTime with the address of a slave reported success, and the next copy of the master's
    offsets undid it."""
    pair.admin.create_topic(pair.master.broker_addr, TopicConfig(topic_name="Reset"))
    pair.admin.create_group(pair.master.broker_addr, SubscriptionGroupConfig(group_name="Reset"))
    until(lambda: "Reset" in pair.admin.all_groups(pair.slave.broker_addr).subscription_group_table)
    until(lambda: "Reset" in pair.admin.all_topics(pair.slave.broker_addr).topic_config_table)
    header = ResetOffsetHeader(topic="Reset", group="Reset", timestamp=-1)
    with Wire(pair.slave.broker_addr) as wire:
        answer = wire.ask(R.INVOKE_BROKER_TO_RESET_OFFSET, header)
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, NO_RESET_TEXT)
        pair.admin.update_broker_config(pair.slave.broker_addr, {"useServerSideResetOffset": "false"})
        answer = wire.ask(R.INVOKE_BROKER_TO_RESET_OFFSET, header)
        assert answer.remark != NO_RESET_TEXT  # it is for the clients
        pair.admin.update_broker_config(pair.slave.broker_addr, {"useServerSideResetOffset": "true"})


def test_a_pull_says_which_broker_to_ask_next_and_offsets_come_as_an_apache_slave_can_read_them(pair: Pair) -> None:
    group = SubscriptionGroupConfig(group_name="Elsewhere", broker_id=1)
    pair.admin.create_group(pair.master.broker_addr, group)
    with Wire(pair.master.broker_addr) as wire:
        for is_switched_on, wanted in (("false", "0"), ("true", "1")):
            pair.admin.update_broker_config(pair.master.broker_addr, {"slaveReadEnable": is_switched_on})
            answer = wire.ask(R.PULL_MESSAGE, pull_header("Copied", group="Elsewhere"))
            assert (answer.code, answer.ext["suggestWhichBrokerId"]) == (ResponseCode.SUCCESS, wanted)
        text = wire.ask(R.GET_ALL_CONSUMER_OFFSET, {}).body.decode()
    assert '"Copied@Elsewhere":{"0":' in text.partition('"pullOffsetTable"')[2]


def test_a_group_that_is_further_behind_than_memory_reaches_is_sent_to_a_slave(tmp_path: Path) -> None:
    settings = ("--set", "accessMessageInMemoryMaxRatio=0", *READS)
    with (
        servers.standalone(tmp_path, *settings) as server,
        AdminClient(server.namesrv_addr) as admin,
        Wire(server.broker_addr) as wire,
    ):
        group = SubscriptionGroupConfig(group_name="Slow", which_broker_when_consume_slowly=2)
        admin.create_group(server.broker_addr, group)
        assert send(wire, "Copied").code == ResponseCode.SUCCESS
        for is_switched_on, wanted in (("true", "2"), ("false", "0")):
            admin.update_broker_config(server.broker_addr, {"slaveReadEnable": is_switched_on})
            answer = wire.ask(R.PULL_MESSAGE, pull_header("Copied", group="Slow"))
            assert (answer.code, answer.ext["suggestWhichBrokerId"]) == (ResponseCode.SUCCESS, wanted)


def test_a_slave_corrects_no_offset_and_says_where_else_to_ask(pair: Pair) -> None:
    pair.admin.create_group(pair.master.broker_addr, SubscriptionGroupConfig(group_name="Beyond", broker_id=2))
    until(lambda: "Beyond" in pair.admin.all_groups(pair.slave.broker_addr).subscription_group_table)
    for server, code, next_offset in (
        (pair.slave, ResponseCode.PULL_RETRY_IMMEDIATELY, "1000"),
        (pair.master, ResponseCode.PULL_OFFSET_MOVED, "60"),
    ):
        with Wire(server.broker_addr) as wire:
            answer = wire.ask(R.PULL_MESSAGE, pull_header("Copied", group="Beyond", queue_offset=1000))
        assert (answer.code, answer.ext["nextBeginOffset"]) == (code, next_offset)
        assert answer.ext["suggestWhichBrokerId"] == "2"


def test_what_brokers_tell_each_other_of_the_master(pair: Pair) -> None:
    with Wire(pair.slave.broker_addr) as slave, Wire(pair.master.broker_addr) as master:
        port = pair.admin.broker_config(pair.master.broker_addr)["haListenPort"]
        ext = {
            "masterAddress": pair.master.broker_addr, "masterFlushOffset": "0", "masterHaAddress": f"127.0.0.1:{port}"
        }  # fmt: skip
        answer = master.ask(R.EXCHANGE_BROKER_HA_INFO, {})
        assert (answer.code, answer.ext) == (ResponseCode.SUCCESS, ext)
        elsewhere = ext | {"masterHaAddress": "127.0.0.1:1"}
        for wire in (master, slave):
            assert (wire.ask(R.EXCHANGE_BROKER_HA_INFO, elsewhere).ext or {}) == {}
        client = pair.admin.ha_status(pair.slave.broker_addr).ha_client_runtime_info
        assert client.master_addr == "127.0.0.1:1", "for its next connection"
        assert pair.send("Copied", b"still followed", queue_id=3) is SendStatus.SEND_OK
        slave.ask(R.EXCHANGE_BROKER_HA_INFO, ext)
        pair.admin.reset_master_flush_offset(pair.slave.broker_addr, 77)
        client = pair.admin.ha_status(pair.slave.broker_addr).ha_client_runtime_info
        assert (client.master_addr, client.master_flush_offset) == (f"127.0.0.1:{port}", 77)


def test_the_nameserver_knows_both_and_ha_status_tells_whose_slave_it_is(pair: Pair) -> None:
    broker = pair.admin.cluster_info().broker_addr_table["broker-a"]
    assert broker.broker_addrs == {0: pair.master.broker_addr, 1: pair.slave.broker_addr}
    pair.until_copied()
    status = pair.admin.ha_status(pair.slave.broker_addr)
    assert not status.master
    port = pair.admin.broker_config(pair.master.broker_addr)["haListenPort"]
    assert status.ha_client_runtime_info.master_addr == f"127.0.0.1:{port}"
    assert status.ha_client_runtime_info.max_offset == pair.end_of(pair.master)


def test_a_slave_that_was_killed_goes_on_and_becomes_a_master_that_has_everything(tmp_path: Path) -> None:
    with a_pair(tmp_path) as pair:
        goes_on_and_becomes_a_master(pair)


def goes_on_and_becomes_a_master(pair: Pair) -> None:
    pair.slave.stop(signal.SIGKILL)
    sent = [b"while away %d" % number for number in range(20)]
    for body in sent:
        assert pair.send("Copied", body, queue_id=1, WAIT="false") is SendStatus.SEND_OK
    due = pair.send("Copied", b"due", queue_id=2, WAIT="false", TIMER_DELAY_MS="1000")
    waits = pair.send("Copied", b"waits", queue_id=2, WAIT="false", TIMER_DELAY_SEC="600")
    assert {due, waits} == {SendStatus.SEND_OK}
    until(lambda: pair.bodies(pair.master, "Copied", 2) == [b"due"])
    pair.start_slave()
    pair.until_copied()
    path = str(pair.directory / "slave/store/config/timercheck")
    until(lambda: TimerCheckpoint.read(OsDisk(), path).master_queue_offset == 2)
    pair.admin.create_group(pair.master.broker_addr, SubscriptionGroupConfig(group_name="Ahead"))
    pair.admin.update_consumer_offset(pair.master.broker_addr, "Ahead", "Copied", 1, 1000)
    until(lambda: pair.admin.consumer_offset(pair.slave.broker_addr, "Ahead", "Copied", 1) == 1000)
    end = pair.end_of(pair.master)
    pair.master.stop()
    pair.slave.stop()
    promoted = (*COMMON, "--set", "brokerRole=ASYNC_MASTER")
    with servers.broker(pair.directory / "slave", pair.namesrv.namesrv_addr, "broker-a", *promoted) as server:
        assert pair.end_of(server) >= end
        assert pair.bodies(server, "Copied", 1) == sent
        assert pair.bodies(server, "Copied") == BODIES
        held_back = pair.admin.consumer_offset(server.broker_addr, "Ahead", "Copied", 1)
        assert held_back == len(sent), "as far as its log goes: who reads on behind that would miss what comes next"
        pair.master = server
        assert pair.send("Copied", b"new", queue_id=1) is SendStatus.SEND_OK
        assert pair.bodies(server, "Copied", 1) == [*sent, b"new"]
        with Wire(server.broker_addr) as wire:
            until(lambda: waiting_timers(wire) == 1)
        assert pair.bodies(server, "Copied", 2) == [b"due"], "the master has delivered it, and nobody does again"


def test_what_the_master_has_delivered_and_its_slave_has_not_comes_when_that_takes_its_place(tmp_path: Path) -> None:
    """The slave has the delayed message and the timer, but not their copies: its log is behind, its tables are not.
    Both used to count as delivered, and nobody got them."""
    levels = ("--set", "messageDelayLevel=2s 10m")
    with ExitStack() as stack:
        namesrv = stack.enter_context(servers.namesrv(tmp_path / "namesrv"))
        settings = (*COMMON, *levels, "--set", "brokerRole=ASYNC_MASTER")
        master = stack.enter_context(servers.broker(tmp_path / "master", namesrv.namesrv_addr, "broker-a", *settings))
        admin = stack.enter_context(AdminClient(namesrv.namesrv_addr, timeout_s=60))
        pair = Pair(tmp_path, stack, namesrv, master, master, admin)
        pair.start_slave(*levels)
        until(lambda: len(admin.ha_status(master.broker_addr).ha_connection_info) == 1)
        pair.send("Delayed", b"delayed", DELAY="1")
        pair.send("Delayed", b"timer", queue_id=1, TIMER_DELAY_MS="2000")
        pair.until_copied()
        stalled = {"haFlowControlEnable": "true", "maxHaTransferByteInSecond": "1"}
        admin.update_broker_config(master.broker_addr, stalled)
        until(
            lambda: pair.bodies(master, "Delayed") == [b"delayed"] and pair.bodies(master, "Delayed", 1) == [b"timer"]
        )
        for name in ("After", "AfterThat"):  # the second group comes in a round that began after both deliveries
            admin.create_group(master.broker_addr, SubscriptionGroupConfig(group_name=name))
            until(lambda: name in admin.all_groups(pair.slave.broker_addr).subscription_group_table)  # noqa: B023
        assert pair.end_of(pair.slave) < pair.end_of(master)
        master.stop(signal.SIGKILL)
        pair.slave.stop()
        promoted = servers.broker(tmp_path / "slave", namesrv.namesrv_addr, "broker-a", *settings)
        with promoted:
            for queue_id, body in enumerate((b"delayed", b"timer")):
                until(lambda: pair.bodies(promoted, "Delayed", queue_id) == [body])  # noqa: B023


def test_a_slave_with_a_masters_id_does_not_start() -> None:
    with pytest.raises(UsageError, match="brokerId 0 is the master's"):
        BrokerConfig.from_properties("brokerRole=SLAVE")
