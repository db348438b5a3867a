"""The console script ``rmqadmin``. It is only the way in, so that ``--version`` is as quick as possible, and a plain
line that opens the dashboard does not wait for Typer."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from io import TextIOWrapper


def main() -> None:
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed, as some who start programs leave it: what is said goes nowhere
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - while the process lives
    write_any_name(sys.stdout)
    # What modules make while they load is never garbage. Not looking for garbage then, nor at exit, saves 10 of 100 ms.
    # What a command makes is collected as usual.
    gc.disable()
    ending = QuickEnding()
    atexit.register(ending)  # first, so it is called last
    if sys.argv[1:] == ["--version"]:
        from rmqadmin.version import print_version

        ending.status = print_version()
        return
    if sys.argv[1:2] == ["tui"]:
        from rmqadmin import plain_tui

        line = plain_tui.read_plain_line(sys.argv[2:])
        if line is not None:
            sys.exit(plain_tui.run(line))
    from rmqadmin import cli

    gc.freeze()
    gc.enable()
    ending.status = cli.run(sys.argv[1:])
    sys.exit(ending.status)


def write_any_name(out: object) -> None:
    """Names and bodies are of any script. In a locale that is not UTF-8 a terminal shows a question mark for what it
    has no letter for; what goes elsewhere is UTF-8 in every locale, as JSON is."""
    if isinstance(out, TextIOWrapper) and out.encoding.lower() != "utf-8":
        if out.isatty():
            out.reconfigure(errors="replace")
        else:
            out.reconfigure(encoding="utf-8")


class QuickEnding:
    """Ends the process when threads have ended, and all is done that was registered for the end. Only the modules are
    not taken apart, which takes 6 of 100 ms."""

    status: int | None = None
    """None: how the program ends is for the interpreter to say."""

    def __call__(self) -> None:
        if self.status is None:
            return
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except OSError:  # a full disk, say
            os._exit(self.status or 1)
        os._exit(self.status)


if __name__ == "__main__":
    main()
