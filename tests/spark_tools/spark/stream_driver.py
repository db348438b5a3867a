"""The driver of a stream, as a program that will be killed. Its arguments are the options of the source as JSON and the
directory of the result."""

import json
import os
import sys

from spark_tools.session import SessionOptions, spark_session
from tests.spark_tools.spark.replay_driver import QUICK_JVM
from tests.spark_tools.spark.streamed import start_stream


def main() -> None:
    with spark_session(SessionOptions(master="local[2,4]", settings=QUICK_JVM)) as spark:
        query = start_stream(spark, json.loads(sys.argv[1]), sys.argv[2])
        while query.lastProgress is None:  # the first batch is slow on a busy machine
            query.awaitTermination(1)
        print("begun", flush=True)
        query.awaitTermination()


if __name__ == "__main__":
    sys.path.insert(0, os.getcwd())
    main()
