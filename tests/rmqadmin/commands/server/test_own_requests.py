"""``fault``, ``snapshot`` and ``server reset``, which only rmqserver serves, on this file's own broker."""

import shlex
from collections.abc import Iterator

import pytest

from rmqadmin.cli.parsing.command_tree import describe
from rmqadmin.cli.registry import ENTRIES, Entry
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import RefusedError
from tests.rmqadmin.conftest import Rmqadmin, Terminal, status
from tests.rmqadmin.test_every_format import check_every_format
from tests.support import servers
from tests.support.replayed import Replayed
from tests.support.servers import Server, topic_config

OWN = [entry for entry in ENTRIES if entry.file == "server.testing_aids"]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with servers.standalone(tmp_path_factory.mktemp("own"), "--test-requests", "on") as running:
        yield running
        assert running.stop() == 0


@pytest.fixture
def admin(ours: Server) -> Iterator[AdminClient]:
    with AdminClient(ours.namesrv_addr, timeout_s=30) as client:
        yield client


@pytest.fixture
def rmqadmin(run: Rmqadmin, ours: Server, monkeypatch: pytest.MonkeyPatch) -> Rmqadmin:
    """Runs command lines on ``ours``, which starts empty and without faults."""
    monkeypatch.setenv("NAMESRV_ADDR", ours.namesrv_addr)
    assert run("fault", "clear").status == 0
    assert run("server", "reset", "--yes").status == 0
    return run


def make_topic(admin: AdminClient, ours: Server, topic: str) -> None:
    admin.create_topic(ours.broker_addr, topic_config(topic))


def has_topic(admin: AdminClient, ours: Server, topic: str) -> bool:
    return topic in admin.all_topics(ours.broker_addr).topic_config_table


def test_requests_go_wrong_by_rules_that_are_counted_and_taken_back(
    rmqadmin: Rmqadmin, ours: Server, admin: AdminClient
) -> None:
    make_topic(admin, ours, "T")
    rule = "SEND_MESSAGE:error=SYSTEM_BUSY:topic=T"
    assert rmqadmin("fault", "set", rule, "--dry-run").status == 0
    assert rmqadmin("-o", "json", "fault", "ls").items == []
    planned = rmqadmin("-o", "json", "fault", "set", rule).items
    assert planned[0]["changes"] == [{"field": "rules", "before": [], "after": [rule]}]
    with pytest.raises(RefusedError, match="SYSTEM_BUSY"):
        admin.send_message(ours.broker_addr, MessageQueue("T", "broker-a", 0), Message("T", b"body"))
    assert rmqadmin("-o", "json", "fault", "ls").items == [{"rule": rule, "hits": 1, "broker_addr": ours.broker_addr}]
    assert rmqadmin("fault", "clear").status == 0
    admin.send_message(ours.broker_addr, MessageQueue("T", "broker-a", 0), Message("T", b"body"))


def test_what_is_no_rule_changes_nothing_and_asks_no_server(run: Rmqadmin) -> None:
    run("fault", "set", "SEND_MESSAGE:drop", "SEND:drop", "-b", "127.0.0.1:1", status=2, err="'SEND' is not a request")


def test_with_an_address_rules_can_be_taken_back_while_everything_goes_wrong(rmqadmin: Rmqadmin, ours: Server) -> None:
    assert rmqadmin("fault", "set", "*:error=SYSTEM_ERROR").status == 0
    assert rmqadmin("topicList").status == 1
    assert rmqadmin("fault", "clear", "-b", ours.broker_addr).status == 0
    assert rmqadmin("topicList").status == 0


def test_a_broker_goes_back_to_a_snapshot_and_to_its_start(
    rmqadmin: Rmqadmin, ours: Server, admin: AdminClient
) -> None:
    make_topic(admin, ours, "Kept")
    assert rmqadmin("-o", "json", "snapshot", "save", "a-day").items[0]["action"] == "create"
    assert rmqadmin("-o", "json", "snapshot", "save", "a-day", "--dry-run").items[0]["action"] == "replace"
    make_topic(admin, ours, "Later")
    (planned,) = rmqadmin("-o", "json", "snapshot", "restore", "a-day", "--dry-run").items
    assert (planned["done"], planned["changes"][0]) == (False, {"field": "topics", "before": 2, "after": "as in a-day"})
    assert has_topic(admin, ours, "Later")
    assert rmqadmin("snapshot", "restore", "a-day", "--yes").status == 0
    assert (has_topic(admin, ours, "Kept"), has_topic(admin, ours, "Later")) == (True, False)
    assert rmqadmin("server", "reset", "--yes").status == 0
    assert not has_topic(admin, ours, "Kept")


def test_nothing_is_taken_back_without_a_yes_where_nobody_can_be_asked(
    rmqadmin: Rmqadmin, ours: Server, admin: AdminClient
) -> None:
    make_topic(admin, ours, "Kept")
    assert rmqadmin("snapshot", "save", "a-day", "--yes").status == 0
    for command in (("server", "reset"), ("snapshot", "restore", "a-day")):
        rmqadmin(*command, status=2, err="Nobody can be asked to confirm it")
    assert has_topic(admin, ours, "Kept")


def test_a_snapshot_that_is_not_there_is_told_with_those_that_are(rmqadmin: Rmqadmin) -> None:
    assert rmqadmin("snapshot", "save", "a-day", "--yes").status == 0
    rmqadmin("snapshot", "restore", "b-day", "--yes", status=5, err="a-day")


def test_a_person_types_the_brokers_name_to_reset_it(
    rmqadmin: Rmqadmin, terminal: Terminal, ours: Server, admin: AdminClient
) -> None:
    make_topic(admin, ours, "Kept")
    for typed, is_done in (("y", False), ("broker-a", True)):
        child = terminal("server", "reset", env={"NAMESRV_ADDR": ours.namesrv_addr})
        child.expect_exact("topics 1 -> as at its start")
        child.expect_exact("Type broker-a to go on: ")
        child.sendline(typed)
        assert status(child) == (0 if is_done else 1)
        assert has_topic(admin, ours, "Kept") is not is_done


@pytest.mark.parametrize("entry", OWN, ids=lambda entry: entry.name)
def test_the_examples_of_the_help_work(rmqadmin: Rmqadmin, ours: Server, entry: Entry) -> None:
    assert rmqadmin("snapshot", "save", "a-day", "--yes").status == 0
    assert rmqadmin("fault", "set", "SEND_MESSAGE:drop:topic=none").status == 0
    for example in describe(entry).examples:
        replaces = ["--yes"] if entry.name == "snapshot save" else []  # the snapshot of this name is there
        ran = rmqadmin(*shlex.split(example.replace("127.0.0.1:10911", ours.broker_addr))[1:], *replaces)
        assert (ran.status, bool(ran.out)) == (0, True), f"{example}: {ran.err}"


@pytest.mark.parametrize("name", ["fault ls", "snapshot ls"])
def test_every_format_of_what_they_list_parses(rmqadmin: Rmqadmin, name: str) -> None:
    assert rmqadmin("snapshot", "save", "a-day", "--yes").status == 0
    assert rmqadmin("fault", "set", "SEND_MESSAGE:drop:topic=none").status == 0
    check_every_format(lambda format: rmqadmin(*name.split(), "--output", format), name)


CALLS = {
    "fault set": ["SEND_MESSAGE:drop"], "snapshot save": ["a-day"], "snapshot restore": ["a-day", "--yes"],
    "server reset": ["--yes"],
}  # fmt: skip


@pytest.mark.parametrize("entry", OWN, ids=lambda entry: entry.name)
def test_another_broker_refuses_and_the_hint_says_why(run: Rmqadmin, server: Server, entry: Entry) -> None:
    """Both Apache's broker, by its recorded texts, and our broker that keeps its store refuse."""
    words = [*entry.name.split(), *CALLS.get(entry.name, [])]
    with Replayed() as apache:
        run(*words, "-n", apache.address, status=1, err="Only rmqserver serves this")
    run(*words, "-n", server.namesrv_addr, status=4, err="--test-requests on")
