"""A shell inside the test's process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from rmqadmin import cli
from rmqadmin.call import Call
from rmqadmin.invocation import Invocation
from rmqadmin.options.common_options import CommonOptions
from rmqadmin.output import Format
from rmqadmin.prompt.command_lines import CommandLines
from tests.rmqadmin.conftest import Ran, Rmqadmin
from tests.support.servers import Server

RunLine = Callable[[str], Ran]


@contextmanager
def opened(options: CommonOptions) -> Iterator[CommandLines]:
    """The lines of a shell that was started with some options."""
    with Call("shell", options, Format.TABLE).shell_session() as session:
        yield CommandLines(Invocation(session=session))


def runner(commands: CommandLines, capfd: pytest.CaptureFixture[str]) -> RunLine:
    def run_line(line: str) -> Ran:
        capfd.readouterr()
        status = commands.run(line)
        said = capfd.readouterr()
        return Ran(status, said.out, said.err)

    return run_line


@pytest.fixture
def environment(bare_environment: None, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the shared server, and nothing else."""
    monkeypatch.setenv("NAMESRV_ADDR", server.namesrv_addr)


@pytest.fixture
def alone(environment: None, capfd: pytest.CaptureFixture[str]) -> Rmqadmin:
    """``alone("topicList")``: one command line, in no shell."""

    def run_one(*args: str) -> Ran:
        capfd.readouterr()
        status = cli.run(args)
        said = capfd.readouterr()
        return Ran(status, said.out, said.err)

    return run_one


@pytest.fixture
def line(environment: None, capfd: pytest.CaptureFixture[str]) -> Iterator[RunLine]:
    """``line("topicList")``: one line of a shell on the shared server; what programs write counts, too."""
    with opened(CommonOptions()) as commands:
        yield runner(commands, capfd)
