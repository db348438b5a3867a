"""A real broker and nameserver with authentication and authorization get every request code: unsigned, badly signed,
from a user without a policy, with the wrong one and with the right one, from a disabled user and from a super user; in
all codecs."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.acl import AclEntry, AclInfo, AclPolicy, UserAccount
from rmqproto.codes import ONEWAY_FLAG, OwnRequestCode, RequestCode, ResponseCode
from rmqproto.errors import RefusedError
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command, HeaderCodec, encode_frame
from rmqproto.wire.credentials import Credentials
from rmqproto.wire.signing import sign
from rmqserver.request_needs import nothing
from rmqserver.request_rules import SERVED
from tests.docs.compatibility import dispatch_tables
from tests.support import servers
from tests.support.auth_walk import (
    ASKED_OF_HERE,
    BODIES,
    DISABLED,
    NOBODY,
    RIGHT,
    ROOT,
    WRONG,
    ask_as,
    prepare,
    recorded,
    refusals,
    request_of,
    walk,
)
from tests.support.servers import Server
from tests.support.wire import Wire

INNER = Credentials("inner", "inner-secret")

CONFIG = f"""\
authenticationEnabled=true
authorizationEnabled=true
namesrvAuthEnabled=true
initAuthenticationUser={{"username":"root","password":"{ROOT.secret_key}"}}
innerClientAuthenticationCredentials={{"accessKey":"inner","secretKey":"{INNER.secret_key}"}}
authenticationWhitelist=401,3001
authorizationWhitelist=315
"""

ENDING = {RequestCode.UPDATE_BROKER_CONFIG, RequestCode.UPDATE_NAMESRV_CONFIG, *OwnRequestCode}
"""Not sent by users who have the right: they would change the server for the tests that follow."""

SYSTEM_TOPICS = (
    "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "RMQ_SYS_TRACE_TOPIC",
    "rmq_sys_REVIVE_LOG_DefaultCluster", "rmq_sys_wheel_timer", "TBW102", "%RETRY%g", "%DLQ%g",
)  # fmt: skip

OPEN = {401, 3001}
FREE = {315}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("guarded")
    (directory / "server.conf").write_text(CONFIG)
    with servers.standalone(
        directory / "server", "--config", directory / "server.conf", "--test-requests", "on"
    ) as running:
        with Wire(running.broker_addr) as wire:
            prepare(wire)
            refusals(wire, [RequestCode.GET_MAX_OFFSET], Credentials("ghost", "x"))
        yield running
        assert running.stop() == 0, running.log_tail()
    log = running.log_file.read_text()
    assert "event=refused-request user='ghost'" in log
    assert log.count("event=refused-request") < 100  # thousands were refused
    for secret in (user.secret_key for user in (ROOT, INNER, RIGHT)):
        assert secret not in log


def grant(admin: AdminClient, server: Server, user: str, *resources: str, actions: tuple[str, ...] = ("All",)) -> None:
    entries = [AclEntry(resource=resource, actions=list(actions), decision="Allow") for resource in resources]
    admin.create_acl(server.broker_addr, AclInfo(subject=f"User:{user}", policies=[AclPolicy(entries=entries)]))


@pytest.fixture
def broker(guarded: Server) -> Iterator[Wire]:
    with Wire(guarded.broker_addr) as connection:
        yield connection


def signed(code: int, user: Credentials, body: bytes = b"") -> bytes:
    ext: dict[str, str] = {}
    sign(ext, body, user)
    return encode_frame(Command(code=code, ext=ext, body=body))


def test_requests_of_one_user_have_a_rate_and_who_only_claims_the_name_takes_none_of_it(guarded: Server) -> None:
    code = RequestCode.GET_BROKER_CLUSTER_INFO  # no handler: the answer is code 3
    claims = Credentials(WRONG.access_key, "guessed")
    with Wire(guarded.broker_addr) as wire:
        wire.send(signed(RequestCode.UPDATE_BROKER_CONFIG, ROOT, b"maxRequestRatePerUser=0;wrong=1\n"))
        assert wire.receive().code == 0
        wire.send(signed(code, claims) * 10)
        assert {wire.receive().code for _ in range(10)} == {ResponseCode.NO_PERMISSION}
        wire.send(signed(code, WRONG) * 10)
        codes = [wire.receive().code for _ in range(10)]
        assert codes[0] == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert set(codes[1:]) >= {ResponseCode.SYSTEM_BUSY}
        wire.send(signed(code, ROOT) * 10)
        assert {wire.receive().code for _ in range(10)} == {ResponseCode.REQUEST_CODE_NOT_SUPPORTED}
        wire.send(signed(RequestCode.UPDATE_BROKER_CONFIG, ROOT, b"maxRequestRatePerUser=0\n"))
        assert wire.receive().code == 0


NEEDS_NOTHING = {code for code, need in SERVED.items() if need.pairs is nothing}


BROKER = sorted(dispatch_tables()[0] | set(OwnRequestCode))
NAMESRV = sorted(dispatch_tables()[1])


def test_each_is_refused_what_apache_refuses_in_its_words(guarded: Server) -> None:
    """Except codes that are on a white list here, and those for which Apache requires too little."""
    apart = OPEN | FREE | ENDING | ASKED_OF_HERE
    codes = {*BROKER, 99_999} - apart
    theirs = {name: {code: text for code, text in found.items() if code in codes} for name, found in recorded().items()}
    assert walk(guarded.broker_addr, codes) == theirs


@pytest.mark.parametrize("codes", [BROKER, NAMESRV], ids=["broker", "namesrv"])
def test_no_code_passes_without_a_user(guarded: Server, codes: list[int]) -> None:
    addr = guarded.broker_addr if codes is BROKER else guarded.namesrv_addr
    closed = {*codes, 99_999} - (OPEN - {3001})  # 401 needs no right, but 3001 does
    with Wire(addr) as wire:
        every = [*codes, 99_999]
        unsigned = refusals(wire, every, None)
        assert unsigned.keys() == closed
        remarks = {code: "username cannot be null." for code in closed - OPEN}
        assert {code: remark for code, remark in unsigned.items() if code not in OPEN} == remarks
        for user, remark in (
            (Credentials("right", "guessed"), "check signature failed."),
            (Credentials("ghost", "x"), "User:ghost is not found."),
            (DISABLED, "User:off is disabled."),
        ):
            found = refusals(wire, every, user)
            assert found.keys() == closed
            assert {text for code, text in found.items() if code not in OPEN} == {remark}


@pytest.mark.parametrize("codes", [BROKER, NAMESRV], ids=["broker", "namesrv"])
@pytest.mark.parametrize("user", [NOBODY, WRONG], ids=["no policy", "the wrong policy"])
def test_a_user_without_the_right_is_refused_what_needs_one(
    guarded: Server, codes: list[int], user: Credentials
) -> None:
    addr = guarded.broker_addr if codes is BROKER else guarded.namesrv_addr
    walked = [code for code in codes if code not in ENDING]
    asks_nothing = NEEDS_NOTHING | FREE
    with Wire(addr) as wire:
        found = refusals(wire, walked, user)
    assert {*walked} - found.keys() == asks_nothing & {*walked}
    for code, remark in found.items():
        assert remark.startswith(f"User:{user.access_key} has no permission to access "), code
        assert remark.endswith(" from 127.0.0.1, no matched policies."), code


@pytest.mark.parametrize("codes", [BROKER, NAMESRV], ids=["broker", "namesrv"])
@pytest.mark.parametrize("user", [RIGHT, ROOT], ids=["the right policy", "super"])
def test_a_user_with_the_right_is_served(guarded: Server, codes: list[int], user: Credentials) -> None:
    addr = guarded.broker_addr if codes is BROKER else guarded.namesrv_addr
    leave_alone = {*ENDING, *range(100, 105), *range(205, 220), *range(3001, 3011), 904}
    leave_alone |= {17, 37, 370}  # 17 makes a topic that nobody may read, 37 is never answered, 370 is forbidden to all
    with Wire(addr) as wire:
        assert refusals(wire, [code for code in codes if code not in leave_alone], user) == {}


@pytest.mark.parametrize("codec", list(HeaderCodec))
def test_every_codec_meets_the_gate(broker: Wire, codec: HeaderCodec) -> None:
    ext = {"topic": "T", "queueId": "0"}
    code = RequestCode.GET_MAX_OFFSET
    assert ask_as(broker, code, ext, codec=codec).code == ResponseCode.NO_PERMISSION
    assert ask_as(broker, code, ext, user=NOBODY, codec=codec).code == ResponseCode.NO_PERMISSION
    assert ask_as(broker, code, ext, user=RIGHT, codec=codec).code == 0


def test_a_spelling_that_leaves_the_typed_way_meets_the_gate(broker: Wire) -> None:
    """Keys in another order, numbers as values, ext fields twice: the gate judges the values that the handler uses."""
    ext: dict[str, str] = {"topic": "T", "queueId": "0"}
    sign(ext, b"", RIGHT)
    own = ext | {"queueId": 0}
    header = json.dumps({"flag": 0, "opaque": 1, "extFields": own, "code": 30}).encode()
    assert broker.exchange(_frame(header)).code == 0
    forged = b'{"code":30,"opaque":1,"extFields":%b,"extFields":{"topic":"T","queueId":"0"}}' % json.dumps(ext).encode()
    assert broker.exchange(_frame(forged)).code == ResponseCode.NO_PERMISSION
    twice = json.dumps(ext).replace('"topic": "T"', '"topic": "T", "topic": "U"').encode()
    assert broker.exchange(_frame(b'{"code":30,"opaque":1,"extFields":%b}' % twice)).remark == "check signature failed."


def _frame(header: bytes, body: bytes = b"") -> bytes:
    return (4 + len(header) + len(body)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header + body


def test_two_codes_in_one_header_are_judged_by_the_one_that_is_served(broker: Wire) -> None:
    ext: dict[str, str] = {"topic": "T"}
    sign(ext, b"", NOBODY)
    header = b'{"code":46,"opaque":1,"extFields":%b,"code":215}' % json.dumps(ext).encode()
    answer = broker.exchange(_frame(header))
    assert (answer.code, "Topic:T" in (answer.remark or "")) == (ResponseCode.NO_PERMISSION, True)


def test_a_oneway_request_of_nobody_does_nothing(guarded: Server, broker: Wire) -> None:
    for user in (None, NOBODY):
        ext = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "5"}
        if user is not None:
            sign(ext, b"", user)
        frame = encode_frame(Command(code=RequestCode.UPDATE_CONSUMER_OFFSET, flag=ONEWAY_FLAG, ext=ext))
        with Wire(guarded.broker_addr) as stranger:
            stranger.send(frame)
            assert ask_as(stranger, RequestCode.GET_BROKER_RUNTIME_INFO, {}, user=RIGHT).code == 0  # comes after it
    asked = {"consumerGroup": "g", "topic": "T", "queueId": "0"}
    assert ask_as(broker, RequestCode.QUERY_CONSUMER_OFFSET, asked, user=RIGHT).code == ResponseCode.QUERY_NOT_FOUND


def test_a_batch_in_one_frame_and_a_heartbeat_that_subscribes_need_their_topics(broker: Wire) -> None:
    short = {name: "0" for name in "defghj"} | {"a": "p", "c": "TBW102", "i": "", "b": "T", "m": "true", "k": "false"}
    for code in (RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2):
        assert "Topic:T" in (ask_as(broker, code, short, b"", NOBODY).remark or "")
    answer = ask_as(broker, RequestCode.HEART_BEAT, {}, BODIES[34], NOBODY)
    assert (answer.code, "Group:g" in (answer.remark or "")) == (ResponseCode.NO_PERMISSION, True)
    broken = ask_as(broker, RequestCode.HEART_BEAT, {}, b"{", NOBODY)
    assert (broken.code, broken.remark) == (ResponseCode.NO_PERMISSION, "parse authorization context error.")


@pytest.mark.parametrize("code", [11, 361, 200050, 200151, 12, 29, 30, 31, 33, 39, 309, 200052], ids=str)
def test_system_topics_are_nobodys_but_whose_policy_names_them(broker: Wire, code: int) -> None:
    """System topics hold others' messages: delayed messages, half messages, popped messages, and traces."""
    for topic in SYSTEM_TOPICS:
        sent = request_of(code)
        names: dict[str, str] = {name: topic for name in ("topic", "t") if name in sent.ext}
        body = sent.body.replace(b'"t": "T"', f'"t": "{topic}"'.encode())
        answer = ask_as(broker, code, {**sent.ext, **names}, body, WRONG)
        assert answer.code == ResponseCode.NO_PERMISSION, (topic, answer.remark)


def test_offsets_of_others_groups_are_not_reset(broker: Wire) -> None:
    """Neither on one's own topic, nor for one's own group on others' topics."""
    for topic, group in (("T", "g"), ("other", "g"), ("T", "other")):
        fields = {"topic": topic, "group": group, "timestamp": "0", "isForce": "true"}
        answer = ask_as(broker, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields, user=WRONG)
        assert answer.code == ResponseCode.NO_PERMISSION, (topic, group)
        fields = {"topic": topic, "consumerGroup": group, "queueId": "0", "commitOffset": "0"}
        answer = ask_as(broker, RequestCode.UPDATE_CONSUMER_OFFSET, fields, user=WRONG)
        assert answer.code == ResponseCode.NO_PERMISSION, (topic, group)


def test_ext_fields_that_do_not_fit_are_nobodys(broker: Wire) -> None:
    answer = ask_as(broker, RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": "x"}, user=NOBODY)
    assert (answer.code, answer.remark) == (ResponseCode.NO_PERMISSION, "parse authorization context error.")


def test_a_code_that_needs_no_signature_gives_nobody_the_rights_of_its_name(broker: Wire) -> None:
    """3001 is on the authentication white list here."""
    body = fastjson.dumps(UserAccount(username="mallory", password="x", user_type="Super"))
    for user in (None, Credentials("root", "guessed")):
        answer = ask_as(broker, RequestCode.AUTH_CREATE_USER, {"username": "mallory"}, body, user)
        assert (answer.code, "Authorization failed" in (answer.remark or "")) == (ResponseCode.NO_PERMISSION, True)
    answer = ask_as(broker, RequestCode.AUTH_CREATE_USER, {"username": "mallory"}, body, RIGHT)
    assert (answer.code, answer.remark) == (1, "The super user can only be create by super user")


def test_a_change_counts_from_the_next_request_on(guarded: Server, broker: Wire) -> None:
    late = Credentials("late", "late-secret")
    ext = {"topic": "T", "queueId": "0"}

    def max_offset() -> tuple[int, str]:
        answer = ask_as(broker, RequestCode.GET_MAX_OFFSET, ext, user=late)
        return answer.code, answer.remark or ""

    with AdminClient(guarded.namesrv_addr, ROOT) as admin:
        addr = guarded.broker_addr
        assert max_offset()[1] == "User:late is not found."
        admin.create_user(addr, UserAccount(username="late", password="late-secret"))
        assert "no matched policies" in max_offset()[1]
        grant(admin, guarded, "late", "Topic:T", actions=("Get",))
        assert max_offset()[0] == 0
        admin.create_acl(
            addr,
            AclInfo(
                subject="User:late",
                policies=[AclPolicy(entries=[AclEntry(resource="Topic:T", actions=["Get"], decision="Deny")])],
            ),
        )
        assert max_offset()[1].endswith("the decision is deny.")
        grant(admin, guarded, "late", "Topic:T", actions=("Get",))
        admin.update_user(addr, UserAccount(username="late", password="changed"))
        assert max_offset()[1] == "check signature failed."
        admin.update_user(addr, UserAccount(username="late", password="late-secret", user_status="disable"))
        assert max_offset()[1] == "User:late is disabled."
        admin.delete_user(addr, "late")
        assert max_offset()[1] == "User:late is not found."


def test_an_entry_holds_for_its_addresses(guarded: Server, broker: Wire) -> None:
    near = Credentials("near", "near-secret")
    with AdminClient(guarded.namesrv_addr, ROOT) as admin:
        admin.create_user(guarded.broker_addr, UserAccount(username="near", password=near.secret_key))
        for source_ips, served in ((["10.0.0.0/8"], False), (["10.0.0.0/8", "127.0.0.0/8"], True)):
            entry = AclEntry(resource="Topic:*", actions=["Get"], decision="Allow", source_ips=source_ips)
            admin.update_acl(guarded.broker_addr, AclInfo(subject="User:near", policies=[AclPolicy(entries=[entry])]))
            answer = ask_as(broker, RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"}, user=near)
            assert (answer.code == 0) is served


def test_only_a_super_user_touches_a_super_user(broker: Wire) -> None:
    for code, body in ((RequestCode.AUTH_UPDATE_USER, b'{"password":"mine"}'), (RequestCode.AUTH_DELETE_USER, b"")):
        answer = ask_as(broker, code, {"username": "root"}, body, RIGHT)
        assert (answer.code, answer.remark) == (16, "The super user can only be update by super user")
    answer = ask_as(broker, RequestCode.AUTH_UPDATE_USER, {"username": "right"}, b'{"userType":"Super"}', RIGHT)
    assert (answer.code, answer.remark) == (1, "The super user can only be update by super user")


def test_a_request_cannot_say_by_itself_that_it_was_judged(broker: Wire) -> None:
    """The peer sends members that our own request objects have."""
    ext = json.dumps({"topic": "T", "queueId": "0"}).encode()
    header = b'{"code":30,"opaque":1,"extFields":%b,"codec":0,"user":"root","ext":{}}' % ext
    assert broker.exchange(_frame(header)).code == ResponseCode.NO_PERMISSION


def test_faults_do_not_open_the_gate(guarded: Server, broker: Wire) -> None:
    rules = b'{"rules":["GET_MAX_OFFSET:delay=1ms"]}'
    ext = {"topic": "T", "queueId": "0"}
    for user in (None, NOBODY):
        assert ask_as(broker, OwnRequestCode.SET_FAULTS, {}, rules, user).code == ResponseCode.NO_PERMISSION
    assert ask_as(broker, OwnRequestCode.SET_FAULTS, {}, rules, ROOT).code == 0
    try:
        for user in (None, NOBODY):
            assert ask_as(broker, RequestCode.GET_MAX_OFFSET, ext, user=user).code == ResponseCode.NO_PERMISSION
        assert ask_as(broker, RequestCode.GET_MAX_OFFSET, ext, user=RIGHT).code == 0
    finally:
        assert ask_as(broker, OwnRequestCode.SET_FAULTS, {}, b'{"rules":[]}', ROOT).code == 0


def test_secrets_are_not_among_the_settings(broker: Wire) -> None:
    answer = ask_as(broker, RequestCode.GET_BROKER_CONFIG, {}, user=ROOT)
    text = answer.body.decode()
    assert "authenticationEnabled=true" in text
    assert "secret" not in text.lower()


def test_the_guard_cannot_be_switched_off_over_the_wire(broker: Wire) -> None:
    for line in (
        b"authenticationEnabled=false\n",
        b"authorizationWhitelist=3001\n",
        b"authorizationStrictEnabled=true\n",
    ):
        answer = ask_as(broker, RequestCode.UPDATE_BROKER_CONFIG, {}, line, ROOT)
        assert (answer.code, "when the server starts" in (answer.remark or "")) == (
            ResponseCode.INVALID_PARAMETER,
            True,
        )


def test_the_users_survive_kill(tmp_path: Path) -> None:
    config = tmp_path / "server.conf"
    config.write_text(CONFIG.replace("namesrvAuthEnabled=true\n", ""))
    running = servers.standalone(tmp_path / "server", "--config", config)
    with AdminClient(running.namesrv_addr, ROOT) as admin:
        admin.create_user(running.broker_addr, UserAccount(username="kept", password="kept-secret"))
        admin.update_user(running.broker_addr, UserAccount(username="root", password="changed"))
    running.stop(signal.SIGKILL)
    with servers.standalone(tmp_path / "server", "--config", config) as again, Wire(again.broker_addr) as wire:
        header = {"username": "kept"}
        assert ask_as(wire, RequestCode.AUTH_GET_USER, header, user=ROOT).remark == "check signature failed."
        answer = ask_as(wire, RequestCode.AUTH_GET_USER, header, user=Credentials("root", "changed"))
        assert fastjson.loads_untrusted(answer.body, UserAccount).password == "kept-secret"
        assert ask_as(wire, RequestCode.AUTH_GET_USER, header).code == ResponseCode.NO_PERMISSION
        with AdminClient(again.namesrv_addr) as stranger:  # like Apache's, this nameserver asks for no signature
            assert again.broker_addr in str(stranger.cluster_info())
            with pytest.raises(RefusedError, match="username cannot be null"):
                stranger.users(again.broker_addr)
