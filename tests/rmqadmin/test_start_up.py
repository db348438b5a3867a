"""What the program imports when it starts in its own process, which is the cost of its start."""

import os
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from rmqadmin.core.contexts.context_store import ContextStore
from rmqadmin.core.exit_codes import ExitCode
from rmqadmin.version import VERSION
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from tests.support.quick import first_is_quick
from tests.support.servers import Fresh, Server, topic_config

HEAVY = {
    "trio", "textual", "pyspark", "rich", "yaml", "asyncio", "pydantic", "concurrent.futures", "encodings.idna",
    "tomlkit", "prompt_toolkit",
}  # fmt: skip


def imported(*args: str) -> set[str]:
    """The names of all modules that a command line imports, top-level and dotted."""
    script = (
        "import sys\n"
        "before = {*sys.modules}\n"  # `-c` itself imports linecache from 3.13 on
        f"sys.argv = ['rmqadmin', *{list(args)!r}]\n"
        "from rmqadmin.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit as done:\n    assert not done.code, done.code\n"
        "print(*(sys.modules.keys() - before), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_help_imports_no_client_and_no_command() -> None:
    found = imported("--help")
    assert not found & (HEAVY | {"rmqclient.admin", "socket"})
    assert not {name for name in found if name.startswith("rmqadmin.commands.")}


@pytest.mark.parametrize("command", [("spark-replay",), ("spark-report",), ("dlq", "redrive"), ("tui",)])
def test_the_help_of_a_command_loads_nothing_that_only_its_work_needs(command: tuple[str, ...]) -> None:
    found = imported(*command, "--help")
    assert not found & {"rmqclient.admin", "trio", "textual", "pyspark", "rich", "prompt_toolkit"}


def test_no_command_needs_the_client_to_show_its_help() -> None:
    """So a help is as quick as a read of one topic."""
    script = (
        "import importlib, sys\n"
        "from rmqadmin.cli import registry\n"
        "for entry in registry.ENTRIES:\n"
        "    entry.load()\n"
        "    if 'rmqclient.admin' in sys.modules: sys.exit(entry.name)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, stderr=subprocess.PIPE)


def test_a_plain_topic_list_imports_its_own_command_and_nothing_heavy(server: Server) -> None:
    found = imported("topicList", "-n", server.namesrv_addr)
    assert not found & (HEAVY | {"logging", "hashlib", "json", "csv", "rmqproto.message.record", "rmqclient.sending"})
    assert not found & {"rmqproto.times", "rmqproto.java.java_properties"}  # they compile patterns
    commands = {name for name in found if name.startswith("rmqadmin.commands.")}
    assert commands == {"rmqadmin.commands.topic", "rmqadmin.commands.topic.topic_lists"}
    assert not {name for name in found if name.startswith(("rmqserver", "spark_tools"))}
    typed = {name for name in found if name.startswith(("rmqproto.bodies.", "rmqproto.headers."))}
    tables = {"rmqproto.headers.base", "rmqproto.headers.request_table"}  # which load the headers that are used
    assert typed == {"rmqproto.bodies.base", "rmqproto.bodies.routes", *tables}


def test_settings_cost_only_those_who_have_some(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading a settings file takes 4 ms, and changing one takes 30 ms."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert "tomllib" not in imported("topicList", "-n", server.namesrv_addr)
    assert "rmqadmin.core.contexts.settings" not in imported("--help")
    ContextStore().add("dev", {"namesrv_addr": server.namesrv_addr})
    found = imported("topicList", "--context", "dev")
    assert "tomllib" in found
    assert not found & HEAVY


def test_a_shell_that_nobody_sits_before_needs_no_prompt() -> None:
    found = imported("shell", "-c", "explain 1")
    assert "rmqadmin.cli.prompt.command_lines" in found
    assert not found & HEAVY


def test_the_first_frame_of_the_dashboard_needs_no_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client is loaded after the first frame: 60 of 350 ms. What reads alert rules is loaded if there are any."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    script = (
        "import sys\n"
        "import rmqadmin.commands.tui\n"
        "from rmqadmin.core.alerts.alerts_file import rules_in_force\n"
        "assert rules_in_force(None) == ()\n"
        "from rmqadmin.tui.app import DashboardApp\n"
        "from rmqadmin.tui.screens.pulse import PulseScreen\n"
        "from rmqadmin.tui.settings import DashboardSettings\n"
        "DashboardApp(DashboardSettings('127.0.0.1:1', lambda: None, lambda: 0))\n"
        "PulseScreen()\n"
        "print(*sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    found = set(done.stdout.split())
    assert "textual.app" in found
    assert not found & {"rmqclient.admin", "rmqclient.blocking", "rmqproto.bodies", "tomllib", "encodings.idna"}
    assert not found & {"rmqadmin.core.alerts.alert_rules", "rmqproto.times"}
    assert not {name for name in found if name.startswith("rmqadmin.tui.sources.")}
    assert not {name for name in found if name.startswith(("aiohttp", "textual_serve", "rmqadmin.tui.browser"))}


def test_the_end_does_all_but_taking_modules_apart(server: Server) -> None:
    script = (
        "import atexit, sys, threading\n"
        "class Part:\n    def __del__(self): print('taken apart')\n"
        "part = Part()\n"
        f"sys.argv = ['rmqadmin', 'topicRoute', '-t', 'missing', '-n', {server.namesrv_addr!r}]\n"
        "from rmqadmin.__main__ import main\n"
        "def work():\n    threading.main_thread().join()\n    print('thread')\n"
        "threading.Thread(target=work).start()\n"
        "try:\n    main()\nfinally:\n    atexit.register(print, 'registered')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["thread", "registered"]
    assert "missing" in done.stderr
    assert done.returncode == ExitCode.NOT_FOUND


def test_the_version_is_the_distributions_and_takes_no_modules_apart_either() -> None:
    """Taking modules apart was a sixth of its cost."""
    script = (
        "import sys\n"
        "class Part:\n    def __del__(self): print('taken apart')\n"
        "part = Part()\n"
        "sys.argv = ['rmqadmin', '--version']\n"
        "from rmqadmin.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == f"rmqadmin {VERSION}\n" == f"rmqadmin {version('rmqadmin')}\n"


@pytest.mark.parametrize("words", [["explain", "17"], ["--version"], ["--help"], ["topicList", "--help"]])
def test_a_full_disk_behind_the_output_is_no_defect(words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "rmqadmin", *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr == "rmqadmin: error: cannot write standard output: No space left on device\n"
    assert done.returncode == ExitCode.REFUSED


@pytest.mark.slow
def test_a_closed_standard_output_is_an_error_where_something_is_written() -> None:
    """As in ``ls >&-``: what was asked for is lost."""
    command = f"exec {shlex.quote(sys.executable)} -m rmqadmin"
    for words in ("explain 17", "--version", "--help", "topicList --help", "-o json explain 17"):
        done = subprocess.run(["sh", "-c", f"{command} {words} >&-"], stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == ExitCode.REFUSED, words
        assert "standard output is closed" in done.stderr, words
        assert done.stderr.count("\n") == 1, words
    assert subprocess.run(["sh", "-c", f"{command} explain nothing >&- 2>&-"], check=False).returncode == 5


def test_a_check_whose_output_is_lost_is_unknown(server: Server) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "rmqadmin", "check", "disk", "-n", server.namesrv_addr]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        3,
        "rmqadmin: error: cannot write standard output: No space left on device\n",
    )


@pytest.mark.slow
def test_closed_or_full_streams_that_are_not_needed_change_nothing() -> None:
    command = f"exec {shlex.quote(sys.executable)} -m rmqadmin explain"
    for streams in ("<&-", "2>&-", "2>/dev/full", "<&- 2>&-"):
        done = subprocess.run(["sh", "-c", f"{command} 17 {streams}"], stdout=subprocess.PIPE, text=True, check=False)
        assert done.returncode == ExitCode.OK, streams
        assert "TOPIC_NOT_EXIST" in done.stdout
        done = subprocess.run(
            ["sh", "-c", f"{command} nothing {streams}"], stdout=subprocess.PIPE, text=True, check=False
        )
        assert done.returncode == ExitCode.NOT_FOUND, streams


def test_a_reader_that_goes_away_is_no_error(server: Server) -> None:
    """``rmqadmin brokerStatus | head -1`` ends as a shell expects, without a traceback."""
    command = f"{sys.executable} -m rmqadmin brokerStatus -b {server.broker_addr} -n {server.namesrv_addr}"
    script = f"{command} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.returncode in (0, 141)  # 0: the command was faster than `true`
    assert "Traceback" not in done.stderr
    assert "Broken pipe" not in done.stderr


@pytest.mark.parametrize(
    ("words", "status"),
    first_is_quick([
        ("explain 17", 141), ("--help", 141), ("explain nothing", ExitCode.NOT_FOUND), ("nothing", ExitCode.USAGE),
        ("explain --help", 141), ("help explain", 141), ("explain -o schema", 141), ("--version", 141),
        ("explain nothing -o json", ExitCode.NOT_FOUND), ("context ls", 141),
    ], 4),
)  # fmt: skip
def test_where_errors_go_the_same_way_the_status_says_what_happened(words: str, status: int, tmp_path: Path) -> None:
    """``rmqadmin explain nothing 2>&1 | true`` used to end with 1, because the error itself could not be written."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        command = [sys.executable, "-m", "rmqadmin", *words.split()]
        environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
        assert subprocess.run(command, stdout=closed, stderr=closed, env=environment, check=False).returncode == status


def test_a_follow_ends_when_its_reader_goes_away(server: Server, admin: AdminClient, fresh: Fresh) -> None:
    """``msg cat T --follow | head -1`` used to go on until the next message came, perhaps for ever."""
    topic = fresh("Followed")
    admin.create_topic(server.broker_addr, topic_config(topic))
    admin.send_message(server.broker_addr, MessageQueue(topic, "broker-a", 0), Message(topic, b"x"))
    command = f"timeout 50 {sys.executable} -m rmqadmin msg cat {topic} --follow -n {server.namesrv_addr} -o jsonl"
    script = f"{command} | head -1; exit ${{PIPESTATUS[0]}}"
    assert subprocess.run(["bash", "-c", script], capture_output=True, check=False).returncode == 141
