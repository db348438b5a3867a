"""How fast the store of a broker killed with -9 opens: bytes of its log a second, compared with ``zlib.crc32`` over the
same bytes.

In place, the store opens with what the page cache has. A copy opens as after a power cut: no checkpoint was written
while it was filled, so its whole log is read and checked. The index is recovered after the start and is shown
separately. ``python -m bench.broker.recovery STORE`` opens one store in its own process, which ends as by kill -9.
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

from bench.harness.extent import Extent
from bench.harness.figure import Figure
from bench.harness.measure import Load, seed
from bench.harness.rows import row
from bench.harness.servers import standalone
from rmqserver.store.message_store import MessageStore

ROWS = {"send 4 x 64, 1 KiB": "1 KiB", "send 4 x 64, 128 B": "128 B"}
OF_CRC32 = 0.25
NO_CHECKPOINT = "flushConsumeQueueThoroughInterval=3600000"
READ_BYTES = 4 << 20


def take(load: Load, extent: Extent) -> list[Figure]:
    figures = []
    for name, body in ROWS.items():
        with tempfile.TemporaryDirectory(prefix="rmq-bench-recovery-") as folder:
            killed, copy = Path(folder, "killed"), Path(folder, "copy")
            errors = fill_and_kill(killed, load, name, extent.store_s)
            copied = [recovered_copy(killed, copy) for _ in range(extent.recoveries)]
            in_place = [recovered(killed) for _ in range(extent.recoveries)]
        size_mb = copied[0]["size_bytes"] / 1e6

        def rate(runs: list[dict[str, Any]], key: str, size_mb: float = size_mb) -> float:
            return size_mb / statistics.median(float(each[key]) for each in runs)

        crc32, what = rate(copied, "crc32_s"), f"{size_mb:.0f} MB, bodies of {body}"
        figures += [
            Figure(f"recovery after kill -9, {what}", "MB/s", rate(in_place, "open_s"), crc32, "zlib.crc32",
                   ratio_at_least=OF_CRC32, errors=errors),
            Figure(f"recovery as after a power cut, {what}", "MB/s", rate(copied, "open_s"), crc32, "zlib.crc32"),
            Figure(f"index after it, {what}", "MB/s", rate(copied, "index_s"), crc32, "zlib.crc32"),
        ]  # fmt: skip
    return figures


def fill_and_kill(store: Path, load: Load, name: str, seconds: float) -> int:
    """Fills a store and kills its broker. Returns the number of failed sends."""
    with standalone(store, settings=[NO_CHECKPOINT]) as broker:
        seed(broker)
        errors = load.run(broker, row(name), seconds)["errors"]
        os.kill(broker.pid, signal.SIGKILL)
    return int(errors)


def recovered_copy(killed: Path, copy: Path) -> dict[str, Any]:
    """Opens a copy that has been synced to the device, as most of a killed broker's log is: all but its last half
    second."""
    # cp keeps the holes of files that are larger than their content.
    subprocess.run(["cp", "--recursive", "--sparse=always", killed, copy], check=True)
    os.sync()
    found = recovered(copy)
    shutil.rmtree(copy)
    return found


def recovered(store: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.broker.recovery", str(store)]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def main(directory: str) -> None:
    store = MessageStore(directory)
    before_s = time.perf_counter()
    end = store.open().end_offset
    opened_s = time.perf_counter()
    while store.dispatch_some():
        pass
    indexed_s = time.perf_counter()
    crc32_s, at = 0.0, store.log.min_offset
    size_bytes = end - at
    while at < end:
        data = store.log.segments.read(at, min(READ_BYTES, end - at))
        summed_s = time.perf_counter()
        zlib.crc32(data)
        crc32_s += time.perf_counter() - summed_s
        at += len(data)
    figures = {"open_s": opened_s - before_s, "index_s": indexed_s - opened_s, "crc32_s": crc32_s}
    print(json.dumps({**figures, "size_bytes": size_bytes}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
