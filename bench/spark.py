"""``python -m bench.spark``: how fast a bare store is read through Spark, compared with the parser alone, with reading
the file, and with Spark's own Parquet and text readers of the same rows; topics of a running broker (``spark_live``);
and what the protection of a redrive costs. All in one run, as ratios, so that changes in the machine's speed cancel
out, especially in ratios of CPU time."""

from __future__ import annotations

import argparse
import mmap
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_tools.schema import NAMES

BODY_BYTES = 1000
TOPICS = 16
QUEUES = 4
READ_BYTES = 4 << 20
BODY_COLUMNS = "topic string, queueId int, queueOffset bigint, body binary"
HEADER_COLUMNS = "topic string, queueId int, queueOffset bigint, storeTimestamp timestamp"
REDRIVE_COUNT = 20_000
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Figure:
    """The best time, and the best CPU time of this process and all its descendants."""

    name: str
    seconds: float
    cpu_s: float


@dataclass(frozen=True)
class Store:
    directory: str
    message_count: int
    size_bytes: int

    def files(self) -> list[Path]:
        return sorted(Path(self.directory, "commitlog").iterdir())


def main() -> None:
    parser = argparse.ArgumentParser(description="Scanning a store through Spark, and redriving with its protection.")
    parser.add_argument("--size-mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--without-spark", action="store_true", help="only the file and the parser")
    parser.add_argument("--without-redrive", action="store_true")
    parser.add_argument("--without-live", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rmq-bench-spark-") as folder:
        store = build_store(os.path.join(folder, "store"), options.size_mib << 20)
        scan(store, options.rounds, None if options.without_spark else options.master)
        if not options.without_live and not options.without_spark:
            live(Path(folder), options.master, options.rounds)
        if not options.without_redrive and not options.without_spark:
            redrive(Path(folder), options.master)


def build_store(directory: str, size_bytes: int) -> Store:
    """Builds a store of about that size with our own code."""
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
    return Store(directory, count, written)


def scan(store: Store, rounds: int, master: str | None) -> None:
    """Prints each row as soon as it is measured. Things that are compared take turns within a round."""
    table = Table(store)
    warm = best(rounds, {
        "raw read, 1 thread": lambda: read_raw(store),
        "parser alone, all columns": lambda: parse(store, ALL),
        "parser alone, fields as stored": lambda: parse(store, STORED, properties="raw"),
        "parser alone, 4 header columns": lambda: parse(store, HEADERS),
    })  # fmt: skip
    table.show(warm)
    table.show(best(1, {"record by record, plain Python": lambda: parse_one_by_one(store)}))
    ratios = [warm[0].cpu_s / each.cpu_s for each in warm[1:]]
    print(
        "parser / raw, by CPU: {:.3f} all columns, {:.3f} as stored, {:.3f} header columns".format(*ratios), flush=True
    )
    if master is not None:
        scan_in_spark(table, store, rounds, master)


def scan_in_spark(table: Table, store: Store, rounds: int, master: str) -> None:
    from bench.channel import ChannelSource
    from spark_tools.session import SessionOptions, spark_session

    with spark_session(SessionOptions(master=master)) as spark:
        spark.dataSource.register(ChannelSource)

        def source(schema: str | None = None) -> Any:
            reader = spark.read.format("rocketmq").option("path", store.directory)
            return (reader.schema(schema) if schema else reader).load()

        def channel(schema: str | None = None) -> Any:
            counts = {"rows": str(store.message_count), "tasks": str(len(store.files()))}
            reader = spark.read.format("bench_channel").options(path=store.directory, **counts)
            return (reader.schema(schema) if schema else reader).load()

        def noop(frame: Any) -> None:
            frame.write.format("noop").mode("overwrite").save()

        def topic(name: str) -> Any:
            return spark.read.format("rocketmq").options(path=store.directory, subscribe=name).load()

        columns, bodies = f"{store.directory}.parquet", f"{store.directory}.text"
        source().write.parquet(columns)
        source("body binary").selectExpr("cast(body as string) as value").write.text(bodies)
        own = best(rounds, {
            "Spark's Parquet, all columns": lambda: noop(spark.read.parquet(columns)),
            "data source, all columns": lambda: noop(source()),
            "Spark's text, bodies": lambda: noop(spark.read.text(bodies)),
            "data source, 3 of the header, body": lambda: noop(source(BODY_COLUMNS)),
            "limit of Spark's channel for these": lambda: noop(channel(BODY_COLUMNS)),
            "data source, 1 topic of 16": lambda: noop(topic("topic-7")),
        })  # fmt: skip
        table.show(own)
        print("CPU / Spark's Parquet {:.2f}, / Spark's text {:.2f} (channel {:.2f}); 1 topic of 16 / all {:.2f}".format(
            *(own[a].cpu_s / own[b].cpu_s for a, b in ((1, 0), (3, 2), (4, 2), (5, 1)))
        ), flush=True)  # fmt: skip
        warm = best(rounds, {
            "limit of Spark's channel": lambda: noop(channel()),
            "data source, all columns": lambda: noop(source()),
            "data source, 4 header columns": lambda: noop(source(HEADER_COLUMNS)),
            "data source, group by topic": lambda: noop(source("topic string").groupBy("topic").count()),
        })  # fmt: skip
        table.show(warm)
        print(f"data source / channel, all columns: {warm[0].seconds / warm[1].seconds:.2f}")
        cold = best(rounds, {
            "cold: raw read, 1 thread": lambda: read_raw(store),
            "cold: data source, 4 header columns": lambda: noop(source(HEADER_COLUMNS)),
        }, before=lambda: forget_pages(store))  # fmt: skip
        table.show(cold)
        print(f"data source, header columns / raw, both cold: {cold[0].seconds / cold[1].seconds:.2f}", flush=True)


def read_raw(store: Store) -> None:
    buffer = bytearray(READ_BYTES)
    left = store.size_bytes
    for path in store.files():
        with open(path, "rb", buffering=0) as file:
            while left > 0 and (got := file.readinto(buffer)):
                left -= got


def forget_pages(store: Store) -> None:
    """Drops the store from the page cache, so that the next read comes from disk, or from the virtual machine's
    host."""
    for path in store.files():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


ALL = [name for name in NAMES if name != "corrupt"]
STORED = [name for name in ALL if name not in ("brokerName", "msgId", "offsetMsgId", "tags", "keys", "originTopic")]
HEADERS = [column.split()[0] for column in HEADER_COLUMNS.split(", ")]


def parse(store: Store, columns: list[str], *, properties: str = "map") -> None:
    from spark_tools.part_reader import read_any
    from spark_tools.partitions import plan_read
    from spark_tools.source_options import parse_read_options

    options = parse_read_options({"path": store.directory, "properties": properties})
    for part in plan_read(options).parts:
        for _ in read_any(part, options, columns):
            pass


def parse_one_by_one(store: Store) -> None:
    """Reads stored records as every other part of this project does."""
    from rmqproto.message.record import MAGIC_BLANK, RECORD_SIZE_MIN_BYTES, decode_record_untrusted

    blank = MAGIC_BLANK.to_bytes(4, "big", signed=True)
    left = store.message_count
    for path in store.files():
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            at = 0
            while left and len(data) - at >= RECORD_SIZE_MIN_BYTES and data[at + 4 : at + 8] != blank:
                at += decode_record_untrusted(data, at).size_bytes
                left -= 1
    assert left == 0


def best(rounds: int, actions: dict[str, Callable[[], None]], before: Callable[[], object] = int) -> list[Figure]:
    found: dict[str, Figure] = {}
    for _ in range(rounds):
        for name, action in actions.items():
            before()
            with stopwatch() as spent:
                action()
            last = found.get(name, Figure(name, float("inf"), float("inf")))
            found[name] = Figure(name, min(last.seconds, spent[0]), min(last.cpu_s, spent[1]))
    return list(found.values())


@contextmanager
def stopwatch() -> Any:
    """Yields a list that gets the elapsed seconds, and the CPU seconds of this process and all its descendants, at the
    end of the block."""
    spent: list[float] = []
    started, before = time.perf_counter(), tree_cpu_s()
    yield spent
    seconds, after = time.perf_counter() - started, tree_cpu_s()
    # Nobody waits for the children of a process that ended before them: what they had spent is in no sum any more.
    lost_s = sum(cpu_s for pid, (parent, cpu_s) in before.items() if pid not in after and parent not in after)
    spent += [seconds, _sum_s(after) - _sum_s(before) + lost_s]


def _sum_s(tree: dict[int, tuple[int, float]]) -> float:
    return sum(cpu_s for _, cpu_s in tree.values())


def tree_cpu_s() -> dict[int, tuple[int, float]]:
    """The parent and the CPU time of this process, to the microsecond, and of each of its descendants, to the hundredth
    of a second in /proc; with that of their children that have ended and were waited for."""
    found: dict[int, tuple[int, float]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = Path(entry, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # the process has just ended
            found[int(entry.name)] = int(fields[1]), sum(map(int, fields[11:15])) / TICKS_PER_S
    waited_for = os.times()
    own_s = time.process_time() + waited_for.children_user + waited_for.children_system
    tree = {os.getpid(): (os.getppid(), own_s)}
    wanted = [pid for pid, (parent, _) in found.items() if parent == os.getpid()]
    while wanted:
        pid = wanted.pop()
        tree[pid] = found[pid]
        wanted += [child for child, (parent, _) in found.items() if parent == pid]
    return tree


class Table:
    """A table of rows, each compared with the first, the raw read."""

    def __init__(self, store: Store):
        self._store = store
        self._raw: Figure | None = None
        print(f"{store.message_count:,} messages in {store.size_bytes / 1e6:,.0f} MB of commit log")
        print(f"{'what':38}{'MB/s':>8}{'of raw':>8}{'messages/s':>12}{'CPU s/GiB':>11}{'us/message':>12}")

    def show(self, figures: list[Figure]) -> None:
        count, size_bytes = self._store.message_count, self._store.size_bytes
        for each in figures:
            self._raw = self._raw or each
            print(
                f"{each.name:38}{size_bytes / each.seconds / 1e6:8.0f}{self._raw.seconds / each.seconds:8.3f}"
                f"{count / each.seconds:12,.0f}{each.cpu_s * 2**30 / size_bytes:11.2f}{each.cpu_s / count * 1e6:12.2f}",
                flush=True,
            )


def live(folder: Path, master: str, rounds: int) -> None:
    from bench import spark_live
    from spark_tools.session import SessionOptions, spark_session

    with spark_session(SessionOptions(master=master)) as spark:
        spark_live.live(folder / "live", spark, rounds)


def redrive(folder: Path, master: str) -> None:
    """Redrives the same dead letters twice: with fence, permits and a look at the target, and without them."""
    from rmqreplay.run.job import RunOptions, run_replay
    from spark_tools.replay.spark_engine import SparkEngine
    from spark_tools.session import SessionOptions, spark_session
    from tests.rmqreplay.replay_lab import Lab

    with Lab(folder / "lab") as lab, spark_session(SessionOptions(master=master)) as spark:
        engine = SparkEngine(spark, 4)
        warm = lab.job(100)
        run_replay(warm, lab.ledger(warm), engine, RunOptions(audit=False))
        for protected in (False, True):
            plan = lab.job(REDRIVE_COUNT)
            started = time.perf_counter()
            run_replay(plan, lab.ledger(plan), engine, RunOptions(protected=protected, audit=False))
            seconds = time.perf_counter() - started
            name = "with" if protected else "without"
            print(f"redrive {name} protection: {REDRIVE_COUNT / seconds:,.0f} messages/s (through the tests' proxy)")


if __name__ == "__main__":
    main()
