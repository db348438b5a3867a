"""The driver of a stream whose batches are written by a function, as a program that kills itself. Its argument is JSON,
with the arguments of ``write_each``."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from spark_tools.session import SessionOptions, spark_session
from tests.spark_tools.spark.replay_driver import QUICK_JVM


def main() -> None:
    with spark_session(SessionOptions(master="local[2,4]", settings=QUICK_JVM)) as spark:
        write_each(spark, **json.loads(sys.argv[1]))


def write_each(spark: Any, source: dict[str, str], directory: str, dies_in: int = -1) -> None:
    """Reads what is there. Each batch is written to a place of its number, which is how a function that may be called
    again stores a batch once, and noted in ``calls``. In batch ``dies_in`` the driver and its JVM die between the write
    and the checkpoint."""

    def write(frame: Any, number: int) -> None:
        rows = frame.selectExpr("cast(body as string) body")
        rows.write.mode("overwrite").parquet(f"{directory}/rows/batch={number}")
        with Path(directory, "calls").open("a") as calls:
            calls.write(f"{number}\n")
        if number == dies_in:
            os.killpg(0, signal.SIGKILL)

    frame = spark.readStream.format("rocketmq").options(**source).load()
    writing = frame.writeStream.option("checkpointLocation", f"{directory}/checkpoint").foreachBatch(write)
    query = writing.trigger(availableNow=True).start()
    assert query.awaitTermination(300)


if __name__ == "__main__":
    main()
