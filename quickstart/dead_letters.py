"""Dead letters in their topic: how many, which rows, and why: a flight without an arrival cannot be booked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from quickstart.broker import ReadyLine
from quickstart.flights import row_of
from rmqclient.admin import AdminClient
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError
from rmqproto.names import dlq_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

CAUSE = """
    case when dep_time is null then 'cancelled'
         when arr_time is null then 'diverted, never arrived'
         else 'diverted, arrived in the end' end"""


def message_count(broker: ReadyLine, topic: str) -> int:
    """How many messages a topic has; 0 without the topic."""
    with AdminClient(broker.namesrv_addr) as admin:
        try:
            queues = admin.topic_stats(broker.broker_addr, topic).offset_table
        except RefusedError as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                return 0
            raise
    return sum(queue.max_offset - queue.min_offset for queue in queues.values())


class DeadLetters:
    """A group's dead letters, as a frame of Spark."""

    def __init__(self, spark: SparkSession, broker: ReadyLine, group: str):
        from pyspark.sql import functions as f

        letters = spark.read.format("rocketmq").options(nameServer=broker.namesrv_addr, subscribe=dlq_topic(group))
        fields = f.from_json(f.col("body").cast("string"), "carrier string, dest string, dep_time int, arr_time int")
        self._frame = letters.schema("keys string, body binary").load().select("keys", fields.alias("flight"))

    def rows(self) -> Counter[int]:
        """How often each row of the flights is among them."""
        return Counter(row_of(letter.keys) for letter in self._frame.select("keys").collect())

    def causes(self) -> DataFrame:
        """How many have each cause, the most frequent first, with the carrier and the destination of most of them."""
        from pyspark.sql import functions as f

        by_cause = self._frame.select("flight.*").groupBy(f.expr(CAUSE).alias("cause"))
        counted = by_cause.agg(
            f.count("*").alias("flights"), f.mode("carrier").alias("carrier"), f.mode("dest").alias("dest")
        )
        return counted.orderBy(f.desc("flights"))


def show_causes(causes: Sequence[Row]) -> None:
    for cause in causes:
        print(f"{cause.cause:<28} {cause.flights:>6,}  most of them {cause.carrier}, to {cause.dest}")
