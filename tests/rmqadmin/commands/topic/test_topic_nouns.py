"""``topic ls|create|describe|delete`` and ``group ls|describe``, beside mqadmin's own commands."""

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.codes import ResponseCode
from rmqproto.errors import NotFoundError, RefusedError
from tests.rmqadmin.conftest import CLUSTER, Rmqadmin, Terminal, status
from tests.support.servers import Fresh, Server


@pytest.fixture
def topic(rmqadmin: Rmqadmin, fresh: Fresh) -> str:
    name = fresh("NounTopic")
    assert rmqadmin("topic", "create", name, "--queues", "2").status == 0
    return name


def test_topics_are_created_listed_and_deleted(rmqadmin: Rmqadmin, server: Server, fresh: Fresh) -> None:
    one, other = fresh("NounTopic"), fresh("NounTopic")
    planned = rmqadmin("topic", "create", one, "--queues", "2", "--dry-run")
    assert (planned.status, one in planned.out) == (0, True)
    assert one not in rmqadmin("-o", "name", "topic", "ls").out.split()
    ran = rmqadmin("-o", "json", "topic", "create", f"{one},{other}", "--queues", "2", "--type", "fifo")
    assert [row["action"] for row in ran.items] == ["create", "create"]
    with AdminClient(server.namesrv_addr) as admin:
        config = admin.topic_config(server.broker_addr, other)
    assert (config.read_queue_nums, config.write_queue_nums, config.attributes) == (2, 2, {"message.type": "FIFO"})
    assert rmqadmin("-o", "name", "topic", "ls", one).out == f"{one}\n"

    again = rmqadmin("topic", "create", one, other, "--queues", "4")
    assert (again.status, f"there is a topic {one} already" in again.err) == (2, True)
    assert rmqadmin("topic", "create", one, "--queues", "4", "--if-not-exists").status == 0
    with AdminClient(server.namesrv_addr) as admin:
        assert admin.topic_config(server.broker_addr, one).read_queue_nums == 2, "it stays as it is"

    for words in ([one, other], [f"{one},{other}"]):
        refused = rmqadmin("topic", "delete", *words)
        assert (refused.status, "--yes does it" in refused.err) == (2, True)
        assert f"This deletes 2 topics, {one}, {other}, from {CLUSTER}" in refused.err
    assert set(rmqadmin("-o", "name", "topic", "ls", "NounTopic").out.split()) >= {one, other}
    missing = rmqadmin("topic", "delete", one, "NoSuchTopic", "--yes")
    assert (missing.status, "there is no topic NoSuchTopic" in missing.err) == (5, True)
    assert one in rmqadmin("-o", "name", "topic", "ls", one).out, "nothing was deleted"
    assert rmqadmin("topic", "delete", one, other, "NoSuchTopic", "--if-exists", "--yes").status == 0
    assert rmqadmin("-o", "name", "topic", "ls", one).out == ""
    with AdminClient(server.namesrv_addr) as admin, pytest.raises((RefusedError, NotFoundError)):
        admin.topic_config(server.broker_addr, one)


def test_what_would_be_lost_is_said_and_the_name_is_asked_for(
    rmqadmin: Rmqadmin, terminal: Terminal, topic: str
) -> None:
    rmqadmin("msg", "send", topic, "a", "b")
    child = terminal("topic", "delete", topic)
    child.expect(f"{topic}: 2 messages would be lost")
    child.expect(f"Type {topic} to go on")
    child.sendline("no")
    assert status(child) == 1
    assert topic in rmqadmin("-o", "name", "topic", "ls", topic).out


def test_a_topic_in_one_view(rmqadmin: Rmqadmin, server: Server, topic: str, fresh: Fresh) -> None:
    group = fresh("NounGroup")
    rmqadmin("msg", "send", topic, "a", "b", "c")
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_group(server.broker_addr, SubscriptionGroupConfig(group_name=group))
    assert rmqadmin("resetOffset", "-g", group, "-t", topic, "--to", "begin").status == 0
    (found,) = rmqadmin("-o", "json", "topic", "describe", topic).items
    assert (found["topic"], found["clusters"], found["message_count"]) == (topic, [CLUSTER], 3)
    (broker,) = found["brokers"]
    assert (broker["broker_name"], broker["read_queue_nums"], broker["perm"]) == ("broker-a", 2, 6)
    assert sum(one["message_count"] for one in found["queues"]) == 3
    assert [(one["group"], one["lag_count"], one["client_count"]) for one in found["groups"]] == [(group, 3, 0)]
    shown = rmqadmin("topic", "describe", topic).out
    for words in (f"{topic}: 3 messages", "broker-a", "RW (6)", group):
        assert words in shown
    both = rmqadmin("-o", "json", "topic", "describe", f"{topic},TBW102")
    assert [row["topic"] for row in both.items] == [topic, "TBW102"]
    assert rmqadmin("topic", "describe", "NoSuchTopic").status == 5


def test_a_group_in_one_view(rmqadmin: Rmqadmin, server: Server, topic: str, fresh: Fresh) -> None:
    group = fresh("NounGroup")
    rmqadmin("msg", "send", topic, "a", "b", "c")
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_group(server.broker_addr, SubscriptionGroupConfig(group_name=group, retry_max_times=3))
    (idle,) = rmqadmin("-o", "json", "group", "describe", group).items
    assert (idle["topics"], idle["clients"], idle["brokers"][0]["retry_max_times"]) == ([], [], 3)
    assert rmqadmin("resetOffset", "-g", group, "-t", topic, "--to", "begin").status == 0
    (found,) = rmqadmin("-o", "json", "group", "describe", group).items
    assert (found["group"], found["lag_count"]) == (group, 3)
    assert [(one["topic"], one["queue_count"], one["lag_count"]) for one in found["topics"]] == [(topic, 2, 3)]
    shown = rmqadmin("group", "describe", group).out
    assert f"{group}: 3 messages behind, 0 clients" in shown
    assert topic in shown
    assert rmqadmin("-o", "name", "group", "ls", group).out == f"{group}\n"
    assert rmqadmin("group", "describe", "NoSuchGroup").status == 5


def test_no_topic_is_created_beside_one_that_cannot_be(rmqadmin: Rmqadmin, fresh: Fresh) -> None:
    good = fresh("NounTopic")
    rmqadmin("topic", "create", good, "bad name", status=2, out="", err="topic: bad name, contains illegal characters")
    assert good not in rmqadmin("-o", "name", "topic", "ls").out.split()


def test_who_reads_a_topic_is_not_known_of_a_broker_that_does_not_say(
    rmqadmin: Rmqadmin, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said that no group reads the topic."""
    name = fresh("NounTopic")
    assert rmqadmin("topic", "create", name).status == 0
    assert "no group reads it\n" in rmqadmin("topic", "describe", name).out

    def refuse(*_: object) -> None:
        raise RefusedError(ResponseCode.NO_PERMISSION, "not for you")

    monkeypatch.setattr(AdminClient, "groups_of_topic", refuse)
    out = rmqadmin("topic", "describe", name).out
    assert "which groups read it is not known of " in out
    assert "no group reads it" not in out
