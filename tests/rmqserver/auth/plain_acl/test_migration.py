import logging
from pathlib import Path

import msgspec
import pytest

from rmqproto.errors import UsageError
from rmqproto.wire.credentials import Credentials
from rmqserver.auth.auth_table import AuthTable
from rmqserver.auth.plain_acl.migration import migrate
from tests.rmqserver.auth.plain_acl.test_plain_files import PLAIN, write


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
