"""Spark beside a running broker: reads compared with raw pulls, idempotent writes with plain ones, and what a trigger
of a stream costs beyond its batch. One run, so that the ratios hold."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

MESSAGES = 50_000
BODY_BYTES = 1000
TRIGGERS = 20
QUEUES = 8


def live(folder: Path, spark: Any, rounds: int) -> None:
    from bench.spark import Figure, best
    from rmqclient.admin import AdminClient
    from rmqproto.bodies.routes import TopicConfig
    from tests.rmqreplay.replay_lab import wait_for_route
    from tests.support.servers import standalone

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
        got = best(rounds, {"raw pulls, 1 connection": lambda: pull_raw(server.namesrv_addr), "live read": read})
        show(got)
        show_triggers(spark, {**at, "subscribe": "written-1"})
    print(f"idempotent / plain writes: {wrote[0].seconds / wrote[1].seconds:.2f}")
    print(f"live read / raw pulls: {got[0].seconds / got[1].seconds:.2f}", flush=True)


def pull_raw(name_server: str) -> None:
    from rmqreplay.source.live import LiveCluster
    from rmqreplay.source.offset_ranges import OffsetRange
    from rmqreplay.source.pulling import PullRules, pull_range

    with LiveCluster(name_server) as cluster:
        for queue in cluster.queues("written-1"):
            for _ in pull_range(cluster, OffsetRange(queue, *cluster.bounds(queue)), PullRules(batch_size=256)):
                pass


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
