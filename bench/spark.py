"""``python -m bench.spark``: how fast a bare store is read through Spark, beside the parser alone and beside reading
the file, and what the protection of a redrive costs. All in one run, with ratios: the machine's mood cancels out."""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BODY_BYTES = 1000
TOPICS = 16
QUEUES = 4
READ_BYTES = 4 << 20
HEADER_COLUMNS = "topic string, queueId int, queueOffset bigint, storeTimestamp timestamp"
REDRIVE_COUNT = 20_000


@dataclass(frozen=True)
class Figure:
    """Best of several rounds; CPU of this process and of its children that have ended."""

    name: str
    seconds: float
    messages: int
    size_bytes: int


def main() -> None:
    parser = argparse.ArgumentParser(description="Scanning a store through Spark, and redriving with its protection.")
    parser.add_argument("--size-mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--without-redrive", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rmq-bench-spark-") as folder:
        store = os.path.join(folder, "store")
        count, size = build_store(store, options.size_mib << 20)
        show(scan(store, count, size, options.rounds, options.master))
        if not options.without_redrive:
            redrive(Path(folder), options.master)


def build_store(directory: str, size_bytes: int) -> tuple[int, int]:
    """A store of about that size, written by our own; how many messages it holds, and in how many bytes of log."""
    from rmqserver.store.message_store import MessageStore
    from rmqserver.store.options import StoreOptions

    store = MessageStore(directory, StoreOptions(index_enabled=False))
    store.open()
    host = bytes([127, 0, 0, 1]) + (10911).to_bytes(4, "big")
    count = 0
    now_ms = time.time_ns() // 10**6
    while store.written_offset < size_bytes:
        for _ in range(500):
            properties = b"UNIQ_KEY\x017F0000010A2B18B4AAC20%011d\x02KEYS\x01order-%d\x02TAGS\x01TagA\x02" % (
                count,
                count,
            )
            store.append(f"topic-{count % TOPICS}", count // TOPICS % QUEUES, 0, 0, now_ms, host, host, 0,
                         b"%d" % count * (BODY_BYTES // len(b"%d" % count)), properties)  # fmt: skip
            count += 1
        store.commit()
    written = store.written_offset
    store.close()
    return count, written


def scan(store: str, count: int, size: int, rounds: int, master: str) -> list[Figure]:
    from spark_tools.session import SessionOptions, spark_session

    found = [
        best("raw read, 1 thread", rounds, count, size, lambda: read_raw(store, size)),
        best("parser alone, all columns", rounds, count, size, lambda: parse(store)),
    ]
    with spark_session(SessionOptions(master=master)) as spark:

        def source() -> Any:
            return spark.read.format("rocketmq").option("path", store)

        def noop(frame: Any) -> None:
            frame.write.format("noop").mode("overwrite").save()

        noop(source().load().limit(1))
        for name, frame in (
            ("data source, all columns", lambda: source().load()),
            ("data source, 4 header columns", lambda: source().schema(HEADER_COLUMNS).load()),
            ("data source, group by topic", lambda: source().schema("topic string").load().groupBy("topic").count()),
        ):
            found.append(best(name, rounds, count, size, lambda frame=frame: noop(frame())))
    return found


def read_raw(store: str, size_bytes: int) -> None:
    buffer = bytearray(READ_BYTES)
    for path in sorted(Path(store, "commitlog").iterdir()):
        with open(path, "rb", buffering=0) as file:
            while size_bytes > 0 and (got := file.readinto(buffer)):
                size_bytes -= got


def parse(store: str) -> None:
    from spark_tools.arrow_records import BatchMaker, BatchOptions
    from spark_tools.options import parse_read_options
    from spark_tools.schema import NAMES
    from spark_tools.store_files import StoreView
    from spark_tools.store_reader import ReadRules, read_part

    with StoreView(store) as view:
        parts = view.plan(parse_read_options({"path": store})).parts
    maker = BatchMaker(BatchOptions(columns=[name for name in NAMES if name != "corrupt"], broker_name="broker-a"))
    for part in parts:
        for _ in read_part(part, ReadRules(maker)):
            pass


def best(name: str, rounds: int, count: int, size_bytes: int, action: Callable[[], None]) -> Figure:
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        action()
        times.append(time.perf_counter() - started)
    return Figure(name, min(times), count, size_bytes)


def show(figures: list[Figure]) -> None:
    raw = figures[0].size_bytes / figures[0].seconds
    print(f"{'what':32}{'MB/s':>9}{'of raw':>9}{'messages/s':>13}")
    for each in figures:
        rate = each.size_bytes / each.seconds
        print(f"{each.name:32}{rate / 1e6:9.0f}{rate / raw:9.3f}{each.messages / each.seconds:13,.0f}")
    cpu = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"CPU of Spark and its workers together: {cpu.ru_utime + cpu.ru_stime:.0f} s")


def redrive(folder: Path, master: str) -> None:
    """The same dead letters twice, with and without fence, permits and a look."""
    from spark_tools.replay.job import RunOptions, run_replay
    from spark_tools.replay.waves import Waves
    from spark_tools.session import SessionOptions, spark_session
    from tests.spark_tools.spark.fault_lab import Lab

    with Lab(folder / "lab") as lab, spark_session(SessionOptions(master=master)) as spark:
        waves = Waves(spark, 4)
        warm = lab.job(100)
        run_replay(warm, lab.ledger(warm), waves, RunOptions(audit=False))
        for protected in (False, True):
            plan = lab.job(REDRIVE_COUNT)
            started = time.perf_counter()
            run_replay(plan, lab.ledger(plan), waves, RunOptions(protected=protected, audit=False))
            seconds = time.perf_counter() - started
            name = "with" if protected else "without"
            print(f"redrive {name} protection: {REDRIVE_COUNT / seconds:,.0f} messages/s (through the tests' proxy)")


if __name__ == "__main__":
    main()
