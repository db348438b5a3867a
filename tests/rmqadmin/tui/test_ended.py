"""The dashboard and other programs of the terminal are ended by a signal, or because the terminal is gone.
The process ends, and the terminal is as it was before."""

from __future__ import annotations

import os
import select
import signal
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import pytest

from tests.rmqadmin.tui.conftest import World
from tests.rmqadmin.tui.test_terminal import in_terminal
from tests.support.quick import first_is_quick

Opened = Callable[..., "pexpect.spawn[str]"]

NOBODY = "127.0.0.1:1"
ENDED_WITHIN_S = 10
"""The dashboard promises two seconds, on a machine that has nothing else to do."""

HANGS = """
import signal, sys, time
from rmqadmin.__main__ import main
from rmqadmin.tui.app import DashboardApp
DashboardApp.exit = lambda app: None
main()
"""


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    programs: list[pexpect.spawn[str]] = []

    def open_program(*args: str, **more: object) -> pexpect.spawn[str]:
        programs.append(in_terminal(tmp_path, *args, **{"NAMESRV_ADDR": NOBODY, **more}))  # type: ignore[arg-type]
        return programs[-1]

    yield open_program
    for program in programs:
        if not program.ptyproc.closed:  # type: ignore[attr-defined]
            program.close(force=True)


def settings_of(program: pexpect.spawn[str]) -> list[object]:
    return termios.tcgetattr(program.child_fd)


def settings_of_a_new_terminal() -> list[object]:
    """Those that a program found: it may have changed them before a busy test looks."""
    ends = os.openpty()
    try:
        return termios.tcgetattr(ends[1])
    finally:
        for end in ends:
            os.close(end)


def end_of(program: pexpect.spawn[str]) -> str:
    """All that it painted until its end."""
    program.expect(pexpect.EOF)
    program.wait()
    return str(program.before)


def assert_left(painted: str) -> None:
    """The last word on each mode is that it is off, and the cursor on."""
    for mode in (1000, 1003, 1006, 1049, 2004):
        assert painted.rfind(f"\x1b[?{mode}l") > painted.rfind(f"\x1b[?{mode}h"), f"mode {mode} stays on"
    assert painted.rfind("\x1b[?25h") > painted.rfind("\x1b[?25l")


@pytest.mark.parametrize(
    "number", first_is_quick([signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT]), ids=lambda n: n.name
)
def test_a_signal_ends_the_dashboard_and_leaves_the_terminal_as_it_was(opened: Opened, number: signal.Signals) -> None:
    program = opened("tui")
    before = settings_of_a_new_terminal()
    program.expect("cannot connect")
    assert settings_of(program) != before
    os.kill(program.pid, number)
    assert_left(str(program.before) + end_of(program))
    assert (program.exitstatus, program.signalstatus) == (128 + number, None)
    assert settings_of(program) == before


@pytest.mark.slow
def test_a_dashboard_that_does_not_leave_by_itself_is_ended_all_the_same(opened: Opened) -> None:
    program = opened("tui", program=("-c", HANGS))
    before = settings_of_a_new_terminal()
    program.expect("cannot connect")
    os.kill(program.pid, signal.SIGTERM)
    assert_left(str(program.before) + end_of(program))
    assert program.exitstatus == 128 + signal.SIGTERM
    assert settings_of(program) == before


def test_a_signal_before_the_first_frame_is_no_defect(opened: Opened) -> None:
    script = (
        "import os, signal, sys\n"
        "from rmqadmin.__main__ import main\n"
        "from rmqadmin.tui.app import DashboardApp\n"
        "compose = DashboardApp.get_default_screen\n"
        "def late(app):\n    os.kill(os.getpid(), signal.SIGTERM)\n    return compose(app)\n"
        "DashboardApp.get_default_screen = late\n"
        "main()\n"
    )
    program = opened("tui", program=("-c", script))
    painted = end_of(program)
    assert "Traceback" not in painted
    assert_left(painted)
    assert program.exitstatus == 128 + signal.SIGTERM


@pytest.mark.slow
@pytest.mark.parametrize("args", first_is_quick([["tui"], ["shell"]]), ids=lambda args: args[0])
def test_without_its_terminal_a_program_ends_even_if_sighup_is_ignored(opened: Opened, args: list[str]) -> None:
    """A dashboard used to go on for ever, at up to half of a processor."""
    program = opened(*args, ignore_sighup=True)
    program.expect("cannot connect" if args == ["tui"] else r"\d>")
    program.ptyproc.fileobj.close()  # type: ignore[attr-defined]
    program.ptyproc.closed = True  # type: ignore[attr-defined]
    with open(os.pidfd_open(program.pid), "rb") as end:
        assert select.select([end], [], [], ENDED_WITHIN_S)[0]
    os.waitpid(program.pid, 0)


@pytest.mark.parametrize("number", first_is_quick([signal.SIGTERM, signal.SIGHUP]), ids=lambda n: n.name)
@pytest.mark.parametrize(
    ("args", "shown"), [(["shell"], r"\d>"), (["user", "add", "ops"], "Password of ops")], ids=lambda v: v[0]
)
def test_a_signal_at_a_prompt_leaves_the_terminal_as_it_was(
    opened: Opened, world: World, number: signal.Signals, args: list[str], shown: str
) -> None:
    """It used not to echo any more."""
    program = opened(*args, NAMESRV_ADDR=world.server.namesrv_addr)
    before = settings_of_a_new_terminal()
    program.expect(shown)
    while settings_of(program) == before:
        program.expect([pexpect.TIMEOUT, ".+"], timeout=0.05)
    os.kill(program.pid, number)
    end_of(program)
    assert (program.exitstatus, program.signalstatus) == (128 + number, None)
    assert settings_of(program) == before


@pytest.mark.slow
def test_an_odd_size_in_a_variable_is_not_the_terminals(opened: Opened) -> None:
    program = opened("tui", COLUMNS="99999999", LINES="-3")
    program.expect("cannot connect")
    os.kill(program.pid, signal.SIGTERM)
    end_of(program)
    assert program.exitstatus == 128 + signal.SIGTERM


@pytest.mark.parametrize("kind", ["dumb", ""])
def test_a_terminal_that_cannot_draw_is_refused_in_words(opened: Opened, kind: str) -> None:
    program = opened("tui", TERM=kind)
    painted = end_of(program)
    assert f"the dashboard cannot draw on this terminal: TERM is {kind or 'not set'}" in painted
    assert "hint: Commands with --watch work there." in painted
    assert "\x1b" not in painted
    assert program.exitstatus == 2
