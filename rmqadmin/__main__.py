"""The console script ``rmqadmin``. It is only the way in, so that ``--version`` is as quick as possible."""

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
    from rmqadmin import cli

    gc.freeze()
    gc.enable()
    sys.exit(cli.run(sys.argv[1:]))


if __name__ == "__main__":
    main()
