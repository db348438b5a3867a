"""Arrivals by hour, counted by a stream of Spark beside the consumers that book them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quickstart.broker import ReadyLine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FLIGHTS_OF_A_BATCH_MAX = 60_000
NAME = "arrivals_by_hour"
BAR_LENGTH_MAX = 50


class ArrivalsByHour:
    """A query that runs until ``finish``. Its progress shows in the offsets of ``group``, which must exist."""

    def __init__(self, spark: SparkSession, broker: ReadyLine, topic: str, group: str):
        from pyspark.sql import functions as f

        self._spark = spark
        messages = spark.readStream.format("rocketmq").schema("body binary").options(
            nameServer=broker.namesrv_addr, subscribe=topic, startingOffsets="earliest", commitGroup=group,
            maxOffsetsPerTrigger=str(FLIGHTS_OF_A_BATCH_MAX),
        )  # fmt: skip
        flight = f.from_json(f.col("body").cast("string"), "arr_time int, arr_delay int")
        arrived = messages.load().select(flight.alias("flight")).where("flight.arr_delay is not null")
        counted = arrived.groupBy(f.expr("flight.arr_time div 100 % 24").alias("hour")).count()
        # A table in memory can only be made anew with each batch, which is what 24 rows ask for.
        writing = counted.writeStream.format("memory").queryName(NAME).outputMode("complete")
        self._query = writing.option("checkpointLocation", str(broker.folder / NAME)).start()

    def finish(self) -> DataFrame:
        """Hours and counts, when the stream has all that is published. StreamingQueryException if it failed."""
        self._query.processAllAvailable()
        self._query.stop()
        return self._spark.table(NAME).orderBy("hour")


def show_hours(counts: dict[int, int]) -> None:
    most = max(counts.values(), default=1)
    for hour, count in counts.items():
        print(f"{hour:02}h {count:>7,}  {'█' * (count * BAR_LENGTH_MAX // most)}")
