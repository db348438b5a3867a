"""What stays from one line to the next, and what must not."""

import gc
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rmqadmin.cli import program, registry
from rmqadmin.cli.options.common_options import CommonOptions
from rmqadmin.cli.prompt.candidates import LineSoFar, offer, read_words
from rmqadmin.cli.prompt.interactive import head
from rmqadmin.cli.prompt.live_names import WAIT_S, LiveNames
from rmqadmin.cli.registry import Effect
from rmqadmin.core.contexts.context_store import ContextStore
from rmqadmin.core.contexts.settings import CONTEXT_VARIABLE
from rmqclient.admin import AdminClient
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.errors import NotFoundError, UsageError
from tests.rmqadmin.cli.prompt.conftest import RunLine, opened, runner
from tests.rmqadmin.conftest import CLUSTER, Rmqadmin
from tests.support.forwarder import Forwarder
from tests.support.peer import Peer
from tests.support.quick import first_is_quick
from tests.support.servers import Fresh, Server, until

SAMPLE = [
    "topicList",
    "-o json topicList",
    "topicList -o jsonl",
    "topicList --json topic --color",  # an error
    "topicStatus -t {topic}",
    "--color always topicStatus -t {topic}",
    "topicRoute -t nosuch",
    "clusterList --output yaml",
    "sendMessage -t {topic} -p x --dry-run",
    "updateTopic -c DefaultCluster -t {topic} --dry-run",
    "consumerProgress -o tsv",
    "getBrokerConfig -b {broker} -o mqadmin",
    "msg cat {topic} -f '%k\\n'",
    "--debug explain 17",
    "explain 17 -o name | cat",
    "context ls",
    "config show",
    "printMsg -t {topic}",
]


@contextmanager
def nothing_changes() -> Iterator[None]:
    """Checks the state of the process. Threads that were there before may end: trio's do when they have been idle for
    ten seconds, and earlier tests leave some."""

    def state() -> tuple[object, ...]:
        handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGWINCH)]
        streams = [sys.stdin, sys.stdout, sys.stderr]
        return handlers, streams, dict(os.environ), os.getcwd(), gc.isenabled()

    before, threads = state(), set(threading.enumerate())
    yield
    assert state() == before
    assert set(threading.enumerate()) <= threads


@pytest.mark.parametrize("step", first_is_quick([8, 1]))
def test_every_help_is_the_same_in_a_shell_and_says_it_twice(line: RunLine, alone: Rmqadmin, step: int) -> None:
    """The quick run takes every eighth command."""
    with nothing_changes():
        for entry in registry.ENTRIES[::step]:
            by_itself = alone(*entry.name.split(), "--help", status=0)
            for _ in range(2):
                ran = line(f"{entry.name} --help")
                assert (ran.status, ran.out, ran.err) == (by_itself.status, by_itself.out, by_itself.err)


def test_nothing_of_one_line_is_left_in_the_next(line: RunLine, alone: Rmqadmin, server: Server, fresh: Fresh) -> None:
    """Each line answers as in its own process, whatever came before it. Formats, colours and errors do not stay."""
    topic = fresh("ShellTopic")
    assert line(f"updateTopic -c {CLUSTER} -t {topic} -r 1 -w 1").status == 0
    lines = [text.format(topic=topic, broker=server.broker_addr) for text in SAMPLE]
    first = [line(text) for text in lines]
    with nothing_changes():
        again = [line(text) for text in reversed(lines)][::-1]
    for text, one, other in zip(lines, first, again, strict=True):
        assert (text, one.status, one.out.split()[:3], one.err) == (
            text,
            other.status,
            other.out.split()[:3],
            other.err,
        )
        assert "Traceback" not in one.err
    words = ["config", "show"]
    assert line("config show").out.replace(CONTEXT_VARIABLE, "") == alone(*words).out


def test_connections_are_kept_and_opened_again_when_they_broke(
    environment: None, server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    with Forwarder() as far:
        far.to = server.namesrv_addr
        with opened(CommonOptions(namesrv_addr=far.address)) as commands:
            run = runner(commands, capfd)
            for _ in range(3):
                assert run("topicList").status == 0
            assert run("topicRoute -t nosuch").status == 5
            assert far.connection_count == 1
            far.drop()
            until(lambda: run("topicList").status == 0)
            assert far.connection_count == 2
            assert run(f"topicList --timeout 3 -n {far.address}").status == 0
            assert far.connection_count == 2
            run("topicList -ak k -sk s")  # other credentials
            assert far.connection_count == 3


def test_a_name_server_that_hangs_holds_up_one_line_not_all(
    environment: None, server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    with Peer(lambda request: None) as silent:
        both = f"{silent.address};{server.namesrv_addr}"
        with opened(CommonOptions(namesrv_addr=both)) as commands:
            run = runner(commands, capfd)
            assert run("topicRoute -t nosuch --timeout 0.2").status == 5
            assert [run("topicRoute -t nosuch").status for _ in range(3)] == [5, 5, 5]
            assert run("topicList").status == 0
            assert len(silent.requests) == 1


@pytest.mark.slow
def test_a_broker_that_restarts_is_found_again(
    environment: None, start_standalone: Callable[..., Server], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first = start_standalone("--data", tmp_path / "store")
    with opened(CommonOptions(namesrv_addr=first.namesrv_addr)) as commands:
        run = runner(commands, capfd)
        status = f"brokerStatus -b {first.broker_addr}"
        assert run(status).status == 0
        first.stop()
        assert run(status).status == 3
        ports = [addr.rpartition(":")[2] for addr in (first.namesrv_addr, first.broker_addr)]
        start_standalone("--data", tmp_path / "store", "--namesrv-port", ports[0], "--port", ports[1])
        assert run(status).status == 0
        assert run("topicList").status == 0


def test_the_second_time_nothing_is_imported_or_built(line: RunLine) -> None:
    line("topicList")
    line("clusterList")
    before = set(sys.modules)
    line("topicList")
    line("clusterList")
    assert set(sys.modules) == before


# --- contexts --------------------------------------------------------------------------------------------------------


@pytest.fixture
def two(environment: None, server: Server) -> None:
    """``here``, the shared server, and ``gone``, where nothing listens."""
    ContextStore().add("here", {"namesrv_addr": server.namesrv_addr, "color": "red"})
    ContextStore().add("gone", {"namesrv_addr": "127.0.0.1:1"})


def test_context_use_counts_at_once_whatever_the_shell_was_started_with(
    two: None, server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    before = dict(os.environ)
    with opened(CommonOptions(context="gone", timeout_s=9)) as commands:
        run = runner(commands, capfd)
        session = commands.before.session
        assert session is not None
        assert run("topicList").status == 3
        assert head(session, 3, has_color=False) == "[gone] 3> "
        assert run("context use here").status == 0
        assert run("topicList").status == 0
        assert head(session, 0, has_color=True) == "\x1b[1;41;97m[here]\x1b[0m> "
        assert session.options == CommonOptions(context="here", timeout_s=9)
        assert run("--context gone topicList").status == run("topicList --context gone").status == 3
        assert run("topicList").status == 0
        assert run("! echo $RMQADMIN_CONTEXT").out == "here\n"
        assert run("context use none").status == 0
        assert head(session, 0, has_color=False) == f"{server.namesrv_addr}> "
        run("context use here")
        assert run("context rm here --yes").status == 0
        assert head(session, 0, has_color=False) == f"{server.namesrv_addr}> "
    assert dict(os.environ) == before


def test_a_context_that_is_added_to_be_used_counts_at_once(two: None, capfd: pytest.CaptureFixture[str]) -> None:
    """The context used to be reported as in use, while the next line asked the previous context's servers."""
    with opened(CommonOptions(context="here")) as commands:
        run = runner(commands, capfd)
        assert run("context add new -n 127.0.0.1:1 --use").status == 0
        assert commands.before.session is not None
        assert head(commands.before.session, 0, has_color=False) == "[new]> "
        assert run("topicList").status == 3
        in_use = [item["context"] for item in json.loads(run("-o json context ls").out)["items"] if item["in_use"]]
    assert in_use == ["new"]


def test_what_another_terminal_chooses_does_not_move_a_shell(
    two: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR")
    ContextStore().use("here")
    with opened(CommonOptions()) as commands:
        run = runner(commands, capfd)
        assert run("topicList").status == 0
        ContextStore().use("gone")
        assert run("topicList").status == 0
        assert run("context use -").status == 0
    with pytest.raises(NotFoundError), opened(CommonOptions(context="nosuch")):
        pass


def test_options_of_the_shell_hold_for_lines_that_say_nothing_else(
    two: None, server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    with opened(CommonOptions(namesrv_addr="127.0.0.1:1", unlock=True, tls=True)) as commands:
        run = runner(commands, capfd)
        session = commands.before.session
        assert session is not None
        assert run(f"topicList -n {server.namesrv_addr} --no-tls").status == 0
        assert run("topicList --context here").status == 0
        assert session.filled(CommonOptions()).unlock
        assert not session.filled(CommonOptions(context="here")).unlock


def test_a_context_whose_file_is_broken_leaves_a_prompt(
    two: None, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(CommonOptions(context="here")) as commands:
        ContextStore().path("here").write_text("namesrv_addr = 1\n")
        assert commands.before.session is not None
        assert head(commands.before.session, 0, has_color=False) == "[here?]> "
        assert runner(commands, capfd)("topicList").status == 2


# --- names -----------------------------------------------------------------------------------------------------------


def test_names_come_from_the_live_cluster_and_if_it_is_gone_from_what_was_seen(
    environment: None, server: Server, admin: AdminClient, fresh: Fresh, capfd: pytest.CaptureFixture[str]
) -> None:
    group = fresh("ShellGroup")
    admin.create_group(server.broker_addr, SubscriptionGroupConfig(group_name=group))
    admin.put_kv(server.namesrv_addr, "ShellSpace", group, "v")
    with opened(CommonOptions()) as commands:
        session = commands.before.session
        assert session is not None
        names = LiveNames(session)

        def complete(text: str) -> list[str]:
            return [each.text for each in offer(text, names.of).candidates]

        assert complete("topicStatus -t TBW") == ["TBW102"]
        assert "broker-a" not in complete("topicStatus -t ")
        assert complete(f"consumerProgress -g {group}") == [group]
        assert complete("clusterList -c ") == [CLUSTER]
        assert complete("brokerStatus -b ") == [server.broker_addr]
        assert complete("wipeWritePerm -b ") == ["broker-a"]
        assert "traceOn" in complete("updateBrokerConfig -k t")
        assert complete("updateNamesrvConfig -k listenP") == ["listenPort"]
        assert complete(f"deleteKvConfig -s ShellSpace -k {group}") == [group]
        assert complete("topicStatus --context nosuch -t ") == []
        assert complete("topicStatus -n nonsense -t ") == []
        with Forwarder() as far:
            far.to = server.namesrv_addr
            there = f"topicStatus -n {far.address} -t TBW"
            assert LiveNames(session).of("topic", read_words(there.split()[:3]))
        assert [each.text for each in offer(there, LiveNames(session).of).candidates] == ["TBW102"]


def test_a_server_that_did_not_answer_is_asked_again_after_a_while(
    environment: None, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine a single late answer used to leave the prompt without names."""
    with opened(CommonOptions()) as commands:
        session = commands.before.session
        assert session is not None
        names = LiveNames(session)
        monkeypatch.setattr("rmqadmin.cli.prompt.live_names.monotonic", lambda: 1000.0)
        monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:1")
        assert names.of("topic", LineSoFar()) == []
        monkeypatch.setenv("NAMESRV_ADDR", server.namesrv_addr)
        assert names.of("topic", LineSoFar()) == []  # not at once
        monkeypatch.setattr("rmqadmin.cli.prompt.live_names.monotonic", lambda: 1000.0 + WAIT_S)
        assert "TBW102" in names.of("topic", LineSoFar())


# --- lines -----------------------------------------------------------------------------------------------------------


def test_a_pipe_and_a_mark_run_programs_and_hand_on_their_status(line: RunLine) -> None:
    assert line("explain 17 -o name | tr T x").out == "xOPIC_NOx_EXISx\n"
    assert line("rmqadmin explain 17 -o json | cat").out.startswith("{")
    assert line("explain nosuch | cat").status == 5
    assert line("explain 17 | exit 4").status == 4
    assert line("topicList -o jsonl | true").status == 0
    assert line("! exit 3").status == 3
    assert line("! kill -9 $$").status == 137
    assert (line("").status, line("  # nothing").status) == (0, 0)
    for text in ("topicList |", "| cat", "topicList 'x"):
        assert line(text).status == 2


def test_a_shell_in_the_shell_is_refused(line: RunLine) -> None:
    assert line("shell -c 'explain 1'").err.startswith("rmqadmin: error: this is the shell already")


def test_ctrl_c_ends_the_command_alone(line: RunLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def pressed(_seconds: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("rmqadmin.cli.watch.time.sleep", pressed)
        assert line("clusterList --watch").status == 130
    assert line("clusterList").status == 0


def test_the_dashboard_and_the_shell_are_the_only_ones_without_output() -> None:
    screens = [entry.name for entry in registry.ENTRIES if entry.effect is Effect.SCREEN]
    assert screens == ["shell", "tui"]


def test_usage_errors_of_a_line_are_told_in_its_format(line: RunLine) -> None:
    assert line("-o json topicStatus").err.startswith("{")
    assert line("topicStatus").err.startswith("rmqadmin: error: ")
    with pytest.raises(UsageError):
        opened(CommonOptions(context="no/name")).__enter__()


def test_quiet_holds_for_its_own_line_and_leaves_errors(line: RunLine, fresh: Fresh) -> None:
    misspelt = f"sendMessage -t {fresh('NoSuch')} -p x --dry-run"
    loud = line(misspelt)
    quiet = line(f"-q {misspelt}")
    assert "there is no topic" in loud.err
    assert (quiet.status, quiet.out.split()[:2], quiet.err) == (0, loud.out.split()[:2], "")
    assert line("--quiet explain nosuch").err.startswith("rmqadmin: error: ")
    assert line(misspelt).err == loud.err


def test_a_quiet_shell_is_quiet_in_every_line(
    environment: None, fresh: Fresh, capfd: pytest.CaptureFixture[str]
) -> None:
    misspelt = f"sendMessage -t {fresh('NoSuch')} -p x --dry-run"
    assert program.run(["-q", "shell", "-c", misspelt, "-c", f"{misspelt} -o name"]) == 0
    assert capfd.readouterr().err == ""
    assert program.run(["shell", "-c", misspelt]) == 0
    assert "there is no topic" in capfd.readouterr().err
