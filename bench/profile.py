"""``python -m bench.profile``: where the microseconds of a send and a pull go in our broker, under the table's load.

The server runs as usual, with a timer of CPU time. At each ring of the timer, it notes the running function. A
function's share of the rings, times the CPU time of a message, is its microseconds. Calls in C (``send``,
``recv_into``, ``pwrite``) count for their caller.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType

from bench.broker import special
from bench.harness.measure import Load, cpu_s, seed
from bench.harness.rows import Row, rows
from bench.harness.servers import FILTERS, standalone

ROWS = ("send 64 x 1, 128 B", "batch of 32, 8 x 1, 128 B", "pull 32, 8 x 1, 128 B")
INTERVAL_S = 0.001
"""The timer's interval. The kernel gives at most one ring a tick (1 to 4 ms)."""


def main() -> int:
    parser = argparse.ArgumentParser(description="CPU time of our broker, function by function.")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--functions", type=int, default=22, help="how many are shown")
    parser.add_argument("--only", action="append", metavar="NAME", help="rows whose name has this in it, also special")
    options = parser.parse_args()
    for row in wanted_rows(options.only):
        show(row.name, *profile(row, options.seconds), options.functions)
    return 0


def wanted_rows(only: list[str] | None) -> list[Row]:
    """The rows whose names contain a part in ``only``; without it, ROWS."""
    found = [*rows(), *special.rows()]
    return [row for row in found if (any(part in row.name for part in only) if only else row.name in ROWS)]


def profile(row: Row, seconds: float) -> tuple[float, Counter[str]]:
    """CPU microseconds a message under the row, including work that the broker defers, and the rings of the timer by
    function."""
    load = Load()
    with tempfile.TemporaryDirectory(prefix="rmq-bench-profile-") as folder:
        rings = Path(folder, "rings.json")
        with standalone(Path(folder, "store"), settings=FILTERS, program=(__file__, str(rings))) as broker:
            seed(broker)
            special.fill(broker, seconds)
            os.kill(broker.pid, signal.SIGUSR1)
            before_s = cpu_s(broker.pid)
            figures = load.run(broker, row, seconds)
            spent_s = cpu_s(broker.pid) - before_s
        counted = Counter[str](json.loads(rings.read_text()))
    load.close()
    # The CPU time includes the generator's half second of warm-up.
    messages = figures["per_s"] * row.messages * (seconds + 0.5)
    return spent_s * 1e6 / messages, counted


def show(name: str, us: float, rings: Counter[str], count: int) -> None:
    total = sum(rings.values())
    print(f"\n{name}: {us:.2f} us of CPU a message ({total} samples)")
    for function, seen in rings.most_common(count):
        print(f"  {us * seen / total:7.2f} us {100 * seen / total:5.1f} %  {function}")


# -- in the server's process


def serve(rings: Path) -> None:
    """Runs ``rmqserver`` with the rest of the command line. Counts rings from SIGUSR1 on, and writes the counts at the
    end."""
    seen: Counter[str] = Counter()

    def note(_signal: int, frame: FrameType | None) -> None:
        if frame is not None:
            path = Path(frame.f_code.co_filename)
            seen[f"{path.parent.name}/{path.name} {frame.f_code.co_qualname}"] += 1

    signal.signal(signal.SIGPROF, note)
    signal.signal(signal.SIGUSR1, lambda *_: signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S))
    try:
        runpy.run_module("rmqserver", run_name="__main__")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        rings.write_text(json.dumps(seen))


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].endswith(".json"):
        rings = Path(sys.argv.pop(1))
        serve(rings)
    else:
        raise SystemExit(main())
