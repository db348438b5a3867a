"""A shell inside the test's process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from rmqadmin.cli import program
from rmqadmin.cli.call import Call
from rmqadmin.cli.invocation import Invocation
from rmqadmin.cli.options.common_options import CommonOptions
from rmqadmin.cli.prompt.command_lines import CommandLines
from tests.rmqadmin.conftest import Ran, Rmqadmin, run_line
from tests.support.servers import Server

RunLine = Callable[..., Ran]


@contextmanager
def opened(options: CommonOptions) -> Iterator[CommandLines]:
    """The command lines of a shell that was started with these options."""
    with Call("shell", options).shell_session() as session:
        yield CommandLines(Invocation(session=session))


def runner(commands: CommandLines, capfd: pytest.CaptureFixture[str]) -> RunLine:
    return lambda line, **wanted: run_line(commands.run, line, capfd, **wanted)


@pytest.fixture
def environment(bare_environment: None, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that names the shared server and has no other settings."""
    monkeypatch.setenv("NAMESRV_ADDR", server.namesrv_addr)


@pytest.fixture
def alone(environment: None, capfd: pytest.CaptureFixture[str]) -> Rmqadmin:
    """``alone("topicList")``: runs one command line outside any shell."""
    return lambda *args, **wanted: run_line(program.run, args, capfd, **wanted)


@pytest.fixture
def line(environment: None, capfd: pytest.CaptureFixture[str]) -> Iterator[RunLine]:
    """``line("topicList")``: runs one line of a shell on the shared server. The result includes what programs write."""
    with opened(CommonOptions()) as commands:
        yield runner(commands, capfd)
