"""Like ``test_mqadmin_texts``, for configurations, permissions, producers, statistics and commands that move groups."""

import re

import pytest

from rmqadmin.commands.group.clients import ProducerClients, Producers
from rmqadmin.commands.group.group_views import GroupConfigs
from rmqadmin.commands.group.offsets import Cloned
from rmqadmin.commands.topic.stats_all import AllStats, StatsRow
from rmqadmin.core.offsets.reset import QueueReset
from rmqadmin.core.offsets.reset_plan import Resets
from rmqadmin.core.servers.namesrv_tables import WritePermRow, WritePerms
from rmqadmin.core.servers.server_configs import Configs, Listing
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import ClientConnection, ProducerInfo, SubscriptionGroupConfig
from rmqproto.bodies.routes import BrokerData
from tests.rmqadmin.conftest import golden
from tests.support.any_order import in_any_order

QUEUES = [MessageQueue("NormalTopic", "broker-a", queue_id) for queue_id in range(4)]


@pytest.mark.parametrize(
    ("command", "case", "end"), [("getBrokerConfig", "broker", "\n"), ("getNamesrvConfig", "ok", "")]
)
def test_a_configuration(command: str, case: str, end: str) -> None:
    text = golden(command, case)
    heading, *lines = text.removesuffix(end).splitlines(keepends=True)
    values = {line[:50].strip(): line[53:-1] for line in lines}
    assert Configs([Listing("addr", heading, values)], [], end).mqadmin_text() == "".join(
        [heading, *sorted(lines), end]
    )


def test_get_consumer_config() -> None:
    broker = BrokerData(broker_addrs={0: "h:1"}, broker_name="broker-a", cluster="DefaultCluster")
    config = SubscriptionGroupConfig(group_name="NormalGroup")
    assert GroupConfigs([(broker, config)]).mqadmin_text() == golden("getConsumerConfig", "ok")


def test_producer_connection() -> None:
    client_id = "127.0.0.1@PlainProducerGroup"
    client = ClientConnection(client_addr="127.0.0.1:51538", client_id=client_id, language="JAVA", version=513)
    shown = ProducerClients({client_id: client}, {client_id: ["broker-a"]})
    assert shown.mqadmin_text() == golden("producerConnection", "ok")


def test_producer_lists_groups() -> None:
    text = golden("producer", "ok")
    by_group: dict[str, list[ProducerInfo]] = {}
    for line in text.splitlines():
        found = re.fullmatch(
            r"producer group \((.*)\) instance : clientId=(.*),remoteIP=(.*), language=(.*), version=(.*), last.*=(.*)",
            line,
        )
        assert found
        group, client_id, remote_ip, language, version, heard_ms = found.groups()
        info = ProducerInfo(
            client_id=client_id, language=language, last_update_timestamp=int(heard_ms), remote_ip=remote_ip,
            version=int(version),
        )  # fmt: skip
        by_group.setdefault(group, []).append(info)
    lines = sorted(text.splitlines(keepends=True), key=lambda line: line.partition(")")[0])
    assert Producers(by_group).mqadmin_text() == "".join(lines)


def test_a_producer_group_that_nobody_is_left_of_has_a_line() -> None:
    shown = Producers({"G": []})
    assert shown.mqadmin_text() == "producer group (G) instances are empty\n"
    assert [(row.group, row.client_id, row.version) for row in shown.rows()] == [("G", None, None)]


def test_stats_of_a_topic() -> None:
    rows = [
        StatsRow(
            topic="NormalTopic", group=group, lag_count=0, in_tps=0.0, out_tps=0.0, in_day=0, out_day=0, error=None
        )
        for group in ("SqlGroup", "PullGroup", "NormalGroup")
    ]
    assert AllStats(rows).mqadmin_text() == golden("statsAll", "topic")


def test_stats_of_a_topic_without_consumers() -> None:
    row = StatsRow(
        topic="TBW102", group=None, lag_count=None, in_tps=0.0, out_tps=None, in_day=0, out_day=None, error=None
    )
    line = AllStats([row]).mqadmin_text().splitlines()[1]
    assert line == "TBW102" + " " * 136 + "0        0.00                          0    NO_CONSUMER"


def test_skip_accumulated_message_has_no_line_above_its_table() -> None:
    queues = [QueueReset(queue, "127.0.0.1:10911", 0, 4, 4, 4) for queue in QUEUES]
    shown = Resets("G", "NormalTopic", queues, mqadmin_head="")
    assert in_any_order(shown.mqadmin_text()) == in_any_order(golden("skipAccumulatedMessage", "ok"))


def test_clone_group_offset() -> None:
    queues = [QueueReset(queue, "127.0.0.1:10911", 0, 4, 4, 4, done=True) for queue in QUEUES]
    shown = Cloned("ClonedAdminGroup", "NormalTopic", queues, source_group="NormalGroup")
    assert shown.mqadmin_text() == golden("cloneGroupOffset", "ok")


def test_wipe_write_perm() -> None:
    row = WritePermRow(
        namesrv_addr="127.0.0.1:9876", broker_name="broker-a", action="wipe", topic_count=66, done=True, error=None
    )
    assert WritePerms([row]).mqadmin_text() == golden("wipeWritePerm", "ok")
