"""The program's version, which the installed distribution alone knows."""

from __future__ import annotations

import sys


def print_version() -> None:
    from importlib.metadata import version  # 12 ms

    sys.stdout.write(f"rmqadmin {version('rmqadmin')}\n")
