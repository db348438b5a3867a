"""``rmqadmin tui`` as a person uses it: opened in a terminal, drilled down to the dead letters, saved as a picture."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pexpect

from quickstart.broker import ReadyLine

ROWS, COLUMNS = 32, 140
STEP_TIMEOUT_S = 60
SAVE = "\x13"  # Ctrl-S


def save_picture(broker: ReadyLine, group: str, target: Path) -> None:
    """The group's dead letters as the dashboard shows them, as SVG in ``target``. RuntimeError, with what the screen
    said, where a step of the way does not come."""
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
        for keys, then in (("", "broker-a"), ("d", group), ("\r", r"[A-Z0-9]{2}\d+ \d+"), (SAVE, r"rmqadmin-[\w-]+\.svg")):
            program.send(keys)
            program.expect(then)
        program.send("q")
        program.expect(pexpect.EOF)
    except pexpect.ExceptionPexpect as error:
        raise RuntimeError(f"the dashboard did not get to the dead letters of {group}: {error}") from None
    finally:
        program.close(force=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(next(folder.glob("*.svg")), target)
