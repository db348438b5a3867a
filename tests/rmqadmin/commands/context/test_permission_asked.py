"""Read-only and protected contexts, as a script and as a person at a terminal meet them."""

import json
from collections.abc import Callable

import pytest

from rmqadmin.cli.call import Call
from rmqadmin.core.contexts.context_store import ContextStore
from rmqadmin.core.offsets.reset_undo import undo_dir
from tests.rmqadmin.conftest import CLUSTER, Rmqadmin, Terminal, status
from tests.support.servers import Server

IN_LIVE = ("--context", "live")


@pytest.fixture
def live(run: Rmqadmin, server: Server) -> Callable[..., None]:
    """``live("--read-only")``: marks the context ``live``, which is that of the shared server."""

    def make(*marks: str) -> None:
        args = ("context", "add", "live", "-n", server.namesrv_addr, "-c", CLUSTER, "--color", "red", *marks)
        assert run(*args).status == 0

    return make


def perm(run: Rmqadmin, topic: str) -> int:
    return int(run("-o", "json", *IN_LIVE, "topicRoute", "-t", topic).items[0]["perm"])


def test_a_read_only_context_refuses_every_change_until_it_is_unlocked(
    run: Rmqadmin, live: Callable[..., None], topic: str
) -> None:
    live("--read-only")
    change = (*IN_LIVE, "updateTopicPerm", "-t", topic, "-p", "R")
    ran = run(*change, status=4, out="")
    assert ran.err.splitlines() == [
        "rmqadmin: error: the context live is read-only: nothing was changed",
        "hint: --unlock permits this one command, `rmqadmin context edit live --no-read-only` permits all.",
    ]
    assert perm(run, topic) == 6
    assert run(*change, "--yes", "--confirm", "live").status == 4
    assert run(*change, "--dry-run").status == 0
    error = json.loads(run("-o", "json", *change).err)["error"]
    assert (error["kind"], error["exit_code"]) == ("no_permission", 4)
    assert run(*change, "--unlock").status == 0
    assert perm(run, topic) == 4
    assert run("context", "edit", "live", "--no-read-only").status == 0
    assert run(*IN_LIVE, "deleteTopic", "-t", topic).status == 0


def test_its_name_server_is_guarded_by_whatever_name_it_is_called(
    rmqadmin: Rmqadmin, server: Server, live: Callable[..., None], topic: str
) -> None:
    live("--read-only")
    assert rmqadmin("deleteTopic", "-c", CLUSTER, "-t", topic).status == 4  # reached by NAMESRV_ADDR
    assert rmqadmin("deleteTopic", "-c", CLUSTER, "-t", topic, "-n", f"{server.namesrv_addr};h:1").status == 4
    assert rmqadmin("--context", "none", "deleteTopic", "-c", CLUSTER, "-t", topic).status == 4
    assert perm(rmqadmin, topic) == 6


def test_what_reads_and_what_changes_with_an_option_are_told_apart(
    run: Rmqadmin, live: Callable[..., None], topic: str
) -> None:
    live("--read-only")
    assert run(*IN_LIVE, "sendMessage", "-t", topic, "-p", "x").status == 4
    assert run(*IN_LIVE, "sendMessage", "-t", topic, "-p", "x", "--unlock").status == 0
    sent = run("-o", "json", *IN_LIVE, "printMsg", "-t", topic).items[0]
    by_id = (*IN_LIVE, "queryMsgById", "-t", topic, "-i", sent["message_id"])
    assert run(*by_id).status == 0
    assert run(*by_id, "-s", "true").status == 4
    assert run(*IN_LIVE, "clusterRT", "-a", "1").status == 4
    assert run(*IN_LIVE, "clusterRT", "-a", "1", "--dry-run").status == 0


def test_a_script_gives_the_name_of_a_protected_context(run: Rmqadmin, live: Callable[..., None], topic: str) -> None:
    live("--protected")
    change = (*IN_LIVE, "updateTopicPerm", "-t", topic, "-p", "R")
    for args, said in (((), "the context live is protected:"), (("--confirm", "dev"), "protected, not dev:")):
        ran = run(*change, "--yes", *args, status=1, out="", err=said)
        assert "--confirm live" in ran.err
    assert perm(run, topic) == 6
    assert run(*change, "--dry-run").status == 0
    assert run(*change, "--confirm", "live").status == 0
    assert perm(run, topic) == 4


@pytest.mark.parametrize("command", ["topic create New", f"updateTopic -c {CLUSTER} -t New"])
def test_an_interrupt_at_the_question_leaves_nothing_to_undo(
    run: Rmqadmin, live: Callable[..., None], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """It said how to undo what had perhaps been done, and left the file for that."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    live("--protected")
    monkeypatch.setattr(Call, "ask_name", interrupt)
    ran = run(*IN_LIVE, *command.split())
    assert (ran.status, ran.out, ran.err) == (130, "", "")
    assert not undo_dir().exists() or not list(undo_dir().iterdir())


def test_a_protected_context_is_not_removed_by_mistake(run: Rmqadmin, live: Callable[..., None]) -> None:
    live("--protected")
    assert run("context", "rm", "live").status == 1
    assert run("context", "rm", "live", "--confirm", "live").status == 0
    assert ContextStore().names() == []


def test_a_person_types_the_name_of_a_context_that_is_removed(terminal: Terminal, live: Callable[..., None]) -> None:
    """It went without a question, and with it the only note of a cluster's addresses and keys."""
    live()
    child = terminal("context", "rm", "live")
    child.expect_exact("Type live to go on: ")
    child.sendline("dev")
    child.expect_exact("nothing was changed")
    assert status(child) == 1
    assert ContextStore().names() == ["live"]
    assert status(terminal("context", "rm", "live", "--yes")) == 0
    assert ContextStore().names() == []


def test_a_person_types_the_topics_name_and_then_the_contexts(
    terminal: Terminal, run: Rmqadmin, live: Callable[..., None], topic: str
) -> None:
    live("--protected")
    delete = (*IN_LIVE, "deleteTopic", "-t", topic)
    child = terminal(*delete)
    child.expect_exact("[live] This deletes the topic")
    child.expect_exact(f"Type {topic} to go on: ")
    child.sendline(topic)
    child.expect_exact("[live] live is protected.")
    child.expect_exact("Type live to go on: ")
    child.sendline("yes")
    child.expect_exact("the context live is protected: nothing was changed")
    assert status(child) == 1
    assert perm(run, topic) == 6
    child = terminal(*delete, "--yes")
    child.expect_exact("Type live to go on: ")
    child.sendline("live")
    assert status(child) == 0
    assert run(*IN_LIVE, "topicRoute", "-t", topic).status == 5


@pytest.mark.parametrize(("color", "seen"), [("always", True), ("auto", False)])  # the terminal of tests has NO_COLOR
def test_the_question_has_the_colour_of_the_context(
    terminal: Terminal, live: Callable[..., None], topic: str, color: str, seen: bool
) -> None:
    live("--protected")
    child = terminal("--color", color, *IN_LIVE, "sendMessage", "-t", topic, "-p", "x")
    child.expect_exact("Type live to go on: ")
    assert ("\x1b[1;41;97m[live]\x1b[0m live is protected" in (child.before or "")) is seen
    child.sendintr()
    assert status(child) == 130


def test_nothing_is_asked_where_mqadmins_text_is_wanted(
    terminal: Terminal, live: Callable[..., None], topic: str
) -> None:
    live("--protected")
    child = terminal("-o", "mqadmin", *IN_LIVE, "deleteTopic", "-t", topic)
    assert status(child) == 1
    assert "--confirm live" in (child.before or "")


EDITOR = """#!/bin/sh
case $(cat {count}) in 0) echo 'protectd = true' >>"$1" ;; *) sed -i s/protectd/protected/ "$1" ;; esac
echo 1 >{count}
"""


def test_what_an_editor_left_is_kept_when_it_is_as_it_should_be(
    terminal: Terminal, live: Callable[..., None], tmp_path_factory: pytest.TempPathFactory
) -> None:
    live()
    folder = tmp_path_factory.mktemp("editor")
    (folder / "count").write_text("0")
    (folder / "editor").write_text(EDITOR.format(count=folder / "count"))
    (folder / "editor").chmod(0o755)
    env = {"EDITOR": str(folder / "editor"), "TMPDIR": str(folder)}
    child = terminal("context", "edit", "live", env=env, columns=200)
    child.expect_exact("there is no setting 'protectd'")
    child.expect_exact("Did you mean protected?")
    child.expect_exact("Enter to edit it again, n to give up: ")
    assert ContextStore().load("live").settings.protected is False
    child.sendline("")
    assert status(child) == 0
    assert ContextStore().load("live").settings.protected is True
    (folder / "count").write_text("0")
    child = terminal("context", "edit", "live", env=env, columns=200)
    child.expect_exact("to give up: ")
    child.sendline("n")
    child.expect_exact("hint: Your text is in ")
    assert status(child) == 2
    (left,) = folder.glob("live-*.toml")
    assert "protectd" in left.read_text()


def test_an_editor_that_fails_changes_nothing(terminal: Terminal, live: Callable[..., None]) -> None:
    live()
    before = ContextStore().read_text("live")
    for editor, said in (
        ("false", "false ended with status 1"),
        ("no-such-editor", "Set VISUAL or EDITOR to the editor"),
    ):
        child = terminal("context", "edit", "live", env={"VISUAL": editor})
        child.expect_exact(said)
        assert status(child) == 2
    assert ContextStore().read_text("live") == before
