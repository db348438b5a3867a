"""Users and policies as tools change them, and requests that nobody knows, as Apache's broker answers them."""

from __future__ import annotations

import pytest

from rmqproto.bodies.acl import AclEntry, AclInfo, AclPolicy, UserAccount
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers.tables import SubjectHeader, UserHeader
from rmqproto.wire import fastjson
from tests.rmqserver.broker.golden_play import play
from tests.support.golden import exchange, names
from tests.support.wire import Wire


@pytest.fixture(scope="module")
def others(admin: Wire) -> None:
    """The recorded broker's other users, beside the one in the exchanges."""
    for name, password, user_type in (("carol", "x", None), ("root", "root-password", "Super"), ("bob", "b", None)):
        body = fastjson.dumps(UserAccount(username=name, password=password, user_type=user_type))
        assert admin.ask(RequestCode.AUTH_CREATE_USER, UserHeader(username=name), body).code == 0
    entry = AclEntry(resource="Topic:*", actions=["All"], decision="Allow")
    body = fastjson.dumps(AclInfo(subject="User:root", policies=[AclPolicy(entries=[entry])]))
    assert admin.ask(RequestCode.AUTH_CREATE_ACL, SubjectHeader(subject="User:root"), body).code == 0
    assert play(admin, "3009-AUTH_GET_ACL/03")["body"] == b""  # bob belonged to another recording
    assert admin.ask(RequestCode.AUTH_DELETE_USER, UserHeader(username="bob")).code == 0


def test_users_and_policies(admin: Wire, others: None) -> None:
    for name in (
        "3001-AUTH_CREATE_USER/01", "3001-AUTH_CREATE_USER/02", "3004-AUTH_GET_USER/01", "3004-AUTH_GET_USER/02",
        "3005-AUTH_LIST_USER/01", "3005-AUTH_LIST_USER/02", "3005-AUTH_LIST_USER/03", "3002-AUTH_UPDATE_USER/01",
        "3002-AUTH_UPDATE_USER/02", "3006-AUTH_CREATE_ACL/01", "3006-AUTH_CREATE_ACL/02", "3006-AUTH_CREATE_ACL/03",
        "3009-AUTH_GET_ACL/01", "3009-AUTH_GET_ACL/02", "3010-AUTH_LIST_ACL/01", "3010-AUTH_LIST_ACL/02",
        "3010-AUTH_LIST_ACL/03", "3007-AUTH_UPDATE_ACL/01", "3008-AUTH_DELETE_ACL/01", "3008-AUTH_DELETE_ACL/02",
        "3008-AUTH_DELETE_ACL/03", "3003-AUTH_DELETE_USER/01",
    ):  # fmt: skip
        play(admin, name)


def is_unknown(name: str) -> bool:
    answer = exchange(name).recorded_answer
    return answer is not None and answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


@pytest.mark.parametrize("name", [name for name in names() if is_unknown(name)])
def test_unknown_to_both(admin: Wire, name: str) -> None:
    play(admin, name)
