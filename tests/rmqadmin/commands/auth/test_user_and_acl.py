"""The short commands about users and policies, on a real guarded broker: what they change, how to undo that, and that
``acl can`` predicts what the broker does."""

import io
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rmqadmin.cli.output.output_format import Format
from rmqadmin.cli.output.rendering import render
from rmqadmin.core.access.foretold import AccessRow, ForetoldAccess
from rmqadmin.core.tables.layout import TableView
from rmqclient.admin import AdminClient
from rmqproto.bodies.acl import AclEntry, AclInfo, AclPolicy, UserAccount
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.wire.command import Command
from rmqproto.wire.credentials import Credentials
from tests.rmqadmin.conftest import CLUSTER, Rmqadmin
from tests.support import servers
from tests.support.auth_walk import DISABLED, NOBODY, ROOT, ask_as, prepare
from tests.support.peer import Peer, answer
from tests.support.servers import Server
from tests.support.wire import Wire

CONFIG = f"""\
authenticationEnabled=true
authorizationEnabled=true
initAuthenticationUser={{"username":"{ROOT.access_key}","password":"{ROOT.secret_key}"}}
"""

SOME = Credentials("some", "some-secret")
ENTRIES = [
    AclEntry(resource="Topic:read", actions=["Get"], decision="Allow"),
    AclEntry(resource="Topic:sent", actions=["Pub"], decision="Allow"),
    AclEntry(resource="Topic:re*", actions=["All"], decision="Deny"),
    AclEntry(resource="Topic:rea*", actions=["Get", "Sub"], decision="Allow"),
    AclEntry(resource="Topic:far", actions=["Get"], decision="Allow", source_ips=["10.0.0.0/8"]),
    AclEntry(resource="Topic:near", actions=["Get"], decision="Allow", source_ips=["127.0.0.0/8", "10.0.0.1"]),
    AclEntry(resource="Group:*", actions=["Get"], decision="Allow"),
]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("guarded")
    (directory / "server.conf").write_text(CONFIG)
    with servers.standalone(directory / "server", "--config", directory / "server.conf") as running:
        with Wire(running.broker_addr) as wire:
            prepare(wire)
        with AdminClient(running.namesrv_addr, ROOT) as admin:
            admin.create_user(running.broker_addr, UserAccount(username="some", password=SOME.secret_key))
            acl = AclInfo(subject="User:some", policies=[AclPolicy(entries=ENTRIES)])
            admin.create_acl(running.broker_addr, acl)
        yield running


@pytest.fixture
def signed(run: Rmqadmin, guarded: Server, monkeypatch: pytest.MonkeyPatch) -> Rmqadmin:
    for name, value in {
        "NAMESRV_ADDR": guarded.namesrv_addr, "RMQADMIN_ACCESS_KEY": ROOT.access_key,
        "RMQADMIN_SECRET_KEY": ROOT.secret_key,
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    return run


ASKING = [ROOT, SOME, NOBODY, DISABLED, Credentials("ghost", "x")]


@pytest.mark.parametrize("user", ASKING, ids=lambda user: user.access_key)
def test_can_says_what_the_broker_does(signed: Rmqadmin, guarded: Server, user: Credentials) -> None:
    with Wire(guarded.broker_addr) as wire:
        for topic in ("read", "reading", "ready", "rest", "sent", "far", "near", "other", "%RETRY%g"):
            answer = ask_as(wire, RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": "0"}, user=user)
            ran = signed("-o", "json", "acl", "can", user.access_key, "get", f"Topic:{topic}", "--from", "127.0.0.1")
            (row,) = ran.items
            is_refused = answer.code == ResponseCode.NO_PERMISSION
            assert (row["allowed"], ran.status) == (not is_refused, int(is_refused)), (topic, row, answer)
            if is_refused:
                assert row["why"] == answer.remark


@pytest.mark.parametrize(
    ("topic", "source", "entry"),
    [
        ("read", (), "Allow Get, Topic:read"),
        ("reading", (), "Allow Get,Sub, Topic:rea*"),
        ("rest", (), "Deny All, Topic:re*"),
        ("other", (), None),
        ("near", ("--from", "10.0.0.1"), "Allow Get from 127.0.0.0/8,10.0.0.1, Topic:near"),
        ("near", ("--from", "10.0.0.2"), None),
    ],
)
def test_can_says_which_entry_decides(signed: Rmqadmin, topic: str, source: tuple[str, ...], entry: str | None) -> None:
    (row,) = signed("-o", "json", "acl", "can", "User:some", "Get", f"Topic:{topic}", *source).items
    assert (row["entry"], row["allowed"]) == (entry, (entry or "").startswith("Allow"))
    assert "0.0.0.0" not in row["why"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("some", "Get", "Topic:near"), "holds only for some addresses"),
        (("some", "Get", "Topic:near", "--from", "10.0.0.0/8"), "is not an address"),
        (("some", "Get", "Topic:re*"), "stands for many"),
        (("some", "Get", "*"), "is not a resource"),
        (("some", "Get", "orders"), "is not a resource"),
        (("User:", "Get", "Topic:x"), "the user has no name"),
        (("some", "All", "Topic:x"), "is not one of"),
    ],
)
def test_a_question_that_has_no_answer_is_refused(signed: Rmqadmin, words: tuple[str, ...], said: str) -> None:
    ran = signed("acl", "can", *words)
    assert (ran.status, said in ran.err) == (2, True), ran.err


def test_the_reason_is_whole_at_80_columns() -> None:
    """The column was cut: "User:alice has no permission to ac…"."""
    why = "User:alice has no permission to access Topic:OrderTopic from 10.0.0.5, no matched policies."
    rows = [
        AccessRow(
            allowed=entry is not None, why=why, entry=entry, username="alice", action="Pub",
            resource="Topic:OrderTopic", source_ip=None, broker_addr=f"127.0.0.1:{port}",
        )
        for port, entry in ((1, None), (2, None), (3, "Deny Pub,Sub,Create,Update, Topic:OrderTopic"))
    ]  # fmt: skip
    for shown, brokers in ((rows[:2], ""), (rows, "127.0.0.1:1, 127.0.0.1:2: ")):
        text = "".join(render(ForetoldAccess(shown), "acl can", Format.TABLE, view=TableView(width=80)))
        assert all(len(line) <= 80 for line in text.splitlines())
        assert f"\n\n{brokers}{why}\n" in re.sub(r"(?<=\S)\n  (?=\w)", " ", text)
    assert "  entry: Deny Pub,Sub,Create,Update, Topic:OrderTopic\n" in text


def test_where_nobody_is_asked_everybody_may(rmqadmin: Rmqadmin) -> None:
    ran = rmqadmin("-o", "json", "acl", "can", "anybody", "Pub", "Topic:x")
    assert (ran.status, ran.items[0]["allowed"]) == (0, True)
    assert ran.items[0]["why"].startswith("authentication is off")


def with_stdin(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_a_user_is_added_changed_shut_out_and_removed(
    signed: Rmqadmin, guarded: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def served(password: str) -> str | None:
        with Wire(guarded.broker_addr) as wire:
            user = Credentials("carl", password)
            return ask_as(wire, RequestCode.GET_BROKER_CLUSTER_INFO, {}, user=user).remark

    with_stdin(monkeypatch, "first\n")
    ran = signed("user", "add", "carl", "--password-stdin")
    assert (ran.status, "to undo this: rmqadmin deleteUser" in ran.err) == (0, True)
    assert "first" not in ran.out + ran.err
    assert "check signature" not in (served("first") or "")
    for again in (("user", "add", "carl"), ("createUser", "-b", guarded.broker_addr, "-u", "carl")):
        with_stdin(monkeypatch, "other\n")
        assert "With --if-not-exists" in signed(*again, "--password-stdin").err
        with_stdin(monkeypatch, "other\n")
        ran = signed("-o", "json", *again, "--password-stdin", "--if-not-exists")
        assert (ran.status, [row["action"] for row in ran.items]) == (0, ["keep"])
        assert "check signature" not in (served("first") or "")
    with_stdin(monkeypatch, "second\n")
    assert signed("user", "edit", "carl", "--type", "super", "--password-stdin", "--dry-run").status == 0
    with_stdin(monkeypatch, "second\n")
    ran = signed("-o", "json", "user", "edit", "carl", "--type", "super", "--password-stdin")
    assert [row["changes"][0]["field"] for row in ran.items] == ["user_type", "password"]
    assert served("first") == "check signature failed."
    ran = signed("user", "edit", "carl", "--status", "disable")
    assert served("second") == "User:carl is disabled."
    back = ran.err.split("to undo this: rmqadmin ")[1].splitlines()[0]
    assert signed(*shlex.split(back)).status == 0
    assert "disabled" not in (served("second") or "")
    (row,) = signed("-o", "json", "user", "ls", "car").items
    assert (row["username"], row["user_type"], row["user_status"]) == ("carl", "Super", "enable")
    assert signed("user", "rm", "carl", "--yes").status == 0
    assert signed("user", "rm", "carl", "--yes").status == 5
    assert signed("user", "rm", "carl", "--yes", "--if-exists").status == 0
    assert signed("user", "edit", "carl").status == 2


def test_who_would_shut_the_last_super_user_out_is_told(signed: Rmqadmin, guarded: Server) -> None:
    root, here, told = ROOT.access_key, ("-b", guarded.broker_addr), "is the last super user"
    less = [
        ("user", "rm", root),
        ("deleteUser", *here, "-u", root),
        ("user", "edit", root, "--status", "disable"),
        ("user", "edit", root, "--type", "Normal"),
        ("updateUser", *here, "-u", root, "-s", "disable"),
    ]
    for words in less:
        ran = signed(*words, "--dry-run", status=0)
        assert f"{root} {told} of {guarded.broker_addr} who may log in" in ran.err, words
    for words in (("user", "edit", root, "--status", "enable"), ("user", "rm", "some")):
        assert told not in signed(*words, "--dry-run", status=0).err, words
    with AdminClient(guarded.namesrv_addr, ROOT) as admin:
        other = UserAccount(username="other-root", password="x", user_type="Super")
        admin.create_user(guarded.broker_addr, other)
        for words in less:
            assert told not in signed(*words, "--dry-run", status=0).err, words
        admin.update_user(guarded.broker_addr, UserAccount(username="other-root", user_status="disable"))
        assert told in signed(*less[0], "--dry-run", status=0).err
        admin.delete_user(guarded.broker_addr, "other-root")


def test_a_broker_that_does_not_list_its_users_lets_one_be_deleted(rmqadmin: Rmqadmin) -> None:
    def reply(request: Command) -> Command:
        if request.code == RequestCode.AUTH_LIST_USER:
            return answer(request, ResponseCode.NO_PERMISSION, remark="no right to list them")
        return answer(request, body=b'{"username":"bob","userType":"Super"}')

    with Peer(reply) as peer:
        rmqadmin("deleteUser", "-n", peer.address, "-b", peer.address, "-u", "bob", status=0)
        assert RequestCode.AUTH_DELETE_USER in peer.codes()


def entries(signed: Rmqadmin) -> dict[str, tuple[list[str], str, list[str] | None]]:
    rows = signed("-o", "json", "acl", "ls", "nobody").items
    return {row["resource"]: (row["actions"], row["decision"], row["source_ips"]) for row in rows}


def take_back(signed: Rmqadmin, said: str) -> None:
    back = said.split("to undo this: rmqadmin ")[1].splitlines()[0]
    assert signed(*shlex.split(back), "--yes").status == 0


def test_actions_are_granted_and_revoked_one_by_one_and_taken_back(signed: Rmqadmin) -> None:
    """An entry gains and loses actions, and one command restores the earlier ones."""
    states = [entries(signed)]
    said = []
    for words, expected in (
        (("grant", "nobody", "pub", "topic:orders"), (["Pub"], "Allow", None)),
        (("grant", "nobody", "Sub,Pub", "Topic:orders"), (["Pub", "Sub"], "Allow", None)),
        (("grant", "nobody", "All", "Topic:orders"), (["All"], "Allow", None)),
        (
            ("revoke", "nobody", "Pub,Get", "Topic:orders"),
            (["Sub", "Create", "Update", "Delete", "List"], "Allow", None),
        ),
        (("grant", "nobody", "Get", "Topic:orders", "--from", "10.0.0.0/8"), (["Get"], "Allow", ["10.0.0.0/8"])),
        (("grant", "nobody", "Get", "Topic:orders", "--deny"), (["Get"], "Deny", None)),
        (("revoke", "nobody", "All", "Topic:orders"), None),
    ):
        assert signed("acl", *words, "--dry-run").status == 0
        assert entries(signed) == states[-1], words
        ran = signed("acl", *words, "--yes", status=0)
        states.append(entries(signed))
        assert states[-1].get("Topic:orders") == expected, words
        said.append(ran.err)
    for before, each in zip(reversed(states[:-1]), reversed(said), strict=True):
        take_back(signed, each)
        assert entries(signed) == before


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("grant", "ghost", "Pub", "Topic:x"), 5, "has no user ghost"),
        (("grant", "nobody", "Publish", "Topic:x"), 2, "is not an action"),
        (("grant", "nobody", ",", "Topic:x"), 2, "no action is named"),
        (("grant", "nobody", "Pub", "x"), 2, "is not a resource"),
        (("revoke", "nobody", "Pub", "Topic:x"), 5, "no entry of Topic:x"),
    ],
)
def test_what_cannot_be_granted_or_revoked(signed: Rmqadmin, words: tuple[str, ...], status: int, said: str) -> None:
    ran = signed("acl", *words)
    assert (ran.status, said in ran.err) == (status, True), ran.err


def test_the_only_cluster_is_meant_and_no_option_takes_a_password(signed: Rmqadmin, tmp_path: Path) -> None:
    (row,) = signed("-o", "json", "user", "ls", "nobody").items
    assert row == signed("-o", "json", "user", "ls", "nobody", "-c", "DefaultCluster").items[0]
    for words in (("add", "x", "-p", "secret"), ("add", "x"), ("edit", "nobody", "-p", "secret")):
        assert signed("user", *words).status == 2


def test_users_that_nobody_checks_are_told_of(
    rmqadmin: Rmqadmin, start_standalone: Callable[..., Server], tmp_path: Path
) -> None:
    """The commands said `done yes`, doctor was content, and the help said that a new user may do nothing."""
    server = start_standalone()
    n = ("-n", server.namesrv_addr)
    wanted = tmp_path / "wanted.yaml"
    wanted.write_text("users: {carol: {password: x, userType: Normal}}")
    off = "this has no effect: "
    for words in (
        ("createUser", "-c", CLUSTER, "-u", "alice", "-p", "x"),
        ("createAcl", "-c", CLUSTER, "-s", "User:alice", "-r", "Topic:T", "-a", "Pub", "-d", "Allow"),
        ("acl", "grant", "alice", "Sub", "Topic:T"),
        ("acl", "revoke", "alice", "Sub", "Topic:T", "--yes"),
        ("user", "edit", "alice", "--type", "Super"),
        ("copyUser", "-f", server.broker_addr, "-t", server.broker_addr),
        ("apply", "-f", str(wanted), "-c", CLUSTER, "--yes"),
    ):
        for dry in (("--dry-run",), ()):
            ran = rmqadmin(*words, *dry, *n)
            assert ran.status in (0, 1), ran.err
            if "keep" not in ran.out:
                assert off in ran.err, words
                assert "authentication is off: whoever reaches the broker may do everything" in ran.err
                assert "authenticationEnabled=true and authorizationEnabled=true" in ran.err
    assert off not in rmqadmin("-o", "mqadmin", "createUser", "-c", CLUSTER, "-u", "dave", "-p", "x", *n).err
    found = rmqadmin("doctor", "--quick", *n, status=0)
    assert "keeps 3 users and checks none: authentication is off" in found.out


def test_users_that_are_checked_need_no_word(rmqadmin: Rmqadmin, guarded: Server) -> None:
    keys = ("-n", guarded.namesrv_addr, "-ak", ROOT.access_key, "-sk", ROOT.secret_key)
    ran = rmqadmin("createUser", "-c", CLUSTER, "-u", "checked", "-p", "x", *keys)
    assert (ran.status, "no effect" in ran.err) == (0, False)
    assert "checks users and their rights" in rmqadmin("doctor", "--quick", "--all", *keys).out
    assert rmqadmin("deleteUser", "-c", CLUSTER, "-u", "checked", *keys).status == 0
