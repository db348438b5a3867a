"""The driver of some replays at once, as a program: its argument is JSON, a ledger directory and whether to protect
for each."""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor

from spark_tools.replay.engines.spark_engine import SparkEngine
from spark_tools.replay.job import RunOptions, run_replay
from spark_tools.replay.plans.plan import load_plan
from spark_tools.session import SessionOptions, spark_session

# Short batches and a short time-out: more requests to break, and less to wait for.
FAULT_RUN = {"send_timeout_ms": 1500, "batch_messages": 10, "in_flight": 2}
QUICK_JVM = {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}


def main() -> None:
    runs = json.loads(sys.argv[1])
    # Each has two tasks, and all run at once.
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
