"""Lines that the program runs from a script instead of a prompt."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqadmin.cli.prompt.command_lines import given_lines, script_lines
from tests.rmqadmin.pages.page_lines import command_lines
from tests.support.servers import Server


def test_lines_go_on_behind_a_backslash_and_have_numbers() -> None:
    text = ["a\n", "b \\\n", "c\\\\\n", "\n", "d\\\r\n", "e"]
    assert list(script_lines(text)) == [("line 1", "a"), ("line 2", "b c\\\\"), ("line 4", ""), ("line 5", "de")]
    assert list(script_lines(["a\\"])) == [("line 1", "a")]
    assert list(given_lines(["a", "b\nc"])) == [("-c number 1", "a"), ("-c number 2", "b"), ("-c number 2", "c")]


@pytest.fixture
def homes(server: Server, tmp_path: Path) -> dict[str, str]:
    """An environment that names the shared server and has nobody's files."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("RMQADMIN_")}
    own = {f"XDG_{kind}_HOME": str(tmp_path / kind) for kind in ("CONFIG", "STATE", "CACHE")}
    return {**env, **own, "NAMESRV_ADDR": server.namesrv_addr}


Shell = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def shell(homes: dict[str, str]) -> Shell:
    def run(*args: str, script: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "rmqadmin", *args]
        return subprocess.run(command, input=script, capture_output=True, text=True, env=homes)

    return run


@pytest.mark.slow
def test_the_examples_of_the_page_end_as_it_says(server: Server, homes: dict[str, str]) -> None:
    examples = command_lines("docs/shell.md")
    assert len(examples) == 4
    for example in examples:
        command, _, remark = example.replace("rmqadmin", f"{sys.executable} -m rmqadmin").partition("  #")
        expected = re.search(r"exit status (\d+)", remark)
        done = subprocess.run(["sh", "-c", command], env=homes, capture_output=True, text=True)
        assert done.returncode == (int(expected[1]) if expected else 0), f"{example}\n{done.stderr}"
        assert ("TBW102" in done.stdout) == ("not run" not in remark), example


SCRIPT = """\
# what every morning begins with
-o name explain 17
rmqadmin explain \\
  18 -o name | cat
msg send T --lines - --dry-run
! cat
explain nosuch
explain 1 -o name
"""


def test_a_script_stops_at_its_first_failure_and_no_command_reads_its_lines(shell: Shell) -> None:
    """Otherwise ``msg send -`` and ``! cat`` would read the rest of the script."""
    done = shell("shell", script=SCRIPT)
    assert done.returncode == 5, done.stderr
    assert done.stdout.startswith("TOPIC_NOT_EXIST\nTOPIC_EXIST_ALREADY\n")
    assert "SYSTEM_ERROR" not in done.stdout
    assert "explain nosuch" not in done.stdout
    assert "line 7 ended with status 5: the rest was not run" in done.stderr


@pytest.mark.slow
def test_lines_of_the_command_line_are_run_to_the_end_if_wanted_and_leave_standard_input(shell: Shell) -> None:
    lines = ("-c", "explain nosuch", "-c", "! cat", "-c", "topicStatus", "-c", "exit", "-c", "explain 1")
    done = shell("-o", "name", "shell", "--keep-going", *lines, script="mine\n")
    assert (done.returncode, done.stdout) == (5, "mine\n")
    assert "-c number 3 ended with status 2\n" in done.stderr


@pytest.mark.slow
def test_a_program_can_talk_to_a_shell_line_by_line(server: Server) -> None:
    command = [sys.executable, "-m", "rmqadmin", "shell", "-n", server.namesrv_addr]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as talking:
        assert talking.stdin is not None
        assert talking.stdout is not None
        for code, name in (("1", "SYSTEM_ERROR"), ("17", "TOPIC_NOT_EXIST")):
            talking.stdin.write(f"explain {code} -o name\n")
            assert talking.stdout.readline() == f"{name}\n"
        talking.stdin.close()
        assert talking.wait() == 0
