"""A real Apache RocketMQ 5.5.0 with authentication and authorization, and ours: both refuse the same requests in the
same words, and serve Java's clients and mqadmin, which sign."""

import contextlib
from pathlib import Path

import pytest

from rmqadmin.core.access.foretold import AskedAction, access_question, foretell
from rmqclient.admin import AdminClient
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.wire.command import Command, encode_frame
from rmqproto.wire.credentials import Credentials
from rmqproto.wire.signing import sign
from tests.docs.compatibility import dispatch_tables
from tests.support.auth_walk import (
    ASKED_OF_HERE,
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
from tests.support.wire import Wire

from ..cluster import CLUSTER_NAME, SETTINGS, SYSTEMS, Cluster
from ..mqadmin import Mqadmin

pytestmark = pytest.mark.interop

ROOM = "org.apache.rocketmq.auth"
GUARDED = {
    **SETTINGS,
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "authenticationMetadataProvider": f"{ROOM}.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationMetadataProvider": f"{ROOM}.authorization.provider.LocalAuthorizationMetadataProvider",
    "initAuthenticationUser": f'{{"username":"{ROOT.access_key}","password":"{ROOT.secret_key}"}}',
    "innerClientAuthenticationCredentials": '{"accessKey":"inner","secretKey":"inner-secret"}',
    # The test uses this to have Apache's broker register at once.
    "authenticationWhitelist": "25",
    "authorizationWhitelist": "25",
}
CHANGING = {17, 18, 37, 370, 513, 904, *range(100, 105), *range(205, 220), *range(3001, 3011)}
"""Codes that change the broker, so users with the rights send them last."""

OPEN = {25}
"""White-listed codes."""

AT_THE_HANDLER = {
    370: "recall failed, operation is forbidden",
    3003: "username can not be blank",
    3008: "The subject is null.",
    3009: "The subject is null.",
}
"""Requests that pass the gate but say so little that the handler refuses them with the same code."""


@pytest.mark.parametrize("name", list(SYSTEMS))
def test_both_refuse_the_same_and_serve_who_signs(name: str, tmp_path: Path) -> None:
    codes = {*dispatch_tables()[0], 99_999} - OPEN
    with SYSTEMS[name](tmp_path / name, GUARDED) as system:
        with Wire(system.broker_addr) as wire:
            prepare(wire)
        found, expected = walk(system.broker_addr, codes), recorded()
        if name == "ours":
            for refused in found.values():
                for code in ASKED_OF_HERE:
                    assert refused.pop(code)
            expected = {
                who: {code: text for code, text in refused.items() if code not in ASKED_OF_HERE}
                for who, refused in expected.items()
            }
        assert found == expected
        can_is_right(system)
        with Wire(system.broker_addr) as wire:
            refused_rights = refusals(wire, sorted(codes - CHANGING), RIGHT)
        # The remaining refusals say that the topic may not be read, which one of the requests caused.
        assert {text for text in refused_rights.values() if "forbidden" not in text} == set()
        signs_and_is_served(system.namesrv_addr, tmp_path / "tools")
        assert late_refusals(system.broker_addr, codes & CHANGING) == AT_THE_HANDLER


def late_refusals(addr: str, codes: set[int]) -> dict[int, str]:
    """The refusals of the user with all rights; some of these codes end the connection. Ending a transaction is never
    answered unless it is refused."""
    found = {}
    for code in sorted(codes - {RequestCode.END_TRANSACTION}):
        with Wire(addr) as wire, contextlib.suppress(EOFError):
            found |= refusals(wire, [code], RIGHT)
    with Wire(addr) as wire:
        for user in (RIGHT, WRONG):
            sent = request_of(RequestCode.END_TRANSACTION)
            sign(sent.ext, sent.body, user)
            wire.send(encode_frame(Command(code=RequestCode.END_TRANSACTION, ext=sent.ext, body=sent.body)))
        assert (wire.receive().remark or "").startswith("User:wrong has no permission")
        sent = request_of(RequestCode.GET_MAX_OFFSET)
        sign(sent.ext, sent.body, RIGHT)
        frame = encode_frame(Command(code=RequestCode.GET_MAX_OFFSET, opaque=77, ext=sent.ext, body=sent.body))
        assert wire.exchange(frame).opaque == 77
    return found


def can_is_right(system: Cluster) -> None:
    """`acl can` foretells what either broker then does."""
    users = (ROOT, RIGHT, WRONG, NOBODY, DISABLED, Credentials("ghost", "x"))
    with AdminClient(system.namesrv_addr, ROOT) as admin, Wire(system.broker_addr) as wire:
        for user in users:
            for topic in ("T", "other", "others", "%RETRY%other"):
                question = access_question(user.access_key, AskedAction.GET, f"Topic:{topic}", "127.0.0.1")
                row = foretell(admin, system.broker_addr, question)
                fields = {"topic": topic, "queueId": "0"}
                answer = ask_as(wire, RequestCode.GET_MAX_OFFSET, fields, user=user)
                is_refused = answer.code == ResponseCode.NO_PERMISSION
                assert (row.allowed, row.why if is_refused else "") == (
                    not is_refused,
                    (answer.remark or "") * is_refused,
                )


def signs_and_is_served(namesrv_addr: str, home: Path) -> None:
    """mqadmin's producer and consumer are Java clients."""
    (home / "conf").mkdir(parents=True)
    tools = home / "conf/tools.yml"
    tools.write_text(f"accessKey: {ROOT.access_key}\nsecretKey: {ROOT.secret_key}\n")
    with Mqadmin(namesrv_addr, home) as mqadmin:
        mqadmin("updateTopic", "-c", CLUSTER_NAME, "-t", "Signed", "-r", "1", "-w", "1")
        assert "SEND_OK" in mqadmin("sendMessage", "-t", "Signed", "-p", "signed body")
        assert "signed body" in mqadmin("consumeMessage", "-t", "Signed")
        mqadmin("createUser", "-c", CLUSTER_NAME, "-u", "mallory", "-p", "mallory-secret")
        users = mqadmin("listUser", "-c", CLUSTER_NAME)
        assert all(f"{user} " in users for user in ("inner", "mallory", "nobody", "off", "right", "root", "wrong"))
        mqadmin("createAcl", "-c", CLUSTER_NAME, "-s", "User:mallory", "-r", "Topic:Signed", "-a", "Get", "-d", "Allow")
        assert "Topic:Signed" in mqadmin("getAcl", "-c", CLUSTER_NAME, "-s", "User:mallory")
    tools.write_text("accessKey: mallory\nsecretKey: mallory-secret\n")
    with Mqadmin(namesrv_addr, home) as mqadmin:
        refusal = "User:mallory has no permission to access Topic:Signed from 127.0.0.1, no matched policies."
        assert refusal in "".join(mqadmin.run("sendMessage", "-t", "Signed", "-p", "stolen"))
        assert "Topic:Signed" not in "".join(mqadmin.run("topicStatus", "-t", "Signed"))
        assert "no permission to access Cluster:DefaultCluster" in "".join(mqadmin.run("listUser", "-c", CLUSTER_NAME))
