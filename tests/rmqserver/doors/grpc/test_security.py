import hmac
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.acl import AclEntry, AclInfo, AclPolicy, UserAccount
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig
from rmqproto.wire.credentials import Credentials
from rmqserver.doors.grpc.codes import Code
from rmqserver.doors.grpc.messages import value
from tests.rmqserver.doors.grpc.calls import (
    Connect,
    ack,
    consumer_settings,
    producer_settings,
    receive,
    receive_request,
    send,
    tell_settings,
)
from tests.support import servers
from tests.support.grpc_client import GrpcClient, clients_of
from tests.support.servers import Server

ROOT = Credentials("root", "root-password")
WHEN = "20261128T010203Z"


def signed(user: str, password: str, when: str = WHEN) -> str:
    signature = hmac.new(password.encode(), when.encode(), "sha1").hexdigest().upper()
    return f"MQv2-HMAC-SHA1 Credential={user}, SignedHeaders=x-mq-date-time, Signature={signature}"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    user = f'{{"username":"{ROOT.access_key}","password":"{ROOT.secret_key}"}}'
    keys = f'{{"accessKey":"{ROOT.access_key}","secretKey":"{ROOT.secret_key}"}}'
    given = servers.sets(
        authenticationEnabled="true", authorizationEnabled="true", initAuthenticationUser=user,
        innerClientAuthenticationCredentials=keys,
    )  # fmt: skip
    with servers.standalone(tmp_path_factory.mktemp("guarded"), *given) as running:
        with AdminClient(running.namesrv_addr, ROOT) as admin:
            admin.create_topic(running.broker_addr, TopicConfig(topic_name="T"))
            admin.create_group(running.broker_addr, SubscriptionGroupConfig(group_name="G"))
        add_user(running, "pub", AclEntry(resource="Topic:T", actions=["Pub"], decision="Allow"))
        add_user(running, "other")
        yield running


def add_user(server: Server, name: str, entry: AclEntry | None = None) -> None:
    with AdminClient(server.namesrv_addr, ROOT) as admin:
        account = UserAccount(username=name, password=f"{name}-password", user_type="Normal")
        admin.create_user(server.broker_addr, account)
        if entry is not None:
            policy = AclPolicy(policy_type="Custom", entries=[entry])
            admin.create_acl(server.broker_addr, AclInfo(subject=f"User:{name}", policies=[policy]))


@pytest.fixture
def connect(guarded: Server) -> Iterator[Connect]:
    with clients_of(guarded.broker_addr) as connect:
        yield connect


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("", "username cannot be null."),
        (signed("", ""), "username cannot be null."),
        (signed("root", "wrong"), "check signature failed."),
        (signed("root", "root-password", "20260101T000000Z"), "check signature failed."),
        ("MQv2-HMAC-SHA1 Credential=root", "check signature failed."),
        (signed("nobody", "x"), "User:nobody is not found."),
        ("MQv2-HMAC-SHA1", "authentication header is incorrect."),
    ],
)
def test_who_is_not_proven_is_refused(connect: Connect, said: str, words: str) -> None:
    client = connect(x_mq_date_time=WHEN, authorization=said)
    for call in ("QueryRoute", "SendMessage", "ReceiveMessage", "Heartbeat"):
        (told,) = client.stream(call, {})
        assert (told.status.code, told.status.message) == (Code.UNAUTHORIZED, words)
    stream = client.open("Telemetry")
    stream.send(consumer_settings("G", "T"))
    assert [each.status.message for each in stream] == [words]


def test_without_a_date_nothing_is_signed(connect: Connect) -> None:
    (told,) = connect(authorization=signed("root", "root-password")).stream("QueryRoute", {})
    assert told.status.message == "datetime is null."


def test_a_super_user_passes(connect: Connect) -> None:
    client = connect(x_mq_date_time=WHEN, authorization=signed("root", "root-password"))
    assert send(client, "T", b"x").status.code == Code.OK


def test_policies_say_who_sends_and_who_receives(connect: Connect, tmp_path: Path) -> None:
    client = connect(x_mq_date_time=WHEN, authorization=signed("pub", "pub-password"))
    for _ in range(2):  # the first of a topic is never plain
        assert send(client, "T", b"x").status.code == Code.OK
    (told,) = client.stream("ReceiveMessage", receive_request("T", "G"))
    words = "User:pub has no permission to access Group:G from 127.0.0.1, no matched policies."
    assert (told.status.code, told.status.message) == (Code.UNAUTHORIZED, words)
    for call in ("AckMessage", "ChangeInvisibleDuration", "ForwardMessageToDeadLetterQueue", "QueryAssignment"):
        assert client.call(call, {"group": {"name": "G"}, "topic": {"name": "T"}}).status.message == words
    assert client.call("SyncLiteSubscription", {"group": {"name": "G"}}).status.message == words
    for topic in ("Other", "%RETRY%G"):  # a retry topic is judged by its own name, not its group's
        assert f"no permission to access Topic:{topic} " in send(client, topic, b"x").status.message
    tell_settings(client, producer_settings("T"))
    beats = [
        {"group": {"name": "G"}, "client_type": value("ClientType", each)} for each in ("PRODUCER", "PUSH_CONSUMER")
    ]
    told = [client.call("Heartbeat", beat).status.code for beat in beats]
    assert told == [Code.OK, Code.UNAUTHORIZED], "a producer is in no group"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (signed("other", "other-password"), "User:other has no permission to access Topic:T "),
        (signed("pub", "other-password"), "check signature failed."),
        ("", "username cannot be null."),
    ],
)
def test_a_plain_call_is_refused_in_the_same_words(connect: Connect, said: str, words: str) -> None:
    may, other = (connect(x_mq_date_time=WHEN, authorization=each) for each in (signed("root", "root-password"), said))
    for _ in range(2):
        send(may, "T", b"x")
    assert send(other, "T", b"y").status.message.startswith(words)
    messages = receive(may, "T", "G2")
    assert {each.body for each in messages} == {b"x"}
    refused = ack(other, "T", "G2", messages[0])
    assert (refused.status.code, len(refused.entries)) == (Code.UNAUTHORIZED, 0)
    assert ack(may, "T", "G2", messages[0]).status.code == Code.OK


def test_a_source_is_where_the_connection_comes_from(guarded: Server) -> None:
    """Not where its PROXY header says, which anybody may send."""
    entry = AclEntry(resource="Topic:T", actions=["Pub"], source_ips=["10.1.2.3"], decision="Allow")
    add_user(guarded, "inside", entry)
    client = GrpcClient(
        guarded.broker_addr, before=b"PROXY TCP4 10.1.2.3 10.9.9.9 4711 10911\r\n",
        x_mq_date_time=WHEN, authorization=signed("inside", "inside-password"),
    )  # fmt: skip
    with client:
        assert send(client, "T", b"x").status.code == Code.UNAUTHORIZED


def test_a_client_id_is_its_users(guarded: Server) -> None:
    """Another user that knows it can neither take its place nor send it away."""
    said = {"x_mq_date_time": WHEN}
    with (
        GrpcClient(guarded.broker_addr, "shared", **said, authorization=signed("pub", "pub-password")) as owner,
        GrpcClient(guarded.broker_addr, "shared", **said, authorization=signed("other", "other-password")) as other,
    ):
        tell_settings(owner, producer_settings("T"))
        told = other.call("NotifyClientTermination", {})
        assert told.status.code == Code.UNRECOGNIZED_CLIENT_TYPE
        tell_settings(other, producer_settings())
        assert other.call("NotifyClientTermination", {}).status.code == Code.OK
        assert owner.call("Heartbeat", {}).status.code == Code.OK


def test_who_may_use_a_group_settles_messages_of_its_own_topics_only(guarded: Server) -> None:
    """Receipts can be forged: a changed time would send another topic's message to the retries of the group."""
    add_user(guarded, "sub", AclEntry(resource="Group:G", actions=["Sub"], decision="Allow"))
    with GrpcClient(guarded.broker_addr, x_mq_date_time=WHEN, authorization=signed("sub", "sub-password")) as client:
        for call in ("AckMessage", "ChangeInvisibleDuration", "ForwardMessageToDeadLetterQueue"):
            told = client.call(call, {"group": {"name": "G"}, "topic": {"name": "T"}})
            assert told.status.message.startswith("User:sub has no permission to access Topic:T"), call
