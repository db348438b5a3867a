import logging
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.errors import UsageError
from rmqproto.headers.base import to_ext
from rmqproto.headers.sending import SendHeaderV2
from rmqproto.wire.command import Command, encode_frame
from rmqproto.wire.credentials import Credentials
from rmqproto.wire.signing import sign
from rmqserver.auth.auth_settings import auth_settings, check_namesrv
from rmqserver.auth.auth_table import AuthTable
from rmqserver.auth.plain_migration import migrate
from tests.rmqserver.auth.test_plain_accounts import PLAIN, write
from tests.support import servers
from tests.support.wire import Wire


def test_accounts_become_users_and_policies_as_with_apache(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, "plain_acl.yml", PLAIN)
    table = AuthTable(None)
    table.init_super_user(Credentials("operator", "its-own"))
    with caplog.at_level(logging.INFO):
        migrate(str(tmp_path), table)
    users = {user.name: (user.type.value, user.password) for user in table.users("")}
    assert users == {"operator": ("Super", "its-own"), "orders-app": ("Normal", "0123456789")}  # operator was there
    acl = table.acl("User:orders-app")
    assert acl is not None

    def entry(resource: str, decision: str, *actions: str) -> dict[str, object]:
        return {"actions": list(actions), "decision": decision, "resource": resource, "sourceIps": None}

    assert msgspec.to_builtins(acl.body("User:orders-app"))["policies"] == [
        {
            "policyType": "Custom",
            "entries": [
                entry("Topic:orders", "Allow", "Pub", "Sub"),
                entry("Topic:audit", "Deny", "All"),
                entry("Group:orders-reader", "Allow", "Sub"),
            ],
        },
        {"policyType": "Default", "entries": [entry("Topic:*", "Deny", "All"), entry("Group:*", "Allow", "Sub")]},
    ]
    assert table.acl("User:operator") is None
    assert "event=accounts-migrated users=orders-app" in caplog.text
    assert "event=white-address-not-migrated access_key=*" in caplog.text
    assert "0123456789" not in caplog.text
    before = table.users("")
    migrate(str(tmp_path), table)
    assert table.users("") == before


def test_files_that_cannot_be_used_migrate_nothing(tmp_path: Path) -> None:
    write(tmp_path, "plain_acl.yml", PLAIN + "more: 1\n")
    table = AuthTable(None)
    with pytest.raises(UsageError, match="'more' is none of"):
        migrate(str(tmp_path), table)
    assert table.users("") == []


def answer_code(wire: Wire, code: int, user: Credentials | None, ext: Mapping[str, str], body: bytes = b"") -> int:
    fields = dict(ext)
    if user is not None:
        sign(fields, body, user)
    wire.send(encode_frame(Command(code=code, ext=fields, body=body)))
    return wire.receive().code


def test_clients_sign_as_before_when_their_accounts_became_users(tmp_path: Path) -> None:
    write(tmp_path, "plain_acl.yml", PLAIN)
    app, operator = Credentials("orders-app", "0123456789"), Credentials("operator", "12345678")
    orders, audit = (
        to_ext(SendHeaderV2(producer_group="p", topic=topic, queue_id=0, born_timestamp=1))
        for topic in ("orders", "audit")
    )
    settings = ("migrateAuthFromV1Enabled=true", f"rocketmqHome={tmp_path}", "authenticationEnabled=true",
                "authorizationEnabled=true")  # fmt: skip
    with (
        servers.standalone(tmp_path, *(part for each in settings for part in ("--set", each))) as server,
        Wire(server.broker_addr) as wire,
    ):
        assert answer_code(wire, R.SEND_MESSAGE_V2, app, orders, b"x") == ResponseCode.TOPIC_NOT_EXIST
        assert answer_code(wire, R.SEND_MESSAGE_V2, app, audit, b"x") == ResponseCode.NO_PERMISSION
        assert answer_code(wire, R.SEND_MESSAGE_V2, None, orders, b"x") == ResponseCode.NO_PERMISSION
        assert answer_code(wire, R.AUTH_LIST_USER, operator, {"filter": ""}) == 0


def test_acl_1_itself_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"^aclEnable=true: no broker from 5\.3\.3 on enforces ACL 1\.0") as caught:
        auth_settings({"aclEnable": "TRUE", "rocketmqHome": "/x"})
    assert "migrateAuthFromV1Enabled=true" in (caught.value.hint or "")
    monkeypatch.setenv("ROCKETMQ_HOME", "/from/environment")
    settings = auth_settings({"migrateAuthFromV1Enabled": "true"})
    assert settings.plain_home == "/from/environment"
    with pytest.raises(UsageError, match=r"migrateAuthFromV1Enabled=true: a nameserver has no ACL 1\.0"):
        check_namesrv(settings, has_broker=False)
