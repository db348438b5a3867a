"""A real broker with ``aclEnable=true``: which requests pass, Apache's words for refusals, and changed files."""

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from rmqproto.bodies.groups import ConsumerData, Heartbeat, SubscriptionData
from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.errors import UsageError
from rmqproto.headers.base import to_ext
from rmqproto.headers.consuming import ConsumerGroupHeader, PullHeader
from rmqproto.headers.sending import SendHeaderV2
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command, FrameReader, encode_frame
from rmqproto.wire.credentials import Credentials
from rmqproto.wire.signing import sign
from rmqserver.auth.auth_settings import auth_settings, check_namesrv
from rmqserver.config.broker_config import BrokerConfig
from tests.rmqserver.auth.plain_acl.test_plain_files import write
from tests.support import servers
from tests.support.servers import Server, until
from tests.support.wire import Wire

APP, ADMIN, GHOST = (Credentials(name, f"{name}-secret") for name in ("orders-app", "operator", "stranger"))

FILE = f"""\
globalWhiteRemoteAddresses: [127.0.0.3]
accounts:
  - accessKey: {APP.access_key}
    secretKey: {APP.secret_key}
    whiteRemoteAddress: 127.0.0.4
    defaultTopicPerm: DENY
    defaultGroupPerm: DENY
    topicPerms: [Orders=PUB|SUB, Read=SUB]
    groupPerms: [Readers=SUB]
  - {{accessKey: {ADMIN.access_key}, secretKey: {ADMIN.secret_key}, admin: true}}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory: Path = tmp_path_factory.mktemp("home")
    write(directory, "plain_acl.yml", FILE)
    return directory


@pytest.fixture(scope="module")
def plain(home: Path) -> Iterator[Server]:
    with servers.standalone(home / "server", "--set", "aclEnable=true", "--set", f"rocketmqHome={home}") as server:
        yield server
        assert server.stop() == 0
    log = server.log_file.read_text()
    for each in (APP, ADMIN):
        assert each.secret_key not in log


def frame(code: int, ext: Mapping[str, str], user: Credentials | None, body: bytes = b"") -> bytes:
    fields = dict(ext)
    if user is not None:
        sign(fields, body, user)
    return encode_frame(Command(code=code, ext=fields, body=body))


def ask(
    wire: Wire, code: int, user: Credentials | None, ext: Mapping[str, str] = MappingProxyType({}), body: bytes = b""
) -> Command:
    """Skips the requests that the broker sends to its members in between."""
    wire.send(frame(code, ext, user, body))
    while not (answer := wire.receive()).is_answer:
        pass
    return answer


def refused(answer: Command) -> str:
    """The text of Apache's exception; empty if nothing is wrong, or something else."""
    name, _, text = (answer.remark or "").partition(": ")
    is_refused = answer.code == ResponseCode.SYSTEM_ERROR and name == "org.apache.rocketmq.acl.common.AclException"
    return text if is_refused else ""


def send(topic: str) -> dict[str, str]:
    return to_ext(SendHeaderV2(producer_group="p", topic=topic, queue_id=0, born_timestamp=1))


def pull(topic: str, group: str) -> dict[str, str]:
    header = PullHeader(
        consumer_group=group, topic=topic, queue_id=0, queue_offset=0, max_msg_nums=1, sys_flag=4,
        suspend_timeout_millis=0, subscription="*",
    )  # fmt: skip
    return to_ext(header)


def heartbeat(group: str, topic: str) -> bytes:
    consumer = ConsumerData(group_name=group, subscription_data_set=[SubscriptionData(topic=topic, sub_string="*")])
    return fastjson.dumps(Heartbeat(client_id="c", consumer_data_set=[consumer]))


def test_who_asks_must_have_an_account_and_sign(plain: Server) -> None:
    with Wire(plain.broker_addr) as wire:
        for user, said in (
            (None, "No accessKey is configured"),
            (GHOST, "No acl config for stranger"),
            (Credentials(APP.access_key, "guessed"), "Check signature failed for accessKey=orders-app"),
        ):
            assert refused(ask(wire, R.GET_BROKER_RUNTIME_INFO, user)) == said
            assert refused(ask(wire, 99_999, user)) == said
        assert ask(wire, R.GET_BROKER_RUNTIME_INFO, APP).code == 0
        assert ask(wire, 99_999, APP).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def test_permissions_of_topics_and_groups(plain: Server) -> None:
    denied_topic, denied_group = "No default permission for topic:Other", "No default permission for group:Strangers"
    with Wire(plain.broker_addr) as wire:
        for code, ext, body, said in (
            (R.SEND_MESSAGE_V2, send("Orders"), b"x", ""),
            (R.SEND_MESSAGE_V2, send("Read"), b"x", "No permission for topic:Read"),
            (R.SEND_MESSAGE_V2, send("Other"), b"x", denied_topic),
            (R.SEND_MESSAGE_V2, send("RMQ_SYS_TRACE_TOPIC"), b"x", ""),
            (R.SEND_MESSAGE_V2, send("%RETRY%Strangers"), b"x", denied_group),
            (R.SEND_MESSAGE_V2, send("%RETRY%Readers"), b"x", ""),
            (R.PULL_MESSAGE, pull("Read", "Readers"), b"", ""),
            (R.PULL_MESSAGE, pull("Other", "Readers"), b"", denied_topic),
            (R.PULL_MESSAGE, pull("Read", "Strangers"), b"", denied_group),
            (R.PULL_MESSAGE, pull("%RETRY%Strangers", "Readers"), b"", denied_group),
            (R.LITE_PULL_MESSAGE, pull("Other", "Readers"), b"", denied_topic),
            (R.HEART_BEAT, {}, heartbeat("Readers", "Read"), ""),
            (R.HEART_BEAT, {}, heartbeat("Readers", "Other"), denied_topic),
            (R.HEART_BEAT, {}, heartbeat("Strangers", "Read"), denied_group),
            (R.GET_CONSUMER_LIST_BY_GROUP, to_ext(ConsumerGroupHeader(consumer_group="Strangers")), b"", denied_group),
        ):
            answer = ask(wire, code, APP, ext, body)
            assert refused(answer) == said, (code, ext, answer)
            assert refused(ask(wire, code, ADMIN, ext, body)) == ""


@pytest.mark.parametrize(
    "code",
    [
        17,
        25,
        200,
        207,
        215,
        513,
        R.UPDATE_AND_CREATE_TOPIC_LIST,
        R.DELETE_EXPIRED_COMMITLOG,
        R.AUTH_CREATE_USER,
        50,
        54,
    ],
)
def test_what_changes_the_broker_is_for_administrators(plain: Server, code: int) -> None:
    with Wire(plain.broker_addr) as wire:
        said = f"Need admin permission for request code={int(code)}, but accessKey=orders-app is not"
        assert refused(ask(wire, code, APP)) == said


def test_the_requests_of_acl_1_are_refused_with_what_replaces_them(plain: Server) -> None:
    with Wire(plain.broker_addr) as wire:
        answer = ask(wire, 50, ADMIN, {"accessKey": "another-one", "secretKey": "another-one"})
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert answer.remark == (
        " request type 50 not supported: edit conf/plain_acl.yml or conf/acl/*.yml, which are watched, or take users "
        "and policies (3001 to 3010)"
    )


@pytest.mark.parametrize(
    ("source", "user", "passes"),
    [("127.0.0.3", None, True), ("127.0.0.4", GHOST, False), ("127.0.0.4", None, False), ("127.0.0.5", None, False)],
)
def test_white_addresses(plain: Server, source: str, user: Credentials | None, passes: bool) -> None:
    code = asked_from(plain, source, frame(R.GET_BROKER_RUNTIME_INFO, {}, user))
    assert (code == 0) is passes


def test_a_load_balancer_s_header_makes_no_address_white(plain: Server) -> None:
    request = frame(R.GET_BROKER_RUNTIME_INFO, {}, None)
    said = b"PROXY TCP4 127.0.0.3 127.0.0.1 1 2\r\n"
    assert asked_from(plain, "127.0.0.5", said + request) == ResponseCode.SYSTEM_ERROR
    assert asked_from(plain, "127.0.0.3", said.replace(b"0.3", b"0.5") + request) == 0


def test_an_account_s_white_address_needs_its_name_alone(plain: Server) -> None:
    claimed = frame(R.SEND_MESSAGE_V2, send("Other"), Credentials(APP.access_key, "guessed"), b"x")
    assert asked_from(plain, "127.0.0.4", claimed) == ResponseCode.TOPIC_NOT_EXIST
    assert asked_from(plain, "127.0.0.5", claimed) == ResponseCode.SYSTEM_ERROR


def asked_from(server: Server, source: str, request: bytes) -> int:
    host, _, port = server.broker_addr.rpartition(":")
    reader = FrameReader()
    with socket.create_connection((host, int(port)), 30, source_address=(source, 0)) as sock:
        sock.sendall(request)
        while not (answers := reader.feed(sock.recv(1 << 16))):
            pass
    return answers[0].code


def test_changed_files_count_and_broken_ones_leave_what_was(plain: Server, home: Path) -> None:
    def denied(wire: Wire) -> str:
        return refused(ask(wire, R.SEND_MESSAGE_V2, APP, send("Orders"), b"x"))

    with Wire(plain.broker_addr) as wire:
        try:
            assert denied(wire) == ""
            write(home, "plain_acl.yml", FILE.replace("Orders=PUB|SUB", "Orders=DENY"))
            until(lambda: denied(wire) == "No permission for topic:Orders")
            write(home, "plain_acl.yml", "accounts: [")
            until(lambda: "event=accounts-not-loaded" in plain.log_tail())
            assert denied(wire) == "No permission for topic:Orders"
            write(home, "acl/more.yml", f"accounts: [{{accessKey: {GHOST.access_key}, secretKey: x}}]")
            write(home, "plain_acl.yml", FILE)
            (home / "conf/acl/more.yml").unlink()
            until(lambda: denied(wire) == "")
        finally:
            write(home, "plain_acl.yml", FILE)


def test_it_cannot_be_switched_off_over_the_wire(plain: Server) -> None:
    with Wire(plain.broker_addr) as wire:
        answer = ask(wire, R.UPDATE_BROKER_CONFIG, ADMIN, {}, b"aclEnable=false\n")
        assert answer.code == ResponseCode.INVALID_PARAMETER
        listed = ask(wire, R.GET_BROKER_CONFIG, ADMIN).body.decode()
        assert "aclEnable=true\n" in listed


def test_settings_that_would_guard_less_than_they_say_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROCKETMQ_HOME", raising=False)
    with pytest.raises(UsageError, match=r"aclEnable=true: where conf/plain_acl.yml and conf/acl/ are is not known"):
        auth_settings({"aclEnable": "true"})
    both = {"aclEnable": "true", "authenticationEnabled": "true", "rocketmqHome": "/x"}
    with pytest.raises(UsageError, match="aclEnable=true and authenticationEnabled=true"):
        auth_settings(both)
    monkeypatch.setenv("ROCKETMQ_HOME", "/from/environment")
    settings = auth_settings({"aclEnable": "TRUE"})
    assert (settings.plain_home, settings.asks, settings.is_authenticating) == ("/from/environment", True, False)
    with pytest.raises(UsageError, match=r"aclEnable=true: a nameserver has no ACL 1\.0"):
        check_namesrv(settings, has_broker=False)
    config = BrokerConfig()
    config.record({"aclEnable": "true"})
    assert config.update({"maxRequestRatePerUser": "5"}) == {"maxRequestRatePerUser"}


def test_a_broker_without_its_files_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"ACL 1\.0 is asked for, and there is neither"):
        servers.standalone(tmp_path, "--set", "aclEnable=true", "--set", f"rocketmqHome={tmp_path}")


def test_accounts_are_migrated_at_the_start(home: Path, tmp_path: Path) -> None:
    settings = servers.sets(
        "migrateAuthFromV1Enabled=true", f"rocketmqHome={home}", "authenticationEnabled=true",
        "authorizationEnabled=true",
    )  # fmt: skip
    with (
        servers.standalone(tmp_path, *settings) as server,
        Wire(server.broker_addr) as wire,
    ):
        assert ask(wire, R.SEND_MESSAGE_V2, APP, send("Orders"), b"x").code == ResponseCode.TOPIC_NOT_EXIST
        assert ask(wire, R.SEND_MESSAGE_V2, APP, send("Read"), b"x").code == ResponseCode.NO_PERMISSION
        assert ask(wire, R.SEND_MESSAGE_V2, None, send("Orders"), b"x").code == ResponseCode.NO_PERMISSION
        assert ask(wire, R.AUTH_LIST_USER, ADMIN, {"filter": ""}).code == 0
