"""Calls of mqadmin 5.5.0 and their output (``tests/golden/mqadmin``), repeated with ``--output mqadmin``. They go to
our server if it serves the request, else to one that replays Apache's answers."""

import re
import shlex
from pathlib import Path

import pytest

from rmqadmin.core.targets import find_route
from rmqclient.admin import AdminClient
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.lite import LiteTopicInfo
from rmqproto.bodies.replication import ReplicaSets
from rmqproto.codes import RequestCode, ResponseCode
from tests.rmqadmin.conftest import GOLDEN, Rmqadmin, golden
from tests.support.any_order import in_any_order
from tests.support.replayed import Replayed, answering
from tests.support.servers import Server, topic_config, until

pytestmark = pytest.mark.usefixtures("utc")


def recorded_args(command: str, case: str) -> list[str]:
    line = (GOLDEN / command / f"{case}.txt").read_text().partition("\n")[0]
    return shlex.split(line.removeprefix("# mqadmin "))


OURS = [
    ("updateOrderConf", "put"),
    ("updateColdDataFlowCtrGroupConfig", "ok"),
    ("getColdDataFlowCtrInfo", "with-group"),
    ("removeColdDataFlowCtrGroupConfig", "ok"),
    ("setCommitLogReadAheadMode", "cluster-random"),
    ("exportPopRecord", "broker"),
    ("checkRocksdbCqWriteProgress", "topic"),
    ("updateOrderConf", "get"),
    ("updateOrderConf", "delete"),
    ("updateKvConfig", "ok"),
    ("deleteKvConfig", "ok"),
    ("deleteKvConfig", "unknown"),
    ("updateNamesrvConfig", "ok"),
    ("updateNamesrvConfig", "unknown-key"),
    ("setConsumeMode", "pop"),
    ("setConsumeMode", "pull-cluster"),
    ("cleanExpiredCQ", "all"),
    ("cleanExpiredCQ", "broker"),
    ("cleanExpiredCQ", "cluster"),
    ("cleanUnusedTopic", "broker"),
    ("cleanUnusedTopic", "cluster"),
    ("deleteExpiredCommitLog", "broker"),
    ("deleteExpiredCommitLog", "cluster"),
]


@pytest.fixture(scope="module", autouse=True)
def scene(server: Server) -> None:
    """The topic that the calls name. No other test uses it."""
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_topic(server.broker_addr, topic_config("NormalTopic", 4))


@pytest.mark.parametrize(("command", "case"), OURS)
def test_a_call_to_our_server(rmqadmin: Rmqadmin, server: Server, command: str, case: str) -> None:
    def here(text: str) -> str:
        return text.replace("127.0.0.1:10911", server.broker_addr).replace("127.0.0.1:9876", server.namesrv_addr)

    ran = rmqadmin(*map(here, recorded_args(command, case)), "--output", "mqadmin", status=0)
    assert ran.out == here(golden(command, case))


CHANGES = [
    ("deleteTopic", "ok"),
    ("updateTopic", "order-broker"),
    ("updateTopicList", "ok"),
    ("updateTopicPerm", "broker"),
    ("updateTopicPerm", "cluster"),
    ("updateSubGroupList", "ok"),
    ("deleteSubGroup", "broker"),
    ("deleteSubGroup", "cluster"),
    ("deleteSubGroup", "unknown-group"),
    ("updateBrokerConfig", "broker"),
    ("updateBrokerConfig", "cluster"),
    ("updateBrokerConfig", "unknown-key"),
    ("updateBrokerConfig", "bad-value"),
    ("topicClusterList", "ok"),
    ("addWritePerm", "unknown-broker"),
]


@pytest.mark.parametrize(("command", "case"), CHANGES)
def test_a_change_of_our_server(rmqadmin: Rmqadmin, server: Server, tmp_path: Path, command: str, case: str) -> None:
    """Each call first gets what it names: the files, the groups, and the topic, which is read-only if the call makes it
    writable."""
    perm = 4 if (command, case) == ("updateTopicPerm", "broker") else 6
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_topic(server.broker_addr, topic_config("AdminTopic", 8, perm=perm))
        until(lambda: _perms(admin, "AdminTopic") == [perm])
        for group in ("AdminGroup", "AdminGroup2"):
            admin.create_group(server.broker_addr, SubscriptionGroupConfig(group_name=group))
    (tmp_path / "topics.json").write_text(f'[{{"topicName":"Listed{case}"}}]')
    (tmp_path / "groups.json").write_text(f'[{{"groupName":"Listed{case}"}}]')
    meant = {
        "127.0.0.1:10911": server.broker_addr,
        "127.0.0.1:9876": server.namesrv_addr,
        "/home/rocketmq": str(tmp_path),
    }

    def here(text: str) -> str:
        for written, stands_for in meant.items():
            text = text.replace(written, stands_for)
        return text

    ran = rmqadmin(*map(here, recorded_args(command, case)), "--output", "mqadmin", status=0)
    assert ran.out == here(golden(command, case))


def _perms(admin: AdminClient, topic: str) -> list[int]:
    route = find_route(admin, topic)
    return [] if route is None else [queues.perm for queues in route.queue_datas]


LEADER = "1005-CONTROLLER_GET_METADATA_INFO/03"
ANSWERS = {
    "nobody": answering(RequestCode.AUTH_GET_USER),
    "no ACL": answering(RequestCode.AUTH_GET_ACL),
    "any config": answering(RequestCode.GET_CONTROLLER_CONFIG),
    "no replicas": answering(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, ReplicaSets()),
    "empty lite topic": answering(
        RequestCode.GET_LITE_TOPIC_INFO,
        LiteTopicInfo(lite_topic="no-such", parent_topic="LiteTopic", sharding_to_broker=True),
    ),
}
"""Answers that were not recorded for the request, by name. Most of them are empty."""


def replayed(names: list[str]) -> Replayed:
    """A server that knows these exchanges and answers."""
    exchanges = [name for name in names if name not in ANSWERS]
    return Replayed(*exchanges, answers=[ANSWERS[name] for name in names if name in ANSWERS])


REPLAYED = [
    ("allocateMQ", "ok"),
    ("brokerConsumeStats", "ok", "317-GET_BROKER_CONSUME_STATS/03"),
    ("brokerConsumeStats", "level", "317-GET_BROKER_CONSUME_STATS/03"),
    ("queryCq", "ok", "321-QUERY_CONSUME_QUEUE/07"),
    ("queryCq", "group", "321-QUERY_CONSUME_QUEUE/08"),
    ("setCommitLogReadAheadMode", "normal", "2004-SET_COMMITLOG_READ_MODE/01"),
    ("getColdDataFlowCtrInfo", "broker", "2003-GET_COLD_DATA_FLOW_CTR_INFO/03"),
    ("getColdDataFlowCtrInfo", "cluster", "2003-GET_COLD_DATA_FLOW_CTR_INFO/03"),
    ("updateColdDataFlowCtrGroupConfig", "ok", "2003-GET_COLD_DATA_FLOW_CTR_INFO/03",
     "2001-UPDATE_COLD_DATA_FLOW_CTR_CONFIG/03"),
    ("removeColdDataFlowCtrGroupConfig", "ok", "2003-GET_COLD_DATA_FLOW_CTR_INFO/03",
     "2002-REMOVE_COLD_DATA_FLOW_CTR_CONFIG/01"),
    ("checkRocksdbCqWriteProgress", "not-rocksdb", "354-CHECK_ROCKSDB_CQ_WRITE_PROGRESS/03"),
    ("rocksDBConfigToJson", "rpc", "355-EXPORT_ROCKSDB_CONFIG_TO_JSON/03"),
    ("exportPopRecord", "cluster", "200056-POP_ROLLBACK/03"),
    ("haStatus", "broker", "907-GET_BROKER_HA_STATUS/03"),
    ("haStatus", "cluster", "907-GET_BROKER_HA_STATUS/03"),
    ("getSyncStateSet", "broker", LEADER, "1006-CONTROLLER_GET_SYNC_STATE_DATA/01"),
    ("getControllerMetaData", "ok", LEADER),
    ("getControllerConfig", "ok", "1010-GET_CONTROLLER_CONFIG/01"),
    ("updateControllerConfig", "ok", "1010-GET_CONTROLLER_CONFIG/01", "1009-UPDATE_CONTROLLER_CONFIG/01"),
    ("resetMasterFlushOffset", "ok", "907-GET_BROKER_HA_STATUS/03", "908-RESET_MASTER_FLUSH_OFFSET/03"),
    ("createUser", "broker", "3001-AUTH_CREATE_USER/01", "nobody"),
    ("updateUser", "password", "3004-AUTH_GET_USER/01", "3002-AUTH_UPDATE_USER/01"),
    ("deleteUser", "ok", "3004-AUTH_GET_USER/01", "3003-AUTH_DELETE_USER/01"),
    ("getUser", "ok", "3004-AUTH_GET_USER/01"),
    ("getUser", "cluster", "3004-AUTH_GET_USER/01"),
    ("getUser", "unknown-user", "3004-AUTH_GET_USER/02"),
    ("listUser", "ok", "3005-AUTH_LIST_USER/01"),
    ("listUser", "filter", "3005-AUTH_LIST_USER/02"),
    ("listUser", "filter-none", "3005-AUTH_LIST_USER/03"),
    ("createAcl", "ok", "3006-AUTH_CREATE_ACL/01", "no ACL"),
    ("updateAcl", "ok", "3009-AUTH_GET_ACL/01", "3007-AUTH_UPDATE_ACL/01"),
    ("deleteAcl", "resource", "3009-AUTH_GET_ACL/01", "3008-AUTH_DELETE_ACL/01"),
    ("deleteAcl", "subject", "3009-AUTH_GET_ACL/01", "3008-AUTH_DELETE_ACL/02"),
    ("getAcl", "ok", "3009-AUTH_GET_ACL/01"),
    ("listAcl", "ok", "3010-AUTH_LIST_ACL/01"),
    ("listAcl", "subject", "3010-AUTH_LIST_ACL/02"),
    ("listAcl", "resource", "3010-AUTH_LIST_ACL/03"),
    ("switchTimerEngine", "file", "5001-SWITCH_TIMER_ENGINE/05"),
    ("setConsumeMode", "pop", "401-SET_MESSAGE_REQUEST_MODE/03", "402-GET_ALL_MESSAGE_REQUEST_MODE/02"),
    ("getBrokerLiteInfo", "broker", "200074-GET_BROKER_LITE_INFO/03"),
    ("getBrokerLiteInfo", "cluster", "200074-GET_BROKER_LITE_INFO/03"),
    ("getBrokerLiteInfo", "detail", "200074-GET_BROKER_LITE_INFO/03"),
    ("getParentTopicInfo", "ok", "200075-GET_PARENT_TOPIC_INFO/04"),
    ("getLiteTopicInfo", "ok", "200076-GET_LITE_TOPIC_INFO/03"),
    ("getLiteTopicInfo", "sharding", "200076-GET_LITE_TOPIC_INFO/03"),
    ("getLiteTopicInfo", "unknown", "empty lite topic"),
    ("getLiteClientInfo", "ok", "200077-GET_LITE_CLIENT_INFO/03"),
    ("getLiteClientInfo", "detail", "200077-GET_LITE_CLIENT_INFO/03"),
    ("triggerLiteDispatch", "ok", "200079-TRIGGER_LITE_DISPATCH/03"),
]  # fmt: skip


@pytest.mark.parametrize("call", REPLAYED, ids="/".join)
def test_a_call_to_apache(rmqadmin: Rmqadmin, call: tuple[str, ...]) -> None:
    command, case, *names = call
    with replayed(names) as apache:
        args = map(apache.here, recorded_args(command, case))
        ran = rmqadmin(*args, "-n", apache.address, "--output", "mqadmin", status=0)
        assert in_any_order(ran.out) == in_any_order(apache.here(golden(command, case)))


@pytest.mark.parametrize(
    ("case", "name"), [("ok", "200078-GET_LITE_GROUP_INFO/05"), ("lite-topic", "200078-GET_LITE_GROUP_INFO/06")]
)
def test_the_lag_of_a_lite_group_in_apaches_words(rmqadmin: Rmqadmin, case: str, name: str) -> None:
    """If nothing lags, mqadmin prints the current time."""

    def without_time(text: str) -> str:
        return re.sub(r"Timestamp: \d{13} \(0 s ago\)", "Timestamp: NOW", text)

    with Replayed(name) as apache:
        args = recorded_args("getLiteGroupInfo", case)
        ran = rmqadmin(*args, "-n", apache.address, "--output", "mqadmin")
    assert ran.status == 0, ran.err
    assert without_time(ran.out) == without_time(golden("getLiteGroupInfo", case))


REFUSED = [
    ("getParentTopicInfo", "not-lite", 1, "Topic [NormalTopic] type not match.", "200075-GET_PARENT_TOPIC_INFO/05"),
    ("getLiteGroupInfo", "unknown-group", 1, "Group [NoSuchGroup] is not a LITE group.",
     "200078-GET_LITE_GROUP_INFO/07"),
    ("queryCq", "beyond", 5, "the queue 0 of NormalTopic has no offset 900", "321-QUERY_CONSUME_QUEUE/09"),
    ("queryCq", "unknown-topic", 5, "0@NoSuchTopic is not exist!", "321-QUERY_CONSUME_QUEUE/10"),
    ("getBrokerEpoch", "not-controller-mode", 1, "this request only for controllerMode",
     "1007-GET_BROKER_EPOCH_CACHE/03"),
    ("updateControllerConfig", "blacklist", 4, "black list", "1009-UPDATE_CONTROLLER_CONFIG/02", "any config"),
    ("electMaster", "already-master", 1, "The old master 1 is still alive", LEADER, "no replicas",
     "1002-CONTROLLER_ELECT_MASTER/02"),
    ("electMaster", "unknown-replica", 1, "Failed to elect a new master", LEADER, "no replicas",
     "1002-CONTROLLER_ELECT_MASTER/03"),
    ("cleanBrokerMetadata", "living", 1, "Broker broker-c is still alive", LEADER, "no replicas",
     "1011-CLEAN_BROKER_DATA/01"),
    ("cleanBrokerMetadata", "unknown", 5, "Broker no-broker is not existed", LEADER, "no replicas",
     "1011-CLEAN_BROKER_DATA/02"),
    ("addBroker", "not-a-container", 1, "request type 902 not supported", "902-ADD_BROKER/01"),
    ("removeBroker", "not-a-container", 1, "request type 903 not supported", "903-REMOVE_BROKER/01"),
    ("createUser", "exists", 1, "already has a user alice", "3004-AUTH_GET_USER/01"),
    ("updateUser", "unknown-user", 5, "has no user nobody", "3004-AUTH_GET_USER/02"),
    ("createAcl", "unknown-user", 5, "The subject is not exist.", "3009-AUTH_GET_ACL/02"),
    ("deleteAcl", "unknown", 5, "The subject is not exist.", "3009-AUTH_GET_ACL/02"),
    ("getAcl", "unknown", 5, "The subject is not exist.", "3009-AUTH_GET_ACL/02"),
    ("switchTimerEngine", "rocksdb", 1, "timerRocksDBEnable must be configured true", "5001-SWITCH_TIMER_ENGINE/06"),
]  # fmt: skip


@pytest.mark.parametrize("call", REFUSED, ids=lambda call: f"{call[0]}/{call[1]}")
def test_what_apache_refuses_is_one_line_and_a_status(rmqadmin: Rmqadmin, call: tuple[str, str, int, str, str]) -> None:
    command, case, status, said, *names = call
    with replayed(names) as apache:
        args = map(apache.here, recorded_args(command, case))
        rmqadmin(*args, "-n", apache.address, "--output", "mqadmin", status=status, out="", err=said)


def test_a_message_that_nobody_traced_is_an_error(rmqadmin: Rmqadmin) -> None:
    nothing = answering(RequestCode.QUERY_MESSAGE, answer_code=ResponseCode.QUERY_NOT_FOUND)
    with Replayed(answers=(nothing,)) as apache:
        ran = rmqadmin(*recorded_args("queryMsgTraceById", "unknown-id"), "-n", apache.address)
    assert (ran.status, ran.out) == (5, "")
    assert "no trace of the message NO-SUCH-ID was found in " in ran.err


ERRORS = [
    ("updateTopicList", "no-file", 2, "cannot read /home/rocketmq/none.json: No such file or directory"),
    ("updateOrderConf", "get-unknown", 5, "No config item, Namespace: ORDER_TOPIC_CONFIG Key: NoSuchTopic"),
    ("updateOrderConf", "put-without-value", 2, "please set orderConf with option -v."),
    ("updateOrderConf", "bad-method", 2, "'x' is not one of 'get', 'put', 'delete'"),
    ("updateNamesrvConfig", "blacklist", 4, "Can not update config in black list."),
    ("setConsumeMode", "bad-mode", 2, "'PUSH' is not one of 'PULL', 'POP'"),
    ("brokerConsumeStats", "unknown-broker", 3, "cannot connect to 127.0.0.1:1"),
    ("allocateMQ", "unknown-topic", 5, "17 TOPIC_NOT_EXIST"),
    ("getSyncStateSet", "no-controller", 3, "cannot connect to 127.0.0.1:1"),
    ("getControllerMetaData", "no-controller", 3, "cannot connect to 127.0.0.1:1"),
    ("getControllerConfig", "no-controller", 3, "cannot connect to 127.0.0.1:1"),
    ("updateControllerConfig", "no-controller", 3, "cannot connect to 127.0.0.1:1"),
    ("electMaster", "no-controller", 3, "cannot connect to 127.0.0.1:1"),
    ("cleanBrokerMetadata", "no-controller", 3, "cannot connect to 127.0.0.1:1"),
    ("removeBroker", "bad-format", 2, "'x' does not name a broker"),
    ("setCommitLogReadAheadMode", "bad-mode", 2, "'7' is not one of '0', '1'"),
    ("dumpCompactionLog", "no-file", 2, "miss dump log file name"),
    ("exportMetadataInRocksDB", "bad-type", 2, "Invalid config type=x, Options: topics,subscriptionGroups"),
    ("exportMetadataInRocksDB", "no-db", 2, "RocksDB path is invalid"),
    ("rocksDBConfigToJson", "local-no-db", 2, "RocksDB path is invalid"),
    ("createUser", "bad-type", 2, "'Wrong' is not one of 'super', 'normal'"),
    ("createUser", "no-password", 2, "Missing required option: -p/--password"),
    ("switchTimerEngine", "bad-engine", 2, "'X' is not one of 'F', 'R'"),
    ("cleanUnusedTopic", "unknown-broker", 3, "cannot connect to 127.0.0.1:1"),
    ("getParentTopicInfo", "unknown-topic", 5, "17 TOPIC_NOT_EXIST"),
    ("triggerLiteDispatch", "unknown-topic", 5, "17 TOPIC_NOT_EXIST"),
]


@pytest.mark.parametrize(("command", "case", "status", "said"), ERRORS)
def test_what_mqadmin_says_in_a_stack_trace_is_one_line_and_a_status(
    rmqadmin: Rmqadmin, server: Server, command: str, case: str, status: int, said: str
) -> None:
    args = [arg.replace("127.0.0.1:10911", server.broker_addr) for arg in recorded_args(command, case)]
    ran = rmqadmin(*args, "--output", "mqadmin", status=status, out="")
    assert said in re.sub(r"\s+", " ", ran.err)
