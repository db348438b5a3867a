"""Replicas and controllers: slaves, terms, elections and forgotten replicas. The answers are those of a real 5.5.0 with
two replicas (``golden/ha`` of the specification)."""

import pytest
from msgspec.structs import replace

from rmqproto.bodies.replication import (
    EpochCache,
    EpochEntry,
    HaClient,
    HaConnection,
    HaStatus,
    ReplicaIdentity,
    ReplicaSet,
)
from rmqproto.codes import RequestCode, ResponseCode
from tests.rmqadmin.conftest import Rmqadmin, golden
from tests.support.replayed import Answer, Replayed, answering

NOBODY = "127.0.0.1:1"
LEADER = "1005-CONTROLLER_GET_METADATA_INFO/03"
ONE, TWO = (
    ReplicaIdentity(alive=True, broker_address=f"127.0.0.1:109{number}1", broker_id=number, broker_name="broker-a")
    for number in (1, 2)
)
REPLICAS = ReplicaSet(
    in_sync_replicas=[ONE], master_address=ONE.broker_address, master_broker_id=1, master_epoch=4,
    not_in_sync_replicas=[TWO], sync_state_set_epoch=3,
)  # fmt: skip


def knowing(replicas: ReplicaSet) -> Answer:
    return answering(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, {"replicasInfoTable": {"broker-a": replicas}})


def ha(status: HaStatus) -> Replayed:
    return Replayed(answers=[answering(RequestCode.GET_BROKER_HA_STATUS, status)])


def test_a_masters_slaves_have_a_row_each(rmqadmin: Rmqadmin) -> None:
    slaves = [
        HaConnection(addr="127.0.0.1:44940", in_sync=True, slave_ack_offset=666, transferred_byte_in_second=1536),
        HaConnection(addr="127.0.0.1:44941", diff=100, slave_ack_offset=566),
    ]
    status = HaStatus(ha_connection_info=slaves, in_sync_slave_nums=1, master=True, master_commit_log_max_offset=666)
    with ha(status) as broker:
        args = ("haStatus", "-b", broker.address, "-n", broker.address)
        rows = rmqadmin("-o", "json", *args).items
        assert [(row["role"], row["peer_addr"], row["behind_bytes"], row["in_sync"]) for row in rows] == [
            ("master", "127.0.0.1:44940", 0, True),
            ("master", "127.0.0.1:44941", 100, False),
        ]
        lines = rmqadmin(*args, "--output", "mqadmin").out.splitlines()
    assert lines[3:5] == ["#SlaveNum\t2", "#InSyncSlaveNum\t1"]
    assert lines[6].split() == ["127.0.0.1:44940", "666", "0", "1.50", "OK", "0"]
    assert lines[7].split() == ["127.0.0.1:44941", "566", "100", "0.00", "Fall", "Behind", "0"]


def test_a_master_of_a_set_without_slaves_in_apaches_words(rmqadmin: Rmqadmin) -> None:
    with ha(HaStatus(master=True)) as broker:
        ran = rmqadmin("haStatus", "-b", broker.address, "-n", broker.address, "--output", "mqadmin")
        assert ran.out == broker.here(golden("haStatus", "controller-mode"))


def test_a_slave_says_how_far_it_is_itself(rmqadmin: Rmqadmin, utc: None) -> None:
    client = HaClient(
        last_read_timestamp=1795307887223, last_write_timestamp=1795307887223, master_addr="127.0.0.1:10912",
        max_offset=85164, transferred_byte_in_second=84803,
    )  # fmt: skip
    with ha(HaStatus(ha_client_runtime_info=client, master=False)) as broker:
        args = ("haStatus", "-b", broker.address, "-n", broker.address)
        (row,) = rmqadmin("-o", "json", *args).items
        assert (row["role"], row["max_offset"], row["peer_addr"]) == ("slave", 85164, "127.0.0.1:10912")
        assert rmqadmin(*args, "--output", "mqadmin").out.splitlines() == [
            "",
            "#MasterAddr\t127.0.0.1:10912",
            "#CommitLogMaxOffset\t85164",
            "#TransferSpeed(KB/s)\t82.82",
            "#LastReadTime\t2026-11-22 00:38:07,223",
            "#LastWriteTime\t2026-11-22 00:38:07,223",
            "#MasterFlushOffset\t0",
        ]


def test_the_last_term_ends_where_the_log_ends(rmqadmin: Rmqadmin) -> None:
    endless = (1 << 63) - 1
    terms = [EpochEntry(end_offset=86566, epoch=1), EpochEntry(end_offset=endless, epoch=2, start_offset=86566)]
    cache = EpochCache(
        broker_id=1, broker_name="broker-a", cluster_name="DefaultCluster", epoch_list=terms, max_offset=86788
    )
    with Replayed(answers=[answering(RequestCode.GET_BROKER_EPOCH_CACHE, cache)]) as broker:
        rows = rmqadmin("-o", "json", "getBrokerEpoch", "-b", "broker-a", "-n", broker.address).items
    assert [(row["epoch"], row["start_offset"], row["end_offset"]) for row in rows] == [
        (1, 0, 86566),
        (2, 86566, 86788),
    ]


def test_get_broker_epoch(rmqadmin: Rmqadmin) -> None:
    with Replayed("1007-GET_BROKER_EPOCH_CACHE/04", broker_name="broker-c") as broker:
        for case, option, name in (("broker", "-b", "broker-c"), ("cluster", "-c", "DefaultCluster")):
            ran = rmqadmin("getBrokerEpoch", option, name, "-n", broker.address, "--output", "mqadmin")
            assert ran.out == broker.here(golden("getBrokerEpoch", case))


def test_a_broker_or_a_cluster_has_to_exist(rmqadmin: Rmqadmin) -> None:
    with Replayed() as broker:
        assert rmqadmin("getBrokerEpoch", "-b", "x", "-c", "y", "-n", broker.address).status == 2
        assert rmqadmin("getBrokerEpoch", "-b", "no-broker", "-n", broker.address).status == 5


def test_replicas_that_are_not_in_sync_are_shown_too(rmqadmin: Rmqadmin) -> None:
    with Replayed(LEADER, answers=[knowing(REPLICAS)]) as controller:
        args = ("getSyncStateSet", "-a", controller.address, "-b", "broker-a", "-n", controller.address)
        rows = rmqadmin("-o", "json", *args).items
        assert [(row["broker_id"], row["is_master"], row["in_sync"]) for row in rows] == [
            (1, True, True),
            (2, False, False),
        ]
        text = rmqadmin(*args, "--output", "mqadmin").out
    assert text.endswith(
        "\nNotInSyncReplica:\tReplicaIdentity{brokerName='broker-a', brokerId=2, "
        "brokerAddress='127.0.0.1:10921', alive=true}\n".replace("127.0.0.1:10921", controller.address)
    )


def test_who_asks_only_a_controller_is_told_nothing_of_name_servers(
    run: Rmqadmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The warning "no name server given: using 127.0.0.1:9876" used to appear although no name server was asked."""
    monkeypatch.setenv("RMQADMIN_TIMEOUT", "1")
    with Replayed(LEADER, answers=[knowing(REPLICAS)]) as controller:
        assert run("getSyncStateSet", "-a", controller.address, "-b", "broker-a").err == ""
        election = ("electMaster", "-a", controller.address, "-bn", "broker-a", "-b", "2", "-c", "DefaultCluster")
        assert run(*election, "--dry-run").err == ""
        ran = run("getSyncStateSet", "-a", controller.address, "-c", "DefaultCluster")
        assert ran.err.startswith("rmqadmin: no name server given")


def test_the_sets_of_a_cluster_in_apaches_words(rmqadmin: Rmqadmin) -> None:
    with Replayed(LEADER, "1006-CONTROLLER_GET_SYNC_STATE_DATA/01", broker_name="broker-c") as controller:
        args = ("-a", controller.address, "-c", "DefaultCluster", "-n", controller.address)
        ran = rmqadmin("getSyncStateSet", *args, "--output", "mqadmin")
        assert ran.out == controller.here(golden("getSyncStateSet", "cluster"))


def test_a_broker_that_the_controller_does_not_know_is_an_error(rmqadmin: Rmqadmin) -> None:
    nothing = answering(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, {"replicasInfoTable": {}})
    with Replayed(LEADER, answers=[nothing]) as controller:
        args = ("getSyncStateSet", "-a", controller.address, "-b", "no-broker", "-n", controller.address)
        assert rmqadmin(*args).status == 5
        assert rmqadmin(*args, "--output", "mqadmin").out == golden("getSyncStateSet", "unknown-broker")


def test_a_group_of_controllers_without_a_leader_is_an_error(rmqadmin: Rmqadmin) -> None:
    leaderless = answering(RequestCode.CONTROLLER_GET_METADATA_INFO, ext={"group": "group1", "peers": "n0:h:1;"})
    with Replayed(answers=[leaderless]) as controller:
        ran = rmqadmin("getSyncStateSet", "-a", controller.address, "-b", "broker-a", "-n", controller.address)
        both = rmqadmin("getControllerMetaData", "-a", f"{NOBODY};{controller.address}", "-n", controller.address)
    assert ran.status == 5
    assert "have no leader now" in ran.err
    assert both.status == 0


def test_of_several_controllers_one_may_be_down(rmqadmin: Rmqadmin) -> None:
    """Only the first controller used to be asked, which is the lost one when an operator looks for the new leader."""
    leaderless = answering(RequestCode.CONTROLLER_GET_METADATA_INFO, ext={"group": "group1", "peers": "n0:h:1;"})
    with Replayed(answers=[leaderless]) as cut_off, Replayed(LEADER, answers=[knowing(REPLICAS)]) as controller:
        options = ("-a", f"{NOBODY};{cut_off.address};{controller.address}", "-n", controller.address)
        rows = rmqadmin("-o", "json", "getSyncStateSet", "-b", "broker-a", *options).items
        assert [row["broker_id"] for row in rows] == [1, 2]
        assert rmqadmin("-o", "json", "getControllerMetaData", *options).status == 0
        ran = rmqadmin("getControllerMetaData", "-a", f"{NOBODY};{NOBODY}", "-n", controller.address)
    assert ran.status == 3
    assert NOBODY in ran.err


def test_an_election_is_planned_and_then_shown_with_the_old_master(rmqadmin: Rmqadmin) -> None:
    """A real controller's answer to a designated election. mqadmin 5.5.0 cannot decode it."""
    body = {
        "brokerMemberGroup": {
            "brokerAddrs": {1: ONE.broker_address, 2: TWO.broker_address}, "brokerName": "broker-a",
            "cluster": "DefaultCluster",
        },
        "syncStateSet": [2],
    }  # fmt: skip
    ext = {"masterBrokerId": "2", "masterAddress": TWO.broker_address, "syncStateSetEpoch": "3", "masterEpoch": "2"}
    elected = answering(RequestCode.CONTROLLER_ELECT_MASTER, body, ext=ext)
    with Replayed(LEADER, answers=[knowing(REPLICAS), elected]) as controller:
        command = ("electMaster", "-a", controller.address, "-bn", "broker-a", "-b", "2", "-c", "DefaultCluster")
        n = ("-n", controller.address)
        (planned,) = rmqadmin("-o", "json", *command, *n, "--dry-run").items
        assert (planned["done"], RequestCode.CONTROLLER_ELECT_MASTER in controller.codes()) == (False, False)
        (row,) = rmqadmin("-o", "json", *command, *n).items
        assert (row["done"], row["master_epoch"], len(row["replica_addrs"])) == (True, 2, 2)
        text = rmqadmin(*command, *n, "--output", "mqadmin").out
        asked = controller.requests[-1].ext
    assert (asked["designateElect"], asked["brokerId"]) == ("true", "2")
    assert text.splitlines()[1:6] == [
        "#ClusterName\tDefaultCluster",
        "#BrokerName\tbroker-a",
        f"#BrokerMasterAddr\t{controller.address}",
        "#MasterEpoch\t2",
        "#SyncStateSetEpoch\t3",
    ]
    assert text.splitlines()[6].startswith("\t#Broker\t1\t")


def test_a_refused_election_tells_what_to_do(rmqadmin: Rmqadmin) -> None:
    """It said "Failed to elect a new master", and nothing of who is alive or in sync."""
    refusal = answering(RequestCode.CONTROLLER_ELECT_MASTER, answer_code=ResponseCode.CONTROLLER_ELECT_MASTER_FAILED)
    with Replayed(LEADER, answers=[knowing(REPLICAS), refusal]) as controller:
        command = ("electMaster", "-a", controller.address, "-bn", "broker-a", "-b", "9", "-c", "C")
        ran = rmqadmin(*command, "-n", controller.address)
    assert ran.status == 1
    assert "hint: broker-a has no replica 9, but 1 at " in ran.err


def test_what_is_forgotten_is_planned_replica_by_replica(rmqadmin: Rmqadmin) -> None:
    done = answering(RequestCode.CLEAN_BROKER_DATA)
    of_one = replace(REPLICAS, not_in_sync_replicas=[replace(TWO, alive=False)])
    with Replayed(LEADER, answers=[knowing(of_one), done]) as controller:
        command = ("cleanBrokerMetadata", "-a", controller.address, "-bn", "broker-a", "-n", controller.address)
        (planned,) = rmqadmin("-o", "json", *command, "-c", "C", "-b", "2", "--dry-run").items
        assert [change["field"] for change in planned["changes"]] == ["broker-a 2"]
        alive = "Broker [broker-a, 1] is still alive, clean up failure (2009 "
        refused = rmqadmin(*command, "-c", "C", "-b", "1;2", "--dry-run", status=1, out="", err=alive)
        assert "with -l, rmqserver's never" in refused.err  # it sounded as if -l helped with any controller
        rmqadmin(*command, "-l", "--dry-run", status=0)
        ran = rmqadmin(*command, "-c", "C", "-b", "1;2", "--output", "mqadmin")
        assert ran.out == "clear broker broker-a metadata from controller success! \n"
        assert controller.requests[-1].ext["brokerControllerIdsToClean"] == "1;2"
        assert rmqadmin(*command, "-b", "2").status == 2  # without -l it needs -c
        assert rmqadmin(*command, "-c", "C", "-b", "x").status == 2
        both = rmqadmin(*command, "-b", "2", "-l")
    assert both.status == 2
    assert "forgets all replicas" in both.err
