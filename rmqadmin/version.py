"""The program's version. A test holds it equal to the distribution's, which takes 25 ms to look up."""

from __future__ import annotations

import sys

VERSION = "0.1.0"


def print_version() -> None:
    sys.stdout.write(f"rmqadmin {VERSION}\n")
