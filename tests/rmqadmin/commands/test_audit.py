"""The log of changes: what it holds, what it never holds, and that it blocks no command."""

import errno
import inspect
import io
import json
import os
import re
import stat
import sys
from pathlib import Path
from typing import Annotated

import pytest
import typer

from rmqadmin.cli import registry
from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import group_of, parameters_of, spellings_of
from rmqadmin.cli.options.common_options import CommonOptions, Value, value_of
from rmqadmin.cli.parsing.command_building import build_command, declared_parameters
from rmqadmin.core import audit_trail
from rmqadmin.core.contexts.context_store import ContextStore
from rmqadmin.core.contexts.settings import config_path
from rmqadmin.tui.dashboard_client import AuditedClient
from rmqclient.admin import AdminClient
from rmqproto.bodies.routes import TopicConfig
from rmqproto.errors import RefusedError
from tests.rmqadmin.conftest import CLUSTER, Rmqadmin
from tests.support.quick import in_one_test
from tests.support.servers import Fresh, Server

SECRET_TEXT = "hunter2-hunter2"


def text_of_log() -> str:
    return audit_trail.log_path().read_text()


def test_a_change_is_written_down_with_who_where_what_and_how_it_went(
    rmqadmin: Rmqadmin, server: Server, fresh: Fresh
) -> None:
    ContextStore().add("live", {"namesrv_addr": server.namesrv_addr})
    topic = fresh("AuditTopic")
    rmqadmin("updateTopic", "-c", CLUSTER, "-t", topic)
    rmqadmin("updateTopic", "-c", CLUSTER, "-t", topic, "-r", "3", "--context", "live")
    rmqadmin("topicList")
    rmqadmin("updateTopic", "-c", CLUSTER, "-t", topic, "-r", "4", "--dry-run")
    created, changed = rmqadmin("audit", "-o", "json").items
    assert (created["action"], created["context"], created["outcome"]) == ("create", None, "done")
    assert changed["changes"] == [{"field": "read_queue_nums", "before": 8, "after": 3}]
    assert (changed["context"], changed["namesrv_addr"]) == ("live", server.namesrv_addr)
    assert (changed["command"], changed["target"]) == ("updateTopic", server.broker_addr)
    assert changed["arguments"] == {"--clusterName": CLUSTER, "--topic": topic, "--readQueueNums": 3}
    assert changed["user"]
    assert changed["time_ms"] >= created["time_ms"]
    assert stat.S_IMODE(audit_trail.log_path().stat().st_mode) == 0o600


@pytest.mark.parametrize("by_variable", [True, False])
def test_a_context_that_did_not_count_is_not_named(
    run: Rmqadmin, server: Server, fresh: Fresh, monkeypatch: pytest.MonkeyPatch, by_variable: bool
) -> None:
    """The table named the context in use, though NAMESRV_ADDR had sent the change elsewhere."""
    ContextStore().add("elsewhere", {"namesrv_addr": "127.0.0.1:1"})
    ContextStore().use("elsewhere")
    if by_variable:
        monkeypatch.setenv("NAMESRV_ADDR", server.namesrv_addr)
    there = [] if by_variable else ["-n", server.namesrv_addr]
    assert run("updateTopic", "-c", CLUSTER, "-t", fresh("AuditTopic"), *there).status == 0
    (written,) = run("audit", "-o", "json").items
    assert (written["context"], written["namesrv_addr"]) == (None, server.namesrv_addr)
    table = run("audit", "--output", "wide").out
    assert "elsewhere" not in table
    assert table.split("\n")[1].count(server.namesrv_addr) == 2


def test_it_is_listed_by_time_context_and_command(rmqadmin: Rmqadmin, fresh: Fresh) -> None:
    topic = fresh("AuditTopic")
    rmqadmin("updateTopic", "-c", CLUSTER, "-t", topic)
    rmqadmin("deleteTopic", "-c", CLUSTER, "-t", topic)

    def listed(*words: str) -> list[str]:
        return [item["command"] for item in rmqadmin("audit", *words, "-o", "json").items]

    assert listed() == ["updateTopic", "deleteTopic", "deleteTopic"]  # on the broker and on the name server
    assert listed("--command", "updatetopic") == ["updateTopic"]
    assert listed("--limit", "1") == ["deleteTopic", "deleteTopic"]
    assert listed("--from", "-1h") == listed("--context", "none") == listed()
    assert listed("--to", "-1h") == listed("--context", "live") == []


def test_a_failure_is_written_down_and_a_refusal_of_ours_is_not(
    rmqadmin: Rmqadmin, server: Server, fresh: Fresh
) -> None:
    rmqadmin("updateTopic", "-b", server.broker_addr, "-t", "no@topic")
    (failed,) = rmqadmin("audit", "-o", "json").items
    assert (failed["outcome"], failed["target"]) == ("failed", None)
    assert "illegal characters" in failed["error"]
    ContextStore().add("looked-at", {"namesrv_addr": server.namesrv_addr, "read_only": True})
    rmqadmin("updateTopic", "-b", server.broker_addr, "-t", fresh("AuditTopic"), "--context", "looked-at")
    assert len(rmqadmin("audit", "-o", "json").items) == 1


def test_no_secret_is_ever_written_down(rmqadmin: Rmqadmin, server: Server, fresh: Fresh) -> None:
    name, topic = fresh("audit"), fresh("AuditTopic")
    here = ("-b", server.broker_addr)
    rmqadmin("updateTopic", *here, "-t", topic)
    assert rmqadmin("createUser", *here, "-u", name, "-p", SECRET_TEXT).status == 0
    assert rmqadmin("updateUser", *here, "-u", name, "-p", f"{SECRET_TEXT}2").status == 0
    assert rmqadmin("sendMessage", "-t", topic, "-p", SECRET_TEXT).status == 0
    assert rmqadmin("msg", "send", topic, SECRET_TEXT).status == 0
    rmqadmin("updateBrokerConfig", *here, "-k", "fileReservedTime", "-v", SECRET_TEXT)
    rmqadmin("updateKvConfig", "-s", name, "-k", "password", "-v", SECRET_TEXT)
    rmqadmin("deleteUser", *here, "-u", name, "-ak", "someone", "-sk", SECRET_TEXT)
    commands = {item["command"] for item in rmqadmin("audit", "-o", "json").items}
    assert {"createUser", "updateUser", "sendMessage", "msg send", "updateBrokerConfig", "updateKvConfig"} <= {
        *commands
    }
    assert SECRET_TEXT not in text_of_log()
    assert '"field":"password","before":null,"after":"(not written down)"' in text_of_log()


@pytest.mark.slow  # builds every command
@pytest.mark.parametrize("entry", registry.ENTRIES, ids=lambda entry: entry.name)
def test_every_secret_among_the_options_is_marked(entry: registry.Entry) -> None:
    command = build_command(entry)
    for param in command.params:
        if re.search("password|secret|token", param.name) and not getattr(param, "is_flag", False):
            assert param.opts[-1] in command.secret_options, "mark it with Value.SECRET"


def test_options_are_written_down_by_their_marker_and_not_by_the_word_in_the_help() -> None:
    def told(kind: object, *metas: object) -> bool:
        annotation = Annotated[kind, *metas] if metas else kind  # type: ignore[valid-type]
        return value_of(inspect.Parameter("x", inspect.Parameter.KEYWORD_ONLY, annotation=annotation)).is_told

    assert told(str, Value.TOPIC, typer.Option("-t", metavar="ANY WORD"))
    assert not told(str, typer.Option("-p", metavar="TOPIC"))
    assert not told(list[str] | None, Value.TEXT, typer.Option("-p"))
    assert not told(str | None, typer.Option("-p"))
    assert not told(str, Value.SECRET, typer.Option("-p", metavar="NAME"))
    assert told(int | None, typer.Option("-q"))
    assert told(bool, typer.Option("--yes"))


@pytest.mark.parametrize("metavar", ["USER", "ACTION", "RESOURCE", "ADDRESS"])
def test_whose_rights_were_changed_is_written_down(metavar: str) -> None:
    """`user add` and `acl grant` were written down without the user, the action and the resource."""
    commands = [
        build_command(entry) for name in ("user add", "acl grant") if (entry := registry.find(name)) is not None
    ]
    named = {
        param.metavar: command.values[param.name].is_told
        for command in commands
        for param in command.params
        if param.name in command.values
    }
    assert named[metavar]


def test_a_log_that_cannot_be_written_is_said_and_stops_nothing(
    rmqadmin: Rmqadmin, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    ran = rmqadmin("updateTopic", "-c", CLUSTER, "-t", fresh("AuditTopic"), "--output", "json")
    assert (ran.status, ran.items[0]["done"]) == (0, True)
    assert ran.err.count("the log of changes cannot be written") == 1


def test_a_log_on_a_full_disk_has_no_half_line(
    rmqadmin: Rmqadmin, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would spoil the line after it, too."""
    write_all = os.write
    assert rmqadmin("updateTopic", "-c", CLUSTER, "-t", fresh("AuditTopic")).status == 0
    whole = audit_trail.log_path().read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda file, data: write_all(file, data[:10]))
        ran = rmqadmin("updateTopic", "-c", CLUSTER, "-t", fresh("AuditTopic"))
    assert (ran.status, ran.err.count("the log of changes cannot be written: No space left on device")) == (0, 1)
    assert audit_trail.log_path().read_bytes() == whole


class FullDisk(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_change_whose_answer_cannot_be_written_was_made_all_the_same(
    rmqadmin: Rmqadmin, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "the change was made; only its answer could not be shown"
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", FullDisk())
        ran = rmqadmin("updateTopic", "-c", CLUSTER, "-t", fresh("AuditTopic"))
        assert (ran.status, said in ran.err) == (1, True)
        ran = rmqadmin("updateTopic", "-c", CLUSTER, "-t", fresh("AuditTopic"), "--dry-run")
        assert (ran.status, said in ran.err) == (1, False)
    assert [item["outcome"] for item in rmqadmin("audit", "-o", "json").items] == ["done"]


@pytest.mark.parametrize("command", ["sendMessage -p x -t", "msg send --key k", "checkMsgSendRT -a 2 -t", "msg import"])
def test_messages_whose_answer_cannot_be_written_were_sent_all_the_same(
    rmqadmin: Rmqadmin, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """A script that takes the status for a send that failed sends it twice. Nothing was said."""
    file = tmp_path / "one.jsonl"
    file.write_text(json.dumps({"topic": topic, "body": "x"}) + "\n")
    words = [*command.split(), *([str(file)] if command == "msg import" else [topic])]
    words += ["x"] if command.startswith("msg send") else []
    said = "the messages were sent; only the answer could not be shown"
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", FullDisk())
        ran = rmqadmin(*words, "--dry-run")
        assert (ran.status, said in ran.err) == (1, False)
        ran = rmqadmin(*words, *(["--yes"] if command == "msg import" else []))
        assert (ran.status, said in ran.err) == (1, True)


def test_it_can_be_switched_off(rmqadmin: Rmqadmin, fresh: Fresh) -> None:
    config_path().parent.mkdir(parents=True)
    config_path().write_text("audit = false\n")
    rmqadmin("updateTopic", "-c", CLUSTER, "-t", fresh("AuditTopic"))
    assert not audit_trail.log_path().exists()
    assert rmqadmin("audit", "-o", "json").items == []
    config_path().write_text("audit = 0\n")
    assert rmqadmin("updateTopic", "-c", CLUSTER, "-t", fresh("AuditTopic")).status == 2


def test_a_command_that_was_killed_is_unfinished(
    rmqadmin: Rmqadmin, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = os.fork()
    if pid == 0:  # as kill -9 leaves it: without an end line

        def killed(admin: AdminClient, *_: object) -> None:
            admin._before_change()
            os._exit(9)

        monkeypatch.setattr(AdminClient, "create_topic", killed)
        rmqadmin("updateTopic", "-c", CLUSTER, "-t", "killed")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    (left,) = rmqadmin("audit", "-o", "json").items
    assert (left["command"], left["outcome"], left["target"]) == ("updateTopic", "unfinished", None)


def test_a_full_log_makes_way_and_lines_that_are_not_ours_are_counted(
    rmqadmin: Rmqadmin, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_trail, "FILE_SIZE_MAX_BYTES", 2000)
    for _ in range(5):
        rmqadmin("updateTopic", "-c", CLUSTER, "-t", fresh("AuditTopic"))
    assert audit_trail.older_path().stat().st_size > 2000
    assert stat.S_IMODE(audit_trail.older_path().stat().st_mode) == 0o600
    with Path(audit_trail.log_path()).open("ab") as file:
        file.write(b"\xff\n{}\nnot a line\n")
    listed = rmqadmin("audit", "-o", "json")
    assert 2 <= len(listed.items) <= 5
    assert "3 lines of the log cannot be read" in listed.err


def test_changes_of_the_dashboard_are_written_down_request_by_request(
    rmqadmin: Rmqadmin, server: Server, fresh: Fresh
) -> None:
    call = Call("tui", CommonOptions())
    trail = call.new_trail(pytest.fail)
    client = call.new_client(AuditedClient, read_only=False, before_change=trail.begin)
    client.trail = trail
    client.all_topics(server.broker_addr)
    client.create_topic(server.broker_addr, TopicConfig(topic_name=fresh("AuditTopic")))
    with pytest.raises(RefusedError):
        client.create_topic(server.broker_addr, TopicConfig(topic_name="no@topic"))
    client.close()
    call.close()
    created, refused = rmqadmin("audit", "-o", "json").items
    assert (created["command"], created["action"], created["outcome"]) == ("tui", "17 UPDATE_AND_CREATE_TOPIC", "done")
    assert (refused["target"], refused["outcome"]) == (server.broker_addr, "failed")
    assert "illegal characters" in refused["error"]


# --- free text -------------------------------------------------------------------------------------------------------

NOT_TOLD = {
    "dlq redrive": {"--tag", "--key", "--property", "--jsonpath", "--grep", "--sql92"},
    "spark-replay": {
        "--tag", "--key", "--property", "--jsonpath", "--grep", "--sql92", "--where", "--body-expr", "--set-property",
        "--offsets", "--spark-conf", "--master",
    },
    "sendMessage": {"--key", "--body"},
    "msg send": {"sources", "--key", "--property"},
    "updateBrokerConfig": {"--value"},
    "updateKvConfig": {"--value"},
    "updateSubGroup": {"--attributes", "--groupRetryPolicy"},
    "updateTopic": {"--attributes"},
}  # fmt: skip
"""Options of the commands that take free text and change something: none of their values may be told."""


def own_options(entry: registry.Entry) -> list[inspect.Parameter]:
    declared = declared_parameters(entry.load())
    groups = [(parameter, group_of(parameter)) for parameter in declared]
    return [one for parameter, group in groups for one in ([parameter] if group is None else parameters_of(group))]


def spelled(parameter: inspect.Parameter) -> str:
    return (spellings_of(parameter) or (parameter.name,))[-1]


@in_one_test(*registry.ENTRIES)
def test_free_text_is_not_told(entry: registry.Entry) -> None:
    options = own_options(entry)
    told = {spelled(one) for one in options if value_of(one).is_told}
    assert not told & NOT_TOLD.get(entry.name, set())
    assert NOT_TOLD.get(entry.name, set()) <= {spelled(one) for one in options}


def test_the_log_says_that_there_was_a_text_and_not_what_it_was(rmqadmin: Rmqadmin, fresh: Fresh) -> None:
    """`--where "phone='…'"` was written down, and so were keys and other conditions."""
    topic = fresh("AuditTopic")
    rmqadmin("updateTopic", "-c", CLUSTER, "-t", topic)
    assert rmqadmin("sendMessage", "-t", topic, "-p", "phone=110220", "-k", "phone-110220").status == 0
    assert rmqadmin("msg", "send", topic, "phone=110220", "--key", "phone-110220", "--property", "p=110220").status == 0
    assert rmqadmin("updateKvConfig", "-s", topic, "-k", "note", "-v", "phone=110220").status == 0
    assert rmqadmin("deleteKvConfig", "-s", topic, "-k", "note").status == 0
    assert "110220" not in text_of_log()
    assert '"field":"note"' in text_of_log()
    sent = next(item for item in rmqadmin("audit", "-o", "json").items if item["command"] == "sendMessage")
    assert sent["arguments"] == {"--topic": topic, "--body": "(not written down)", "--key": "(not written down)"}
