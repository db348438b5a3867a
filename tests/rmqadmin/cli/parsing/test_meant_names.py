"""For a name that is nearly right, the error suggests the likely one."""

from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.routes import TopicConfig
from tests.rmqadmin.conftest import CLUSTER, Rmqadmin
from tests.support import servers
from tests.support.servers import Fresh, Server, until


@pytest.fixture
def names(server: Server, admin: AdminClient, fresh: Fresh) -> tuple[str, str]:
    """A topic, and a group with a dead-letter topic."""
    topic, group = fresh("NearTopic"), fresh("NearGroup")
    for name in (topic, f"%DLQ%{group}"):
        admin.create_topic(server.broker_addr, TopicConfig(topic_name=name))
        until(lambda name=name: name in admin.topic_list())
    return topic, group


def misspelt(name: str) -> str:
    return name[0] + name[2:]


def test_the_name_that_was_meant_is_said(rmqadmin: Rmqadmin, names: tuple[str, str]) -> None:
    topic, group = names
    for words, meant in (
        (("topicStatus", "-t", misspelt(topic)), topic),
        (("deleteTopic", "-c", "DefaultCluster", "-t", misspelt(topic), "--dry-run"), topic),
        (("msg", "cat", misspelt(topic)), topic),
        (("topic", "describe", misspelt(topic)), topic),
        (("group", "describe", misspelt(group)), group),
        (("consumerProgress", "-g", misspelt(group)), group),
        (("dlq", "show", misspelt(group)), group),
    ):
        rmqadmin("-o", "json", *words, status=5, err=f"Did you mean {meant}?")


def test_what_is_near_to_nothing_is_not_guessed(rmqadmin: Rmqadmin, names: tuple[str, str]) -> None:
    ran = rmqadmin("topicStatus", "-t", "0123456789")
    assert (ran.status, "Did you mean" in ran.err, "topicList" in ran.err) == (5, False, True), ran.err


def test_a_name_that_is_not_missing_is_not_corrected(rmqadmin: Rmqadmin, server: Server, fresh: Fresh) -> None:
    """A missing ACL used to suggest, for the other broker's address, that of the broker without it."""
    user, broker = fresh("near"), server.broker_addr
    assert rmqadmin("createUser", "-b", broker, "-u", user, "-p", "secret", "-t", "Normal").status == 0
    assert rmqadmin("clusterList").status == 0  # from now on, the broker's address is remembered
    ran = rmqadmin("copyAcl", "-f", broker, "-t", "127.0.0.1:1", "-s", f"User:{user}")
    assert (ran.status, "Did you mean" in ran.err) == (5, False), ran.err


def test_a_name_inside_that_of_what_is_missing_is_not_corrected(rmqadmin: Rmqadmin, names: tuple[str, str]) -> None:
    """`deleteTopic -t order -c orders` had the hint "Did you mean orders?", which was the missing cluster itself."""
    topic, _ = names
    ran = rmqadmin("deleteTopic", "-t", topic[:-1], "-c", topic, status=5, err=f"there is no cluster {topic}")
    assert "Did you mean" not in ran.err


def test_a_brokers_own_topic_is_never_meant(rmqadmin: Rmqadmin) -> None:
    """`-p LiteTopic` had the hint "Did you mean SELF_TEST_TOPIC?"."""
    assert "SELF_TEST_TOPIC" not in rmqadmin("topicRoute", "-t", "SELFTESTTOPIC", status=5).err


@pytest.mark.parametrize("typed", ["DefaultClustr", "“DefaultCluster”"])
@pytest.mark.parametrize("command", ["updateTopic -t T", "updateStaticTopic -t T -qn 4"])
def test_the_cluster_that_was_meant_is_said_once(rmqadmin: Rmqadmin, command: str, typed: str) -> None:
    ran = rmqadmin(*command.split(), "-c", typed, status=5)
    assert ran.err.count("Did you mean DefaultCluster?") == 1


def test_a_server_that_is_not_there_is_asked_once(rmqadmin: Rmqadmin) -> None:
    ran = rmqadmin("topicStatus", "-t", "Any", "-n", "127.0.0.1:1")
    assert (ran.status, ran.err.count("127.0.0.1:1")) == (3, 1), ran.err


def test_another_name_server_that_knows_the_name_is_told(
    rmqadmin: Rmqadmin, server: Server, names: tuple[str, str], tmp_path: Path
) -> None:
    """The first one was new and knew nothing yet: "no name server knows a broker", "no such topic"."""
    topic, group = names
    with servers.namesrv(tmp_path / "new") as new:
        there = ("-n", f"{new.namesrv_addr};{server.namesrv_addr}")
        for words in (
            ("topicRoute", "-t", topic), ("topic", "describe", topic), ("getBrokerConfig", "-c", CLUSTER),
            ("updateTopic", "-t", topic, "-c", CLUSTER), ("consumerProgress", "-t", topic, "-g", group),
        ):  # fmt: skip
            ran = rmqadmin(*words, *there)
            assert (ran.status, f"hint: {server.namesrv_addr} knows it" in ran.err) == (5, True), (words, ran.err)
        ran = rmqadmin("topicList", *there)
        assert (ran.status, f"{server.namesrv_addr} knows some, and {new.namesrv_addr} was asked" in ran.err) == (
            0,
            True,
        )
        ran = rmqadmin("topicRoute", "-t", "0123456789", *there)
        assert (ran.status, "knows it" in ran.err) == (5, False)
