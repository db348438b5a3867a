"""The program on a real terminal: questions, widths, Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import pytest

from tests.rmqadmin.conftest import CLUSTER, Rmqadmin
from tests.support.servers import Server

TIMEOUT_S = 30  # far past what any step takes on a busy machine

Terminal = Callable[..., "pexpect.spawn[str]"]


@pytest.fixture
def terminal(server: Server, tmp_path: Path) -> Iterator[Terminal]:
    """``terminal("topicList", columns=40)``: one command line in a pty."""
    spawned: list[pexpect.spawn[str]] = []

    def spawn(*args: str, columns: int = 100) -> pexpect.spawn[str]:
        env = {
            "PATH": "/usr/bin:/bin", "TERM": "xterm", "NAMESRV_ADDR": server.namesrv_addr, "NO_COLOR": "1",
            "XDG_STATE_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "COLUMNS": str(columns),
        }  # fmt: skip
        child = pexpect.spawn(
            sys.executable, ["-m", "rmqadmin", *args], env=env, dimensions=(40, columns), timeout=TIMEOUT_S,
            encoding="utf-8", cwd=str(Path(__file__).parent.parent.parent),
        )  # fmt: skip
        spawned.append(child)
        return child

    yield spawn
    for child in spawned:
        child.close(force=True)


def status(child: pexpect.spawn[str]) -> int:
    child.expect(pexpect.EOF)
    child.wait()
    assert child.exitstatus is not None, f"ended by signal {child.signalstatus}"
    return child.exitstatus


@pytest.fixture
def topic(rmqadmin: Rmqadmin, fresh: Callable[[str], str]) -> str:
    name = fresh("TerminalTopic")
    assert rmqadmin("updateTopic", "-c", CLUSTER, "-t", name, "-r", "1", "-w", "1").status == 0
    return name


def exists(rmqadmin: Rmqadmin, topic: str) -> bool:
    return rmqadmin("topicRoute", "-t", topic).status == 0


def test_deleting_asks_for_the_name_and_takes_nothing_else_for_a_yes(
    terminal: Terminal, rmqadmin: Rmqadmin, topic: str
) -> None:
    child = terminal("deleteTopic", "-c", CLUSTER, "-t", topic)
    child.expect_exact(f"Type {topic} to go on: ")
    child.sendline("y")
    child.expect_exact("nothing was changed")
    assert status(child) == 1
    assert exists(rmqadmin, topic)
    child = terminal("deleteTopic", "-c", CLUSTER, "-t", topic)
    child.expect_exact(f"Type {topic} to go on: ")
    child.sendline(topic)
    assert status(child) == 0
    assert not exists(rmqadmin, topic)


def test_the_end_of_input_is_no_yes(terminal: Terminal, rmqadmin: Rmqadmin, topic: str) -> None:
    child = terminal("deleteTopic", "-c", CLUSTER, "-t", topic)
    child.expect_exact("to go on: ")
    child.sendeof()
    assert status(child) == 1
    assert exists(rmqadmin, topic)


@pytest.mark.parametrize("args", [["--yes"], ["--output", "mqadmin"], ["--dry-run"]])
def test_nothing_is_asked_with_yes_in_mqadmins_format_and_in_a_dry_run(
    terminal: Terminal, topic: str, args: list[str]
) -> None:
    child = terminal("deleteTopic", "-c", CLUSTER, "-t", topic, *args)
    assert status(child) == 0
    assert "to go on" not in (child.before or "")


def test_a_reset_shows_each_queue_before_it_asks(
    terminal: Terminal, rmqadmin: Rmqadmin, topic: str, fresh: Callable[[str], str]
) -> None:
    group = fresh("TerminalGroup")
    rmqadmin("updateSubGroup", "-c", CLUSTER, "-g", group)
    rmqadmin("sendMessage", "-t", topic, "-p", "x")
    rmqadmin("resetOffset", "-g", group, "-t", topic, "--to", "begin")
    child = terminal("resetOffset", "-g", group, "-t", topic, "--to", "end")
    child.expect(r"broker-a +0 +0 +1 +1 +0 +false")
    child.expect_exact(f"This moves the group {group} in {topic} to the end of every queue.")
    child.expect_exact(f"Type {group} to go on: ")
    child.sendline(group)
    child.expect(r"broker-a +0 +0 +1 +1 +0 +true")
    assert status(child) == 0


def test_ctrl_c_at_a_question_changes_nothing(terminal: Terminal, rmqadmin: Rmqadmin, topic: str) -> None:
    child = terminal("deleteTopic", "-c", CLUSTER, "-t", topic)
    child.expect_exact("to go on: ")
    child.sendintr()
    assert status(child) == 130
    assert "Traceback" not in (child.before or "")
    assert exists(rmqadmin, topic)


def test_a_watch_redraws_in_place_until_ctrl_c(terminal: Terminal) -> None:
    child = terminal("clusterList", "--watch", "0.1")
    for _ in range(2):
        child.expect_exact("\x1b[H\x1b[2J")
        child.expect_exact("clusterList, every 0.1 s")
    child.sendintr()
    assert status(child) == 130
    assert "Traceback" not in (child.before or "")


def test_a_table_is_as_wide_as_the_terminal(terminal: Terminal) -> None:
    child = terminal("clusterList", "--output", "wide", columns=60)
    assert status(child) == 0
    lines = (child.before or "").replace("\r", "").splitlines()
    assert max(len(line) for line in lines) <= 60
    assert "\x1b" not in "".join(lines)  # NO_COLOR
