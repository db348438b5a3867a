"""Apache's own mqadmin against the cluster: the commands that operators type, and the output that they read."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from tests.support import servers
from tests.support.servers import until

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
def topic(java: Witness, fresh: Callable[[str], str]) -> str:
    """A topic of two queues with three messages each, all in the index."""
    name = java.create_topic(fresh("AdminTopic"), queues=2)
    java.send(name, MESSAGES)
    eventually(lambda: java.query_key(name, "KEY-5"), 1)
    return name


def test_a_static_topic_is_made_written_read_and_extended(
    cluster: Cluster, mqadmin: Mqadmin, fresh: Callable[[str], str]
) -> None:
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


def test_a_topic_is_created_listed_routed_changed_and_deleted(
    cluster: Cluster, mqadmin: Mqadmin, fresh: Callable[[str], str]
) -> None:
    topic = fresh("AdminTopic")
    created = mqadmin("updateTopic", "-c", CLUSTER_NAME, "-t", topic, "-r", "3", "-w", "3")
    assert f"create topic to {cluster.broker_addr} success." in created
    assert f"TopicConfig [topicName={topic}, readQueueNums=3, writeQueueNums=3, perm=RW-" in created
    assert topic in mqadmin("topicList").split()
    assert rows(mqadmin("topicRoute", "-t", topic, "-l"))[0] == [
        CLUSTER_NAME,
        BROKER_NAME,
        f"{{0={cluster.broker_addr}}}",
        "3",
        "3",
        "6",
    ]
    mqadmin("updateTopic", "-b", cluster.broker_addr, "-t", topic, "-r", "5", "-w", "4", "-p", "4")
    assert rows(mqadmin("topicRoute", "-t", topic, "-l"))[0][3:] == ["5", "4", "4"]
    deleted = mqadmin("deleteTopic", "-c", CLUSTER_NAME, "-t", topic)
    assert f"delete topic [{topic}] from cluster [{CLUSTER_NAME}] success." in deleted
    assert f"delete topic [{topic}] from NameServer success." in deleted
    assert topic not in mqadmin("topicList").split()


def test_topic_route_prints_the_route(cluster: Cluster, mqadmin: Mqadmin, topic: str) -> None:
    text = mqadmin("topicRoute", "-t", topic)
    route = json.loads(re.sub(r"(?m)^(\s*)(\d+):", r'\1"\2":', text))  # fastjson leaves numeric keys bare
    assert route["brokerDatas"] == [
        {
            "brokerAddrs": {"0": cluster.broker_addr},
            "brokerName": BROKER_NAME,
            "cluster": CLUSTER_NAME,
            "enableActingMaster": False,
        }
    ]
    assert route["queueDatas"] == [
        {"brokerName": BROKER_NAME, "perm": 6, "readQueueNums": 2, "topicSysFlag": 0, "writeQueueNums": 2}
    ]


def test_the_route_of_an_unknown_topic_is_an_error_with_its_code(mqadmin: Mqadmin) -> None:
    _, error = mqadmin.run("topicRoute", "-t", "NoSuchTopic")
    assert "CODE: 17" in error


def test_topic_status_shows_offsets_and_times(mqadmin: Mqadmin, topic: str, java: Witness) -> None:
    table = rows(mqadmin("topicStatus", "-t", topic))
    assert [row[:4] for row in table] == [[BROKER_NAME, "0", "0", "3"], [BROKER_NAME, "1", "0", "3"]]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}", " ".join(row[4:])) for row in table)


def test_a_group_is_created_and_shown(cluster: Cluster, mqadmin: Mqadmin, fresh: Callable[[str], str]) -> None:
    group = fresh("AdminGroup")
    created = mqadmin("updateSubGroup", "-c", CLUSTER_NAME, "-g", group, "-r", "3", "-q", "2")
    assert f"create subscription group to {cluster.broker_addr} success." in created
    shown = mqadmin("getConsumerConfig", "-g", group)
    assert re.search(r"retryMaxTimes\s*=\s*3\b", shown)
    assert re.search(r"retryQueueNums\s*=\s*2\b", shown)
    mqadmin("deleteSubGroup", "-b", cluster.broker_addr, "-g", group)


def test_cluster_list_shows_the_living_broker(cluster: Cluster, mqadmin: Mqadmin) -> None:
    [row] = rows(mqadmin("clusterList"))
    assert row[:4] == [CLUSTER_NAME, BROKER_NAME, "0", cluster.broker_addr]
    assert row[4].startswith("V")
    assert row[-1] == "true"
    [more] = rows(mqadmin("clusterList", "-m"))
    assert more[:2] == [CLUSTER_NAME, BROKER_NAME]
    assert all(cell.isdigit() for cell in more[2:])


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


def test_broker_status_lists_the_runtime_values(cluster: Cluster, mqadmin: Mqadmin, topic: str) -> None:
    values = dict(re.findall(r"(?m)^(\S+)\s*: (.*?)\s*$", mqadmin("brokerStatus", "-b", cluster.broker_addr)))
    assert values["brokerActive"] == "true"
    assert values["brokerVersionDesc"].startswith("V")
    assert int(values["commitLogMaxOffset"]) > int(values["commitLogMinOffset"]) >= 0
    assert int(values["putMessageTimesTotal"]) >= len(MESSAGES)
    assert int(values["bootTimestamp"]) > 0
    assert 0 <= float(values["commitLogDiskRatio"]) < 1


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


def test_progress_and_connection_of_a_consuming_group(
    mqadmin: Mqadmin, java: Witness, topic: str, fresh: Callable[[str], str]
) -> None:
    group = fresh("AdminGroup")
    consumer = java.consume(group, topic, expression="TagA || TagB")
    consumer.until_count(len(MESSAGES))
    connection = mqadmin("consumerConnection", "-g", group)
    assert rows(connection)[0][0] == consumer.client_id
    assert rows(connection)[0][2:] == ["JAVA", "V5_5_0"]
    assert re.search(rf"(?m)^{topic}\s+TagA \|\| TagB\s*$", connection)
    assert re.search(rf"(?m)^%RETRY%{group}\s+\*\s*$", connection)
    assert (
        "ConsumeType: CONSUME_PASSIVELY\nMessageModel: CLUSTERING\nConsumeFromWhere: CONSUME_FROM_FIRST_OFFSET"
        in connection
    )
    [listed] = [row for row in rows(mqadmin("consumerProgress")) if row[0] == group]
    assert listed[1:5] == ["1", "V5_5_0", "PUSH", "CLUSTERING"]
    consumer.stop()
    java.until_caught_up(group, topic)
    progress = mqadmin("consumerProgress", "-g", group)
    assert [row[:6] for row in rows(progress) if row[0] == topic] == [
        [topic, BROKER_NAME, q, "3", "3", "0"] for q in ("0", "1")
    ]
    assert "Consume Diff Total: 0" in progress


def test_the_connection_of_a_group_whose_members_have_left_is_an_error_with_its_code(
    mqadmin: Mqadmin, java: Witness, topic: str, fresh: Callable[[str], str]
) -> None:
    group = fresh("AdminGroup")
    java.consume(group, topic).stop()
    _, error = mqadmin.run("consumerConnection", "-g", group)
    assert "CODE: 206" in error


def test_lag_is_what_was_sent_and_not_consumed(
    mqadmin: Mqadmin, java: Witness, topic: str, fresh: Callable[[str], str]
) -> None:
    group = java.create_group(fresh("AdminGroup"))
    java.commit(group, topic, 0, 1)
    java.commit(group, topic, 1, 3)
    progress = mqadmin("consumerProgress", "-g", group, "-t", topic)
    assert [row[2:6] for row in rows(progress)] == [["0", "3", "1", "2"], ["1", "3", "3", "0"]]
    assert "Consume Diff Total: 2" in progress


def test_messages_are_found_by_id_key_and_place(mqadmin: Mqadmin, java: Witness, topic: str) -> None:
    stored = java.read_all(topic, len(MESSAGES))[1]
    for found in (
        mqadmin("queryMsgById", "-i", stored.offset_msg_id, "-t", topic, "-f", "UTF-8"),
        mqadmin("queryMsgById", "-i", stored.msg_id, "-t", topic, "-f", "UTF-8"),
        mqadmin(
            "queryMsgByOffset",
            "-t",
            topic,
            "-b",
            BROKER_NAME,
            "-i",
            str(stored.queue_id),
            "-o",
            str(stored.queue_offset),
            "-f",
            "UTF-8",
        ),
    ):
        shown = dict(re.findall(r"(?m)^(\S[^:\n]*):\s+(.*?)\s*$", found))
        assert shown["OffsetID"] == stored.offset_msg_id
        assert (shown["Topic"], shown["Tags"], shown["Keys"]) == (topic, "[TagA]", f"[{stored.keys}]")
        assert (shown["Queue ID"], shown["Queue Offset"], shown["CommitLog Offset"]) == (
            str(stored.queue_id),
            str(stored.queue_offset),
            str(stored.log_offset),
        )
        assert (shown["Born Host"], shown["Store Host"]) == (stored.born_host, stored.store_host)
        assert shown["Message Body"] == stored.body.decode()
    assert stored.keys is not None
    [row] = rows(mqadmin("queryMsgByKey", "-t", topic, "-k", stored.keys))
    assert row[:3] == [stored.msg_id, str(stored.queue_id), str(stored.queue_offset)]
    assert row[3].split("@")[1:] == [topic, "K", stored.keys, stored.msg_id, str(stored.log_offset)]
    assert f"Queue Offset:        {stored.queue_offset}" in mqadmin(
        "queryMsgByUniqueKey", "-i", stored.msg_id, "-t", topic
    )


def test_tags_are_in_the_index(mqadmin: Mqadmin, topic: str) -> None:
    assert len(rows(mqadmin("queryMsgByKey", "-t", topic, "-k", "TagA", "-p", "T"))) == len(MESSAGES)


def test_a_key_nobody_used_is_an_error_with_its_code(mqadmin: Mqadmin, topic: str) -> None:
    _, error = mqadmin.run("queryMsgByKey", "-t", topic, "-k", "NO-KEY")
    assert "CODE: 208" in error


def test_a_sent_message_is_stored(mqadmin: Mqadmin, java: Witness, topic: str) -> None:
    [row] = rows(
        mqadmin(
            "sendMessage",
            "-t",
            topic,
            "-p",
            "hello 消息",
            "-k",
            "ADMIN-KEY",
            "-c",
            "TagB",
            "-b",
            BROKER_NAME,
            "-i",
            "1",
        )
    )
    assert row[:3] == [BROKER_NAME, "1", "SEND_OK"]
    [stored] = eventually(lambda: java.query_key(topic, "ADMIN-KEY"), 1)
    assert (stored.body, stored.tags, stored.msg_id, stored.queue_id, stored.queue_offset) == (
        "hello 消息".encode(),
        "TagB",
        row[3],
        1,
        3,
    )


def test_offsets_of_an_offline_group_are_reset(
    cluster: Cluster, mqadmin: Mqadmin, java: Witness, topic: str, fresh: Callable[[str], str]
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


def test_messages_of_a_topic_are_printed(mqadmin: Mqadmin, topic: str) -> None:
    printed = mqadmin("printMsg", "-t", topic, "-s", "TagA", "-d", "true")
    assert sorted(re.findall(r"BODY: (\d)", printed)) == [str(i) for i in range(len(MESSAGES))]


def test_consume_queue_units_are_shown(cluster: Cluster, mqadmin: Mqadmin, java: Witness, topic: str) -> None:
    shown = mqadmin("queryCq", "-t", topic, "-q", "0", "-i", "0", "-c", "3", "-b", cluster.broker_addr)
    stored = [m for m in java.read_all(topic, len(MESSAGES)) if m.queue_id == 0]
    assert re.findall(r"physicOffset=(\d+), physicSize=(\d+)", shown) == [
        (str(m.log_offset), str(m.store_size)) for m in stored
    ]
