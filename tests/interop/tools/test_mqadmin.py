"""Apache's own mqadmin against the cluster: the commands that operators type, and the output that they read."""

import re
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from tests.support import servers
from tests.support.servers import Fresh, until

from ..cluster import BROKER_NAME, CLUSTER_NAME, Cluster
from ..events import Outgoing
from ..mqadmin import Mqadmin
from ..witness import Witness, eventually

pytestmark = pytest.mark.interop

MESSAGES = [Outgoing(body=b"%d" % i, tags="TagA", keys=f"KEY-{i}", queue_id=i % 2) for i in range(6)]


def rows(table: str) -> list[list[str]]:
    """Cells of the lines below the heading that starts with ``#``, up to the first empty line."""
    lines = table.splitlines()
    heading = next(i for i, line in enumerate(lines) if line.startswith("#"))
    body = lines[heading + 1 :]
    return [line.split() for line in body[: body.index("") if "" in body else len(body)]]


@pytest.fixture
def topic(java: Witness, fresh: Fresh) -> str:
    """A topic of two queues with three messages each, all in the index."""
    name = java.create_topic(fresh("AdminTopic"), queues=2)
    java.send(name, MESSAGES)
    eventually(lambda: java.query_key(name, "KEY-5"), 1)
    return name


def test_a_static_topic_is_made_written_read_and_extended(cluster: Cluster, mqadmin: Mqadmin, fresh: Fresh) -> None:
    """mqadmin's sender and reader are Java clients, which use logical queues. Our broker refuses to make one."""
    topic = fresh("StaticTopic")
    if cluster.name == "ours":
        said = "\n".join(mqadmin.run("updateStaticTopic", "-t", topic, "-qn", "2", "-b", BROKER_NAME))
        assert "static topics are not served by this broker: create a plain topic (updateTopic)" in said
        return
    for queue_count in (2, 3):
        mqadmin("updateStaticTopic", "-t", topic, "-qn", str(queue_count), "-b", BROKER_NAME)
        status = [row[:2] for row in rows(mqadmin("topicStatus", "-t", topic))]
        assert [name for name, _ in status].count("__syslo__global__") == queue_count
    mqadmin("sendMessage", "-t", topic, "-p", "by a logical queue")
    read = mqadmin("consumeMessage", "-t", topic)
    assert "brokerName=__syslo__global__" in read
    assert "BODY: by a logical queue" in read


def test_a_topic_is_created_listed_routed_changed_and_deleted(cluster: Cluster, mqadmin: Mqadmin, fresh: Fresh) -> None:
    topic = fresh("AdminTopic")
    created = mqadmin("updateTopic", "-c", CLUSTER_NAME, "-t", topic, "-r", "3", "-w", "3")
    assert f"create topic to {cluster.broker_addr} success." in created
    assert f"TopicConfig [topicName={topic}, readQueueNums=3, writeQueueNums=3, perm=RW-" in created
    assert topic in mqadmin("topicList").split()
    assert rows(mqadmin("topicRoute", "-t", topic, "-l"))[0] == [
        CLUSTER_NAME, BROKER_NAME, f"{{0={cluster.broker_addr}}}", "3", "3", "6",
    ]  # fmt: skip
    mqadmin("updateTopic", "-b", cluster.broker_addr, "-t", topic, "-r", "5", "-w", "4", "-p", "4")
    assert rows(mqadmin("topicRoute", "-t", topic, "-l"))[0][3:] == ["5", "4", "4"]
    deleted = mqadmin("deleteTopic", "-c", CLUSTER_NAME, "-t", topic)
    assert f"delete topic [{topic}] from cluster [{CLUSTER_NAME}] success." in deleted
    assert f"delete topic [{topic}] from NameServer success." in deleted
    assert topic not in mqadmin("topicList").split()


def test_cluster_list_can_be_read_where_two_brokers_have_one_name_and_id(tmp_path: Path) -> None:
    """Our nameserver reports the displaced broker in a member that Apache's clients do not know."""
    with (
        servers.namesrv(tmp_path / "namesrv") as namesrv,
        servers.broker(tmp_path / "one", namesrv.namesrv_addr, BROKER_NAME) as one,
        servers.broker(tmp_path / "other", namesrv.namesrv_addr, BROKER_NAME) as other,
        AdminClient(namesrv.namesrv_addr) as admin,
        Mqadmin(namesrv.namesrv_addr, tmp_path / "mqadmin") as mqadmin,
    ):
        until(lambda: bool(admin.cluster_info().displaced_brokers))
        [row] = rows(mqadmin("clusterList"))
        assert row[3] in (one.broker_addr, other.broker_addr)


def test_broker_config_is_shown_and_changed(cluster: Cluster, mqadmin: Mqadmin) -> None:
    def value() -> str | None:
        return dict(
            re.findall(r"(?m)^(\S+)\s*=  (.*?)\s*$", mqadmin("getBrokerConfig", "-b", cluster.broker_addr))
        ).get("maxTransferCountOnMessageInMemory")

    before = value()
    assert before == "32"
    mqadmin("updateBrokerConfig", "-b", cluster.broker_addr, "-k", "maxTransferCountOnMessageInMemory", "-v", "33")
    assert value() == "33"
    mqadmin("updateBrokerConfig", "-b", cluster.broker_addr, "-k", "maxTransferCountOnMessageInMemory", "-v", before)


def test_offsets_of_an_offline_group_are_reset(
    cluster: Cluster, mqadmin: Mqadmin, java: Witness, topic: str, fresh: Fresh
) -> None:
    """The resets go to now, to a time before all messages, and to an offset of one queue. The broker keeps them for
    later members."""
    group = java.create_group(fresh("AdminGroup"))
    for queue_id in (0, 1):
        java.commit(group, topic, queue_id, 2)

    def reset_to(*how: str) -> dict[int, int]:
        mqadmin("resetOffsetByTime", "-g", group, "-t", topic, *how)
        return {q: p.committed_offset for q, p in java.progress(group, topic).items()}

    assert reset_to("-s", "now") == {0: 3, 1: 3}
    assert reset_to("-s", "1000") == {0: 0, 1: 0}
    assert reset_to("-s", "-1", "-b", cluster.broker_addr, "-q", "1", "-o", "2") == {0: 0, 1: 2}
    consumer = java.consume(group, topic)
    consumer.until_count(4)
    assert sorted((m.queue_id, m.queue_offset) for m in consumer.stop()) == [(0, 0), (0, 1), (0, 2), (1, 2)]
