"""The shell as a person uses it, in a real terminal."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest

from rmqadmin.core.contexts.context_store import ContextStore
from tests.rmqadmin.conftest import CLUSTER, Rmqadmin, Terminal, status
from tests.support.servers import Fresh, Server

Opened = Callable[..., "pexpect.spawn[str]"]


@pytest.fixture
def shell(terminal: Terminal, server: Server) -> Opened:
    """``shell()``: starts a shell and waits for its first prompt."""

    def open_shell(*args: str, **env: str) -> pexpect.spawn[str]:
        child = terminal("shell", *args, env={"PROMPT_TOOLKIT_NO_CPR": "1", **env})
        child.expect_exact("Ctrl-D leaves")
        at_prompt(child, server.namesrv_addr)
        return child

    return open_shell


def at_prompt(child: pexpect.spawn[str], text: str) -> str:
    """Waits for a prompt in which nothing is typed yet. Returns the output before it."""
    # After a redrawn prompt comes the typed text; after a new one, the command that shows the cursor.
    child.expect(re.escape(text) + r">(\x1b\[[0-9;?]*[A-Za-z]| )*\x1b\[\?25h")
    return child.before or ""


def typed(child: pexpect.spawn[str], line: str, prompt: str) -> str:
    """Types a line and waits for the next prompt. Returns the line's output."""
    child.send(line)
    child.expect_exact(line[-1])
    child.send("\r")
    child.expect_exact("\x1b[?2004l")  # the prompt has released the terminal
    return at_prompt(child, prompt)


def test_a_session(shell: Opened, server: Server, rmqadmin: Rmqadmin, fresh: Fresh) -> None:
    """Prompt, status, TAB, a watch, Ctrl-C and Ctrl-D."""
    begun = fresh("ShellTopic") + "-be"
    rmqadmin("updateTopic", "-c", CLUSTER, "-t", f"{begun}gun")
    addr = server.namesrv_addr
    child = shell()
    assert "SYSTEM_ERROR" in typed(child, "explain 1 -o name", addr)
    assert "No topic route info" in typed(child, "topicRoute -t nosuch", f"{addr} 5")
    for words, rest in (("topicClu", "sterList"), (f"-t {begun}", "gun")):
        child.send(f"{words}\t")
        child.expect_exact(rest)
    child.send("\r")
    child.expect_exact(CLUSTER)
    at_prompt(child, addr)
    child.send("clusterList --watch 0.1\r")
    for _ in range(2):
        child.expect_exact("clusterList, every 0.1 s")
    child.sendintr()
    assert "Traceback" not in at_prompt(child, f"{addr} 130")
    child.send("half a line")
    child.expect_exact("line")
    child.sendintr()
    at_prompt(child, addr)
    child.sendintr()
    at_prompt(child, addr)
    child.sendeof()
    assert status(child) == 0


@pytest.mark.slow
def test_the_context_is_in_the_prompt_with_its_colour(shell: Opened, rmqadmin: Rmqadmin, server: Server) -> None:
    ContextStore().add("live", {"namesrv_addr": server.namesrv_addr, "color": "red"})
    ContextStore().add("gone", {"namesrv_addr": "127.0.0.1:1"})
    child = shell(NO_COLOR="")
    child.send("context use live\r")
    child.expect(r"\x1b\[[0-9;]*41[0-9;]*m\[live\]")
    at_prompt(child, "")
    child.send("context use gone\r")
    child.expect_exact("[gone]")
    at_prompt(child, "")
    child.send("topicList\r")
    child.expect_exact("cannot connect to 127.0.0.1:1")
    child.send("exit\r")
    assert status(child) == 0


@pytest.mark.slow
def test_history_goes_on_in_the_next_shell_without_secrets(shell: Opened, tmp_path: Path, server: Server) -> None:
    first = shell()
    typed(first, "explain 17 -o name", server.namesrv_addr)
    typed(first, "topicList -ak me -sk hunter2", server.namesrv_addr)
    first.send("\x1b[A")  # this shell still knows it
    first.expect_exact("hunter2")
    first.sendintr()
    at_prompt(first, server.namesrv_addr)
    first.sendeof()
    assert status(first) == 0
    path = tmp_path / "state/rmqadmin/shell_history"
    assert path.read_text() == "explain 17 -o name\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    second = shell()
    second.send("\x1b[A\r")
    second.expect_exact("TOPIC_NOT_EXIST")


@pytest.mark.slow
def test_questions_the_pager_and_the_dashboard_have_the_terminal_and_give_it_back(
    shell: Opened, server: Server, rmqadmin: Rmqadmin, tmp_path: Path, fresh: Fresh
) -> None:
    topic, addr = fresh("ShellTopic"), server.namesrv_addr
    rmqadmin("updateTopic", "-c", CLUSTER, "-t", topic)
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\ncat > /dev/null\nprintf 'PAGER '; head -1 < /dev/tty\n")
    pager.chmod(0o755)
    child = shell(RMQADMIN_PAGER=str(pager))
    child.send(f"deleteTopic -c {CLUSTER} -t {topic}\r")
    child.expect_exact("to go on: ")
    child.sendintr()
    at_prompt(child, f"{addr} 130")
    child.send(f"deleteTopic -c {CLUSTER} -t {topic}\r")
    child.expect_exact("to go on: ")
    child.send(f"{topic}\r")
    at_prompt(child, addr)
    child.send(f"getBrokerConfig -b {server.broker_addr}\r")
    child.expect_exact("PAGER ")
    child.send("read\r")
    child.expect_exact("read")
    at_prompt(child, addr)
    child.send("tui --read-only\r")
    child.expect_exact("broker-a")
    child.send("q")
    at_prompt(child, addr)
    assert "SYSTEM_ERROR" in typed(child, "explain 1 -o name", addr)
    child.sendeof()
    assert status(child) == 0


@pytest.mark.slow
def test_pasted_lines_run_up_to_the_first_that_fails(shell: Opened, server: Server) -> None:
    child = shell()
    child.send("\x1b[200~explain 1 -o name\nexplain nosuch\nexplain 17 -o name\n\x1b[201~\r")
    child.expect_exact("SYSTEM_ERROR")
    assert "TOPIC_NOT_EXIST" not in at_prompt(child, f"{server.namesrv_addr} 5")
