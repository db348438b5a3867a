"""``--output mqadmin`` against the text of mqadmin 5.5.0 (``tests/golden/mqadmin``)."""

import pytest

from rmqadmin.commands.group.clients import ConsumerClients
from rmqadmin.commands.group.progress import GroupFindings, GroupProgress, GroupsProgress
from rmqadmin.commands.message.queries import KeyMatches
from rmqadmin.commands.server.broker_stats import BrokerStatus
from rmqadmin.commands.server.cluster_list import Brokers, DayCounts
from rmqadmin.commands.topic.topic_lists import TopicGroup, TopicGroups, Topics
from rmqadmin.commands.topic.topic_views import Route
from rmqadmin.core.groups.consumption import GroupClients, GroupOffsets
from rmqadmin.core.messages.lookup import FoundMessage, KeyType, Track
from rmqadmin.core.messages.message_rows import Messages, Shown
from rmqadmin.core.messages.sending import Sent
from rmqadmin.core.mqadmin_text import java_map
from rmqadmin.core.offsets.reset import QueueReset
from rmqadmin.core.offsets.reset_plan import Resets
from rmqadmin.core.servers.broker_state import Replica
from rmqadmin.core.topic_and_group_configs import group_config_text, topic_config_text
from rmqadmin.core.topics.described import TopicStatus
from rmqclient.message import SendResult, SendStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import ClientConnection, GroupRetryPolicy, SubscriptionData, SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicRoute
from rmqproto.bodies.statistics import ConsumeOffset, TopicOffset
from rmqproto.codes import perm_text
from rmqproto.errors import RocketMQError
from rmqproto.message.record import StoredMessage, host_bytes
from rmqproto.wire import fastjson
from tests.rmqadmin.conftest import golden
from tests.support.any_order import in_any_order
from tests.support.servers import topic_config

pytestmark = pytest.mark.usefixtures("utc")


STORED_MS = {"58,690": 1795264618690, "58,693": 1795264618693, "58,696": 1795264618696, "58,700": 1795264618700}
NORMAL_QUEUES = [MessageQueue("NormalTopic", "broker-a", queue_id) for queue_id in range(4)]


@pytest.mark.parametrize("case", ["ok", "two-brokers", "static"])
def test_topic_route_prints_fastjsons_pretty_json(case: str) -> None:
    text = golden("topicRoute", case)
    assert Route({"T": fastjson.loads_untrusted(text, TopicRoute)}, as_list=False).mqadmin_text() == text


def test_topic_route_as_a_list() -> None:
    route = fastjson.loads_untrusted(golden("topicRoute", "ok"), TopicRoute)
    assert Route({"T": route}, as_list=True).mqadmin_text() == golden("topicRoute", "list")


def test_topic_status() -> None:
    maxima = zip(NORMAL_QUEUES, (3, 4, 4, 4), STORED_MS.values(), strict=True)
    offsets = {queue: TopicOffset(max_offset=end, last_update_timestamp=stored) for queue, end, stored in maxima}
    assert TopicStatus(offsets, 0.5).mqadmin_text() == golden("topicStatus", "ok")


def test_topic_status_of_an_empty_topic() -> None:
    offsets = {MessageQueue("EmptyTopic", "broker-a", queue_id): TopicOffset() for queue_id in (2, 0, 1)}
    assert TopicStatus(offsets, 0.0).mqadmin_text() == golden("topicStatus", "empty")


def test_topic_list() -> None:
    text = golden("topicList", "ok")
    assert Topics(text.split()).mqadmin_text() == "".join(sorted(text.splitlines(keepends=True)))


def test_topic_list_with_groups() -> None:
    text = golden("topicList", "clusters")
    cells = [(line[:20].strip(), line[22:86].strip(), line[88:].strip()) for line in text.splitlines()[1:]]
    rows = [TopicGroup(cluster=cluster, topic=topic, group=group or None) for cluster, topic, group in cells]
    assert TopicGroups(rows).mqadmin_text() == text


def test_cluster_list() -> None:
    info = {
        "brokerVersionDesc": "V5_5_0", "putTps": "0.0  ", "getTransferredTps": "0.7000123 1.0 2.0",
        "brokerActive": "true", "pageCacheLockTimeMills": "0", "earliestMessageTimeStamp": "1000",
        "commitLogDiskRatio": "0.16",
        "timerReadBehind": "0", "timerOffsetBehind": "0", "timerCongestNum": "0", "timerEnqueueTps": "0.0",
        "timerDequeueTps": "0.2",
        **{f"{pool}ThreadPoolQueueSize": "0" for pool in ("send", "pull", "ack")},
        **{f"{pool}ThreadPoolQueueHeadWaitTimeMills": "0" for pool in ("send", "pull", "ack")},
    }  # fmt: skip
    replica = Replica("DefaultCluster", "broker-a", 0, "127.0.0.1:10911", info)
    assert Brokers([replica], now_ms=1000 + 72_000).mqadmin_text() == golden("clusterList", "ok")


def test_cluster_list_of_a_broker_that_does_not_answer_is_blanks_and_zeros() -> None:
    silent = Replica("C", "b", 0, "h:1", {}, failure=RocketMQError("away"))
    line = Brokers([silent], now_ms=1000).mqadmin_text().splitlines()[1]
    assert line.split() == [
        "C", "b", "0", "h:1", "0.00(,ms)", "0.00(,ms|,ms)", "0-0(0.0w,", "0.0,", "0.0)", "0.00", "0.0000", "false",
    ]  # fmt: skip


def test_cluster_list_with_day_counts() -> None:
    counts = {"msgPutTotalTodayNow": "115", "msgGetTotalTodayNow": "110"}
    mornings = {f"msg{way}Total{day}Morning": "0" for way in ("Put", "Get") for day in ("Today", "Yesterday")}
    replica = Replica("DefaultCluster", "broker-a", 0, "127.0.0.1:10911", {**counts, **mornings})
    assert DayCounts([replica]).mqadmin_text() == golden("clusterList", "more")


@pytest.mark.parametrize(("case", "with_addr"), [("ok", False), ("cluster", True)])
def test_broker_status(case: str, with_addr: bool) -> None:
    text = golden("brokerStatus", case)
    lines = [line[25:] if with_addr else line for line in text.splitlines()]
    info = {
        line[:32].strip() if line[32:34] == ": " else line.partition(": ")[0]: line.partition(": ")[2] for line in lines
    }
    shown = BrokerStatus({"127.0.0.1:10911": dict(reversed(info.items()))}, with_addr=with_addr)
    assert shown.mqadmin_text() == text


def progress(shows_clients: bool) -> GroupProgress:
    retry = MessageQueue("%RETRY%NormalGroup", "broker-a", 0)
    offsets = {retry: ConsumeOffset()}
    for queue, end in zip(NORMAL_QUEUES, (3, 4, 4, 4), strict=True):
        offsets[queue] = ConsumeOffset(
            broker_offset=end, consumer_offset=end, pull_offset=end, last_timestamp=1795264618700
        )
    owners = dict.fromkeys(offsets, "127.0.0.1@NormalGroup")
    return GroupProgress(GroupOffsets(offsets, 0.0), owners if shows_clients else {}, shows_clients)


@pytest.mark.parametrize(("case", "shows_clients"), [("group", False), ("clients", True)])
def test_consumer_progress_of_a_group(case: str, shows_clients: bool) -> None:
    assert progress(shows_clients).mqadmin_text() == golden("consumerProgress", case)


def test_consumer_progress_of_all_groups() -> None:
    """A group's type and model come from its clients; offline ones have neither."""
    text = golden("consumerProgress", "no-arguments")
    states = []
    for line in text.splitlines()[1:]:
        cells = line.split()
        online = cells[2] != "OFFLINE"
        clients = GroupClients(
            {"c": ClientConnection(client_addr="a", client_id="c", version=513)} if online else {},
            {},
            {},
            {"PUSH": "CONSUME_PASSIVELY", "PULL": "CONSUME_ACTIVELY"}.get(cells[3]) if online else None,
            cells[4] if online and len(cells) == 7 else ("CLUSTERING" if online else None),
            None,
        )
        lag = ConsumeOffset(broker_offset=int(cells[-1]))
        offsets = GroupOffsets({NORMAL_QUEUES[0]: lag}, 0.0)
        states.append(GroupFindings(cells[0], offsets, clients, is_group=True, has_retry_topic=True))
    unseen = GroupFindings(
        "NoRetryTopic", GroupOffsets({}, 0.0), states[0].clients, is_group=True, has_retry_topic=False
    )
    assert GroupsProgress([*states, unseen]).mqadmin_text() == text


def test_what_is_not_known_of_a_group_is_no_lag_of_0() -> None:
    """`--until 'lag_count == 0'` used to end when a broker did not answer."""
    nobody = GroupClients({}, {}, {}, None, None, None)
    silent = GroupFindings(
        "G", GroupOffsets({}, 0.0), nobody, is_group=True, has_retry_topic=True, error="it did not answer in time"
    )
    (row,) = GroupsProgress([silent]).rows()
    assert (row.lag_count, row.client_count, row.consume_tps) == (None, None, None)


def test_the_lag_of_a_group_without_offsets_is_not_known() -> None:
    nobody = GroupClients({}, {}, {}, None, None, None)
    young = GroupFindings("G", GroupOffsets({}, 0.0), nobody, is_group=True, has_retry_topic=True)
    progress = GroupsProgress([young])
    (row,) = progress.rows()
    assert (row.lag_count, row.client_count) == (None, 0)
    assert progress.mqadmin_text().split()[-1] == "0"


@pytest.mark.parametrize("backwards", [False, True])
def test_consumer_connection(backwards: bool) -> None:
    """mqadmin keeps the subscriptions in a map, so the broker's order does not show."""
    client = ClientConnection(
        client_addr="127.0.0.1:51614", client_id="127.0.0.1@NormalGroup", language="JAVA", version=513
    )
    wanted = [("NormalTopic", "TagA || TagB"), ("%RETRY%NormalGroup", "*")][:: -1 if backwards else 1]
    clients = GroupClients(
        {client.client_id: client},
        {client.client_id: ["broker-a"]},
        {topic: SubscriptionData(topic=topic, sub_string=text) for topic, text in wanted},
        "CONSUME_PASSIVELY",
        "CLUSTERING",
        "CONSUME_FROM_FIRST_OFFSET",
    )
    assert in_any_order(ConsumerClients(clients).mqadmin_text()) == in_any_order(golden("consumerConnection", "ok"))


def stored(**fields: object) -> StoredMessage:
    values: dict[str, object] = {
        "size_bytes": 1, "body_crc": 0, "queue_id": 2, "flag": 0, "queue_offset": 0, "log_offset": 2010, "sys_flag": 0,
        "born_timestamp_ms": 1795264618378, "born_host": host_bytes("127.0.0.1", 51538),
        "store_timestamp_ms": 1795264618380, "store_host": host_bytes("127.0.0.1", 10911), "reconsume_times": 0,
        "prepared_transaction_offset": 0, "body": b"x", "topic": "NormalTopic", "properties_raw": b"", **fields,
    }  # fmt: skip
    return StoredMessage(**values)  # type: ignore[arg-type]


PROPERTIES = {
    "KEYS": "KEY-1", "TAGS": "TagB", "UNIQ_KEY": "7F000001041D4E0E2F2A69B4378A0009", "WAIT": "true",
    "MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster",
}  # fmt: skip


def test_query_msg_by_id_prints_the_properties_as_a_java_map() -> None:
    message = FoundMessage(stored(), "broker-a", "127.0.0.1:10911", PROPERTIES)
    tracks = [Track("SqlGroup", "CONSUMED"), Track("PullGroup", "PULL"), Track("NormalGroup", "CONSUMED")]
    text = Messages([Shown(message, tracks, None)]).mqadmin_text()
    assert in_any_order(text) == in_any_order(golden("queryMsgById", "offset-id"))
    assert "{CLUSTER=DefaultCluster, KEYS=KEY-1, MSG_REGION=" in text


def test_query_msg_by_key() -> None:
    places = [("0009", 2, 0, 2010), ("000A", 3, 0, 2258), ("0009", 0, 3, 83491)]
    found = [
        FoundMessage(
            stored(queue_id=queue_id, queue_offset=offset, log_offset=log),
            "broker-a",
            "127.0.0.1:10911",
            {"UNIQ_KEY": f"7F000001041D4E0E2F2A69B4378{'A' if tail == '0009' else 'E'}{tail}"},
        )
        for tail, queue_id, offset, log in places
    ]
    assert KeyMatches("KEY-1", KeyType.KEYS, found).mqadmin_text() == golden("queryMsgByKey", "ok")


def test_send_message() -> None:
    queue = MessageQueue("AdminTopic", "broker-a", 3)
    result = SendResult(SendStatus.SEND_OK, "7F0000010E2C4E0E2F2A69B99B9A0009", "", queue, 0)
    assert Sent(queue, result).mqadmin_text() == golden("sendMessage", "ok")


def test_update_topic() -> None:
    config = topic_config("AdminFifo", 8, attributes={"+message.type": "FIFO"})
    assert topic_config_text(config) + "\n" == golden("updateTopic", "attributes").split("\n", 1)[1]


def test_update_sub_group() -> None:
    config = SubscriptionGroupConfig(
        group_name="AdminGroup", consume_from_min_enable=False, consume_broadcast_enable=False,
        consume_message_orderly=True, retry_queue_nums=2, retry_max_times=3,
    )  # fmt: skip
    assert group_config_text(config) == golden("updateSubGroup", "cluster").split("\n", 1)[1]


def test_update_sub_group_with_a_retry_policy() -> None:
    policy = GroupRetryPolicy(customized_retry_policy={"next": [1000, 5000, 10000]})
    config = SubscriptionGroupConfig(
        group_name="AdminGroup2", consume_from_min_enable=False, consume_broadcast_enable=False,
        group_retry_policy=policy,
    )  # fmt: skip
    assert group_config_text(config) == golden("updateSubGroup", "retry-policy").split("\n", 1)[1]


def test_reset_offset_by_time() -> None:
    text = golden("resetOffsetByTime", "online")
    queues = [QueueReset(queue, "127.0.0.1:10911", 0, 4, 4, 0) for queue in NORMAL_QUEUES]
    head = text.partition("\n")[0]
    shown = Resets("SqlGroup", "NormalTopic", queues, mqadmin_head=head).mqadmin_text()
    assert in_any_order(shown) == in_any_order(text)
    assert [line.split()[1] for line in shown.splitlines()[2:]] == ["0", "1", "2", "3"]


def test_reset_offset_by_time_of_one_queue() -> None:
    text = golden("resetOffsetByTime", "queue-offset")
    queues = [QueueReset(NORMAL_QUEUES[0], "127.0.0.1:10911", 0, 4, 4, 1)]
    result = Resets("G", "T", queues, mqadmin_head=text.partition("\n")[0], is_one_queue=True)
    assert result.mqadmin_text() == text


def test_small_parts() -> None:
    assert [perm_text(perm) for perm in (6, 4, 2, 0, 7)] == ["RW-", "R--", "-W-", "---", "RWX"]
    assert java_map({"a": None, "b": True, "c": 1}) == "{a=null, b=true, c=1}"
