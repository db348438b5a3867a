"""The driver of several replays at once, as a program. Its argument is JSON: for each replay the ledger directory and
whether it is protected."""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor

from rmqreplay.plans.plan import load_plan
from rmqreplay.run.job import RunOptions, run_replay
from spark_tools.replay.spark_engine import SparkEngine
from spark_tools.session import SessionOptions, spark_session

# Short batches make more requests to break; a short time-out makes less to wait for.
FAULT_RUN = {"send_timeout_ms": 1500, "batch_messages": 10, "in_flight": 2}
QUICK_JVM = {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}


def main() -> None:
    runs = json.loads(sys.argv[1])
    # Each replay has two tasks, and all tasks run at once.
    settings = SessionOptions(master=f"local[{2 * len(runs)},4]", settings=QUICK_JVM)
    with spark_session(settings) as spark, ThreadPoolExecutor(len(runs)) as threads:
        engine = SparkEngine(spark, 2)
        list(threads.map(lambda run: replay(engine, **run), runs))


def replay(engine: SparkEngine, directory: str, protected: bool) -> None:
    plan = load_plan(directory)
    assert plan is not None
    run_replay(plan, directory, engine, RunOptions(protected=protected, audit=False, **FAULT_RUN))


if __name__ == "__main__":
    sys.path.insert(0, os.getcwd())
    main()
