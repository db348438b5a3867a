"""How long it takes to look at dead letters and to redrive them, as whole commands: with ``dlq redrive``, and with
``spark-replay`` if pyspark is installed. The broker flushes before it answers, on the same processors."""

from __future__ import annotations

import importlib.util
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.harness.extent import Extent
from bench.harness.figure import Figure
from bench.harness.measure import Broker
from bench.harness.servers import compiled, ours
from bench.tools.command_lines import PROGRAM, Run, once
from rmqadmin.core.exit_codes import ExitCode
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import TopicConfig
from rmqproto.names import dlq_topic

ORIGIN, NOWHERE = "bench_origin", "topic:bench_no_such_topic"
BODY = b"x" * 1024
DRY_RUN_S, REDRIVE_S, SAID_S = 2, 10, 1
SPARK_DRY_RUN_S = 19 / 2
"""Half of what a dry run of 500 letters took when it still started Spark. The bars are for no more letters than
``Extent`` has."""
SETTLE_S = 10


def take(extent: Extent) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder, ours(sync=True) as broker:
        env = {**compiled(Path(folder)), "NAMESRV_ADDR": broker.namesrv_addr, "XDG_STATE_HOME": folder}
        letters = Letters(broker, env)
        count, few = extent.letters, extent.spark_letters
        is_more, is_more_for_spark = count > Extent.letters, few > Extent.spark_letters
        name = f"of {count:,} dead letters"
        found = [
            *seconds(
                f"dlq redrive {name}, dry run",
                letters.runs(extent.rounds, count, ["dlq", "redrive"]),
                None if is_more else DRY_RUN_S,
            ),
            *seconds(
                f"dlq redrive {name}, sent and audited",
                letters.runs(extent.rounds, count, ["dlq", "redrive"], "--execute", "--yes"),
                None if is_more else REDRIVE_S,
            ),
        ]
        if importlib.util.find_spec("pyspark"):
            spark, name = ["spark-replay", "--dlq"], f"of {few:,} dead letters"
            found += [
                *seconds(
                    "spark-replay to a topic that is not there, dry run",
                    letters.runs(extent.rounds, few, spark, "--to", NOWHERE, status=ExitCode.NOT_FOUND),
                    SAID_S,
                ),
                *seconds(
                    f"spark-replay {name}, dry run",
                    letters.runs(extent.rounds, few, spark),
                    None if is_more_for_spark else SPARK_DRY_RUN_S,
                ),
                *seconds(
                    f"spark-replay {name}, sent and audited",
                    letters.runs(extent.rounds, few, spark, "--execute", "--yes"),
                ),
            ]
        return found


class Letters:
    """Makes dead letters in new groups, and runs commands on them."""

    def __init__(self, broker: Broker, env: Mapping[str, str]):
        self._broker, self._env = broker, env
        self._group_count = 0

    def runs(self, rounds: int, count: int, command: Sequence[str], *more: str, status: int = 0) -> list[Run]:
        """Runs a command ``rounds`` times, each on new letters. A first run, which compiles, does not count.
        RuntimeError if an exit status is not ``status``."""
        to = () if "--to" in more else ("--to", "same")
        found = [
            once([*PROGRAM, *command, self.dead(count), *to, *more], self._env, (), status=status)
            for _ in range(rounds + 1)
        ]
        return found[1:]

    def dead(self, count: int) -> str:
        """Makes a group with ``count`` dead letters, all of one origin topic."""
        self._group_count += 1
        group = f"bench_{self._group_count}"
        dlq = dlq_topic(group)
        with AdminClient(self._broker.namesrv_addr) as admin:
            for topic, queue_count in ((ORIGIN, 4), (dlq, 1)):
                admin.create_topic(
                    self._broker.address,
                    TopicConfig(topic_name=topic, read_queue_nums=queue_count, write_queue_nums=queue_count),
                )
            until(lambda: dlq in admin.topic_list())
            queue = MessageQueue(dlq, "broker-a", 0)
            for number in range(count):
                properties = {"RETRY_TOPIC": ORIGIN, "KEYS": f"order-{number}"}
                admin.send_message(self._broker.address, queue, Message(dlq, BODY, properties=properties))
        return group


def seconds(name: str, runs: Sequence[Run], at_most: float | None = None) -> list[Figure]:
    """The medians as figures."""
    wall_s = statistics.median(run.wall_ms for run in runs) / 1000
    cpu_s = statistics.median(run.cpu_ms for run in runs) / 1000
    return [Figure(f"{name}, wall", "s", wall_s, at_most=at_most), Figure(f"{name}, CPU", "s", cpu_s)]


def until(is_so: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + SETTLE_S
    while not is_so():
        if time.monotonic() > give_up_s:
            raise RuntimeError("the broker has not registered a topic")
        time.sleep(0.01)
