"""Counts the lines of ``.py``, ``.c`` and ``.h`` that people read: ``python .ci/lines.py [REVISION]``."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

PRODUCT = ("rmqproto", "rmqclient", "rmqserver", "rmqadmin", "rmqreplay", "spark_tools", "pyspark_rocketmq.py")
"""What the wheel holds."""
BESIDE = ("tests", "bench", "quickstart", "fuzz", "examples", ".ci")


def count(revision: str) -> Counter[str]:
    """The lines of each package in a commit, whatever the work tree holds."""
    root = Path(__file__).parents[1]
    archive = subprocess.run(  # one line a file: `REVISION:PATH:COUNT`
        ["git", "grep", "--count", "", revision, "--", "*.py", "*.c", "*.h"],
        cwd=root, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    lines: Counter[str] = Counter()
    for line in archive.splitlines():
        path, number = line.removeprefix(f"{revision}:").rsplit(":", 1)
        lines[path.split("/", 1)[0]] += int(number)
    return lines


def main() -> None:
    lines = count(sys.argv[1] if len(sys.argv) > 1 else "HEAD")
    for name in (*PRODUCT, *BESIDE):
        print(f"{lines[name]:>8,}  {name}")
    print(f"{sum(lines[name] for name in PRODUCT):>8,}  product: all that the wheel holds")


if __name__ == "__main__":
    main()
