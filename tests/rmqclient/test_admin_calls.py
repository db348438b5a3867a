"""The admin client: which server it asks, which calls it refuses before asking any, and the contents of its
requests."""

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import DataVersion, MessageQueue
from rmqproto.bodies.groups import SubscriptionGroups
from rmqproto.bodies.routes import TopicConfig, TopicConfigs, TopicList
from rmqproto.codes import RequestCode
from rmqproto.errors import ConnectError, ProtocolError, RefusedError, UsageError
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command
from tests.support import golden
from tests.support.peer import Peer, answer


def topics(*names: str) -> bytes:
    return fastjson.dumps(TopicList(topic_list=list(names)))


def test_a_name_server_that_is_down_is_passed_over() -> None:
    with Peer(lambda request: None) as down, Peer(lambda request: answer(request, body=topics("T"))) as up:
        down.hang_up()
        with AdminClient(f"{down.address};{up.address}") as admin:
            assert admin.topic_list() == ["T"]
            assert admin.topic_list() == ["T"]
            assert len(up.requests) == 2


def test_the_failure_of_the_first_name_server_is_told_when_none_answers() -> None:
    with Peer(lambda request: None) as first, Peer(lambda request: None) as second:
        first.hang_up()
        second.hang_up()
        with AdminClient(f"{first.address};{second.address}") as admin, pytest.raises(ConnectError) as caught:
            admin.topic_list()
        assert caught.value.address == first.address


def test_a_refusal_is_an_answer_and_asks_nobody_else() -> None:
    with Peer(lambda request: answer(request, 17)) as first, Peer(lambda request: answer(request)) as second:
        with AdminClient(f"{first.address};{second.address}") as admin, pytest.raises(RefusedError):
            admin.topic_route("T")
        assert second.requests == []


def test_a_read_only_client_sends_nothing_that_could_change_something() -> None:
    """The guard is below the dashboard: it stops a key pressed by mistake, even if a screen forgets to."""
    with Peer(lambda request: answer(request)) as peer, AdminClient(peer.address, read_only=True) as admin:
        changing = [
            lambda: admin.delete_topic_in_broker(peer.address, "T"),
            lambda: admin.create_topic(peer.address, TopicConfig(topic_name="T")),
            lambda: admin.wipe_write_perm(peer.address, "broker-a"),
            lambda: admin.reset_offset(peer.address, "T", "g", -1),
            lambda: admin.update_consumer_offset(peer.address, "g", "T", 0, 1),
            lambda: admin.update_broker_config(peer.address, {"a": "b"}),
            lambda: admin.send_message(peer.address, MessageQueue("T", "b", 0), Message("T", b"x")),
            lambda: admin.consume_message_directly(peer.address, "g", "c", "id"),
            lambda: admin.group_config(peer.address, "g"),  # creates an unknown group
        ]
        for call in changing:
            with pytest.raises(UsageError, match="read-only"):
                call()
        assert peer.requests == []


def test_topic_attributes_travel_with_their_signs() -> None:
    with Peer(lambda request: answer(request)) as peer, AdminClient(peer.address) as admin:
        config = TopicConfig(topic_name="T", attributes={"+message.type": "DELAY", "-reserve.time": ""}, order=True)
        admin.create_topic(peer.address, config)
        ext = peer.requests[0].ext
    assert ext["attributes"] == "+message.type=DELAY,-reserve.time"
    assert (ext["topic"], ext["defaultTopic"], ext["order"], ext["perm"]) == ("T", "TBW102", "true", "6")


def test_an_offset_that_is_not_stored_is_none_and_not_the_brokers_guess() -> None:
    with Peer(lambda request: answer(request, 22)) as peer, AdminClient(peer.address) as admin:
        assert admin.consumer_offset(peer.address, "g", "T", 0) is None
        assert peer.requests[0].ext["setZeroIfNotFound"] == "false"


def test_users_and_acls_as_apache_lists_them_and_no_password() -> None:
    users, acls = (
        golden.exchange(name).recorded_answer for name in ("3005-AUTH_LIST_USER/01", "3010-AUTH_LIST_ACL/01")
    )
    assert b"alice-password" in users.body
    bodies = {RequestCode.AUTH_LIST_USER: users.body, RequestCode.AUTH_LIST_ACL: acls.body}
    with (
        Peer(lambda request: answer(request, body=bodies[RequestCode(request.code)])) as peer,
        AdminClient(peer.address, read_only=True) as admin,
    ):
        found = admin.users(peer.address)
        assert [(user.username, user.user_type, user.user_status) for user in found] == [
            ("alice", "Normal", "enable"), ("carol", "Normal", "enable"), ("root", "Super", "enable"),
        ]  # fmt: skip
        assert "password" not in repr(found)
        alice, root = admin.acls(peer.address)
        assert (alice.subject, alice.policies[0].policy_type) == ("User:alice", "Custom")
        entry = alice.policies[0].entries[0]
        assert (entry.resource, entry.actions, entry.decision) == ("Topic:NormalTopic", ["Pub", "Sub"], "Allow")
        assert (entry.source_ips, root.policies[0].entries[0].source_ips) == (["127.0.0.1"], None)


def test_no_users_is_an_answer_without_a_body() -> None:
    with Peer(lambda request: answer(request)) as peer, AdminClient(peer.address) as admin:
        assert admin.users(peer.address) == []
        assert admin.acls(peer.address) == []


def test_an_answer_without_its_body_is_no_empty_result() -> None:
    with (
        Peer(lambda request: answer(request)) as peer,
        AdminClient(peer.address) as admin,
        pytest.raises(ProtocolError, match="TopicStats"),
    ):
        admin.topic_stats(peer.address, "T")


class PagedTopics:
    """A broker that returns its topics two at a time, and changes them once in between."""

    def __init__(self, names: list[str], *, changes_at: int | None):
        self.names = names
        self.counter = 1
        self.changes_at = changes_at

    def __call__(self, request: Command) -> Command:
        assert request.code == RequestCode.GET_ALL_TOPIC_CONFIG
        seq = int(request.ext["topicSeq"])
        if seq == self.changes_at:
            self.changes_at = None
            self.counter += 1
            self.names = ["New", *self.names[1:]]
        version = DataVersion(counter=self.counter)
        if seq and request.ext["dataVersion"] != fastjson.dumps(version).decode():
            seq = 0
        page = {name: TopicConfig(topic_name=name) for name in self.names[seq : seq + 2]}
        body = fastjson.dumps(TopicConfigs(data_version=version, topic_config_table=page))
        return answer(request, fields={"totalTopicNum": str(len(self.names))}, body=body)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_tables_are_read_to_their_last_page(count: int) -> None:
    names = [f"T{number}" for number in range(count)]
    with Peer(PagedTopics(names, changes_at=None)) as peer, AdminClient(peer.address) as admin:
        assert list(admin.all_topics(peer.address).topic_config_table) == names


def test_a_table_that_changes_while_it_is_read_is_read_again() -> None:
    """Mixed pages of two versions would show a deleted topic or miss a new one."""
    with Peer(PagedTopics(["T0", "T1", "T2", "T3", "T4"], changes_at=4)) as peer, AdminClient(peer.address) as admin:
        assert list(admin.all_topics(peer.address).topic_config_table) == ["New", "T1", "T2", "T3", "T4"]


def test_a_broker_that_knows_no_pages_sends_all_at_once() -> None:
    body = fastjson.dumps(SubscriptionGroups(forbidden_table={"g": {"T": 1}}))
    with Peer(lambda request: answer(request, body=body)) as peer, AdminClient(peer.address) as admin:
        assert admin.all_groups(peer.address).forbidden_table == {"g": {"T": 1}}
        assert len(peer.requests) == 1
