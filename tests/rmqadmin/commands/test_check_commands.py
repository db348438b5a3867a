"""``check`` on a real broker: its exit status and the line that a monitoring system reads."""

import json

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.names import dlq_topic
from tests.rmqadmin.conftest import Rmqadmin
from tests.support.servers import Fresh, Server, topic_config, until

COUNT = 5


@pytest.fixture(scope="module")
def group(server: Server, fresh: Fresh) -> str:
    """A group that is five messages behind in one topic and has five dead letters."""
    name, topic = fresh("CheckGroup"), fresh("CheckTopic")
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_group(server.broker_addr, SubscriptionGroupConfig(group_name=name))
        for each in (topic, dlq_topic(name)):
            admin.create_topic(server.broker_addr, topic_config(each))
            for _ in range(COUNT):
                admin.send_message(server.broker_addr, MessageQueue(each, "broker-a", 0), Message(each, b"x"))
        admin.update_consumer_offset(server.broker_addr, name, topic, 0, 0)
        until(lambda: {topic, dlq_topic(name)} <= set(admin.topic_list()))
    return name


@pytest.mark.parametrize(
    ("thresholds", "status", "word"),
    [
        ((), 0, "OK"),
        (("-w", "5", "-c", "10"), 0, "OK"),
        (("-w", "4", "-c", "10"), 1, "WARNING"),
        (("--warning=1", "--critical=4"), 2, "CRITICAL"),
        (("-w", "1h", "-c", "0ms"), 2, "CRITICAL"),
        (("-w", "10k,1h"), 0, "OK"),
    ],
)
def test_lag_by_messages_and_by_age(
    rmqadmin: Rmqadmin, group: str, thresholds: tuple[str, ...], status: int, word: str
) -> None:
    ran = rmqadmin("check", "lag", "-g", group, *thresholds, status=status)
    assert ran.out.startswith(f"{word} - {group}: 5 messages behind, the oldest waits for ")
    assert " | lag=5;" in ran.out
    assert ran.err == ""


def test_one_broker_and_one_topic_are_asked_if_they_are_named(rmqadmin: Rmqadmin, group: str) -> None:
    rmqadmin("check", "lag", "-g", group, "-b", "broker-a", "-t", "NoSuchTopic", "-w", "4", status=3)
    assert rmqadmin("check", "lag", "-g", group, "-b", "broker-a", "-w", "4").status == 1
    assert rmqadmin("check", "lag", "-g", group, "-b", "broker-z", "-w", "4").status == 3


def test_all_groups_are_looked_at_if_none_is_named(rmqadmin: Rmqadmin, group: str) -> None:
    ran = rmqadmin("-o", "json", "check", "lag", "-c", "4", status=2)
    (mine,) = [item for item in ran.items if item["name"] == group]
    assert (mine["state"], mine["values"][f"{group} lag"]) == ("CRITICAL", COUNT)
    assert ran.document["summary"]["exit_status"] == 2


def test_a_disk_is_as_full_as_it_is_by_thresholds_or_the_brokers_own_limits(rmqadmin: Rmqadmin) -> None:
    assert rmqadmin("check", "disk", "-w", "100%").status == 0
    assert rmqadmin("check", "disk", "-w", "0").status == 1
    critical = rmqadmin("check", "disk", "-b", "broker-a", "-c", "0%", status=2)
    assert critical.out.startswith("CRITICAL - broker-a/0: disk full to: commit log ")
    own = rmqadmin("-o", "json", "check", "disk").document["summary"]["text"]
    assert "%;85;85;0" in own, "what the broker clears by force comes before its diskMaxUsedSpaceRatio of 95"
    assert rmqadmin("check", "disk", "-b", "broker-z").status == 3


def test_a_broker_that_serves_and_one_that_is_not_there(rmqadmin: Rmqadmin, server: Server) -> None:
    ran = rmqadmin("check", "broker")
    assert (ran.status, ran.out.startswith("OK - broker-a/0: serves, answered in ")) == (0, True), ran.out
    missing = rmqadmin("check", "broker", "-b", "broker-a", "-b", "broker-z")
    assert (missing.status, missing.out.splitlines()[0].split(" | ")[0]) == (
        2,
        "CRITICAL - broker-z: is not registered",
    )
    assert rmqadmin("check", "broker", "-w", "0ms").status in (0, 1)
    none = rmqadmin("check", "broker", "--cluster", "NoCluster")
    assert (none.status, none.out) == (2, "CRITICAL - brokers: no name server knows one\n")
    half = rmqadmin("check", "broker", "-n", f"{server.namesrv_addr};127.0.0.1:1")
    assert (half.status, "WARNING - 127.0.0.1:1: cannot connect" in half.out) == (1, True), half.out


def test_a_broker_is_named_by_its_address_too(rmqadmin: Rmqadmin, server: Server, group: str) -> None:
    """An address is accepted, as by mqadmin's -b. `check broker` used to report a serving broker as unregistered if
    given its address."""
    for check in (["broker"], ["disk", "-c", "100%"], ["ha"], ["lag", "-g", group, "-w", "1k"]):
        ran = [rmqadmin("-o", "json", "check", *check, "-b", said) for said in ("broker-a", server.broker_addr)]
        by_name, by_addr = ([item["name"] for item in each.items] for each in ran)
        assert by_addr == by_name != []
        assert [each.status for each in ran] == [0, 0]


def test_dead_letters_all_and_new_ones(rmqadmin: Rmqadmin, server: Server, group: str) -> None:
    assert rmqadmin("check", "dlq", "-g", group).out == f"WARNING - {group}: 5 dead letters | 'dead letters'=5;0;;0\n"
    assert rmqadmin("check", "dlq", "-g", group, "-w", "1", "-c", "4").status == 2
    assert rmqadmin("check", "dlq", "-g", group, "--since", "-1h").status == 1
    assert rmqadmin("check", "dlq", "-g", group, "--since", "1h").status == 1, (
        "an hour ago: it was an hour to come, and OK"
    )
    assert rmqadmin("check", "dlq", "-g", group, "--until", "1h").status == 0
    assert rmqadmin("check", "dlq", "-g", group, "--since", "now").status == 0
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_group(server.broker_addr, SubscriptionGroupConfig(group_name="NeverHadAny"))
    assert rmqadmin("check", "dlq", "-g", "NeverHadAny").status == 0
    assert rmqadmin("check", "dlq", "-c", "4").status == 2


def test_dead_letters_of_a_group_that_is_none_are_unknown(rmqadmin: Rmqadmin) -> None:
    """A mistyped name used to be OK for ever."""
    ran = rmqadmin("check", "dlq", "-g", "MistypedGroup")
    assert (ran.status, ran.out) == (3, "UNKNOWN - MistypedGroup: no broker knows the group MistypedGroup\n")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("lag", "-w", "lots"), "--warning: 'lots' is not a threshold here"),
        (("disk", "-c", "5m"), "--critical: '5m' is not a threshold here"),
        (("lag", "--nonsense"), "Unrecognized option: --nonsense"),
        (("lag", "-g", "NobodyHere"), "the group NobodyHere has no offsets and nobody is online"),
        (("lag", "-g", "NobodyHere", "-b", "broker-a"), "the group NobodyHere has no offsets there and nobody"),
        (("lag", "--cluster", "NoCluster"), "there is no cluster NoCluster"),
        (("disk", "--cluster", "NoCluster"), "there is no cluster NoCluster"),
        (("ha", "--cluster", "NoCluster"), "there is no cluster NoCluster"),
        (("broker", "-n", "127.0.0.1:1"), "cannot connect to 127.0.0.1:1"),
    ],
)
def test_a_check_that_cannot_be_made_is_unknown_for_people_and_for_programs(
    rmqadmin: Rmqadmin, args: tuple[str, ...], said: str
) -> None:
    ran = rmqadmin("check", *args, status=3)
    assert ran.out.startswith(f"UNKNOWN - {said}")
    assert len(ran.out.splitlines()) == 1
    as_json = rmqadmin("check", *args, "-o", "json")
    assert (as_json.status, as_json.out, json.loads(as_json.err)["error"]["exit_code"]) == (3, "", 3)
