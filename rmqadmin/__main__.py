"""The console script ``rmqadmin``. It is only the way in, so that ``--version`` is as quick as possible, and a plain
line that opens the dashboard does not wait for Typer."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    if sys.argv[1:] == ["--version"]:
        from rmqadmin.version import print_version

        print_version()
        return
    # What modules make while they load is never garbage. Not looking for garbage then, nor at exit, saves 10 of 100 ms.
    # What a command makes is collected as usual.
    gc.disable()
    if sys.argv[1:2] == ["tui"]:
        from rmqadmin import plain_tui

        line = plain_tui.read_plain_line(sys.argv[2:])
        if line is not None:
            sys.exit(plain_tui.run(line))
    from rmqadmin import cli

    gc.freeze()
    gc.enable()
    sys.exit(cli.run(sys.argv[1:]))


if __name__ == "__main__":
    main()
