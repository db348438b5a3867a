"""Our own clients and rmqadmin against a guarded broker, each with the least rights that it needs; and a broker that
signs its requests to a guarded nameserver."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from rmqadmin.cli import program
from rmqclient.admin import AdminClient
from rmqclient.consumers.push_consumer import PushConsumer
from rmqclient.consumers.simple_consumer import SimpleConsumer
from rmqclient.consuming.start import ConsumeFrom
from rmqclient.message import Message, ReceivedMessage
from rmqclient.producers.producer import Producer
from rmqproto.bodies.acl import AclEntry, AclInfo, AclPolicy, UserAccount
from rmqproto.bodies.routes import TopicConfig
from rmqproto.errors import RefusedError, RocketMQError
from rmqproto.wire.credentials import Credentials
from tests.support import servers
from tests.support.auth_walk import ROOT, ask_as
from tests.support.servers import Server
from tests.support.wire import Wire

LIMIT_S = 120
WRITER, READER = Credentials("writer", "writer-secret"), Credentials("reader", "reader-secret")
POLICIES = {
    WRITER: [("Topic:Letters", ["Pub"])],
    READER: [("Topic:Letters", ["Sub"]), ("Group:pushed", ["Sub"]), ("Group:popped", ["Sub"])],
}
INNER = 'innerClientAuthenticationCredentials={"accessKey":"inner","secretKey":"inner-secret"}'
INIT = 'initAuthenticationUser={"username":"root","password":"root-secret"}'
STATEFUL = "authenticationStrategy=org.apache.rocketmq.auth.authentication.strategy.StatefulAuthenticationStrategy"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A nameserver and a broker in two processes, both with authentication. A nameserver alone knows only the users of
    its settings, so it gives routes to everybody."""
    directory = tmp_path_factory.mktemp("two")
    shared = ("--set", "authenticationEnabled=true", "--set", INNER, "--set", INIT)
    with (
        servers.namesrv(directory / "namesrv", *shared, "--set", "authenticationWhitelist=105") as namesrv,
        servers.broker(
            directory / "broker", namesrv.namesrv_addr, "b", *shared,
            "--set", "authorizationEnabled=true", "--set", "authorizationStrictEnabled=true", "--set", STATEFUL,
        ) as broker,
    ):  # fmt: skip
        broker.ready["namesrv_addr"] = namesrv.namesrv_addr
        with AdminClient(namesrv.namesrv_addr, ROOT) as admin:
            admin.create_topic(broker.broker_addr, TopicConfig(topic_name="Letters"))
            for user, entries in POLICIES.items():
                name = user.access_key
                admin.create_user(broker.broker_addr, UserAccount(username=name, password=user.secret_key))
                policy = AclPolicy(
                    entries=[
                        AclEntry(resource=resource, actions=actions, decision="Allow") for resource, actions in entries
                    ]
                )
                admin.create_acl(broker.broker_addr, AclInfo(subject=f"User:{name}", policies=[policy]))
        yield broker
    log = (directory / "broker/log").read_text() + (directory / "namesrv/log").read_text()
    assert "-secret" not in log.replace("event=secret-on", "")


def test_the_broker_is_registered_with_a_nameserver_that_asks(guarded: Server) -> None:
    with AdminClient(guarded.namesrv_addr, ROOT) as admin:
        assert guarded.broker_addr in str(admin.cluster_info())
    with AdminClient(guarded.namesrv_addr) as stranger, pytest.raises(RefusedError, match="username cannot be null"):
        stranger.cluster_info()


def test_rmqadmin_signs(guarded: Server, capsys: pytest.CaptureFixture[str]) -> None:
    def listed(*keys: str) -> tuple[int, str]:
        status = program.run(["listUser", "-b", guarded.broker_addr, "-n", guarded.namesrv_addr, *keys])
        said = capsys.readouterr()
        return status, said.out + said.err

    status, text = listed("-ak", ROOT.access_key, "-sk", ROOT.secret_key)
    assert (status, "reader" in text) == (0, True), text
    status, text = listed("-ak", ROOT.access_key, "-sk", "guessed")
    assert (status != 0, "check signature failed." in text) == (True, True), text


def test_a_redrive_signs_and_writes_no_key(guarded: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The key is in neither its plan nor its ledger nor its output."""
    keys = ("-n", guarded.namesrv_addr, "-ak", ROOT.access_key, "-sk", ROOT.secret_key)
    with AdminClient(guarded.namesrv_addr, ROOT) as admin:
        for topic in ("%DLQ%dead", "Revived"):
            admin.create_topic(guarded.broker_addr, TopicConfig(topic_name=topic))
    assert program.run(["sendMessage", "-t", "%DLQ%dead", "-p", "letter", *keys]) == 0
    redrive = ["dlq", "redrive", "dead", "--to", "topic:Revived", "--ledger", str(tmp_path), "--job", "job", *keys]
    assert program.run([*redrive[:-4], "--execute", "--yes"]) != 0, "nobody has signed it"
    assert program.run([*redrive, "--execute", "--yes"]) == 0
    said = capsys.readouterr()
    with AdminClient(guarded.namesrv_addr, ROOT) as admin:
        offsets = admin.topic_stats(guarded.broker_addr, "Revived").offset_table.values()
    assert sum(each.max_offset for each in offsets) == 1
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any("plan" in path.name for path in written)
    for path in written:
        assert ROOT.secret_key.encode() not in path.read_bytes(), path
    assert ROOT.secret_key not in said.out + said.err


@pytest.mark.trio
async def test_a_producer_and_a_consumer_with_just_their_rights(guarded: Server) -> None:
    namesrv_addr = guarded.namesrv_addr
    wanted = {b"%d" % number for number in range(20)}
    got: set[bytes] = set()
    is_all = trio.Event()

    async def listen(message: ReceivedMessage) -> None:
        got.add(message.body)
        if got == wanted:
            is_all.set()

    first = ConsumeFrom.FIRST_OFFSET
    with trio.fail_after(LIMIT_S):
        async with Producer(namesrv_addr, "senders", credentials=WRITER) as producer:
            for body in wanted:
                await producer.send(Message("Letters", body))
            with pytest.raises(RefusedError, match="no permission to access Topic:Others"):
                await producer.send(Message("Others", b"refused"))
        async with PushConsumer(
            namesrv_addr, "pushed", {"Letters": "*"}, listen, consume_from=first, credentials=READER
        ):
            await is_all.wait()
        with pytest.raises(RocketMQError):
            async with Producer(namesrv_addr, "readers-cannot-write", credentials=READER) as reader:
                await reader.send(Message("Letters", b"refused"))


@pytest.mark.trio
async def test_messages_are_popped_and_acknowledged(guarded: Server) -> None:
    with trio.fail_after(LIMIT_S):
        async with Producer(guarded.namesrv_addr, "senders", credentials=WRITER) as producer:
            await producer.send(Message("Letters", b"popped"))
        first = ConsumeFrom.FIRST_OFFSET
        async with SimpleConsumer(guarded.namesrv_addr, "popped", credentials=READER, consume_from=first) as consumer:
            found: list[bytes] = []
            while b"popped" not in found:
                messages = await consumer.pop("Letters")
                found += [message.body for message in messages]
                await consumer.ack(messages)


def test_the_cached_strategy_knows_a_connection_until_a_user_changes(guarded: Server) -> None:
    """Like Apache's, it does not check the signatures of a connection that it knows."""
    forged = Credentials("writer", "guessed")
    with Wire(guarded.broker_addr) as known, Wire(guarded.broker_addr) as other:
        code, ext = 46, {"clientId": "c"}
        body = b'{"clientId":"c","group":"g","subscriptionData":{"topic":"T","subString":"*"}}'
        assert ask_as(known, code, ext, body, WRITER).code != 16
        assert ask_as(known, code, ext, body, forged).code != 16
        assert ask_as(known, code, ext, body).remark == "username cannot be null."
        assert ask_as(known, code, ext, body, Credentials("root", "guessed")).remark == "check signature failed."
        assert ask_as(other, code, ext, body, forged).remark == "check signature failed."
        assert ask_as(other, code, ext, body, WRITER).remark == "check signature failed."  # a refusal is cached, too
        with AdminClient(guarded.namesrv_addr, ROOT) as admin:
            admin.update_user(guarded.broker_addr, UserAccount(username="reader", user_status="enable"))
        assert ask_as(known, code, ext, body, forged).remark == "check signature failed."
        assert ask_as(other, code, ext, body, WRITER).code != 16


def test_strictly_nobody_changes_the_broker_without_the_right(guarded: Server) -> None:
    with Wire(guarded.broker_addr) as wire:
        answer = ask_as(wire, 25, {}, b"traceOn=false", WRITER)
        assert (answer.code, "Cluster:DefaultCluster" in (answer.remark or "")) == (16, True)
        assert ask_as(wire, 25, {}, b"traceOn=true", ROOT).code == 0
