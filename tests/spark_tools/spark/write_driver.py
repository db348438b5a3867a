"""The driver of streams that write files of rows to topics, as a program. Its argument is JSON: the name server, the
directory of the files, and for each stream its topic, delivery and checkpoint."""

import json
import sys
from typing import Any

from spark_tools.session import SessionOptions, spark_session
from tests.spark_tools.spark.replay_driver import QUICK_JVM


def main() -> None:
    call = json.loads(sys.argv[1])
    with spark_session(SessionOptions(master="local[2,4]", settings=QUICK_JVM)) as spark:
        write_streams(spark, **call)


def write_streams(spark: Any, name_server: str, files: str, streams: list[list[str]]) -> None:
    """Returns when each stream has written every file, one in a batch."""
    running = []
    for topic, delivery, checkpoint in streams:
        lines = spark.readStream.format("text").option("maxFilesPerTrigger", "1").load(files)
        writing = lines.selectExpr("value as body").writeStream.format("rocketmq").options(
            nameServer=name_server, topic=topic, delivery=delivery, checkpointLocation=checkpoint, batchSize="1",
            sendTimeoutMs="1500",
        )  # fmt: skip
        running.append(writing.queryName(topic).trigger(availableNow=True).start())
    for query in running:
        query.awaitTermination()


if __name__ == "__main__":
    main()
