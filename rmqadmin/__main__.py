"""The console script ``rmqadmin``. It loads as little as possible: ``--version`` is fast, and a plain line that opens
the dashboard does not wait for Typer."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from importlib import import_module
from io import TextIOWrapper

from rmqadmin.version import PIPE_CLOSED


def main() -> None:
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the program that started this one: output goes nowhere
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - open for all its life
    write_any_name(sys.stdout)
    # Objects that modules make while they load are never garbage. Not collecting them, then or at exit, saves 10 of 100
    # ms. Objects that a command makes are collected as usual.
    gc.disable()
    ending = QuickEnding()
    atexit.register(ending)  # first, so it is called last
    if sys.argv[1:] == ["--version"]:
        from rmqadmin.version import print_version

        ending.status = print_version()
        return
    if sys.argv[1:2] == ["tui"]:
        load_packages("msgspec")
        from rmqadmin.cli import plain_tui

        line = plain_tui.read_plain_line(sys.argv[2:])
        if line is not None:
            sys.exit(plain_tui.run(line))
    load_packages("msgspec", "typer")
    from rmqadmin.cli import program

    gc.freeze()
    gc.enable()
    ending.status = program.run(sys.argv[1:])
    sys.exit(ending.status)


def load_packages(*names: str) -> None:
    """Imports Typer or msgspec without what they import at their top and only some of their functions need: 6 % of the
    instructions of `topicList`."""
    from rmqadmin.cli.late_modules import late_modules

    with late_modules("ipaddress", "linecache", "subprocess", "tokenize", "msgspec.inspect"):
        for name in names:
            import_module(name)


def write_any_name(out: object) -> None:
    """Makes ``out`` accept names and bodies in any script. In a locale that is not UTF-8, a terminal shows a question
    mark for characters it lacks. Output elsewhere is UTF-8 in every locale, as JSON is."""
    if isinstance(out, TextIOWrapper) and out.encoding.lower() != "utf-8":
        if out.isatty():
            out.reconfigure(errors="replace")
        else:
            out.reconfigure(encoding="utf-8")


class QuickEnding:
    """Ends the process after all threads have ended and all exit handlers have run. It only skips the teardown of
    modules, which takes 6 of 100 ms."""

    status: int | None = None
    """None: the interpreter decides how the program ends."""

    def __call__(self) -> None:
        if self.status is None:
            return
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except BrokenPipeError:  # whoever read the help has seen enough
            os._exit(self.status or PIPE_CLOSED)
        except OSError:  # for example, a full disk
            os._exit(self.status or 1)
        os._exit(self.status)


if __name__ == "__main__":
    main()
