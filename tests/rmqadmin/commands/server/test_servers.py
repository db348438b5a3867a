"""Configurations, permissions, producers, statistics, and deleted and cloned groups on a running server."""

from collections.abc import Callable

import pytest

from rmqadmin.core.servers.server_configs import MEANINGS
from rmqclient.admin import AdminClient
from rmqproto.bodies.groups import Heartbeat, ProducerData
from rmqproto.bodies.statistics import BrokerStatsData, StatsSnapshot
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import RefusedError
from rmqproto.names import dlq_topic, retry_topic
from rmqproto.wire import fastjson
from rmqserver.config.broker_config import BrokerConfig
from tests.rmqadmin.conftest import CLUSTER, Rmqadmin
from tests.support.servers import Fresh, Server, until
from tests.support.wire import Wire


@pytest.fixture
def topic(rmqadmin: Rmqadmin, fresh: Fresh) -> str:
    """A topic of two queues with three messages in the first."""
    name = fresh("ServerTopic")
    assert rmqadmin("updateTopic", "-c", CLUSTER, "-t", name, "-r", "2", "-w", "2").status == 0
    for at in range(3):
        rmqadmin("sendMessage", "-t", name, "-p", f"message {at}", "-b", "broker-a", "-i", "0", status=0)
    return name


@pytest.fixture
def group(rmqadmin: Rmqadmin, fresh: Fresh) -> str:
    name = fresh("ServerGroup")
    assert rmqadmin("updateSubGroup", "-c", CLUSTER, "-g", name).status == 0
    return name


# --- configurations --------------------------------------------------------------------------------------------------


def test_a_brokers_property_is_changed_and_read_back(run: Rmqadmin, start_standalone: Callable[..., Server]) -> None:
    own = start_standalone()
    n = ("-n", own.namesrv_addr)
    change = ("-o", "json", "updateBrokerConfig", "-b", own.broker_addr, "-k", "fileReservedTime", "-v", "48", *n)

    def reserved() -> str:
        rows = run("-o", "json", "getBrokerConfig", "-b", own.broker_addr, *n).items
        return str(next(row["value"] for row in rows if row["key"] == "fileReservedTime"))

    before = reserved()
    shown = run(*change, "--dry-run").items[0]
    assert (shown["action"], shown["done"], reserved()) == ("change", False, before)
    changed = run(*change).items[0]
    assert changed["changes"] == [{"field": "fileReservedTime", "before": before, "after": "48"}]
    assert reserved() == "48"
    assert run(*change).items[0]["action"] == "keep"


@pytest.mark.parametrize(
    ("key", "value", "status", "said"),
    [
        ("noSuchKey", "1", 5, "has no property noSuchKey"),
        ("transactionMsgTimeout", "1", 5, "Did you mean transactionTimeOut?"),
        ("flushDiskType", "NO_SUCH", 1, "flushDiskType"),
        ("slaveReadEnable", "yes", 2, "slaveReadEnable is true or false, and not 'yes'"),  # false already: it stays
    ],
)
def test_what_a_broker_passes_over_is_an_error_and_for_mqadmin_a_success(
    rmqadmin: Rmqadmin, server: Server, key: str, value: str, status: int, said: str
) -> None:
    args = ("updateBrokerConfig", "-b", server.broker_addr, "-k", key, "-v", value)
    rmqadmin(*args, status=status, out="", err=said)
    assert rmqadmin(*args, "--output", "mqadmin").out == f"update broker config success, {server.broker_addr}\n"


def test_a_limit_that_was_off_is_switched_on_while_the_server_runs(
    rmqadmin: Rmqadmin, server: Server, fresh: Fresh
) -> None:
    """Only our servers have these settings. Apache's tools must not see them before they are set."""
    key, limit = "maxSendRatePerTopic", f"0;{fresh('Limited')}=5"
    brokers = ("-b", server.broker_addr)

    def shown(*options: str) -> str:
        return next(
            (row["value"] for row in rmqadmin("getBrokerConfig", *brokers, *options).items if row["key"] == key), ""
        )

    assert shown("-o", "json") == "0"
    assert key not in rmqadmin("getBrokerConfig", *brokers, "-o", "mqadmin").out
    (row,) = rmqadmin("-o", "json", "updateBrokerConfig", *brokers, "-k", key, "-v", limit).items
    try:
        assert row["changes"] == [{"field": key, "before": "0", "after": limit}]
        assert shown("-o", "json") == limit
    finally:
        (back,) = rmqadmin("-o", "json", "updateBrokerConfig", *brokers, "-k", key, "-v", "0").items
    assert back["changes"] == [{"field": key, "before": limit, "after": "0"}]
    assert shown("-o", "json") == "0"
    refused = rmqadmin("updateBrokerConfig", *brokers, "-k", key, "-v", "many")
    assert (refused.status, f"{key}=many" in refused.err) == (1, True)


def test_whatever_only_our_servers_have_can_be_changed_and_means_something(rmqadmin: Rmqadmin, server: Server) -> None:
    config = BrokerConfig()
    with AdminClient(server.namesrv_addr) as admin:
        told = admin.broker_config(server.broker_addr, with_own_defaults=True)
    own = {key for key in config.kinds if config.is_own(key)}
    assert own <= told.keys()
    assert own <= MEANINGS.keys()
    assert not any(map(config.is_black_listed, own))
    args = ("-o", "json", "updateNamesrvConfig", "-k", "maxConnectionsPerAddress", "-v", "500", "--dry-run")
    (row,) = rmqadmin(*args, "-n", server.namesrv_addr).items
    assert row["changes"] == [{"field": "maxConnectionsPerAddress", "before": "0", "after": "500"}]


def test_a_brokers_permission_may_be_written_in_letters(rmqadmin: Rmqadmin, server: Server) -> None:
    args = ("-o", "json", "updateBrokerConfig", "-b", server.broker_addr, "-k", "brokerPermission", "--dry-run", "-v")
    (planned,) = rmqadmin(*args, "r").items
    assert [change["after"] for change in planned["changes"]] == ["4"]


def test_slaves_are_changed_too_where_that_is_asked_for(rmqadmin: Rmqadmin, server: Server) -> None:
    args = ("-o", "json", "updateBrokerConfig", "-c", CLUSTER, "-a", "true", "-k", "fileReservedTime", "-v", "72")
    assert [row["target"] for row in rmqadmin(*args, "--dry-run").items] == [server.broker_addr]


def test_name_servers_that_do_not_answer_are_told_of(rmqadmin: Rmqadmin, server: Server) -> None:
    ran = rmqadmin("-o", "json", "getNamesrvConfig", "-n", f"{server.namesrv_addr};127.0.0.1:1", status=1)
    assert {row["server_addr"] for row in ran.items} == {server.namesrv_addr}
    assert "cannot connect to 127.0.0.1:1" in ran.err
    assert rmqadmin("getNamesrvConfig", "-n", "127.0.0.1:1").status == 3


def test_a_groups_configuration_is_shown_with_what_was_changed(rmqadmin: Rmqadmin, group: str) -> None:
    rmqadmin("updateSubGroup", "-c", CLUSTER, "-g", group, "-r", "3")
    (row,) = rmqadmin("-o", "json", "getConsumerConfig", "-g", group).items
    assert (row["broker_name"], row["retry_max_times"], row["consume_enable"]) == ("broker-a", 3, True)
    assert rmqadmin("getConsumerConfig", "-g", "NoSuchGroup").status == 5


# --- permissions -----------------------------------------------------------------------------------------------------


def test_a_topics_permission_changes_alone(rmqadmin: Rmqadmin, server: Server, topic: str) -> None:
    """mqadmin sets the order back to false and takes the first broker's queue counts."""
    rmqadmin("updateTopic", "-c", CLUSTER, "-t", topic, "-o", "true", "-a", "+message.type=FIFO")
    args = ("updateTopicPerm", "-b", server.broker_addr, "-t", topic, "-p", "4")
    assert rmqadmin(*args, "--dry-run").status == 0
    changed = rmqadmin(*args, "--output", "mqadmin").out.splitlines()
    assert changed[0] == f"update topic perm from 6 to 4 in {server.broker_addr} success."
    assert changed[1].endswith("perm=R--, topicFilterType=SINGLE_TAG, topicSysFlag=0, order=true, attributes={}].")
    with AdminClient(server.namesrv_addr) as admin:
        config = admin.topic_config(server.broker_addr, topic)
    assert (config.perm, config.order, config.attributes) == (4, True, {"message.type": "FIFO"})
    assert rmqadmin(*args, "--output", "mqadmin").out == "new perm equals to the old one!\n"
    back = rmqadmin("-o", "json", "updateTopicPerm", "-c", CLUSTER, "-t", topic, "-p", "6")
    assert back.items[0]["changes"] == [{"field": "perm", "before": 4, "after": 6}]


@pytest.mark.parametrize(
    ("args", "status", "said"),
    [
        (["updateTopicPerm", "-c", CLUSTER, "-t", "TBW102", "-p", "9"], 2, "topicPermission value: 9 is invalid."),
        (["updateTopicPerm", "-b", "127.0.0.1:1", "-t", "TBW102", "-p", "6"], 5, "has no master of the topic TBW102"),
        (["updateTopicPerm", "-c", CLUSTER, "-t", "NoSuchTopic", "-p", "6"], 5, "17 TOPIC_NOT_EXIST"),
        (["wipeWritePerm", "-b", "no-broker"], 5, "there is no broker no-broker"),
        (["addWritePerm", "-b", "no-broker"], 5, "there is no broker no-broker"),
        (["deleteSubGroup", "-c", CLUSTER, "-g", "NoSuchGroup"], 5, "there is no group NoSuchGroup"),
        (["deleteSubGroup", "-g", "NoSuchGroup"], 5, "there is no group NoSuchGroup"),
        (["topicClusterList", "-t", "NoSuchTopic"], 5, "17 TOPIC_NOT_EXIST"),
        (["statsAll", "-t", "NoSuchTopic"], 5, "17 TOPIC_NOT_EXIST"),
        (["producer", "-b", "nonsense"], 5, "there is no broker nonsense"),
        (["producerConnection", "-g", "NoSuchGroup", "-t", "TBW102"], 5, "no client of the producer group NoSuchGroup"),
        (["cloneGroupOffset", "-s", "NoSuchGroup", "-d", "G", "-t", "TBW102"], 5, "has no offset in the topic TBW102"),
    ],
)
def test_a_failure_ends_with_its_status_and_an_empty_standard_output(
    rmqadmin: Rmqadmin, args: list[str], status: int, said: str
) -> None:
    rmqadmin(*args, status=status, out="", err=said)


def test_a_broker_is_wiped_and_opened_again_at_every_name_server_that_answers(
    run: Rmqadmin, start_standalone: Callable[..., Server]
) -> None:
    own = start_standalone()
    n = ("-n", own.namesrv_addr)

    def perm() -> int:
        return int(run("-o", "json", "topicRoute", "-t", "TBW102", *n).items[0]["perm"])

    (planned,) = run("-o", "json", "wipeWritePerm", "-b", "broker-a", "--dry-run", *n).items
    assert (planned["done"], perm() & 2) == (False, 2)
    (row,) = run("-o", "json", "wipeWritePerm", "-b", "broker-a", *n).items
    assert (row["done"], row["topic_count"] > 0, perm() & 2) == (True, True, 0)
    assert planned["topic_count"] == row["topic_count"], "a dry run left it open"
    (listed,) = run("-o", "json", "clusterList", *n).items
    assert (listed["active"], listed["perm"]) == (True, 4), "it said ACTIVE yes, and nothing more"
    assert "R (4)" in run("clusterList", "--output", "table", *n).out
    half = run("-o", "json", "addWritePerm", "-b", "broker-a", "-n", f"{own.namesrv_addr};127.0.0.1:1")
    assert (half.status, [row["done"] for row in half.items], perm() & 2) == (1, [True, False], 2)
    assert f"to undo what was done: rmqadmin wipeWritePerm -n {own.namesrv_addr} -b broker-a" in half.err
    assert run("-o", "json", "clusterList", *n).items[0]["perm"] is None
    unknown = run("wipeWritePerm", "-b", "no-broker", "--output", "mqadmin", *n)
    assert unknown.out == f"wipe write perm of broker[no-broker] in name server[{own.namesrv_addr}] OK, 0\n"


# --- groups ----------------------------------------------------------------------------------------------------------


def test_a_group_is_deleted_with_its_offsets_and_its_topics(
    rmqadmin: Rmqadmin, server: Server, admin: AdminClient, topic: str, group: str
) -> None:
    rmqadmin("updateTopic", "-c", CLUSTER, "-t", retry_topic(group))
    rmqadmin("resetOffset", "-g", group, "-t", topic, "--to", "1")
    args = ("-o", "json", "deleteSubGroup", "-c", CLUSTER, "-g", group, "-r", "true")
    assert "would be lost" not in rmqadmin(*args, "--dry-run").err
    shown = rmqadmin(*args, "--dry-run").items
    assert [(row["action"], row["done"]) for row in shown] == [("delete", False)] * 3  # group, topic, route
    deleted = rmqadmin(*args)
    assert [row["done"] for row in deleted.items] == [True] * 3
    assert rmqadmin("getConsumerConfig", "-g", group).status == 5
    assert {"topic": retry_topic(group)} not in rmqadmin("-o", "json", "topicList").items
    assert admin.consumer_offset(server.broker_addr, group, topic, 0) is None
    assert rmqadmin(*args).status == 5
    assert rmqadmin(*args, "--if-exists").status == 0
    again = rmqadmin("deleteSubGroup", "-b", server.broker_addr, "-g", group, "--output", "mqadmin")
    assert again.out == f"delete subscription group [{group}] from broker [{server.broker_addr}] success.\n"


@pytest.mark.parametrize("method", ["delete_group", "delete_topic_in_broker"])
def test_what_a_broker_refuses_to_delete_keeps_what_belongs_to_it(
    rmqadmin: Rmqadmin, server: Server, admin: AdminClient, group: str, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """A group that stayed lost its dead letters all the same."""
    for topic in (retry_topic(group), dlq_topic(group)):
        rmqadmin("updateTopic", "-c", CLUSTER, "-t", topic)

    def refuse(*_: object, **__: object) -> None:
        raise RefusedError(ResponseCode.NO_PERMISSION, "not for you")

    monkeypatch.setattr(AdminClient, method, refuse)
    rmqadmin(
        "deleteSubGroup", "-c", CLUSTER, "-g", group, status=1 if method != "delete_group" else 4, err="not for you"
    )
    for topic in (retry_topic(group), dlq_topic(group)):
        assert len(admin.topic_route(topic).broker_datas) == 1
        assert admin.topic_config(server.broker_addr, topic)


def test_a_group_goes_to_where_another_stands_in_one_topic_and_back(
    rmqadmin: Rmqadmin, server: Server, topic: str, group: str, fresh: Fresh
) -> None:
    other = fresh("ServerGroup")
    rmqadmin("updateSubGroup", "-c", CLUSTER, "-g", other)
    rmqadmin("resetOffset", "-g", group, "-t", topic, "--to", "2")
    rmqadmin("resetOffset", "-g", other, "-t", topic, "--to", "begin")
    args = ("-o", "json", "cloneGroupOffset", "-s", group, "-d", other, "-t", topic)

    def stands_at() -> int | None:
        with AdminClient(server.namesrv_addr) as admin:
            return admin.consumer_offset(server.broker_addr, other, topic, 0)

    assert [row["new_offset"] for row in rmqadmin(*args, "--dry-run").items] == [2, 0]
    assert stands_at() == 0
    moved = rmqadmin(*args)
    assert [(row["old_offset"], row["new_offset"], row["done"]) for row in moved.items] == [(0, 2, True), (0, 0, True)]
    assert stands_at() == 2
    rmqadmin("resetOffset", "--undo", moved.document["summary"]["undo_file"])
    assert stands_at() == 0


def test_what_has_piled_up_is_skipped(rmqadmin: Rmqadmin, topic: str, group: str) -> None:
    rmqadmin("resetOffset", "-g", group, "-t", topic, "--to", "begin")
    args = ("-o", "json", "skipAccumulatedMessage", "-g", group, "-t", topic)
    assert rmqadmin(*args, "--dry-run").document["summary"]["new_lag_count"] == 0
    skipped = rmqadmin(*args).document["summary"]
    assert (skipped["old_lag_count"], skipped["new_lag_count"]) == (3, 0)


def test_a_value_that_would_stop_the_broker_is_refused_in_words(rmqadmin: Rmqadmin, server: Server) -> None:
    ran = rmqadmin("updateBrokerConfig", "-b", server.broker_addr, "-k", "maxMessageSize", "-v", "0")
    assert (ran.status, ran.out) == (1, "")
    assert "maxMessageSize=0: must be a whole number from 1024 to 2147483647" in ran.err


# --- producers and statistics ----------------------------------------------------------------------------------------


def test_two_producers_that_took_one_id_are_both_shown(
    rmqadmin: Rmqadmin, server: Server, wire: Wire, topic: str, group: str
) -> None:
    beat = fastjson.dumps(Heartbeat(client_id="twin", producer_data_set=[ProducerData(group_name=group)]))
    with Wire(server.broker_addr) as other:
        for one in (wire, other):
            assert one.ask(RequestCode.HEART_BEAT, {}, beat).code == 0
        addrs = {wire.address, other.address}
        found = rmqadmin("-o", "json", "producerConnection", "-g", group, "-t", topic).items
        assert {client["client_addr"] for client in found} == addrs
        found = rmqadmin("-o", "json", "producer", "-b", server.broker_addr).items
        assert {client["client_addr"] for client in found if client["group"] == group} == addrs


def test_a_producer_is_seen_as_long_as_it_is_connected(
    rmqadmin: Rmqadmin, server: Server, wire: Wire, topic: str, group: str
) -> None:
    beat = Heartbeat(client_id=f"client@{group}", producer_data_set=[ProducerData(group_name=group)])
    assert wire.ask(RequestCode.HEART_BEAT, {}, fastjson.dumps(beat)).code == 0
    (client,) = rmqadmin("-o", "json", "producerConnection", "-g", group, "-t", topic).items
    assert (client["client_id"], client["client_addr"], client["broker_names"]) == (
        f"client@{group}", wire.address, ["broker-a"],
    )  # fmt: skip
    (row,) = (
        row for row in rmqadmin("-o", "json", "producer", "-b", server.broker_addr).items if row["group"] == group
    )
    assert (row["client_id"], row["client_addr"]) == (f"client@{group}", wire.address)


def test_statistics_of_a_topic_and_its_groups(rmqadmin: Rmqadmin, topic: str, group: str) -> None:
    (alone,) = rmqadmin("-o", "json", "statsAll", "-t", topic).items
    assert (alone["group"], alone["lag_count"]) == (None, None)
    rmqadmin("resetOffset", "-g", group, "-t", topic, "--to", "1")
    until(lambda: rmqadmin("-o", "json", "statsAll", "-t", topic).items[0]["group"] == group)
    (behind,) = rmqadmin("-o", "json", "statsAll", "-t", topic).items
    assert behind["lag_count"] == 2
    names = {row["topic"] for row in rmqadmin("-o", "json", "statsAll").items}
    assert topic in names
    assert not any(name.startswith("%") for name in names)
    active = rmqadmin("-o", "json", "statsAll", "-a").items
    assert all(row["in_day"] > 0 or (row["out_day"] or 0) > 0 for row in active)


def test_the_clusters_of_a_topic(rmqadmin: Rmqadmin, topic: str) -> None:
    assert rmqadmin("-o", "json", "topicClusterList", "-t", topic).items == [
        {"cluster": CLUSTER, "broker_names": ["broker-a"]}
    ]
    assert rmqadmin("topicClusterList", "-t", topic, "--output", "mqadmin").out == f"{CLUSTER}\n"


def test_rates_have_two_decimals(rmqadmin: Rmqadmin, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`statsAll` used to print 37.67405814854629 beside 150.7, because brokers do not round their quotients."""
    found = BrokerStatsData(stats_minute=StatsSnapshot(sum=2262, tps=37.67405814854629))
    monkeypatch.setattr(AdminClient, "broker_stats", lambda *_: found)
    (row,) = rmqadmin("-o", "json", "statsAll", "-t", topic).items
    assert row["in_tps"] == 37.67
