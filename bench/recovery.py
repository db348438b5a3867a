"""How fast a store is opened after kill -9: bytes of log a second, beside ``zlib.crc32`` over the same bytes.

The broker writes no checkpoint while the store is filled, so that all of the log is read again; queues and index are
made anew as far as the kill lost them. ``python -m bench.recovery STORE`` opens one store, in a process of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

from bench.extent import Extent
from bench.figure import Figure
from bench.measure import Load, seed
from bench.rows import row
from bench.servers import standalone
from rmqserver.store.message_store import MessageStore

ROWS = {"send 4 x 64, 1 KiB": "1 KiB", "send 4 x 64, 128 B": "128 B"}
OF_CRC32 = 0.25
NO_CHECKPOINT = "flushConsumeQueueThoroughInterval=3600000"
READ_BYTES = 4 << 20


def take(load: Load, extent: Extent) -> list[Figure]:
    figures = []
    for name, body in ROWS.items():
        with tempfile.TemporaryDirectory(prefix="rmq-bench-recovery-") as folder:
            killed = Path(folder, "killed")
            errors = fill_and_kill(killed, load, name, extent.store_s)
            found = [recover(killed, Path(folder, "copy")) for _ in range(extent.recoveries)]
        size_mb = found[0]["size_bytes"] / 1e6
        ours, crc32 = (size_mb / statistics.median(each[key] for each in found) for key in ("open_s", "crc32_s"))
        title = f"recovery of {size_mb:.0f} MB, bodies of {body}"
        figures.append(Figure(title, "MB/s", ours, crc32, "zlib.crc32", ratio_at_least=OF_CRC32, errors=errors))
    return figures


def fill_and_kill(store: Path, load: Load, name: str, seconds: float) -> int:
    """Returns the number of sends that were not answered with success."""
    with standalone(store, settings=[NO_CHECKPOINT]) as broker:
        seed(broker)
        errors = load.run(broker, row(name), seconds)["errors"]
        os.kill(broker.pid, signal.SIGKILL)
    return int(errors)


def recover(killed: Path, copy: Path) -> dict[str, Any]:
    """Opens a copy, which is on the device before: a killed broker's log is, but for its last half second."""
    # cp, because it keeps the holes of files that are larger than what is in them.
    subprocess.run(["cp", "--recursive", "--sparse=always", killed, copy], check=True)
    os.sync()
    command = [sys.executable, "-m", "bench.recovery", str(copy)]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    shutil.rmtree(copy)
    return found


def main(directory: str) -> None:
    store = MessageStore(directory)
    before_s = time.perf_counter()
    recovered = store.open()
    open_s = time.perf_counter() - before_s
    crc32_s, at = 0.0, recovered.start_offset
    while at < recovered.end_offset:
        data = store.log.segments.read(at, min(READ_BYTES, recovered.end_offset - at))
        before_s = time.perf_counter()
        zlib.crc32(data)
        crc32_s += time.perf_counter() - before_s
        at += len(data)
    store.close()
    size_bytes = recovered.end_offset - recovered.start_offset
    print(json.dumps({"open_s": open_s, "crc32_s": crc32_s, "size_bytes": size_bytes}))


if __name__ == "__main__":
    main(sys.argv[1])
