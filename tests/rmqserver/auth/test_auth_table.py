"""The file of users and policies: what a broker loads from it, who may read it, and what is refused."""

import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rmqproto.access.users import parse_subject
from rmqproto.bodies.acl import AclEntry, AclInfo, AclPolicy, UserAccount
from rmqproto.errors import StorageError
from rmqproto.wire.credentials import Credentials
from rmqserver.auth.auth_table import FILE_NAME, NAME_MAX_CHARS, AuthRefused, AuthTable
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.disk.disk import OsDisk

Open = Callable[[], AuthTable]


@pytest.fixture
def open_table(tmp_path: Path) -> Iterator[Open]:
    """Each call starts a broker on the same store, after the one before has ended."""
    opened: list[ConfigFiles] = []

    def open_again() -> AuthTable:
        for files in opened:
            files.close()
        opened[:] = [ConfigFiles(str(tmp_path), OsDisk())]
        table = AuthTable(opened[0])
        table.load()
        return table

    yield open_again
    for files in opened:
        files.close()


def account(name: str, **more: str) -> UserAccount:
    return UserAccount(username=name, **({"password": "secret"} | more))


def acl(subject: str, *resources: str, decision: str = "Allow") -> AclInfo:
    entries = [AclEntry(resource=resource, actions=["Pub"], decision=decision) for resource in resources]
    return AclInfo(subject=subject, policies=[AclPolicy(entries=entries)])


def test_a_restarted_broker_knows_them(open_table: Open) -> None:
    table = open_table()
    table.create_user(account("alice", user_type="Super", user_status="disable"))
    table.create_user(account("bob", user_type="Wrong"))
    table.put_acl("User:bob", acl("User:bob", "Topic:T", "Group:g*"))
    again = open_table()
    assert again.users("") == table.users("")
    assert [(user.name, user.type.value, user.status.value) for user in again.users("")] == [
        ("alice", "Super", "disable"), ("bob", "Normal", "enable"),
    ]  # fmt: skip
    found = again.acl("User:bob")
    assert [entry.resource for entry in found.body("User:bob").policies[0].entries] == ["Topic:T", "Group:g*"]


def test_only_its_owner_may_read_the_file_and_its_copies(open_table: Open, tmp_path: Path) -> None:
    table = open_table()
    for name in ("a", "b", "c"):
        table.create_user(account(name))
    open_table()
    files = sorted(tmp_path.iterdir())
    assert {file.name for file in files} == {FILE_NAME, f"{FILE_NAME}.bak"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_a_change_is_with_the_kernel_when_it_returns(open_table: Open, tmp_path: Path) -> None:
    table = open_table()
    table.create_user(account("alice"))
    assert b'"alice"' in (tmp_path / FILE_NAME).read_bytes()
    table.delete_user("alice")
    assert b'"alice"' not in (tmp_path / FILE_NAME).read_bytes()


def test_a_torn_file_is_taken_from_its_copy(open_table: Open, tmp_path: Path) -> None:
    open_table().create_user(account("alice"))
    open_table()
    (tmp_path / FILE_NAME).write_bytes((tmp_path / FILE_NAME).read_bytes()[:20])
    assert [user.name for user in open_table().users("")] == ["alice"]


@pytest.mark.parametrize(
    "text",
    [
        '{"users": ["alice"]}',
        '{"users": {"alice": {"password": "hunter2"}}}',
        '{"users": {"a": {"username": "a", "password": "hunter2", "userType": "Boss", "userStatus": "enable"}}}',
        '{"acls": {"User:a": {"policies": [{"entries": [{"resource": "hunter2"}]}]}}}',
        '{"acls": {"User:a": {"policies": 1}}}',
    ],
)
def test_a_file_that_is_none_is_said_without_its_secrets(open_table: Open, tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    with pytest.raises(StorageError, match=FILE_NAME) as caught:
        open_table()
    assert caught.value.hint
    assert "hunter2" not in str(caught.value)


def test_a_super_user_of_the_settings_is_made_once(open_table: Open) -> None:
    table = open_table()
    table.init_super_user(Credentials("root", "first"))
    table.init_super_user(Credentials("root", "second"))
    table.init_super_user(None)
    (root,) = table.users("")
    assert (root.name, root.password, root.is_super) == ("root", "first", True)


def test_a_user_is_changed_where_something_is_given(open_table: Open) -> None:
    table = open_table()
    table.create_user(account("alice"))
    table.update_user(UserAccount(username="alice", user_status="disable", password=" ", user_type="Wrong"))
    (alice,) = table.users("ali")
    assert (alice.password, alice.type.value, alice.status.value) == ("secret", "Normal", "disable")
    table.update_user(UserAccount(username="alice", password="other", user_type="super"))
    (alice,) = table.users("")
    assert (alice.password, alice.type.value, alice.status.value) == ("other", "Super", "disable")


def test_a_user_goes_with_the_policies(open_table: Open) -> None:
    table = open_table()
    table.create_user(account("alice"))
    table.put_acl("User:alice", acl("User:alice", "Topic:T"))
    table.delete_user("alice")
    table.delete_user("alice")
    assert (table.users(""), table.acls("")) == ([], [])


def test_the_last_entry_goes_with_its_subject(open_table: Open) -> None:
    table = open_table()
    table.create_user(account("alice"))
    table.put_acl("User:alice", acl("User:alice", "Topic:T", "Topic:U"))
    table.delete_acl("User:alice", "Default", "Topic:T")
    table.delete_acl("User:alice", None, "Topic:T")
    assert table.acl("User:alice") is not None
    table.delete_acl("User:alice", "Custom", "Topic:U")
    assert table.acl("User:alice") is None
    with pytest.raises(AuthRefused, match="The acl is not exist"):
        table.delete_acl("User:alice", None, None)


def test_what_the_rules_do_not_allow_is_refused(open_table: Open) -> None:
    table = open_table()
    table.create_user(account("alice"))
    for refused, remark in (
        (lambda: table.create_user(account("alice")), "The user is existed"),
        (lambda: table.create_user(account(" ")), "username can not be blank"),
        (lambda: table.create_user(account("b", password=" ")), "password can not be blank"),
        (lambda: table.create_user(account("x" * (NAME_MAX_CHARS + 1))), "longer than"),
        (lambda: table.update_user(account("alice", password="x" * (NAME_MAX_CHARS + 1))), "longer than"),
        (lambda: table.update_user(account("bob")), "The user is not exist"),
        (lambda: table.put_acl("User:bob", acl("User:bob", "Topic:T")), "The subject of User:bob is not exist."),
        (lambda: table.put_acl("User:alice", acl("User:alice", "T")), "The resource is null."),
        (lambda: table.acl("User:bob"), "The subject is not exist."),
        (lambda: table.delete_acl("User:bob", None, None), "The subject is not exist."),
    ):
        with pytest.raises(AuthRefused, match=remark):
            refused()  # type: ignore[no-untyped-call]


def test_a_subject_is_a_user() -> None:
    assert parse_subject("user:a:b") == "User:a:b"
    assert [parse_subject(text) for text in (None, "", "alice", "Role:x")] == [None] * 4


def test_a_password_is_in_no_representation(open_table: Open) -> None:
    table = open_table()
    table.create_user(account("alice"))
    assert "secret" not in repr(table.users("")) + repr(account("alice"))
