"""Users and ACLs: what is planned, what is kept, and that no password is shown."""

import io
import json
from typing import Any

import pytest

from rmqproto.bodies.acl import AclEntry, AclInfo, AclPolicy, UserAccount
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command
from tests.rmqadmin.conftest import Rmqadmin
from tests.support.replayed import Replayed


class AccessKeeper:
    """Answers like a broker that keeps users and ACLs, and changes them."""

    def __init__(self) -> None:
        self.users = {"alice": UserAccount(username="alice", password="alice-password", user_type="Normal")}
        entry = AclEntry(actions=["Pub"], decision="Allow", resource="Topic:T")
        self.acls = {"User:alice": AclInfo(subject="User:alice", policies=[AclPolicy(entries=[entry])])}

    def __call__(self, request: Command) -> Command | None:
        match request.code:
            case RequestCode.AUTH_LIST_USER:
                return _answer(list(self.users.values()))
            case RequestCode.AUTH_GET_USER:
                return _answer(self.users.get(request.ext["username"]))
            case RequestCode.AUTH_CREATE_USER | RequestCode.AUTH_UPDATE_USER:
                account = fastjson.loads_untrusted(request.body, UserAccount)
                self.users[account.username] = account
            case RequestCode.AUTH_DELETE_USER:
                self.users.pop(request.ext["username"], None)
            case RequestCode.AUTH_LIST_ACL:
                return _answer(list(self.acls.values()))
            case RequestCode.AUTH_GET_ACL:
                return _answer(self.acls.get(request.ext["subject"]))
            case RequestCode.AUTH_CREATE_ACL | RequestCode.AUTH_UPDATE_ACL:
                acl = fastjson.loads_untrusted(request.body, AclInfo)
                self.acls[acl.subject] = acl
            case _:
                return None
        return _answer(None)


def _answer(body: Any) -> Command:
    return Command(code=0, body=fastjson.dumps(body) if body else b"")


def test_a_user_is_planned_without_its_password_and_then_created(rmqadmin: Rmqadmin) -> None:
    keeper = AccessKeeper()
    with Replayed(answers=[keeper]) as broker:
        n = ("-n", broker.address)
        command = ("-o", "json", "createUser", "-c", "DefaultCluster", "-u", "bob", "-p", "secret", "-t", "super", *n)
        planned = rmqadmin(*command, "--dry-run")
        assert (planned.items[0]["action"], planned.items[0]["done"]) == ("create", False)
        assert "secret" not in planned.out
        assert "bob" not in keeper.users
        assert rmqadmin(*command).items[0]["done"] is True
        assert (keeper.users["bob"].password, keeper.users["bob"].user_type) == ("secret", "Super")


def test_an_update_changes_one_thing_and_says_what_it_was(rmqadmin: Rmqadmin) -> None:
    with Replayed(answers=[AccessKeeper()]) as broker:
        command = ("-o", "json", "updateUser", "-b", broker.address, "-u", "alice", "-n", broker.address)
        (row,) = rmqadmin(*command, "-t", "Super", "--dry-run").items
        assert row["changes"] == [{"field": "user_type", "before": "Normal", "after": "Super"}]
        (row,) = rmqadmin(*command, "-p", "alice-password", "--dry-run").items
        assert row["action"] == "keep"
        assert rmqadmin(*command, "-p", "x", "-t", "Super").status == 2


def test_a_password_comes_from_standard_input_or_is_asked_for(
    rmqadmin: Rmqadmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a password is in no list of processes."""
    keeper = AccessKeeper()
    with Replayed(answers=[keeper]) as broker:
        where = ("-b", broker.address, "-n", broker.address)
        monkeypatch.setattr("sys.stdin", io.StringIO("from a pipe\nanother line\n"))
        assert rmqadmin("createUser", "-u", "bob", "--password-stdin", *where).status == 0
        assert keeper.users["bob"].password == "from a pipe"
        monkeypatch.setattr("sys.stdin", io.StringIO("changed\n"))
        assert rmqadmin("updateUser", "-u", "bob", "--password-stdin", *where).status == 0
        assert keeper.users["bob"].password == "changed"
        for words, said in (
            (("updateUser", "-u", "bob", "--password-stdin"), "the password is empty"),
            (("updateUser", "-u", "bob", "--password-stdin", "-p", "x"), "give -p or --password-stdin, not both"),
            (("createUser", "-u", "eve"), "Missing required option: -p/--password"),
        ):
            monkeypatch.setattr("sys.stdin", io.StringIO(""))
            ran = rmqadmin(*words, *where)
            assert (ran.status, said in ran.err) == (2, True), ran.err
        typed = iter(["typed", "typed", "one", "another"])
        monkeypatch.setattr("rmqadmin.cli.call.Call.can_ask", True)
        monkeypatch.setattr("rmqadmin.commands.users.getpass", lambda prompt: next(typed))
        assert rmqadmin("createUser", "-u", "eve", *where).status == 0
        assert keeper.users["eve"].password == "typed"
        ran = rmqadmin("createUser", "-u", "mallory", *where)
        assert (ran.status, "the two passwords differ" in ran.err) == (2, True)
        assert "mallory" not in keeper.users


def test_users_are_copied_with_their_passwords_and_listed_without(rmqadmin: Rmqadmin) -> None:
    source, target = AccessKeeper(), AccessKeeper()
    target.users.clear()
    with Replayed(answers=[source]) as one, Replayed(answers=[target]) as other:
        n = ("-n", one.address)
        copied = rmqadmin("-o", "json", "copyUser", "-f", one.address, "-t", other.address, *n)
        assert [(row["target"], row["action"]) for row in copied.items] == [(f"{other.address} alice", "create")]
        assert target.users["alice"].password == "alice-password"
        for command in (("listUser",), ("getUser", "-u", "alice")):
            for format in ("json", "wide", "csv"):
                ran = rmqadmin(*command, "-b", other.address, "--output", format, *n)
                assert "alice" in ran.out
                assert "alice-password" not in ran.out
        assert rmqadmin("copyUser", "-f", one.address, "-t", other.address, "-u", "bob", *n).status == 5


def test_an_unknown_user_is_not_there_to_be_shown_or_deleted(rmqadmin: Rmqadmin) -> None:
    with Replayed(answers=[AccessKeeper()]) as broker:
        args = ("-b", broker.address, "-u", "nobody", "-n", broker.address)
        assert rmqadmin("getUser", *args).status == 5
        assert rmqadmin("deleteUser", *args).status == 5
        assert rmqadmin("deleteUser", *args, "--if-exists").status == 0
        assert rmqadmin("deleteUser", *args, "--output", "mqadmin").out == f"delete user to {broker.address} success.\n"


def test_entries_of_an_acl_are_planned_resource_by_resource(rmqadmin: Rmqadmin) -> None:
    keeper = AccessKeeper()
    with Replayed(answers=[keeper]) as broker:
        n = ("-n", broker.address, "-b", broker.address)
        command = ("createAcl", "-s", "User:alice", "-r", "Topic:T,Group:G", "-a", "Pub,Sub", "-d", "deny", *n)
        (row,) = rmqadmin("-o", "json", *command, "--dry-run").items
        assert row["changes"] == [
            {"field": "Topic:T", "before": "Allow Pub", "after": "Deny Pub,Sub"},
            {"field": "Group:G", "before": None, "after": "Deny Pub,Sub"},
        ]
        assert rmqadmin(*command, "-i", "10.0.0.0/8").status == 0
        entry = keeper.acls["User:alice"].policies[0].entries[1]
        assert (entry.resource, entry.decision, entry.source_ips) == ("Group:G", "Deny", ["10.0.0.0/8"])
        (row,) = rmqadmin("-o", "json", "deleteAcl", "-s", "User:alice", "-r", "Group:G", *n, "--dry-run").items
        assert row["changes"] == [{"field": "Group:G", "before": "Deny Pub,Sub from 10.0.0.0/8", "after": None}]
        assert rmqadmin("createAcl", "-s", "User:alice", "-r", ",", "-a", "Pub", "-d", "Allow", *n).status == 2
        misspelled = rmqadmin("updateAcl", "-s", "User:alice", "-r", "Topic:T", "-a", "Pub,Sbu", "-d", "Allow", *n)
        assert (misspelled.status, "Sbu is not an action" in misspelled.err) == (2, True)


def test_an_acl_is_copied_to_another_broker(rmqadmin: Rmqadmin) -> None:
    source, target = AccessKeeper(), AccessKeeper()
    target.acls.clear()
    with Replayed(answers=[source]) as one, Replayed(answers=[target]) as other:
        args = ("-f", one.address, "-t", other.address, "-n", one.address, "--output", "mqadmin")
        said = f"copy acl of User:alice from {one.address} to {other.address} success.\n"
        assert rmqadmin("copyAcl", *args).out == said
        assert target.acls == source.acls
        assert RequestCode.AUTH_CREATE_ACL in other.codes()
        assert rmqadmin("copyAcl", *args, "-s", "User:alice").out == said
        assert RequestCode.AUTH_UPDATE_ACL in other.codes()


@pytest.mark.parametrize("command", ["copyAcl", "copyUser"])
def test_the_broker_copied_to_is_asked_even_if_there_is_nothing_to_copy(rmqadmin: Rmqadmin, command: str) -> None:
    """A wrong address ended with status 0 and an empty table."""
    empty = AccessKeeper()
    empty.users.clear()
    empty.acls.clear()
    with Replayed(answers=[empty]) as one, Replayed(answers=[AccessKeeper()]) as other:
        assert rmqadmin(command, "-f", one.address, "-t", "127.0.0.1:1", "-n", one.address).status == 3
        ran = rmqadmin(command, "-f", one.address, "-t", other.address, "-n", one.address)
        assert (ran.status, f"to copy on {one.address}" in ran.err) == (0, True), ran.err


def test_an_acl_that_cannot_be_copied_does_not_keep_the_others(rmqadmin: Rmqadmin) -> None:
    """The first user that was missing on the other broker ended the whole copy."""
    source = AccessKeeper()
    source.acls = {f"User:{name}": AclInfo(subject=f"User:{name}") for name in ("missing", "alice")}
    target = AccessKeeper()
    target.acls.clear()

    def unknown(request: Command) -> Command | None:
        is_missing = request.code == RequestCode.AUTH_GET_ACL and request.ext["subject"] == "User:missing"
        return Command(code=ResponseCode.NO_PERMISSION, remark="The subject is not exist.") if is_missing else None

    with Replayed(answers=[source]) as one, Replayed(answers=[unknown, target]) as other:
        ran = rmqadmin("-o", "json", "copyAcl", "-f", one.address, "-t", other.address, "-n", one.address, status=1)
        assert [(row["action"], row["done"]) for row in ran.items] == [("refused", False), ("create", True)]
        assert list(target.acls) == ["User:alice"]


def test_each_master_has_its_rows(rmqadmin: Rmqadmin) -> None:
    with Replayed(answers=[AccessKeeper()]) as broker:
        (row,) = rmqadmin("-o", "json", "listAcl", "-c", "DefaultCluster", "-n", broker.address).items
        assert (row["subject"], row["actions"], row["broker_addr"]) == ("User:alice", ["Pub"], broker.address)
        assert json.dumps(row)
