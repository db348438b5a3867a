"""The program itself in a real terminal: opened, followed down to a dead letter, a picture saved, quit."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pexpect
import pytest

from rmqadmin.cli import program
from rmqadmin.cli.parsing.command_building import help_parts
from rmqadmin.cli.registry import ENTRIES
from tests.rmqadmin.tui.conftest import World
from tests.rmqadmin.tui.opened import Driver
from tests.support.quick import first_is_quick, first_size_is_quick

TIMEOUT_S = 60


EXAMPLES = next(help_parts(entry.load())[1] for entry in ENTRIES if entry.name == "tui")


def started(
    world: World,
    folder: Path,
    *args: str,
    program: Sequence[str] = ("-m", "rmqadmin"),
    size: tuple[int, int] = (160, 40),
) -> pexpect.spawn[str]:
    """``program`` holds the interpreter's arguments, ``size`` the columns and lines."""
    return in_terminal(folder, *args, program=program, size=size, NAMESRV_ADDR=world.server.namesrv_addr)


def in_terminal(
    folder: Path,
    *args: str,
    program: Sequence[str] = ("-m", "rmqadmin"),
    size: tuple[int, int] = (160, 40),
    ignore_sighup: bool = False,
    **variables: str,
) -> pexpect.spawn[str]:
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "HOME": str(folder)}
    for name in ("LINES", "COLUMNS"):  # a test process may have them, and they override the terminal's size
        environment.pop(name, None)
    environment["RMQADMIN_PAGER"] = "sh -c 'echo the pager has $(wc -c < $0) bytes'"
    environment |= variables
    return pexpect.spawn(
        sys.executable,
        [*program, *args],
        cwd=str(folder),
        env={**environment, "PYTHONPATH": str(Path(__file__).parents[3])},  # type: ignore[arg-type]
        dimensions=size[::-1],
        encoding="utf-8",
        timeout=TIMEOUT_S,
        use_poll=True,
        ignore_sighup=ignore_sighup,
    )


def expect_all(program: pexpect.spawn[str], *texts: str) -> None:
    """Waits until all texts are painted, in any order."""
    left, painted = set(texts), ""
    while left:
        program.expect([re.escape(text) for text in sorted(left)])
        painted += f"{program.before}{program.after}"
        left = {text for text in left if text not in painted}


def test_from_the_shell_to_a_dead_letter_and_back(world: World, tmp_path: Path) -> None:
    program = started(world, tmp_path, "tui", "--interval", "0.5")
    program.expect("broker-a")
    program.send("d")
    program.expect("with dead letters")
    program.send("/")
    program.expect("regular expression")
    program.send(world.group)
    program.expect(r"1 (of [\d,]+ )?group")
    program.send("\r")
    program.expect("Open")
    program.send("\r")
    program.expect("key-0")
    program.send("\r")
    expect_all(program, "JSON", "retries")
    program.send("v")
    program.expect("the pager has 8 bytes")
    program.expect("retries")
    program.send("\x13")  # ctrl+s
    program.expect("saved")  # and the place, which is folded by the length of the path
    program.send("q")
    program.expect(pexpect.EOF)
    program.close()
    assert program.exitstatus == 0, program.before
    picture = (tmp_path / "rmqadmin-message.svg").read_text()
    text = "".join(ElementTree.fromstring(picture).itertext()).replace("\xa0", " ")
    assert "key-0" in text
    assert not re.findall(r"url\(\s*[\"']?https?:", picture), "a picture loads nothing from anywhere"


@pytest.mark.parametrize(
    "between",
    ["", "-c 'import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))' {}"],
    ids=["from the shell", "through another program"],
)
def test_ctrl_z_goes_to_the_shell_and_fg_draws_all_of_the_screen_again(
    world: World, tmp_path: Path, between: str
) -> None:
    """Only what had changed was drawn over what the shell had written; and a program ``between``, such as ``uv run``,
    kept the terminal."""
    bash = ("-c", "import os; os.execvp('bash', ['bash', '--norc', '-i'])")
    shell = started(world, tmp_path, program=bash)
    shell.sendline(f"{sys.executable} {between.format(sys.executable)} -m rmqadmin tui --interval 0.5")
    expect_all(shell, "broker-a", "Letters", "Quit")
    shell.send("\x1a")
    shell.expect("Stopped")
    shell.sendline("fg")
    expect_all(shell, "Letters", "broker-a", "Quit")
    shell.send("q")
    shell.expect(r"bash-[\d.]+[#$] ")
    shell.sendline("exit $?")
    shell.expect(pexpect.EOF)
    shell.close()
    assert shell.exitstatus == 0, shell.before


def test_ctrl_z_stops_nothing_where_no_shell_could_go_on_with_it(world: World, tmp_path: Path) -> None:
    program = started(world, tmp_path, "tui", "--interval", "0.5")
    program.expect("broker-a")
    program.send("\x1a")
    program.expect("no shell waits")
    program.send("q")
    program.expect(pexpect.EOF)
    program.close()
    assert program.exitstatus == 0, program.before


@pytest.mark.slow
@pytest.mark.parametrize("size", first_size_is_quick([(80, 24), (120, 40), (200, 60)]), ids=str)
def test_at_every_size_a_reset_can_be_carried_out(world: World, tmp_path: Path, size: tuple[int, int]) -> None:
    """It works down to 80 x 24, where the fixed keys are still shown."""
    program = started(world, tmp_path, "tui", "--interval", "0.5", size=size)
    expect_all(program, "broker-a", "Keys", "Quit")
    program.send("g/")
    program.expect("regular expression")
    program.send(world.group)
    program.expect(r"1 (of [\d,]+ )?group")
    program.send("\r")
    program.expect("Open")
    program.send("\r")
    expect_all(program, "lag 4", "Keys", "Quit")
    program.send("\x12")  # ctrl+r
    program.expect("begin, end, an offset")
    program.send("end\r")
    expect_all(program, "4 before, 0 after", f"Type {world.group} to go on")
    program.send(f"{world.group}\r")
    program.expect("to undo this:")
    program.send("\x13")  # ctrl+s; a dialog gets no other key of the app
    program.expect("saved")
    assert "to undo this:" in (tmp_path / "rmqadmin-dialog.svg").read_text().replace("&#160;", " ")
    program.send("\x1b")
    program.expect("lag 0")
    program.send("q")
    program.expect(pexpect.EOF)
    program.close()
    assert program.exitstatus == 0, program.before


@pytest.mark.parametrize("example", first_is_quick(EXAMPLES))
def test_an_example_in_the_help_opens_it(world: World, tmp_path: Path, example: str) -> None:
    example = example.replace("127.0.0.1:9876", world.server.namesrv_addr)
    program = started(world, tmp_path, *shlex.split(example)[1:])
    program.expect("broker-a")
    program.send("q")
    program.expect(pexpect.EOF)
    program.close()
    assert program.exitstatus == 0, program.before


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [["-n", "nonsense:x"], ["--access-key", "half-a-pair"]], ids=["address", "pair"])
def test_what_is_wrong_with_the_options_is_said_before_the_first_frame(
    world: World, tmp_path: Path, wrong: list[str]
) -> None:
    program = started(world, tmp_path, "tui", *wrong)
    program.expect(pexpect.EOF)
    program.close()
    assert program.exitstatus == 2, program.before
    assert "rmqadmin: error:" in (program.before or "")


BREAKS = """
from rmqadmin.__main__ import main
from rmqadmin.tui.screens.pulse import PulseScreen
PulseScreen.body = lambda screen: 1 / 0
main()
"""


@pytest.mark.slow
def test_a_defect_ends_it_with_a_status_that_says_so(world: World, tmp_path: Path) -> None:
    """The status used to be 0, because Textual prints the exception and returns. That hid that the dashboard did not
    start on Python 3.12."""
    program = started(world, tmp_path, "tui", program=("-c", BREAKS))
    program.expect("ZeroDivisionError")
    program.expect("rmqadmin: error: the dashboard ended because of a defect")
    program.expect(pexpect.EOF)
    program.close()
    assert program.exitstatus == 1, program.before


def test_without_a_terminal_it_says_so(world: World) -> None:
    assert program.run(["tui", "-n", world.server.namesrv_addr]) == 2


async def test_a_picture_that_cannot_be_saved_is_told(
    driver: Driver, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/proc")
    await driver.until_shown("broker-a")
    await driver.press("ctrl+s")
    await driver.until_shown("the picture was not saved: /proc:", "broker-a")
