"""Uses ``rmqadmin tui`` as a person does: opens it in a terminal, drills down to the dead letters, and saves a
picture."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

import pexpect

from quickstart.broker import ReadyLine

ROWS, COLUMNS = 32, 140
STEP_TIMEOUT_S = 60
POLL_S = 0.2
SAVE = "\x13"  # Ctrl-S


def save_picture(broker: ReadyLine, group: str, target: Path) -> None:
    """Saves the dashboard's screen with the group's dead letters as SVG in ``target``. RuntimeError, with the screen's
    text, if a step on the way does not appear."""
    folder = broker.folder / "dashboard"
    folder.mkdir()
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    program: pexpect.spawn[str] = pexpect.spawn(
        str(Path(sys.executable).with_name("rmqadmin")),
        ["tui", "-n", broker.namesrv_addr],
        cwd=str(folder),
        env=environment,
        dimensions=(ROWS, COLUMNS),
        encoding="utf-8",
        timeout=STEP_TIMEOUT_S,
    )
    try:
        for keys, then in (("", "broker-a"), ("d", "with dead letters"), ("", group), ("\r", r"[A-Z0-9]{2}\d+ \d+")):
            program.send(keys)
            program.expect(then)
        program.send(SAVE)
        deadline_s = time.monotonic() + STEP_TIMEOUT_S
        while not list(folder.glob("*.svg")) and time.monotonic() < deadline_s:
            program.expect(pexpect.TIMEOUT, timeout=POLL_S)  # keeps reading, or the program would block on its terminal
        program.send("q")
        program.expect(pexpect.EOF)
    except pexpect.ExceptionPexpect as error:
        raise RuntimeError(f"the dashboard did not get to the dead letters of {group}: {error}") from None
    finally:
        program.close(force=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(next(folder.glob("*.svg")), target)
