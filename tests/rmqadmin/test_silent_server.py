"""A server that accepts connections but never answers (an HTTP or TLS server, or one that hangs) costs a whole
time-out. Meanwhile a terminal says which server is waited for."""

import socket
from collections.abc import Iterator

import pytest

from tests.rmqadmin.conftest import Rmqadmin, Terminal, status

ENOUGH_S = "4"
"""A time-out well after the first second, even on a busy machine."""


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that never answers. The kernel accepts its connections."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def test_a_terminal_says_what_is_waited_for(terminal: Terminal, silent: str) -> None:
    """The terminal used to stay blank for five seconds. All wait at once."""
    begun = [
        (terminal(*line.split(), "-n", silent, "--timeout", ENOUGH_S, columns=80), ends_with)
        for line, ends_with in [("topicList", 6), ("sendMessage -t T -p b", 6), ("check broker", 3)]
    ]
    for child, ends_with in begun:
        child.expect_exact(f"\r\x1b[Kwaiting for {silent}, which has sent nothing yet")
        assert status(child) == ends_with
        assert str(child.before).startswith("\r\x1b[K")  # the line is erased before the error
        assert f"{silent} did not answer" in str(child.before)


def test_a_server_that_answers_is_no_news(terminal: Terminal) -> None:
    child = terminal("topicList", "--all")
    assert status(child) == 0
    assert "waiting for" not in str(child.before)


def test_a_script_reads_the_error_alone(run: Rmqadmin, silent: str) -> None:
    ran = run("topicList", "-n", silent, "--timeout", "1.2", status=6, out="")
    assert ran.err.startswith(f"rmqadmin: error: {silent} did not answer")
    assert "waiting for" not in ran.err
