"""Spark beside a running broker: reads compared with what they cannot be without (pulls, and Spark's own work for rows
that are ready in memory) and with a plain reader; idempotent writes with plain ones; and what a trigger of a stream
costs beyond its batch. One run, so that the ratios hold."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

MESSAGES = 100_000
BODY_BYTES = 1000
TRIGGERS = 20
QUEUES = 8


def live(folder: Path, spark: Any, rounds: int) -> None:
    from bench.channel import ChannelSource
    from bench.spark import Figure, best
    from rmqclient.admin import AdminClient
    from rmqproto.bodies.routes import TopicConfig
    from tests.rmqreplay.replay_lab import wait_for_route
    from tests.support.servers import standalone

    spark.dataSource.register(ChannelSource)
    written = 0

    def show(figures: list[Figure]) -> None:
        for each in figures:
            rate, cpu_us = MESSAGES / each.seconds, each.cpu_s / MESSAGES * 1e6
            print(f"{each.name:38}{rate:12,.0f} messages/s{cpu_us:10.1f} us of CPU each", flush=True)

    with standalone(folder) as server, AdminClient(server.namesrv_addr) as admin:
        at = {"nameServer": server.namesrv_addr}

        def make(topic: str) -> str:
            config = TopicConfig(topic_name=topic, read_queue_nums=QUEUES, write_queue_nums=QUEUES, perm=6)
            admin.create_topic(server.broker_addr, config)
            wait_for_route(admin, topic)
            return topic

        def write(delivery: str) -> None:
            nonlocal written
            written += 1
            frame = spark.range(MESSAGES).selectExpr(f"rpad(cast(id as string), {BODY_BYTES}, 'x') as body")
            writing = frame.write.format("rocketmq").mode("append").options(**at, topic=make(f"written-{written}"))
            writing.option("delivery", delivery).save()

        def read() -> None:
            options = {**at, "subscribe": "written-1"}
            spark.read.format("rocketmq").options(**options).load().write.format("noop").mode("overwrite").save()

        write("at-least-once")  # what is read below; and the first write is slow
        wrote = best(rounds, {
            "write, at least once": lambda: write("at-least-once"),
            "write, idempotent": lambda: write("idempotent"),
        })  # fmt: skip
        show(wrote)

        def from_memory() -> None:
            frame = spark.read.format("bench_channel").options(**at, subscribe="written-1", rows=MESSAGES, tasks=QUEUES)
            frame.load().write.format("noop").mode("overwrite").save()

        got = best(rounds, {
            "pulls, nothing decoded": lambda: pull(server.namesrv_addr, decode=False),
            "pulls, each message decoded": lambda: pull(server.namesrv_addr, decode=True),
            "Spark, the same rows from memory": from_memory,
            "live read": read,
        })  # fmt: skip
        show(got)
        show_triggers(spark, {**at, "subscribe": "written-1"})
    (plain, once), (raw, decoded, memory, live_read) = wrote, got
    print(f"idempotent / plain writes: {plain.seconds / once.seconds:.2f}, by CPU {plain.cpu_s / once.cpu_s:.2f}")
    print("live read / pulls that are decoded: {:.2f}, by CPU {:.2f}; / undecoded: {:.2f}, by CPU {:.2f}".format(
        *(getattr(each, kind) / getattr(live_read, kind) for each in (decoded, raw) for kind in ("seconds", "cpu_s"))
    ))  # fmt: skip
    print(f"live read / its floor, undecoded pulls and rows from memory, by CPU: "
          f"{(raw.cpu_s + memory.cpu_s) / live_read.cpu_s:.2f}", flush=True)  # fmt: skip


def pull(name_server: str, *, decode: bool) -> None:
    """Pulls everything as a reader without Spark: one connection, one request at a time."""
    from rmqproto.message.record import decode_records_untrusted
    from rmqreplay.source.live import LiveCluster
    from rmqreplay.source.offset_ranges import OffsetRange
    from rmqreplay.source.pulling import PullRules, pull_range

    with LiveCluster(name_server) as cluster:
        for queue in cluster.queues("written-1"):
            wanted = OffsetRange(queue, *cluster.bounds(queue))
            for body in pull_range(cluster, wanted, PullRules(batch_size=256)):
                if decode:
                    for message in decode_records_untrusted(body):
                        _ = message.body, message.properties


def show_triggers(spark: Any, options: dict[str, str]) -> None:
    """What a warm trigger of a stream takes, and how much of that is the batch itself."""
    limit = str(MESSAGES // TRIGGERS)
    stream = spark.readStream.format("rocketmq").options(
        **options, startingOffsets="earliest", maxOffsetsPerTrigger=limit
    )
    query = stream.load().writeStream.format("noop").trigger(availableNow=True).start()
    query.awaitTermination()
    spent = [each.durationMs for each in query.recentProgress if each.numInputRows][TRIGGERS // 4 :]
    whole = statistics.median(each["triggerExecution"] for each in spent)
    batch = statistics.median(each["addBatch"] for each in spent)
    print(f"a trigger of {limit} messages: {whole:.0f} ms, {batch:.0f} of them the batch itself", flush=True)
