"""The console script ``rmqadmin``: nothing but the way in, so that ``--version`` is as quick as can be."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    if sys.argv[1:] == ["--version"]:
        from rmqadmin.version import print_version

        print_version()
        return
    # Collections while modules load find nothing and cost 5 ms; a command that stays gets them back.
    gc.disable()
    from rmqadmin import cli

    gc.enable()
    sys.exit(cli.run(sys.argv[1:]))


if __name__ == "__main__":
    main()
